-- A kernel as a step has it: weights, caches and states come from memory, for there are so many
-- copies of them that none is in the L2; what the launch in front writes is there.
local fault = require("lua.fault")
local param = require("gen.param")
local place = require("lua.place")

local cold = {}

local COLD <const> = 256 << 20  -- bytes that must pass before inputs are read again: 4 times the L2
local MOST_COPIES <const> = 256

-- The args whose buffers all copies share: activations, which grow with the rows of a launch, and
-- the numbers of a step (positions, slots, block tables), which every layer reads. And the bytes of
-- the other inputs.
local function divide(c)
    local longer, warm, bytes = {}, {}, 0
    for size, n in pairs(c.shape) do longer[size] = size == "M" and 2 * n or n end
    local grown = fault.expect(param.args(c.family, longer))
    for i, p in ipairs(c.args) do
        warm[p.name] = p.ctype == "i32" or grown[i].bytes > p.bytes
        if not warm[p.name] and (p.inout or not p.out) then bytes = bytes + p.bytes end
    end
    return warm, bytes
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
local function count_for(bytes)
    return bytes == 0 and 1 or math.min(MOST_COPIES, (COLD + bytes - 1) // bytes)
end

-- Copies of a case's inputs on the device; warm: the args that they share. Where a launch reads a
-- small part of them (some of many experts or tokens), there are more: the same inputs, of which
-- other parts are chosen. Close them with <close>.
function cold.copies(target, c)
    local list = setmetatable({ place.new(target, c) }, COPIES)
    if target.is_cpu then return list end
    local warm, bytes = divide(c)
    list.warm = warm
    local read, shared = c.family.work(c.shape).bytes, {}
    for name, buffer in pairs(list[1].buffers) do shared[name] = warm[name] and buffer or nil end
    local count = count_for(bytes)
    for i = 2, count do list[i] = place.new(target, c, nil, shared) end
    if 2 * read > bytes then return list end
    for i = count + 1, count_for(read) do list[i] = place.again(list[(i - 1) % count + 1], i) end
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
            lists[i][j] = placed.buffers[p.name]
                or i > 1 and p.inout and not copies.warm[p.name] and state(run, p) or run.list[j]
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
