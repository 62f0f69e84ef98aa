-- A kernel on cold inputs: so many copies of them that a launch finds nothing of its own in the L2.
local fault = require("lua.fault")
local place = require("lua.place")

local cold = {}

local COLD <const> = 256 << 20  -- bytes that must pass before inputs are read again: 4 times the L2
local MOST_COPIES <const> = 256

local function input_bytes(c)
    local bytes = 0
    for _, p in ipairs(c.args) do bytes = bytes + (p.out and not p.inout and 0 or p.bytes) end
    return bytes
end

local COPIES <const> = {
    __index = {
        free = function(list)
            for i = #list, 1, -1 do list[i]:free() end
        end,
    },
}
COPIES.__close = COPIES.__index.free

-- How often bytes must be there so that all of them together are cold.
local function count_for(bytes) return math.min(MOST_COPIES, (COLD + bytes - 1) // bytes) end

-- Copies of a case's inputs on the device. Where the inputs are large enough by themselves and a
-- launch reads a small part of them (some of many experts), other inputs of the same weights stand
-- for copies: they choose another part. Close them with <close>.
function cold.copies(target, c)
    local list = setmetatable({ place.new(target, c) }, COPIES)
    local bytes, read = input_bytes(c), c.family.work(c.shape).bytes
    if target.is_cpu then return list end
    for i = 2, count_for(bytes) do list[i] = place.new(target, c) end
    if #list > 1 or 2 * read > bytes then return list end
    for i = 2, count_for(read) do list[i] = place.again(list[1], i) end
    return list
end

local function start_of(run, p) return run.placed.case.inputs[p.name] end

-- Another buffer with a state as it is before a launch.
local function state(run, p)
    local buffer = run.mine:add(fault.reach(run.placed.target.device:alloc(p.bytes)))
    fault.reach(buffer:write(start_of(run, p)))
    return buffer
end

-- The kernel's buffers with the inputs and states of each copy, all as before a launch.
local function lists_of(run, copies)
    local lists = {}
    for i, placed in ipairs(copies) do
        lists[i] = {}
        for j, p in ipairs(run.kernel.params) do
            lists[i][j] = placed.buffers[p.name] or i > 1 and p.inout and state(run, p)
                or run.list[j]
            if i == 1 and p.inout then fault.reach(run.list[j]:write(start_of(run, p))) end
        end
    end
    return lists
end

-- Times a run (check.ready on copies[1]): { us, spread, .. }, or nil and a sentence.
function cold.time(run, copies, brief)
    local device = run.placed.target.device
    return device:time(run.loaded, run.kernel.launch, lists_of(run, copies), brief)
end

return cold
