-- A plan: a circuit's operators as kernels with buffers. One class of bits a shape of a family, the
-- same for every number of rows, so that chunks and single tokens give the same bits.
local catalog = require("gen.catalog")
local choice = require("lua.choice")
local ctype = require("gen.ctype")
local fault = require("lua.fault")
local lathe = require("lathe")
local shape = require("gen.shape")
local variant = require("gen.variant")

local plan = {}

local MOST_ROWS <const> = 16
local PROBES <const> = { 1, 2, 4, 8, 9, 16 }  -- row counts that bring other variants

local function with_rows(family, s, rows)
    local copy = {}
    for _, size in ipairs(family.shape) do copy[size] = s[size] end
    if copy.M then copy.M = copy.M // rows.of * rows.to end
    if copy.TOKENS then copy.TOKENS = rows.to end
    return copy
end

-- The first kept variant of each class, and the classes in order.
local function by_class(family, s, dev)
    local first, order = {}, {}
    for _, v in ipairs(variant.kept(family, s, dev)) do
        local class = family.class(s, v)
        if not first[class] then first[class], order[#order + 1] = v, class end
    end
    return first, order
end

-- The class that every number of rows has a variant of; the default of one row where it is.
local function common_class(family, s, rows, dev)
    local counts = {}
    local _, order = by_class(family, with_rows(family, s, { of = rows, to = 1 }), dev)
    for _, probe in ipairs(PROBES) do
        local other = with_rows(family, s, { of = rows, to = probe })
        if family.serves(other) then
            for class in pairs((by_class(family, other, dev))) do
                counts[class] = (counts[class] or 0) + 1
            end
        else
            for _, class in ipairs(order) do counts[class] = (counts[class] or 0) + 1 end
        end
    end
    for _, class in ipairs(order) do
        if counts[class] == #PROBES then return class end
    end
    fault.usage(("%s: %s has no class for every number of rows up to %d"):format(
        family.name, shape.text(family, s), MOST_ROWS))
end

local function kernel_of(target, op, rows)
    local family = fault.expect(catalog.find(target.families, op.family))
    local served, why = family.serves(op.shape)
    if not served then
        fault.usage(("%s: %s %s is not served: %s"):format(op.site, family.name,
            shape.text(family, op.shape), why))
    end
    local class = common_class(family, op.shape, rows, target.dev)
    local v = by_class(family, op.shape, target.dev)[class]
    return choice.kernel(family, op.shape, v, target.arch, target.dev)
end

-- Buffers that no operator needs any more are taken again: by size, the smallest that fits.
local function take(free, bytes)
    local best
    for i, each in ipairs(free) do
        if each.bytes >= bytes and (not best or each.bytes < free[best].bytes) then best = i end
    end
    return best and table.remove(free, best)
end

-- The last operator that reads or writes each value.
local function last_uses(ops)
    local last = {}
    for i, op in ipairs(ops) do
        for _, value in pairs(op.args) do
            if type(value) == "string" then last[value] = i end
        end
    end
    return last
end

local function is_kept(value) return value:sub(1, 1) == "/" end

-- Gives each value a buffer: { bytes } shared by values whose lives do not meet.
local function place_values(steps)
    local last, places, free, all = last_uses(steps), {}, {}, {}
    for i, step in ipairs(steps) do
        for _, p in ipairs(step.kernel.params) do
            local value = step.args[p.name]
            if type(value) == "string" and not places[value] then
                local place = not is_kept(value) and take(free, p.bytes)
                if not place then
                    place = { bytes = p.bytes }
                    all[#all + 1] = place
                end
                places[value] = place
            end
        end
        local ended = {}
        for _, p in ipairs(step.kernel.params) do
            local value = step.args[p.name]
            if type(value) == "string" and last[value] == i and not is_kept(value)
                and not ended[value] then
                ended[value] = true
                free[#free + 1] = places[value]
            end
        end
    end
    return places, all
end

-- circuit -> { steps = { { site, section, kernel, args } }, places (by value), buffers }.
function plan.make(target, circuit)
    local steps = {}
    for i, op in ipairs(circuit.ops) do
        steps[i] = {
            site = op.site, section = op.section, args = op.args,
            kernel = kernel_of(target, op, circuit.n.M),
        }
    end
    local places, buffers = place_values(steps)
    return { steps = steps, places = places, buffers = buffers }
end

function plan.state_bytes(state)
    local bytes = ctype.find(state.ctype).bytes
    for _, extent in ipairs(state.extents) do bytes = bytes * extent end
    return bytes
end

-- Loads the kernels (compiled in parallel first) and binds every argument. shared: buffers of
-- values that begin with "/", by name; made: arrays of weights; states: buffers by state.
function plan.program(target, made_plan, shared, made, states, scratch)
    local kernels, loaded = {}, {}
    for _, step in ipairs(made_plan.steps) do
        if not loaded[step.kernel.name] then
            loaded[step.kernel.name] = true
            kernels[#kernels + 1] = step.kernel
        end
    end
    if not target.is_cpu then fault.reach(lathe.build(kernels, function() return true end)) end
    for _, kernel in ipairs(kernels) do
        loaded[kernel.name] = fault.reach(target.device:load(kernel))
    end
    for _, place in ipairs(made_plan.buffers) do
        place.buffer = place.buffer or fault.reach(target.device:alloc(place.bytes))
    end
    local function buffer_of(step, p)
        local value = step.args[p.name]
        if p.scratch then
            local key = step.kernel.name .. " " .. p.name
            if not scratch[key] then
                scratch[key] = fault.reach(target.device:alloc(p.bytes))
                if p.ctype == "u32" then fault.reach(scratch[key]:fill(0)) end
            end
            return scratch[key]
        end
        if type(value) == "string" then
            return shared[value] or made_plan.places[value].buffer
        end
        if value.is == "state" then return states[value.key] end
        return made[value.weight.key][value.name]
    end
    local list = {}
    for i, step in ipairs(made_plan.steps) do
        local args = {}
        for j, p in ipairs(step.kernel.params) do
            args[j] = buffer_of(step, p) or fault.usage(("%s: no value for '%s'"):format(
                step.site, p.name))
        end
        list[i] = {
            kernel = loaded[step.kernel.name], launch = step.kernel.launch, args = args,
            programmatic = i > 1,
        }
    end
    return fault.reach(target.device:program(list))
end

return plan
