-- The load-time kernels of a circuit's weights, found by making these on a device that only takes
-- notes: so that they can be compiled beforehand, several at once.
local weights = require("lua.plan.weights")

local rehearsal = {}

local function yes() return true end

local NOTHING <const> = { write = yes, fill = yes, free = yes }  -- a buffer, or a loaded kernel
local FILES <const> = { gather = yes, number = function() return 1.0 end }

local function device_of(kernels)
    local seen = {}
    return {
        alloc = function() return NOTHING end,
        load = function(_, kernel)
            if not seen[kernel.name] then
                seen[kernel.name], kernels[#kernels + 1] = true, kernel
            end
            return NOTHING, { origin = "cache" }
        end,
        launch = yes,
    }
end

-- What two weights have in common that are made by the same launches.
local function signature(weight)
    local words = { weight.kind, weight.format, weight.experts and #weight.experts or 0 }
    for _, part in ipairs(weight.parts) do
        words[#words + 1] = part.format
        words[#words + 1] = table.concat(part.shape, ",")
    end
    return table.concat(words, " ")
end

local function one_of_each(list)
    local some, seen = {}, {}
    for _, weight in ipairs(list) do
        local text = signature(weight)
        if not seen[text] then seen[text], some[#some + 1] = true, weight end
    end
    return some
end

-- target: as plan.try has it; found: a checkpoint, of which no value is read. The kernels, as a
-- list and as weights.make takes them.
function rehearsal.kernels(target, found, list)
    local kernels, by_key = {}, {}
    local stage = {
        families = target.families, arch = target.arch, dev = target.dev, is_cpu = target.is_cpu,
        device = device_of(kernels),
    }
    weights.make(stage, setmetatable({ weights = FILES }, { __index = found }), one_of_each(list),
        { kernels = by_key, loaded = {} }, function() end)
    return kernels, by_key
end

return rehearsal
