-- lathe why: what is in a kernel's key, whether it is in the cache, what differs from the nearest
-- entry; and which variant is the default of its shape.
local catalog = require("gen.catalog")
local choice = require("lua.choice")
local fault = require("lua.fault")
local lathe = require("lathe")
local report = require("lua.report")
local variant = require("gen.variant")

local why = { summary = "what is in a kernel's key, and what differs from the nearest entry" }

local CONTEXT <const> = 5  -- differing lines that are shown

function why.declare(command)
    command:argument("kernel", "its name, such as w8a8_gemv__m2_n4096_k11264__m1t1w8s8u4p1")
    command:option("--arch", "of its text; default: the GPU's, else sm_90a")
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

-- The first lines in which two texts differ: { line, old, new }.
local function differing(old, new)
    local rows, a, b = {}, {}, {}
    for line in (old .. "\n"):gmatch("(.-)\n") do a[#a + 1] = line end
    for line in (new .. "\n"):gmatch("(.-)\n") do b[#b + 1] = line end
    for i = 1, math.max(#a, #b) do
        if a[i] ~= b[i] and #rows < CONTEXT then
            rows[#rows + 1] = { line = i, old = a[i] or "", new = b[i] or "" }
        end
    end
    return rows
end

-- The entry to compare with: the newest of this name, else of the kernel of its family that was
-- used last. Its name, or nil.
local function nearest(store, kernel)
    local family, best = kernel.name:match("^(.-__)"), nil
    for _, item in ipairs(fault.reach(store:list(false))) do
        local name = kernel_name(item.name)
        if name == kernel.name then return name end
        if name:sub(1, #family) == family and (not best or item.age_seconds < best.age_seconds) then
            best = { name = name, age_seconds = item.age_seconds }
        end
    end
    return best and best.name
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

local function explain(store, kernel, dev)
    local key, key_text = fault.reach(lathe.key(kernel))
    local facts = { kernel = kernel.name, arch = kernel.arch, class = kernel.class, key = key,
        fields = {}, variant = standing(kernel, dev) }
    for i, field in ipairs(fields(key_text)) do
        facts.fields[i] = { field = field, value = fields(key_text)[field] }
    end
    local found, sentence = store:find(kernel.name, key)
    if found == nil then fault.device(sentence) end
    facts.cached = found ~= false
    facts.nearest = not found and nearest(store, kernel) or nil
    local entry = facts.nearest and fault.reach(store:newest(facts.nearest))
    if entry then
        facts.differences = differing_fields(entry, key_text)
        facts.lines = differing(entry.text, kernel.plain)
    end
    return facts
end

local function print_indented(columns, rows)
    for _, line in ipairs(report.lines(columns, rows)) do print("  " .. line) end
end

local function print_nearest(facts)
    if facts.cached then return print("cached   yes: it is not compiled again") end
    print("cached   no: it is compiled when it is next needed")
    if not facts.differences then return print("nearest  no entry of its family is there") end
    print("nearest  " .. facts.nearest)
    print_indented({ { "field", "field" }, { "entry", "entry" }, { "now", "now" } },
        facts.differences)
    for _, row in ipairs(facts.lines) do
        print(("  text, line %d\n    - %s\n    + %s"):format(row.line, row.old, row.new))
    end
end

local function print_facts(facts)
    local at = facts.variant
    print(("kernel   %s for %s, class %s"):format(facts.kernel, facts.arch, facts.class))
    print(("variant  %s"):format(at.place == 1
        and ("the default: the first of %d that are kept, none has been tuned"):format(at.kept)
        or ("number %d of %d that are kept; the default is %s"):format(
            at.place, at.kept, at.default)))
    print("key      " .. facts.key)
    print_indented({ { "field", "field" }, { "value", "value" } }, facts.fields)
    print_nearest(facts)
end

function why.run(options)
    local families = choice.catalog()
    local family, s, v = catalog.find_kernel(families, kernel_name(options.kernel))
    if not family then fault.usage(s) end
    local arch_name, dev = choice.target(options)
    if arch_name == "cpu" then
        fault.usage("why: the CPU device's code has no key and is not kept (say --arch sm_90a)")
    end
    if not (family.serves(s) and family.keep(s, v, dev)) then
        fault.usage(("kernel %s: is not kept for %s with %d multiprocessors (say --sms N)"):format(
            kernel_name(options.kernel), arch_name, dev.sms))
    end
    local store <close> = fault.reach(lathe.store())
    local facts = explain(store, choice.kernel(family, s, v, arch_name, dev), dev)
    if options.json then return report.json(facts) end
    print_facts(facts)
end

return why
