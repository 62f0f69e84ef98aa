-- What tests/long/ranks.sh runs inside ./lathe, in place of its command line (LATHE_ROOT names a
-- folder where this file is lua/cli.lua): ./lathe RECIPE RANKS. The tiny model on so many ranks,
-- launch by launch: behind a step whose value is partial the ranks' values are summed here, as an
-- all-reduce would, and the sum is written back to each. What comes out is compared with the whole
-- model's.
local aids = require("lua.aids")
local ask = require("lua.plan.ask")
local choice = require("lua.choice")
local fault = require("lua.fault")
local lathe = require("lathe")
local place = require("lua.place")
local rank = require("lua.rank")
local recipe = require("lua.model.recipe")
local session = require("lua.session")

local FOLDER <const> = "tests/tiny"
local VOCAB <const> = 320
local PROMPT <const> = "ROMEO:\nI would the noble"  -- a byte is a token: 24
local CHUNK <const> = 16
local ROUNDING <const> = 0x1p-8  -- the most that a rounding to bf16 is off, as a part of the value

-- A session that hands its program, the launch's number and outputs over behind each launch.
local function open(name, ranks, mine)
    local s = session.open({
        found = rank.take({ ranks = tostring(ranks), rank = tostring(mine) },
            ask.checkpoint(FOLDER)),
        capacity = #PROMPT, target = place.open("cpu", choice.catalog()),
        formats = fault.expect(recipe.find(name)), tell = function() end,
    })
    s.watchers[1] = coroutine.yield
    return s
end

-- ---- launch by launch ----

-- Runs a step of all sessions; behind each launch calls meet with the first one's step and the
-- outputs of each. Their programs.
local function step_together(sessions, tokens, meet)
    local threads, programs = {}, {}
    for k, s in ipairs(sessions) do
        threads[k] = coroutine.wrap(function() return s:step(tokens) end)
    end
    while true do
        local outputs, launch = {}, nil
        for k, thread in ipairs(threads) do
            local i
            programs[k], i, outputs[k] = thread()
            assert(k == 1 or i == launch)
            launch = i
        end
        if not launch then return programs end
        meet(programs[1].plan.steps[launch], outputs)
    end
end

-- The prompt in a chunk and token by token; see(programs, row) for each token.
local function read_prompt(sessions, meet, see)
    local ids, at = { PROMPT:byte(1, -1) }, 1
    for _, s in ipairs(sessions) do s:reset() end
    while at <= #ids do
        local rows = #ids - at + 1 >= CHUNK and CHUNK or 1
        local tokens = { table.unpack(ids, at, at + rows - 1) }
        local programs = step_together(sessions, tokens, meet)
        for row = 0, rows - 1 do see(programs, row) end
        at = at + rows
    end
end

