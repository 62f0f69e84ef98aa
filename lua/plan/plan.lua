-- A plan: a circuit's operators as kernels with places for what they read and write. A product has
-- one class of bits for every number of rows, so that chunks and single tokens give the same bits.
local catalog = require("gen.catalog")
local choice = require("lua.choice")
local compile = require("lua.plan.compile")
local fault = require("lua.fault")
local memory = require("lua.plan.memory")
local pick = require("lua.plan.pick")
local shape = require("gen.shape")

local plan = {}

local function refuse(op, family, text, ...)
    return nil, ("%s: %s %s %s"):format(op.site, family.name, shape.text(family, op.shape),
        text:format(...))
end

local function choose(target, op, rows)
    local family = fault.expect(catalog.find(target.families, op.family))
    local served, why = choice.served(family, op.shape)
    if not served then return refuse(op, family, "is not served: %s", why) end
    local v, origin = pick.variant(target, family, op.shape, rows)
    if not v then
        return refuse(op, family, "%s", origin
            or ("has no class of bits for every number of rows up to %d"):format(pick.MOST_ROWS))
    end
    local kernel = choice.kernel(family, op.shape, v, target.arch, target.dev)
    kernel.origin = origin
    return kernel
end

-- As choose; an operator that was met before has its kernel in `known`.
local function kernel_of(target, op, rows, known)
    local words = { op.family, rows }
    for _, size in ipairs(catalog.find(target.families, op.family).shape) do
        words[#words + 1] = op.shape[size] or "-"
    end
    local key, why = table.concat(words, " "), nil
    if not known[key] then known[key], why = choose(target, op, rows) end
    return known[key], why
end

-- Has the circuit a value for each parameter?
local function check_args(op, kernel)
    for _, p in ipairs(kernel.params) do
        if not p.scratch and op.args[p.name] == nil then
            error(("%s: no value for '%s' of %s"):format(op.site, p.name, kernel.name), 0)
        end
    end
end

-- target: families, arch, dev, records and pins (pick.variant), is_apart (memory.place); no device
-- is asked. known: kernels of former plans, by operator, or nil. A kernel's origin says why it was
-- picked. nil and a sentence where a shape is not served, or:
--   steps: { site, section, args, kernel, partial = of so many ranks whose values are to be
--   summed before the next step, or nil }; weights: the circuit's
--   places, homes: by value, as memory.place gives them
function plan.try(target, circuit, known)
    local steps = {}
    known = known or {}
    for i, op in ipairs(circuit.ops) do
        local kernel, why = kernel_of(target, op, circuit.n.M, known)
        if not kernel then return nil, why end
        check_args(op, kernel)
        steps[i] = {
            site = op.site, section = op.section, args = op.args, kernel = kernel,
            partial = op.partial,
        }
    end
    local places, homes = memory.place(steps, target.is_apart)
    return { steps = steps, places = places, homes = homes, weights = circuit.weights }
end

-- As try; what is not served is a fault.
function plan.make(target, circuit) return fault.expect(plan.try(target, circuit)) end

-- The kernels of plans, each once.
function plan.kernels(plans)
    local list, seen = {}, {}
    for _, each in ipairs(plans) do
        for _, step in ipairs(each.steps) do
            if not seen[step.kernel.name] then
                seen[step.kernel.name] = true
                list[#list + 1] = step.kernel
            end
        end
    end
    return list
end

-- ---- on a device ----

local function allocate(target, made_plan)
    for _, home in ipairs(made_plan.homes) do
        home.buffer = fault.reach(target.device:alloc(home.bytes))
    end
    for _, place in pairs(made_plan.places) do place.buffer = place.home.buffer end
end

-- The scratch of a kernel, from a table that is filled; counters begin at 0, and kernels leave them
-- so.
function plan.scratch(target, kernel, p, scratch)
    local key = memory.scratch_key(kernel, p)
    if not scratch[key] then
        scratch[key] = fault.reach(target.device:alloc(p.bytes))
        if p.ctype == "u32" then fault.reach(scratch[key]:fill(0)) end
    end
    return scratch[key]
end

-- What a parameter of a step gets: a buffer, or { buffer, offset }.
local function argument(target, made_plan, step, p, given)
    local value = step.args[p.name]
    if p.scratch then return plan.scratch(target, step.kernel, p, given.scratch) end
    if type(value) == "string" then
        local place = made_plan.places[value]
        return place and { place.buffer, place.offset } or given.shared[value]
    end
    if value.is == "state" then return given.states[value.key] end
    return given.made[value.weight.key][value.name]
end

-- Loads the kernels, unless they are, and binds every argument.
-- given: shared (buffers by value, of those that no step writes), made (arrays by weight's key),
-- states (buffers by state's key), scratch (a table that is filled), loaded (the kernels by name,
-- where they are on the device).
function plan.program(target, made_plan, given)
    local loaded = given.loaded or compile.load(target, plan.kernels({ made_plan }))
    allocate(target, made_plan)
    local list = {}
    for i, step in ipairs(made_plan.steps) do
        local args = {}
        for j, p in ipairs(step.kernel.params) do
            args[j] = argument(target, made_plan, step, p, given)
                or fault.usage(("%s: no value for '%s'"):format(step.site, p.name))
        end
        list[i] = {
            kernel = loaded[step.kernel.name], launch = step.kernel.launch, args = args,
            programmatic = i > 1,
        }
    end
    made_plan.launches = list  -- for a look at what each wrote: lua/aids.lua
    return fault.reach(target.device:program(list))
end

return plan
