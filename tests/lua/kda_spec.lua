-- KDA's two forms: M tokens of a sequence in one launch leave the bits of M launches of one token,
-- in the rows, in the states and windows and in every snapshot; sequences do not meet.
local golden = require("tests.lua.golden")

local M <const>, HEADS <const>, D <const> = 3, 2, 64
local WIDTH <const> = HEADS * D
local STRIDE <const> = 3 * WIDTH + 2 * D + HEADS  -- q | k | v | f_a | g_a | b
local SLOTS <const> = M + 1  -- the sequence's, the last one, and a snapshot after each token

-- Numbers within `most` of zero, of few bits, the same in every run.
local function numbers(count, seed, most)
    local list, word = {}, seed
    for i = 1, count do
        word = (word * 1103515245 + 12345) & 0x7fffffff
        list[i] = ((word >> 16) % 255 - 127) / 128 * most
    end
    return list
end

local function filled(count, value)
    local list = {}
    for i = 1, count do list[i] = value end
    return list
end

local function slice(list, from, count) return table.move(list, from + 1, from + count, 1, {}) end

local function tensor(dtype, shape, data) return { dtype = dtype, shape = shape, data = data } end

-- What all tokens share, and what each has of its own.
local INPUTS <const> = {
    taps = tensor("F32", { 3 * WIDTH, 4 }, numbers(12 * WIDTH, 2, 1)),
    a_log = tensor("F32", { HEADS }, numbers(HEADS, 3, 1)),
    dt_bias = tensor("F32", { HEADS, D }, numbers(WIDTH, 4, 1)),
    norm = tensor("BF16", { D }, numbers(D, 5, 1)),
    w = tensor("BF16", { 2 * WIDTH, D }, numbers(2 * WIDTH * D, 6, 0.125)),
}
local X <const> = numbers(M * STRIDE, 1, 2)

local function pools()
    return {
        state = tensor("F32", { SLOTS, HEADS, D, D }, numbers(SLOTS * WIDTH * D, 8, 1)),
        window = tensor("F32", { SLOTS, 3 * WIDTH, 4 }, numbers(SLOTS * 12 * WIDTH, 9, 2)),
    }
end

-- y, state and window after `count` rows, from row `from` on, of sequences of `tokens` rows.
local function run(from, count, tokens, given, slots, snaps)
    local words = ("M=%d TOKENS=%d HEADS=%d D=%d N=%d K=%d STRIDE=%d SLOTS=%d"):format(count,
        tokens, HEADS, D, 2 * WIDTH, D, STRIDE, SLOTS)
    local inputs = { state = given.state, window = given.window }
    for name, t in pairs(INPUTS) do inputs[name] = t end
    inputs.x = tensor("BF16", { count, STRIDE }, slice(X, from * STRIDE, count * STRIDE))
    inputs.slots = tensor("I32", { #slots }, slots)
    inputs.snaps = tensor("I32", { #snaps }, snaps)
    local file = golden.run("kda_decode.bf16", words, inputs)
    return {
        y = file:tensor("y").data, state = file:tensor("state"), window = file:tensor("window"),
    }
end

-- A slot's part of a pool.
local function slot_of(pool, slot)
    local each = #pool.data // SLOTS
    return slice(pool.data, slot * each, each)
end

describe("kda", function()
    it("three tokens in one launch leave what three launches leave, snapshots too", function()
        local whole = run(0, M, M, pools(), { M }, { 0, 1, 2 })
        local rows, after = {}, pools()
        for t = 0, M - 1 do
            after = run(t, 1, 1, after, { M }, { -1 })
            table.move(after.y, 1, #after.y, #rows + 1, rows)
            for _, pool in ipairs({ "state", "window" }) do
                assert.same(slot_of(after[pool], M), slot_of(whole[pool], t), pool)
            end
        end
        assert.same(rows, whole.y)
        assert.same(slot_of(after.state, M), slot_of(whole.state, M))
        assert.same(slot_of(after.window, M), slot_of(whole.window, M))
    end)

    it("a token of each of three sequences leaves what each leaves alone", function()
        local slots = { 3, 0, 2 }
        local all = run(0, M, 1, pools(), slots, { -1, -1, 1 })
        for i, slot in ipairs(slots) do
            local alone = run(i - 1, 1, 1, pools(), { slot }, { -1 })
            assert.same(alone.y, slice(all.y, (i - 1) * WIDTH, WIDTH))
            for _, pool in ipairs({ "state", "window" }) do
                assert.same(slot_of(alone[pool], slot), slot_of(all[pool], slot), pool)
                if slot == 2 then assert.same(slot_of(alone[pool], 2), slot_of(all[pool], 1)) end
            end
        end
    end)

    -- The state after 16 tokens of a head, of one that was 1 everywhere. bias(i): of k i's decay;
    -- b: of which the sigmoid is beta; v: the last token's first value. And the rows.
    local function after(bias, b, v)
        local tokens, stride, biases = 16, 5 * D + 1, {}
        local x = numbers(tokens * stride, 8, 0.25)
        for row = 1, tokens do x[row * stride] = b end
        x[(tokens - 1) * stride + 2 * D + 1] = v or 0.25
        for i = 1, D do biases[i] = bias(i) end
        local words = ("M=%d TOKENS=%d HEADS=1 D=%d N=%d K=%d STRIDE=%d SLOTS=1"):format(
            tokens, tokens, D, 2 * D, D, stride)
        local file = golden.run("kda_decode.bf16", words, {
            x = tensor("BF16", { tokens, stride }, x),
            taps = tensor("F32", { 3 * D, 4 }, numbers(12 * D, 2, 1)),
            w = tensor("BF16", { 2 * D, D }, filled(2 * D * D, 0.0)),
            a_log = tensor("F32", { 1 }, { 0.0 }),
            dt_bias = tensor("F32", { 1, D }, biases),
            norm = tensor("BF16", { D }, filled(D, 1.0)),
            state = tensor("F32", { 1, 1, D, D }, filled(D * D, 1.0)),
            window = tensor("F32", { 1, 3 * D, 4 }, filled(12 * D, 0.0)),
            slots = tensor("I32", { 1 }, { 0 }),
            snaps = tensor("I32", { tokens }, filled(tokens, -1)),
        })
        return file:tensor("state").data, file:tensor("y").data
    end

    local function state_after(bias, b)
        local state, rows = after(bias, b)
        for _, y in ipairs(rows) do assert(y - y == 0, "y is not finite") end
        return state
    end

    it("is finite at the strongest decay, which forgets, and at none, which keeps all", function()
        for _, x in ipairs(state_after(function() return 100.0 end, -100.0)) do
            assert.truthy(x >= 0 and x < 0x1p-115)  -- exp(-80)
        end
        assert.same(filled(D * D, 1.0), state_after(function() return -100.0 end, -100.0))
        for _, x in ipairs(state_after(function(i) return i % 2 * 200.0 - 100.0 end, 100.0)) do
            assert.truthy(x - x == 0)
        end
    end)

    it("has no number in the row of an infinite value", function()
        local _, rows = after(function() return 0.0 end, 100.0, math.huge)
        for i = 1, D do assert.truthy(rows[15 * D + i] ~= rows[15 * D + i]) end
        for i = 1, 15 * D do assert.truthy(rows[i] - rows[i] == 0) end
    end)
end)
