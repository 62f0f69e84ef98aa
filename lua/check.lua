-- Runs a kernel on a placed case and compares what it wrote: with the reference, and between the
-- orders in which the CPU device can run its threads.
local case = require("lua.case")
local fault = require("lua.fault")
local lathe = require("lathe")
local sample = require("gen.sample")
local scope = require("lua.scope")
local shape = require("gen.shape")

local check = {}

local SAMPLED <const> = 6  -- columns of blocks between the first and the last

-- Do buffers of the CPU device begin at a page, where the settings decide?
function check.is_left() return lathe.setting("cpu_left") == "on" end

-- How the CPU device runs a kernel: once as the settings say, or, to see that the order of threads
-- does not matter, in three orders, the last time with a start as early as may be. A GPU has one
-- order of its own, so it runs such a kernel twice. Each play meets the scratch that the one before
-- it left.
function check.plays(target, seed, thorough)
    if not target.is_cpu then return thorough and { {}, {} } or { {} } end
    if thorough then
        return { { order = 0 }, { order = 2 + 2 * seed },
            { order = 3 + 2 * seed, lazy = true, programmatic = true } }
    end
    local order = math.tointeger(tonumber(lathe.setting("cpu_order")))
    return { { order = order, lazy = lathe.setting("cpu_lazy") == "on" } }
end

-- May blocks of different x meet? A kernel whose columns of blocks stand alone counts arrivals, if
-- at all, in one place for each x, and not in one for each y and z.
local function meets(kernel)
    local grid <const> = kernel.launch.grid
    for _, p in ipairs(kernel.params) do
        local places = p.scratch and p.ctype == "u32" and case.count(p)
        if places and (places ~= grid[1] or places == grid[2] * grid[3]) then return true end
    end
    return false
end

