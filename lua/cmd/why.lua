-- lathe why: what is in a kernel's key, whether it is in the cache, what differs from the nearest
-- entry; which variant is the default of its shape, and what was measured.
local catalog = require("gen.catalog")
local choice = require("lua.choice")
local fault = require("lua.fault")
local lathe = require("lathe")
local pick = require("lua.plan.pick")
local records = require("lua.records")
local report = require("lua.report")
local variant = require("gen.variant")

local why = { summary = "what is in a kernel's key, and what differs from the nearest entry" }

local CONTEXT <const> = 5     -- differing lines that are shown
local MOST_READ <const> = 16  -- entries that are looked into
local NO_COMPILER <const> = "none"  -- as the key has it

function why.declare(command)
    command:argument("kernel", "its name, such as w8a8_gemv__m2_n4096_k11264__s8p1c1u2o32")
    command:option("--arch", "of its text; default: that of --device, of the GPU, or sm_90a")
    command:option("--sms", "multiprocessors to choose the variant for")
end

-- A name as `ls` of the cache shows it may end in its key.
local function kernel_name(text) return (text:gsub("%.%x+$", "")) end

local function fields(key_text)
    local list = {}
    for line in key_text:gmatch("[^\n]+") do
        local field, value = line:match("^(%S+)%s*(.*)$")
        list[#list + 1], list[field] = field, value
    end
    return list
end

local function lines_of(text)
    local list, known = {}, {}
    for line in (text .. "\n"):gmatch("(.-)\n") do list[#list + 1], known[line] = line, true end
    return list, known
end

-- The first lines of `list` that are not among `known`: { line, text, sign }.
local function missing(list, known, sign, rows)
    local count = 0
    for i, line in ipairs(list) do
        if not known[line] and count < CONTEXT then
            count = count + 1
            rows[#rows + 1] = { line = i, text = line, sign = sign }
        end
    end
end

-- The first lines that only one of two texts has.
local function differing(old, new)
    local rows = {}
    local old_lines, in_old = lines_of(old)
    local new_lines, in_new = lines_of(new)
    missing(old_lines, in_new, "-", rows)
    missing(new_lines, in_old, "+", rows)
    return rows
end

-- Fields whose values differ: { field, entry, now }.
local function differing_fields(entry, key_text)
    local old, new, rows = fields(entry.key_text), fields(key_text), {}
    for _, field in ipairs(new) do
        if old[field] ~= new[field] then
            rows[#rows + 1] = { field = field, entry = old[field], now = new[field] }
        end
    end
    return rows
end

-- Files of the other entries of this kernel, or, where there are none, of its family; those that
-- were used last come first.
local function candidates(store, kernel, key)
    local own, family = {}, {}
    local symbol = kernel.name:match("^(.-__)")
    for _, item in ipairs(fault.reach(store:list(false))) do
        local name, digits = item.name:match("^(.*)%.(%x+)$")
        if name == kernel.name and digits ~= key:sub(1, #digits) then
            own[#own + 1] = item
        elseif name and name ~= kernel.name and name:sub(1, #symbol) == symbol then
            family[#family + 1] = item
        end
    end
    local list = #own > 0 and own or family
    table.sort(list, function(a, b) return a.age_seconds < b.age_seconds end)
    return list
end

-- The entry whose key differs in the fewest fields: { file, entry, differences }, or nil.
local function nearest(store, kernel, key, key_text)
    local best
    for i, item in ipairs(candidates(store, kernel, key)) do
        if i > MOST_READ then break end
        local entry, why_not = store:read(item.name)
        if entry == nil then fault.device(why_not) end
        local differences = entry and differing_fields(entry, key_text)
        if entry and (not best or #differences < #best.differences) then
            best = { file = item.name, entry = entry, differences = differences }
        end
    end
    return best
end

-- Which place the variant has among those that are kept.
local function standing(kernel, dev)
    local family, s = kernel.family, kernel.shape
    local kept = variant.kept(family, s, dev)
    local own = variant.text(family, kernel.variant)
    for i, v in ipairs(kept) do
        if variant.text(family, v) == own then
            return { place = i, kept = #kept, default = variant.text(family, kept[1]) }
        end
    end
end

-- What is recorded of the kernel, and of the fastest one at its shape or the nearest.
local function measured(kernel, dev, device_key)
    local family, s, known = kernel.family, kernel.shape, records.load(device_key)
    local record = known:latest(family, s, variant.text(family, kernel.variant))
    local best = known:best(family, s, dev)
    return {
        device = device_key, status = record and record.status, us = record and record.us,
        why = record and record.why, chain = record and pick.chain_us(known, family, s, record),
        older = record and record.text ~= records.digest(kernel) or nil,
        best = best and { knobs = best.knobs, us = best.us, from = best.from, shape = best.shape,
            source = best.source },
    }
end

-- Adds the kernel's key, and what the cache has of it.
local function explain(facts, kernel)
    local store <const> = fault.reach(lathe.store())
    local key, key_text = fault.reach(lathe.key(kernel))
    local known = fields(key_text)
    facts.key, facts.fields = key, {}
    for i, field in ipairs(known) do
        facts.fields[i] = { field = field, value = known[field] }
    end
    facts.compiler = known.compiler
    local found, sentence = store:find(kernel.name, key)
    if found == nil then fault.device(sentence) end
    facts.cached = found ~= false
    local near = nearest(store, kernel, key, key_text)
    if near then
        facts.nearest, facts.differences = near.file, near.differences
        facts.lines = differing(near.entry.text, kernel.plain)
    end
end

local function print_indented(columns, rows)
    for _, line in ipairs(report.lines(columns, rows)) do print("  " .. line) end
end

-- Without a compiler an image that another one made of the same text is used.
local function fate(facts)
    if facts.cached then return "yes: it is not compiled again" end
    if facts.compiler ~= NO_COMPILER then return "no: it is compiled when it is next needed" end
    local differences = facts.differences or {}
    local is_older = #differences == 1 and differences[1].field == "compiler"
    return is_older and "no, and there is no compiler here: the nearest entry is used"
        or "no, and there is no compiler here"
end

local function print_nearest(facts)
    print("cached   " .. fate(facts))
    if not facts.nearest then return print("nearest  no other entry of its family is there") end
    print("nearest  " .. facts.nearest)
    print_indented({ { "field", "field" }, { "entry", "entry" }, { "now", "now" } },
        facts.differences)
    for _, row in ipairs(facts.lines) do
        print(("  %s text:%d: %s"):format(row.sign, row.line, row.text))
    end
end

local function measured_text(m)
    local text = ("never on %s"):format(m.device)
    if m.status then
        text = ("%s: %s%s%s%s"):format(m.device, m.status,
            m.us and (", %.4g us"):format(m.us) or m.why and ": " .. m.why or "",
            m.chain and (", %.4g in the chain"):format(m.chain) or "",
            m.older and " (with older text)" or "")
    end
    if not m.best then return text end
    return ("%s; the fastest%s is %s, %.4g us"):format(text,
        m.best.from == "nearest" and " at the nearest shape, " .. m.best.shape .. "," or "",
        m.best.knobs, m.best.us)
end

local function print_facts(facts)
    local at = facts.variant
    print(("kernel   %s for %s, class %s"):format(facts.kernel, facts.arch, facts.class))
    print(("variant  %s"):format(at.place == 1
        and ("the default: the first of %d that are kept"):format(at.kept)
        or ("number %d of %d that are kept; the default is %s"):format(
            at.place, at.kept, at.default)))
    print("measured " .. measured_text(facts.measured))
    if not facts.key then return end
    print("key      " .. facts.key)
    print_indented({ { "field", "field" }, { "value", "value" } }, facts.fields)
    print_nearest(facts)
end

-- Refuses a kernel that no plan on such a device has.
local function check_kept(kernel, family, s, v, arch_name, dev)
    local served, reason = choice.served(family, s)
    if not served then fault.usage(("kernel %s: is not served: %s"):format(kernel, reason)) end
    if family.keep(s, v, dev) then return end
    fault.usage(("kernel %s: is not kept for %s with %d multiprocessors (say --sms N)"):format(
        kernel, arch_name, dev.sms))
end

function why.run(options)
    local families = choice.catalog()
    local family, s, v = catalog.find_kernel(families, kernel_name(options.kernel))
    if not family then fault.usage(s) end
    if lathe.setting("device") == "cpu" then options.arch = options.arch or "cpu" end
    local arch_name, dev, device_key = choice.target(options)
    check_kept(kernel_name(options.kernel), family, s, v, arch_name, dev)
    local kernel = choice.kernel(family, s, v, arch_name, dev)
    local facts = { kernel = kernel.name, arch = kernel.arch, class = kernel.class,
        variant = standing(kernel, dev), measured = measured(kernel, dev, device_key) }
    if arch_name ~= "cpu" then explain(facts, kernel) end  -- the CPU device's code is not kept
    if options.json then return report.json(facts) end
    print_facts(facts)
end

return why
