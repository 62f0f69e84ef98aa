-- The kernels of a plan on a device.
local fault = require("lua.fault")
local progress = require("lua.progress")

local compile = {}

-- Counts a kernel once, as compiled or from the cache, in target.counts.
function compile.count(target, kernel, report)
    local counts = target.counts or { compiled = 0, cached = 0, seen = {} }
    target.counts = counts
    if counts.seen[kernel.name] then return end
    counts.seen[kernel.name] = true
    local where = report.origin == "compiler" and "compiled" or "cached"
    counts[where] = counts[where] + 1
end

-- Loaded kernels by name, which the caller frees or leaves to the collector; target.counts has how
-- many were compiled and cached so far. What the cache lacks is compiled by several compilers at
-- once. The first kernel that cannot be loaded is a fault.
function compile.load(target, kernels)
    local shown <close> = progress.new()
    local list, reports = fault.reach(target.device:load_all(kernels, function(done, all)
        shown:show(("kernels %d of %d"):format(done, all))
    end))
    local loaded = {}
    for i, kernel in ipairs(kernels) do
        if reports[i].failed then fault.device(reports[i].failed) end
        compile.count(target, kernel, reports[i])
        loaded[kernel.name] = list[i]
    end
    return loaded
end

return compile