-- Block numbers of the first, the last and some other x, each with all y and z, of a cluster its
-- first block's; nil, which is all, where one x alone would write nothing.
function check.blocks(kernel, seed)
    if meets(kernel) then return nil end
    local grid <const>, cluster <const> = kernel.launch.grid, kernel.launch.cluster or 1
    local last <const> = grid[1] // cluster - 1
    local chosen, blocks = { [0] = true, [last] = true }, {}
    math.randomseed(seed, grid[1])
    for _ = 1, SAMPLED do chosen[math.random(0, last)] = true end
    for yz = 0, grid[2] * grid[3] - 1 do
        for x = 0, grid[1] - 1, cluster do
            if chosen[x // cluster] then blocks[#blocks + 1] = x + grid[1] * yz end
        end
    end
    return blocks
end

-- [1,17] of element 4113 of { 2, 4096 }
local function place_of(index, extents)
    local words = {}
    for i = #extents, 1, -1 do
        words[i] = ("%d"):format(index % extents[i])
        index = index // extents[i]
    end
    return "[" .. table.concat(words, ",") .. "]"
end

local function sentence(p, d, against)
    return ("%s%s is %.9g, %s %.9g; %d of %d elements differ"):format(
        p.name, place_of(d.first, p.extents), d.got, against, d.want, d.failures, d.compared)
end

function check.note(result, p, d, against)
    result.compared = result.compared + d.compared
    result.failures = result.failures + d.failures
    result.ulp = math.max(result.ulp, d.ulp)
    result.part = math.max(result.part, d.part)
    if d.failures > 0 and not result.failed then result.failed = sentence(p, d, against) end
    if d.compared == 0 then result.failed = result.failed or p.name .. ": nothing was written" end
end

-- An output against the reference.
local function compare(c, p, got, sampled)
    local want, measure = c.truth[p.name], sample.measure(c.family, p.ctype)
    if measure == "bits" then return lathe.compare_bits(got, want, sampled) end
    return lathe.compare_near(got, want, c.magnitude[p.name], {
        [measure] = c.family.check[measure], exact = c.integers and measure == "ulp",
        row = p.extents[#p.extents], sampled = sampled,
    })
end

-- Scratch of type u32 holds counters, which are zero before a launch and again after it; all else
-- that a kernel may write starts as poison.
local function allocate(placed, kernel, mine)
    local list, outs = {}, {}
    for i, p in ipairs(kernel.params) do
        local buffer = placed.buffers[p.name]
        if p.out or p.scratch then
            buffer = mine:add(fault.reach(placed.target.device:alloc(p.bytes)))
            if p.scratch and p.ctype == "u32" then fault.reach(buffer:fill(0)) end
        end
        if p.out then outs[#outs + 1] = { param = p, buffer = buffer } end
        list[i] = buffer
    end
    return list, outs
end

-- Poisons the outputs, but for states, launches, and reads them into `arrays` (by name); of a state
-- that only some blocks ran on, what they did not write is poison. A failure
-- of a GPU ends the run, one of the CPU device is a finding: nil and its sentence.
local function launch(run, play, arrays)
    local target = run.placed.target
    if target.is_cpu then
        fault.reach(target.device:play({
            order = play.order, lazy = play.lazy, left = run.placed.left,
        }))
    end
    for _, out in ipairs(run.outs) do
        local start = out.param.inout and run.placed.case.inputs[out.param.name]
        if start then
            fault.reach(out.buffer:write(start))
        else
            fault.reach(out.buffer:fill(lathe.poison(out.param.ctype)))
        end
    end
    local l = run.kernel.launch
    local ok, why = target.device:launch(run.loaded, { grid = l.grid, block = l.block,
        shared = l.shared, programmatic = play.programmatic }, run.list, run.blocks)
    if not ok and not target.is_cpu then fault.device(why) end
    if not ok then return nil, why end
    for _, out in ipairs(run.outs) do
        local name = out.param.name
        fault.reach(out.buffer:read(arrays[name]))
        if run.blocks and out.param.inout then arrays[name]:forget(run.placed.case.inputs[name]) end
    end
    return true
end

local function read_arrays(outs, mine)
    local arrays = {}
    for _, out in ipairs(outs) do
        local p = out.param
        arrays[p.name] = mine:add(fault.reach(lathe.array(p.ctype, case.count(p))))
    end
    return arrays
end

local RUN <const> = {
    __index = { free = function(run) run.mine:free() end },
    __close = function(run) run.mine:free() end,
}

-- A kernel that is ready to run on a placed case. blocks: the ones to run, nil for all.
-- Close it with <close>.
function check.ready(placed, kernel, loaded, blocks)
    local mine = scope.new()
    local run = setmetatable({
        placed = placed, kernel = kernel, loaded = loaded, blocks = blocks, mine = mine,
    }, RUN)
    run.list, run.outs = allocate(placed, kernel, mine)
    run.got, run.again = read_arrays(run.outs, mine), nil
    return run
end

-- What a comparison of nothing gives; others may hold failed = sentence.
function check.nothing()
    return { compared = 0, failures = 0, launches = 0, ulp = 0, part = 0 }
end

-- Launches once for each play; the first is compared with the reference, the others bit for bit
-- with the first. Returns check.nothing()'s fields, us of the first launch on the host's clock, and
-- failed = sentence or nil, faulted = it is a launch that failed.
function check.run(run, plays)
    local result = check.nothing()
    local sampled = run.blocks ~= nil
    for i, play in ipairs(plays) do
        if i == 2 then run.again = read_arrays(run.outs, run.mine) end
        local arrays = i == 1 and run.got or run.again
        local from = lathe.now_us()
        local ok, why = launch(run, play, arrays)
        result.us = result.us or lathe.now_us() - from
        result.launches = result.launches + 1
        if not ok then
            result.failed, result.faulted = result.failed or why, true
            return result
        end
        for _, out in ipairs(run.outs) do
            local p = out.param
            if i == 1 then
                check.note(result, p, compare(run.placed.case, p, arrays[p.name], sampled), "not")
            else
                check.note(result, p, lathe.compare_bits(arrays[p.name], run.got[p.name]),
                    "in the first order")
            end
        end
    end
    return result
end

-- Launches once without comparing: what each output holds, by name; or nil and a sentence.
function check.outputs(run)
    local ok, why = launch(run, { order = 0 }, run.got)
    if not ok then return nil, why end
    return run.got
end

-- Median microseconds of a launch on these buffers; nil where the device cannot say.
function check.time(run)
    return fault.reach(run.placed.target.device:time(run.loaded, run.kernel.launch, { run.list }))
end

-- Adds one result to another.
function check.add(sum, result)
    sum.compared = sum.compared + result.compared
    sum.launches = sum.launches + result.launches
    sum.failures = sum.failures + result.failures
    sum.ulp, sum.part = math.max(sum.ulp, result.ulp), math.max(sum.part, result.part)
    sum.failed = sum.failed or result.failed
end

-- Shapes that a family lists: { shape, real = true? }
function check.listed(family, real)
    local list = {}
    for _, s in ipairs(family.check.samples) do list[#list + 1] = { shape = s } end
    for _, s in ipairs(real and family.check.real or {}) do
        list[#list + 1] = { shape = s, real = true }
    end
    return list
end

function check.title(family, s) return family.name .. " " .. shape.text(family, s) end

return check
