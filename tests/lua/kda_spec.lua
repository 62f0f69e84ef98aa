-- KDA's two forms: M tokens of a sequence in one launch leave the bits of M launches of one token,
-- in the rows, in the state and in every snapshot.
local golden = require("tests.lua.golden")

local M <const>, HEADS <const>, D <const> = 3, 2, 64
local WIDTH <const> = HEADS * D
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

-- The rows of an input that has M of them; the others are for all tokens.
local function rows_of(inputs, from, count)
    local some = {}
    for _, name in ipairs({ "x", "taps", "g", "beta" }) do
        local t = inputs[name]
        if t then
            local part = { dtype = t.dtype, shape = { table.unpack(t.shape) }, data = t.data }
            if name ~= "taps" then
                local each = #t.data // M
                part.shape[1], part.data = count, slice(t.data, from * each, count * each)
            end
            some[name] = part
        end
    end
    return some
end

local function words(m, more)
    return ("M=%d HEADS=%d D=%d SLOTS=%d %s"):format(m, HEADS, D, SLOTS, more)
end

local function in_one(family, more, inputs, state, out)
    local given = rows_of(inputs, 0, M)
    given[state.name] = state
    given.slot = { dtype = "I32", shape = { 1 }, data = { M } }
    given.snaps = { dtype = "I32", shape = { M }, data = { 0, 1, 2 } }
    local file = golden.run(family .. ".tokens", words(M, more), given)
    return file:tensor(out).data, file:tensor(state.name).data
end

-- All rows, and the pool with what the snapshots would hold: the state after each token.
local function one_by_one(family, more, inputs, state, out)
    local all, pool, each = {}, state, #state.data // SLOTS
    local kept = {}
    for t = 0, M - 1 do
        local given = rows_of(inputs, t, 1)
        given[state.name] = pool
        given.slots = { dtype = "I32", shape = { 1 }, data = { M } }
        local file = golden.run(family .. ".rows", words(1, more), given)
        local row = file:tensor(out).data
        table.move(row, 1, #row, #all + 1, all)
        pool = file:tensor(state.name)
        table.move(pool.data, M * each + 1, SLOTS * each, t * each + 1, kept)
    end
    table.move(pool.data, M * each + 1, SLOTS * each, M * each + 1, kept)
    return all, kept
end

local function differences(a, b)
    local count = math.abs(#a - #b)
    for i = 1, math.min(#a, #b) do count = count + (a[i] == b[i] and 0 or 1) end
    return count
end

local function agree(family, more, inputs, state, out)
    local rows, pool = in_one(family, more, inputs, state, out)
    local other_rows, other_pool = one_by_one(family, more, inputs, state, out)
    assert.equal(0, differences(other_rows, rows))
    assert.equal(0, differences(other_pool, pool))
end

describe("kda", function()
    it("the convolution of three tokens is that of one, three times", function()
        agree("kda_conv", ("STRIDE=%d"):format(3 * WIDTH), {
            x = { dtype = "BF16", shape = { M, 3 * WIDTH }, data = numbers(M * 3 * WIDTH, 1, 2) },
            taps = { dtype = "F32", shape = { 3 * WIDTH, 4 }, data = numbers(12 * WIDTH, 2, 1) },
        }, { name = "window", dtype = "F32", shape = { SLOTS, 3 * WIDTH, 4 },
            data = numbers(SLOTS * 12 * WIDTH, 3, 2) }, "y")
    end)

    it("the recurrence of three tokens is that of one, three times", function()
        local g = numbers(M * WIDTH, 5, 2)
        for i, x in ipairs(g) do g[i] = x - 2.5 end
        agree("kda_recurrent", "", {
            x = { dtype = "BF16", shape = { M, 3 * WIDTH },
                data = numbers(M * 3 * WIDTH, 4, 0.25) },
            g = { dtype = "F32", shape = { M, HEADS, D }, data = g },
            beta = { dtype = "F32", shape = { M, HEADS }, data = numbers(M * HEADS, 6, 1) },
        }, { name = "state", dtype = "F32", shape = { SLOTS, HEADS, D, D },
            data = numbers(SLOTS * WIDTH * D, 7, 1) }, "o")
    end)

    -- The state after 16 tokens whose gates are gate(i), of one that was 1 everywhere.
    local function state_after(gate, beta)
        local tokens, g = 16, {}
        for i = 1, tokens * D do g[i] = gate(i) end
        local file = golden.run("kda_recurrent.tokens", ("M=%d HEADS=1 D=%d SLOTS=1"):format(
            tokens, D), {
                x = { dtype = "BF16", shape = { tokens, 3 * D },
                    data = numbers(tokens * 3 * D, 8, 0.25) },
                g = { dtype = "F32", shape = { tokens, 1, D }, data = g },
                beta = { dtype = "F32", shape = { tokens, 1 }, data = numbers(tokens, 9, beta) },
                state = { dtype = "F32", shape = { 1, 1, D, D }, data = filled(D * D, 1.0) },
                slot = { dtype = "I32", shape = { 1 }, data = { 0 } },
                snaps = { dtype = "I32", shape = { tokens }, data = filled(tokens, -1) },
            })
        for _, x in ipairs(file:tensor("o").data) do assert(x - x == 0, "o is not finite") end
        return file:tensor("state").data
    end

    it("is finite at the strongest decay, which forgets, and at none, which keeps all", function()
        for _, x in ipairs(state_after(function() return -5.0 end, 0.0)) do
            assert.truthy(x >= 0 and x < 0x1p-115)  -- exp(-80)
        end
        assert.same(filled(D * D, 1.0), state_after(function() return 0.0 end, 0.0))
        for _, x in ipairs(state_after(function(i) return i % 2 * -5.0 end, 1.0)) do
            assert.truthy(x - x == 0)
        end
    end)
end)