-- The logits of a row, of all sessions behind each other.
local function joined(sessions, programs, row)
    local list = {}
    for k, s in ipairs(sessions) do
        local width = s.found.config.head_rows
        for i = 0, width - 1 do list[#list + 1] = programs[k].logits:at(row * width + i) end
    end
    return list
end

-- Adds up the first `ranks` values of a step, rounds once, gives the sum to all sessions.
local function all_reduce(outputs, ranks)
    local values, count = {}, outputs[1][1].param.bytes // 2
    for k, list in ipairs(outputs) do values[k] = aids.read(list[1]) end
    local sum = fault.reach(lathe.array("bf16", count))
    for i = 0, count - 1 do
        local x = 0.0
        for k = 1, ranks do x = x + values[k]:at(i) end
        sum:set(i, x)
    end
    for _, list in ipairs(outputs) do fault.reach(list[1].buffer:write(sum, list[1].offset)) end
    return sum, values, count
end

-- ---- comparisons ----

local function rms(sum, count) return (sum / count) ^ 0.5 end

-- The experts of each row, in order, where a step chooses them; else nil.
local function experts_of(step, outputs)
    if step.kernel.family.name ~= "moe_router" then return nil end
    local ids, rows = aids.read(outputs[1]), {}
    local topk = step.kernel.shape.TOPK
    for row = 1, outputs[1].param.bytes // 4 // topk do
        local list = {}
        for i = 1, topk do list[i] = ids:at((row - 1) * topk + i - 1) end
        table.sort(list)
        rows[row] = table.concat(list, " ")
    end
    return rows
end

-- The model by itself and the ranks by themselves: how far their logits are from each other, of all
-- tokens and of those that take the same experts; how many take others: a near-tie falls either
-- way.
local function compare_logits(whole, ranks)
    local want, routes, met, turned = {}, {}, 0, {}
    local off, off_alike, tokens, alike = 0.0, 0.0, 0, 0
    read_prompt({ whole }, function(step, outputs)
        routes[#routes + 1] = experts_of(step, outputs[1])
    end, function(programs, row)
        want[#want + 1] = joined({ whole }, programs, row)
    end)
    read_prompt(ranks, function(step, outputs)
        if step.partial then all_reduce(outputs, #ranks) end
        local rows = experts_of(step, outputs[1])
        met = met + (rows and 1 or 0)
        for row, experts in ipairs(rows or {}) do
            if experts ~= routes[met][row] then turned[tokens + row] = true end
        end
    end, function(programs, row)
        local got = joined(ranks, programs, row)
        tokens = tokens + 1
        assert(#got == VOCAB)
        local own = 0.0
        for i, x in ipairs(got) do own = own + (x - want[tokens][i]) ^ 2 end
        off = off + own
        if not turned[tokens] then alike, off_alike = alike + 1, off_alike + own end
    end)
    print(("tokens %d"):format(tokens))
    print(("turned %d"):format(tokens - alike))
    print(("logits %.5f %.5f"):format(rms(off, tokens * VOCAB), rms(off_alike, alike * VOCAB)))
end

-- Of one step: the difference of sum and y as a part of y, and as a part of what it is at most
-- where each rank's part, their sum and y were each rounded once, in the worst way.
local function compare_step(ranks, sum, values, count)
    local off, all, most = 0.0, 0.0, 0.0
    for i = 0, count - 1 do
        local y, total = values[ranks + 1]:at(i), sum:at(i)
        local size = math.abs(y) + math.abs(total)
        for k = 1, ranks do size = size + math.abs(values[k]:at(i)) end
        off, all = off + (total - y) ^ 2, all + y * y
        most = most + (ROUNDING * size) ^ 2
    end
    return (off / all) ^ 0.5, (off / most) ^ 0.5
end

-- The ranks and the model side by side: the model gets the ranks' sums too, so that each step has
-- equal inputs on both sides. Prints of each section the largest difference of a step, twice as
-- compare_step says, and how far the logits are apart at most.
local function compare_steps(whole, ranks)
    local sides, worst, order, apart = { table.unpack(ranks) }, {}, {}, 0.0
    sides[#sides + 1] = whole
    read_prompt(sides, function(step, outputs)
        if not step.partial then return end
        local part, rounded = compare_step(#ranks, all_reduce(outputs, #ranks))
        local w = worst[step.section]
        if not w then
            w = { part = 0.0, rounded = 0.0, steps = 0 }
            worst[step.section], order[#order + 1] = w, step.section
        end
        w.part, w.rounded = math.max(w.part, part), math.max(w.rounded, rounded)
        w.steps = w.steps + 1
    end, function(programs, row)
        local all = joined(sides, programs, row)
        for i = 1, VOCAB do apart = math.max(apart, math.abs(all[i] - all[VOCAB + i])) end
    end)
    for _, section in ipairs(order) do
        local w = worst[section]
        print(("%s %.4f %.4f %d"):format(section, w.part, w.rounded, w.steps))
    end
    print(("apart %.3g"):format(apart))
end

return function(argv)
    local name, count = argv[1], math.tointeger(tonumber(argv[2]))
    local whole, ranks = open(name, 1, 0), {}
    for k = 1, count do ranks[k] = open(name, count, k - 1) end
    compare_logits(whole, ranks)
    compare_steps(whole, ranks)
    return 0
end
