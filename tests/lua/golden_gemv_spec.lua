-- Matrix products with bf16 activations on the tiny model: the captured rows of its prompt, against
-- what the public implementation made of them.
local golden = require("tests.lua.golden")

local ROWS <const>, H <const>, VOCAB <const> = 16, 256, 320

local function bf16(shape, data) return { dtype = "BF16", shape = shape, data = data } end

-- The codes of one sign of E4M3, as numbers: code c is list[c + 1]; 127 would be NaN.
local function e4m3_numbers()
    local list = {}
    for code = 0, 126 do
        local e, m = code >> 3, code & 7
        list[code + 1] = e == 0 and m * 2.0 ^ -9 or (8 + m) * 2.0 ^ (e - 10)
    end
    return list
end

local function nearest(numbers, x)  -- the code of |x|
    local low, high = 1, #numbers
    while high - low > 1 do
        local mid = (low + high) // 2
        if numbers[mid] <= x then low = mid else high = mid end
    end
    return x - numbers[low] <= numbers[high] - x and low - 1 or high - 1
end

-- Rows of K as E4M3 codes and one scale each.
local function quantised(data, k)
    local numbers, codes, scales = e4m3_numbers(), {}, {}
    for from = 1, #data, k do
        local largest = 0.0
        for i = from, from + k - 1 do largest = math.max(largest, math.abs(data[i])) end
        local scale = largest / 448
        scales[#scales + 1] = scale
        for i = from, from + k - 1 do
            codes[i] = nearest(numbers, math.abs(data[i]) / scale) | (data[i] < 0 and 128 or 0)
        end
    end
    return codes, scales
end

describe("golden gemv", function()
    local values, model = golden.values(), golden.model()

    local function value(name, ...) return values:tensor(name:format(...)).data end
    local function weight(name, ...) return model:tensor(name:format(...)).data end

    local function captured(name, columns)  -- of all prompt rows those at the positions
        local all, rows = value(name), {}
        for _, at in ipairs(value("positions")) do
            table.move(all, at * columns + 1, (at + 1) * columns, #rows + 1, rows)
        end
        return rows
    end

    for _, index in ipairs({ 3, 4 }) do
        it(("bf16_gemv_f32: router of layer %d"):format(index), function()
            local name <const> = "model.language_model.layers.%d.mlp.gate.weight"
            local y = golden.run("bf16_gemv_f32", ("M=%d N=16 K=%d"):format(ROWS, H), {
                x = bf16({ ROWS, H }, value("layer%d.router.in0", index)),
                w = bf16({ 16, H }, weight(name, index)),
            }):tensor("y").data
            assert.near(0, golden.error(y, value("layer%d.router.0", index)), 0.003)
        end)
    end

    for _, index in ipairs({ 0, 4 }) do
        it(("bf16_gemv_pair: q and b of layer %d"):format(index), function()
            local own <const> = "model.language_model.layers.%d.self_attn.%s_proj.weight"
            local w, b = weight(own, index, "q"), weight(own, index, "b")
            table.move(b, 1, #b, #w + 1, w)
            local got = golden.run("bf16_gemv_pair", ("M=%d N=260 K=%d TAIL=4"):format(ROWS, H), {
                x = bf16({ ROWS, H }, value("layer%d.q_proj.in0", index)),
                w = bf16({ 260, H }, w),
            })
            local q, tail = got:tensor("y").data, got:tensor("tail").data
            assert.near(0, golden.error(q, value("layer%d.q_proj.0", index)), 0.004)
            assert.near(0, golden.error(tail, value("layer%d.b_proj.0", index)), 0.003)
        end)
    end

    it("bf16_gemv and w8a16_gemv: the head", function()
        local words <const> = ("M=%d N=%d K=%d"):format(ROWS, VOCAB, H)
        local x = bf16({ ROWS, H }, captured("final_hidden", H))
        local want = captured("logits", VOCAB)
        local w = weight("lm_head.weight")
        local y = golden.run("bf16_gemv", words, { x = x, w = bf16({ VOCAB, H }, w) })
        assert.near(0, golden.error(y:tensor("y").data, want), 0.004)
        local codes, scales = quantised(w, H)
        y = golden.run("w8a16_gemv", words, {
            x = x, w = { dtype = "F8_E4M3", shape = { VOCAB, H }, data = codes },
            sw = { dtype = "F32", shape = { VOCAB }, data = scales },
        })
        assert.near(0, golden.error(y:tensor("y").data, want), 0.04)
    end)
end)
