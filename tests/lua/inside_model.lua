-- What tests of the model run inside ./lathe, in place of its command line (LATHE_ROOT names a
-- folder where this file is lua/cli.lua): the model against its golden values.
local aids = require("lua.aids")
local ask = require("lua.plan.ask")
local choice = require("lua.choice")
local fault = require("lua.fault")
local lathe = require("lathe")
local output = require("lua.output")
local place = require("lua.place")
local rank = require("lua.rank")
local recipe = require("lua.model.recipe")
local session = require("lua.session")

local FOLDER <const> = "tests/tiny"
local GOLDEN <const> = FOLDER .. "/golden.safetensors"
local VOCAB <const>, WIDTH <const> = 320, 67  -- of a row of logits, of a selection
local PROMPT <const>, START <const>, GREEDY <const> = 200, 96, 128
local WINDOWS <const>, WINDOW <const> = 8, 513
local CHUNK <const> = 16

-- arch, sms: what the CPU device plays, or nil.
local function open(name, capacity, arch, sms)
    return session.open({
        found = rank.take({}, ask.checkpoint(FOLDER)), capacity = capacity,
        target = place.open(nil, choice.catalog(), arch, sms),
        formats = fault.expect(recipe.find(name)), tell = function() end,
    })
end

-- A tensor of the golden file.
local function golden(name, ctype, dtype, extents)
    local file <close> = fault.expect(lathe.tensors(GOLDEN))
    local count = 1
    for _, extent in ipairs(extents) do count = count * extent end
    local array = fault.reach(lathe.array(ctype, count))
    assert(file:load(name, array, dtype, extents), name)
    return array
end

local function ids_of(array, from, count)
    local list = {}
    for i = 1, count do list[i] = math.tointeger(array:at(from + i - 1)) end
    return list
end

local function prompt() return ids_of(golden("prompt", "i32", "I32", { PROMPT }), 0, PROMPT) end

-- Runs ids in chunks and calls see(p, row, i) for each of them, i from 0.
local function each_row(s, ids, chunk, see)
    local at = 0
    while at < #ids do
        local rows = #ids - at >= chunk and chunk or 1
        local p = s:step({ table.unpack(ids, at + 1, at + rows) })
        for row = 0, rows - 1 do see(p, row, at + row) end
        at = at + rows
    end
end

