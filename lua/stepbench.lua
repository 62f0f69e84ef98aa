-- How long a model's step takes: whole, as one graph, at several lengths of the sequence; and each
-- of its kernels by itself and in the chain, over all its launches, which have weights of their
-- own, so that none is in the L2.
local ask = require("lua.plan.ask")
local chain = require("lua.chain")
local choice = require("lua.choice")
local ctype = require("gen.ctype")
local fault = require("lua.fault")
local floor = require("lua.floor")
local glm5_next = require("lua.model.glm5_next")
local lathe = require("lathe")
local memory = require("lua.plan.memory")
local place = require("lua.place")
local plan = require("lua.plan.plan")
local progress = require("lua.progress")
local rank = require("lua.rank")
local recipe = require("lua.model.recipe")
local session = require("lua.session")

local stepbench = {}

local CONTEXTS <const> = { 1024, 16384, 65536, 131072 }
local TOKEN <const> = 7          -- whose step is timed: any
local PIECE <const> = 1 << 22    -- elements of a cache that are written at once
local SEED <const> = 7

function stepbench.declare(command)
    ask.declare_model(command, "a checkpoint's folder: its step instead of a family")
    command:option("--contexts", "tokens that the sequence has, such as 1024,16384")
    command:option("--recipe", "precision: card (default) or reference")
    command:option("--html", "write a page with a roofline and the step's timeline to this file")
    rank.declare(command)
    ask.declare_pins(command)
end

-- ---- the session ----

