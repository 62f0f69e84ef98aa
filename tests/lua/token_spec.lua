-- From logits to tokens: argmax on the golden logits, and what sample draws.
local golden = require("tests.lua.golden")

local ROWS <const> = 16  -- of a launch

local values = golden.values()

local function filled(dtype, f)
    local data = {}
    for i = 1, ROWS do data[i] = f(i) end
    return { dtype = dtype, shape = { ROWS }, data = data }
end

local function constant(x) return function() return x end end

-- ROWS rows of the matrix t, from row `first` on.
local function rows_of(t, first)
    local columns = t.shape[2]
    return { dtype = t.dtype, shape = { ROWS, columns },
        data = table.move(t.data, first * columns + 1, (first + ROWS) * columns, 1, {}) }
end

local function argmax(logits)
    local words = ("M=%d VOCAB=%d"):format(ROWS, logits.shape[2])
    local out = golden.run("argmax.f32", words, { logits = logits })
    return out:tensor("best"), out:tensor("top")
end

-- options: temperature, top_k, top_p, position of the first row.
local function sample(logits, options)
    local best, top = argmax(logits)
    local out = golden.run("sample.f32", ("M=%d VOCAB=%d"):format(ROWS, logits.shape[2]), {
        logits = logits, best = best, top = top,
        temperature = filled("F32", constant(options.temperature)),
        top_k = filled("I32", constant(options.top_k or 0)),
        top_p = filled("F32", constant(options.top_p or 1.0)),
        positions = filled("I32", function(i) return options.position + i end),
    })
    return out:tensor("token").data, best.data
end

-- Equal rows in which token i has the weight i, from 0 to 4.
local function weighted_rows()
    local data = {}
    for i = 0, ROWS * 5 - 1 do data[i + 1] = math.log(i % 5) end
    return { dtype = "F32", shape = { ROWS, 5 }, data = data }
end

-- How often each token is drawn in `launches` launches.
local function counts(launches, options)
    local drawn, logits = { [0] = 0, 0, 0, 0, 0 }, weighted_rows()
    for launch = 1, launches do
        options.position = launch * ROWS
        for _, token in ipairs((sample(logits, options))) do
            drawn[token] = drawn[token] + 1
        end
    end
    return drawn
end

describe("argmax", function()
    it("finds the golden tokens in the golden logits", function()
        local logits = values:tensor("greedy_logits")
        local want = values:tensor("greedy_tokens").data
        for first = 0, logits.shape[1] - 1, ROWS do
            local best = argmax(rows_of(logits, first))
            assert.are.same(table.move(want, first + 1, first + ROWS, 1, {}), best.data)
        end
    end)
end)

describe("sample", function()
    it("draws in proportion to the weights", function()
        local launches <const> = 24
        local drawn = counts(launches, { temperature = 1.0 })
        assert.are.equal(0, drawn[0])
        for token = 1, 4 do
            local part = token / 10
            local deviation = (ROWS * launches * part * (1 - part)) ^ 0.5
            local off = math.abs(drawn[token] - ROWS * launches * part)
            assert.is_true(off < 3 * deviation, ("token %d: %d"):format(token, drawn[token]))
        end
    end)

    it("leaves to top_p the likeliest tokens that reach it", function()
        local drawn = counts(4, { temperature = 1.0, top_p = 0.5 })
        assert.are.same({ 0, 0, 0 }, { drawn[0], drawn[1], drawn[2] })
        assert.is_true(drawn[3] > 0 and drawn[4] > 0)
    end)

    it("gives argmax's token where one is left, at any temperature", function()
        local logits = rows_of(values:tensor("logits"), 64)
        for _, temperature in ipairs({ 0.0, 0.25, 1.0, 1e30 }) do
            local token, best = sample(logits,
                { temperature = temperature, top_k = 1, position = 0 })
            assert.are.same(best, token)
        end
    end)
end)