-- bits RECIPE TOKENS CHUNK..: a line of hashes, one a row of logits, for each chunk; then whether
-- anything in a step is no number.
local function bits(name, count, ...)
    local s = open(name, tonumber(count) // 1 + 8)
    local ids <const> = { table.unpack(prompt(), 1, math.tointeger(tonumber(count))) }
    for _, chunk in ipairs({ ... }) do
        local words = {}
        s:reset()
        each_row(s, ids, math.tointeger(tonumber(chunk)), function(p, row, i)
            words[i + 1] = lathe.hash(p.logits, row * VOCAB, VOCAB)
        end)
        print(table.concat(words, " "))
    end
    print(aids.blame(s.programs[1]) or "all finite")
end

-- hashes RECIPE FILE COUNT [ARCH SMS]: the hashes of every launch of the golden prompt, in chunks,
-- and of COUNT tokens behind it; prints whose kernels ran, as ARCH and SMS.
local function hashes(name, path, count, arch, sms)
    local most = math.tointeger(tonumber(count))
    local s = open(name, PROMPT + most, arch, sms and math.tointeger(tonumber(sms)))
    local file <close> = output.open("--hashes", path)
    s.watchers[1] = aids.hashes(file)
    local p = s:prefill(prompt(), CHUNK)
    for _ = 1, most do p = s:step({ s:best(p) }) end
    file:keep()
    print(s.target.dev.arch, s.target.dev.sms)
end

-- ---- the golden prompt ----

local function set_of(array, row)
    local set, count = {}, 0
    for i = row * WIDTH, (row + 1) * WIDTH - 1 do
        local id = math.tointeger(array:at(i))
        if id >= 0 and not set[id] then set[id], count = true, count + 1 end
    end
    return set, count
end

local function same_set(a, i, b, j)
    local left, n = set_of(a, i)
    local right, m = set_of(b, j)
    for id in pairs(left) do
        if not right[id] then return false end
    end
    return n == m
end

-- A watcher that compares selections with the golden ones; counts.same, counts.all.
local function watch_selections(s, counts)
    local want = {}
    for _, layer in ipairs({ 3, 7 }) do
        want[("L%02d.attn.dsa_expand"):format(layer)] =
            golden(("layer%d.indexer.0"):format(layer), "i32", "I32", { PROMPT, WIDTH })
    end
    return function(p, i, outputs)
        local wanted = want[p.plan.steps[i].site]
        if not wanted then return end
        local ids <close> = aids.read(outputs[1])
        for row = 0, p.rows - 1 do
            counts.all = counts.all + 1
            if same_set(ids, row, wanted, s.length + row) then counts.same = counts.same + 1 end
        end
    end
end

local function best_of(array, row)
    local best, second = 0, nil
    for i = 1, VOCAB - 1 do
        local x = array:at(row * VOCAB + i)
        if x > array:at(row * VOCAB + best) then
            best, second = i, best
        elseif not second or x > array:at(row * VOCAB + second) then
            second = i
        end
    end
    return best, array:at(row * VOCAB + best) - array:at(row * VOCAB + second)
end

local function read_prompt(s)
    local want <close> = golden("logits", "f32", "F32", { PROMPT, VOCAB })
    local counts, sum, most, agree = { all = 0, same = 0 }, 0.0, 0.0, 0
    s.watchers[1] = watch_selections(s, counts)
    each_row(s, prompt(), CHUNK, function(p, row, i)
        for k = 0, VOCAB - 1 do
            local off = math.abs(p.logits:at(row * VOCAB + k) - want:at(i * VOCAB + k))
            sum, most = sum + off * off, math.max(most, off)
        end
        if best_of(p.logits, row) == best_of(want, i) then agree = agree + 1 end
    end)
    s.watchers[1] = nil
    print(("rms %.5f"):format((sum / (PROMPT * VOCAB)) ^ 0.5))
    print(("most %.3f"):format(most))
    print(("argmax %d"):format(agree))
    print(("selections %d of %d"):format(counts.same, counts.all))
end

-- The golden greedy text fed back: where another token is best, and how near the golden tie is.
local function follow(s)
    local tokens = ids_of(golden("greedy_tokens", "i32", "I32", { GREEDY }), 0, GREEDY)
    local want <close> = golden("greedy_logits", "f32", "F32", { GREEDY, VOCAB })
    local agree, widest = 0, 0.0
    s:reset()
    local p = s:prefill({ table.unpack(prompt(), 1, START) }, CHUNK)
    for i, id in ipairs(tokens) do
        if s:best(p) == id then
            agree = agree + 1
        else
            local _, margin = best_of(want, i - 1)
            widest = math.max(widest, margin)
            print(("other token at %d, margin %.4f"):format(i - 1, margin))
        end
        if i < GREEDY then p = s:step({ id }) end
    end
    print(("greedy %d"):format(agree))
    print(("margin %.4f"):format(widest))
end

-- golden RECIPE: how far from the golden values the logits, selections and greedy text are.
local function compare(name)
    local s = open(name, PROMPT + GREEDY)
    read_prompt(s)
    follow(s)
end

-- loss COUNT: the golden nats per token of the first windows of eval.
local function loss(count)
    local array <close> = golden("eval_nll", "f32", "F32", { WINDOWS, WINDOW - 1 })
    local sum, predictions = 0.0, tonumber(count) * (WINDOW - 1)
    for i = 0, predictions - 1 do sum = sum + array:at(i) end
    print(sum / predictions)
end

-- windows COUNT: the ids of the first windows of eval, a line each.
local function windows(count)
    local array = golden("eval_windows", "i32", "I32", { WINDOWS, WINDOW })
    for i = 0, tonumber(count) - 1 do
        print(table.concat(ids_of(array, i * WINDOW, WINDOW), " "))
    end
end

local MODES <const> = {
    bits = bits, golden = compare, hashes = hashes, loss = loss, windows = windows,
}

return function(argv)
    MODES[argv[1]](table.unpack(argv, 2))
    return 0
end
