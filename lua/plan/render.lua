-- A plan for a reader: a row a step, its sections, its memory; as text or as JSON.
local choice = require("lua.choice")
local floor = require("lua.floor")
local memory = require("lua.plan.memory")
local plan = require("lua.plan.plan")
local report = require("lua.report")

local render = {}

local FLOOR <const> = "nvidia-h200"  -- whose memory the floors are of

-- "xn@4096", a value and its offset in the arena; "w(w4a16)", "[L03.attn.window]", "<counter>",
-- "/tokens" from outside.
local function place_text(place)
    if place.kind == "weights" then return ("%s(%s)"):format(place.arg, place.format) end
    if place.kind == "states" then return ("[%s]"):format(place.value) end
    if place.kind == "scratch" then return ("<%s>"):format(place.arg) end
    if place.kind == "inputs" then return place.value end
    return place.buffer and ("%s#%d"):format(place.value, place.buffer)
        or ("%s@%d"):format(place.value, place.offset)
end

local function place_of(made_plan, step, p)
    local kind, format, key = memory.kind_of(made_plan, step, p)
    local place = { arg = p.name, kind = kind, format = format, bytes = p.bytes }
    if kind ~= "scratch" then place.value = key end
    if kind == "weights" then place.value = step.args[p.name].weight.key end
    if kind == "activations" then
        local at = made_plan.places[key]
        local is_alone = #made_plan.homes > 1
        place.buffer, place.offset = is_alone and at.home.number or nil, at.offset
    end
    return place
end

-- What a step reads and what it writes; a state that it changes is in both.
local function places_of(made_plan, step)
    local reads, writes = {}, {}
    for _, p in ipairs(step.kernel.params) do
        local place = place_of(made_plan, step, p)
        if p.inout or not (p.out or p.scratch) then reads[#reads + 1] = place end
        if p.out or p.scratch then writes[#writes + 1] = place end
    end
    return reads, writes
end

local function rows_of(made_plan)
    local rows = {}
    for i, step in ipairs(made_plan.steps) do
        local kernel = step.kernel
        local reads, writes = places_of(made_plan, step)
        rows[i] = {
            step = step.site, section = step.section, kernel = kernel.name, class = kernel.class,
            family = kernel.family.name, shape = choice.words(kernel.family, kernel.shape),
            bytes = kernel.work.bytes, floor_us = floor.us(FLOOR, kernel.work),
            reads = reads, writes = writes, partial = step.partial, origin = kernel.origin,
        }
    end
    return rows
end

-- Steps, bytes and floors of each section, in the order in which a step meets them.
local function sections_of(rows)
    local list, by_name = {}, {}
    for _, row in ipairs(rows) do
        local section = by_name[row.section]
        if not section then
            section = { section = row.section, steps = 0, bytes = 0, floor_us = 0 }
            by_name[row.section], list[#list + 1] = section, section
        end
        section.steps = section.steps + 1
        section.bytes = section.bytes + row.bytes
        section.floor_us = section.floor_us + row.floor_us
    end
    return list
end

local function sum(rows, key)
    local total = 0
    for _, row in ipairs(rows) do total = total + row[key] end
    return total
end

local function count_partial(rows)
    local n = 0
    for _, row in ipairs(rows) do n = n + (row.partial and 1 or 0) end
    return n
end

-- A plan as a table for JSON. about: what ask.lua and digest.lua know: recipe, arch, device, rank,
-- ranks, mode, rows, context, largest_context, device_bytes, digest, choices (of several ranks).
function render.table(made_plan, about)
    local rows = rows_of(made_plan)
    local parts, bytes = memory.rows(made_plan)
    local all = {
        rows = rows, sections = sections_of(rows), memory = parts, memory_bytes = bytes,
        steps = #rows, kernels = #plan.kernels({ made_plan }), bytes = sum(rows, "bytes"),
        floor_us = sum(rows, "floor_us"), partial_sums = count_partial(rows),
    }
    for key, value in pairs(about) do all[key] = value end
    return all
end

local function places_text(places, row)
    local words, here = {}, row.step:match("^(.-%..-)%.") or row.step:match("^[^.]*")
    for i, place in ipairs(places) do
        local text = place_text(place)
        if text:sub(1, #here + 1) == here .. "." then text = text:sub(#here + 2) end
        words[i] = text
    end
    return table.concat(words, " ")
end

local function writes_text(places, row)
    local text = places_text(places, row)
    return row.partial and ("%s: partial of %d"):format(text, row.partial) or text
end

-- "2.31 us" as recorded, "2.31 us, chain 1.9", "near m1_n4096_k4096", "default", "pinned".
local function origin_text(origin)
    if origin.from == "exact" then
        local chain = origin.chain and ", chain " .. report.number(origin.chain) or ""
        return report.number(origin.us) .. " us" .. chain
    end
    return origin.from == "nearest" and "near " .. origin.shape or origin.from
end

local STEPS <const> = {
    { "step", "step" }, { "section", "section" }, { "kernel", "kernel: family__shape__variant" },
    { "class", "class" }, { "origin", "chosen", format = origin_text }, { "bytes", "bytes" },
    { "floor_us", "floor us", format = report.number },
    { "reads", "reads", format = places_text }, { "writes", "writes", format = writes_text },
}
local SECTIONS <const> = {
    { "section", "section" }, { "steps", "steps" }, { "bytes", "bytes" },
    { "floor_us", "floor us", format = report.number },
}
local MEMORY <const> = { { "kind", "memory" }, { "format", "format" }, { "bytes", "bytes" } }

local function largest_text(all)
    local most = all.largest_context
    if not most then return ("unknown, as is the memory of %s"):format(all.device) end
    local words = most > 0 and ("%d tokens in"):format(most) or "none fits"
    return ("%s the %d bytes of %s"):format(words, all.device_bytes, all.device)
end

local function print_totals(options, all)
    print()
    report.print(options, SECTIONS, all.sections)
    print()
    report.print(options, MEMORY, all.memory)
    print(("\n%s, %s, %s of %d row%s, %d tokens of context"):format(all.arch, all.recipe, all.mode,
        all.rows_a_step, all.rows_a_step == 1 and "" or "s", all.context))
    print(("%d steps, %d kernels, %d bytes, floors %.1f us (%s)"):format(all.steps, all.kernels,
        all.bytes, all.floor_us, FLOOR))
    if all.ranks > 1 then
        print(("rank %d of %d: %d steps write partial sums, which nothing adds up"):format(all.rank,
            all.ranks, all.partial_sums))
    end
    print(("memory %d bytes; largest context: %s"):format(all.memory_bytes, largest_text(all)))
    print("digest " .. all.digest)
    if all.choices then print("choices of all ranks " .. all.choices) end
end

-- Prints what render.table gives.
function render.print(options, all)
    if options.json then return report.json(all) end
    report.print(options, STEPS, all.rows)
    print_totals(options, all)
end

return render