-- The lengths that are asked for, of those that the model has positions for.
local function contexts_of(options, positions)
    local list = {}
    for word in ((options.contexts or table.concat(CONTEXTS, ",")) .. ","):gmatch("(.-),") do
        local tokens = choice.number("--contexts", word, 1)
        if tokens <= positions then
            list[#list + 1] = tokens
        elseif options.contexts then
            fault.usage(("--contexts: %d tokens are asked for, the model has %d positions"):format(
                tokens, positions))
        end
    end
    if #list == 0 then list[1] = positions end
    table.sort(list)
    return list
end

-- A cache as if tokens had been there: random numbers.
local function fill_cache(s, state)
    local bytes, count = ctype.find(state.ctype).bytes, memory.state_bytes(state)
    count = count // bytes
    local piece <close> = fault.reach(lathe.array(state.ctype, math.min(PIECE, count)))
    fault.reach(piece:draw(state.ctype == "e4m3" and "bytes" or "normal", SEED, state.key))
    for at = 0, count - 1, PIECE do
        local part <close> = fault.reach(lathe.array(state.ctype, math.min(PIECE, count - at)))
        part:tile(piece, 0)
        fault.reach(s.states[state.key]:write(part, at * bytes))
    end
end

-- A session whose caches are full, and the seconds that it took. options: device and pins;
-- shown: a progress.
function stepbench.open(options, found, formats, capacity, shown)
    local start = lathe.now_us()
    local s = session.open({
        found = found, target = ask.know(place.open(options.device), options),
        formats = formats, capacity = capacity,
        tell = function(done, count, bytes)
            shown:show(("weights %d of %d, %.2f GB/s"):format(done, count,
                bytes / (lathe.now_us() - start) / 1e3))
        end,
    })
    for _, state in ipairs(s.state_list) do
        if not state.fill then fill_cache(s, state) end
    end
    return s, (lathe.now_us() - start) / 1e6
end

-- ---- the whole ----

-- Bytes that a step must move where the sequence has so many tokens.
local function bytes_of(s, tokens)
    local circuit = glm5_next.circuit(s.found, s.formats, 1, tokens)
    local bytes = 0
    for _, step in ipairs(plan.make(s.target, circuit).steps) do
        bytes = bytes + step.kernel.work.bytes
    end
    return bytes
end

local function time_whole(s, tokens)
    s.length = tokens - 1
    local p = s:step({ TOKEN })
    local timing = fault.reach(p.run:time())
    local us, bytes = timing.us * #p.plan.steps, bytes_of(s, tokens)
    local least = floor.bytes_us(s.target.info.key, bytes)
    return {
        context = tokens, ms = us / 1e3, spread = 100 * timing.spread, rate = 1e6 / us,
        launches = #p.plan.steps, bytes = bytes, floor_ms = least and least / 1e3,
        share = least and 100 * least / us,
    }
end

-- ---- kernel by kernel ----

-- The kernels in the order in which a step meets them, each with the numbers of its launches.
function stepbench.groups(p)
    local groups, by_name = {}, {}
    for i, step in ipairs(p.plan.steps) do
        local name = step.kernel.name
        local group = by_name[name]
        if not group then
            group = { kernel = step.kernel, section = step.section, numbers = {} }
            by_name[name], groups[#groups + 1] = group, group
        end
        table.insert(group.numbers, i)
    end
    return groups
end

-- Microseconds of a list of launches, and the spread between two halves of its replays.
function stepbench.time_list(s, list)
    local program <close> = fault.reach(s.target.device:program(list))
    local timing = fault.reach(program:time())
    return timing.us * #list, timing.spread
end

local function time_group(s, launches, group)
    local work, count = group.kernel.work, #group.numbers
    local total, spread = stepbench.time_list(s, chain.alone(launches, group.numbers))
    local us, least = total / count, floor.us(s.target.info.key, work)
    return {
        kernel = group.kernel.name, section = group.section, launches = count, us = us,
        spread = 100 * spread, total = total, bytes = work.bytes, flops = work.flops,
        chain = chain.us(launches, group.numbers, function(list)
            return (stepbench.time_list(s, list))
        end),
        gbps = work.bytes / us / 1e3, floor = least, floor_share = least and 100 * least / us,
    }
end

-- The launches of a step in their order, each with the time of its kernel alone.
local function launches_of(p, rows)
    local us, list = {}, {}
    for _, row in ipairs(rows) do us[row.kernel] = row.us end
    for i, step in ipairs(p.plan.steps) do
        list[i] = {
            site = step.site, section = step.section, kernel = step.kernel.name,
            us = us[step.kernel.name],
        }
    end
    return list
end

-- Launches that are left out make neighbours that no step has, and what a launch reads early may be
-- what its new neighbour writes. Times do not depend on that, but the CPU device refuses it.
function stepbench.listed(s, launches)
    if not s.target.is_cpu then return launches end
    local list = {}
    for i, one in ipairs(launches) do list[i] = chain.waiting(one) end
    return list
end

-- A program of `rows` rows of which each launch finds the inputs that a step left for it.
function stepbench.program(s, rows)
    local target, tokens = setmetatable({ is_apart = true }, { __index = s.target }), {}
    for i = 1, rows do tokens[i] = TOKEN end
    local p = s:program(rows, target)
    s:run(p, tokens)
    return p
end

-- Rows by kernel, what takes longest first, their sum, and the launches.
local function time_kernels(s, shown)
    local p = stepbench.program(s, 1)
    local rows, sum, groups = {}, 0, stepbench.groups(p)
    local launches <const> = stepbench.listed(s, p.plan.launches)
    for i, group in ipairs(groups) do
        shown:show(("kernel %d of %d"):format(i, #groups))
        rows[i] = time_group(s, launches, group)
        sum = sum + rows[i].total
    end
    for _, row in ipairs(rows) do row.share = 100 * row.total / sum end
    table.sort(rows, function(a, b)
        if a.total ~= b.total then return a.total > b.total end
        return a.kernel < b.kernel
    end)
    return rows, sum, launches_of(p, rows)
end

-- { steps, kernels, launches, sum_us of the kernels alone, load_seconds, session }
function stepbench.run(options)
    local shown <close> = progress.new()
    local found = rank.take(options, ask.found(options))
    local contexts = contexts_of(options, found.config.positions)
    local formats = fault.expect(recipe.find(options.recipe or "card"))
    local s, seconds = stepbench.open(options, found, formats, contexts[#contexts], shown)
    local result = { steps = {}, load_seconds = seconds, session = s }
    for i, tokens in ipairs(contexts) do
        shown:show(("a step at %d tokens"):format(tokens))
        result.steps[i] = time_whole(s, tokens)
    end
    s.length = contexts[1] - 1
    result.kernels, result.sum_us, result.launches = time_kernels(s, shown)
    return result
end

return stepbench
