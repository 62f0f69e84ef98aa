-- The kernels of a plan on a device: what the cache lacks is compiled first, several at once.
local fault = require("lua.fault")
local lathe = require("lathe")
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

-- Fills the cache of a GPU's kernels. The first one that cannot be compiled is a fault.
function compile.fill(target, kernels)
    if target.is_cpu then return end
    local shown <close> = progress.new()
    local reports = fault.reach(lathe.build(kernels, function(done, all)
        shown:show(("kernels %d of %d"):format(done, all))
    end))
    for i, report in ipairs(reports) do
        if report.failed then fault.device(report.failed) end
        compile.count(target, kernels[i], report)
    end
end

-- Loaded kernels by name; target.counts has how many were compiled and cached so far. The CPU
-- device's are compiled when they are loaded: a millisecond each.
function compile.load(target, kernels)
    compile.fill(target, kernels)
    local loaded = {}
    for _, kernel in ipairs(kernels) do
        local report
        loaded[kernel.name], report = fault.reach(target.device:load(kernel))
        compile.count(target, kernel, report)
    end
    return loaded
end

return compile
