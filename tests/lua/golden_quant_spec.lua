-- The load-time number formats on the tiny model's own weights.
local golden = require("tests.lua.golden")

local LAYERS <const> = "model.language_model.layers."
local PROJECTIONS <const> = { "gate_proj", "up_proj", "down_proj" }
local MAGNITUDES <const> = { [0] = 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0 }

local model = golden.model()

local function e4m3(bits)
    local exponent, mantissa = bits >> 3 & 15, bits & 7
    local magnitude = exponent == 0 and mantissa * 2.0 ^ -9
        or (8 + mantissa) * 2.0 ^ (exponent - 10)
    return bits & 0x80 == 0 and magnitude or -magnitude
end

-- x to the nearest bf16, ties to even: a double loses 45 bits of its mantissa.
local function bf16(x)
    local bits = string.unpack("<i8", string.pack("<d", x))
    bits = bits + (1 << 44) - 1 + (bits >> 45 & 1) >> 45 << 45
    return (string.unpack("<d", string.pack("<i8", bits)))
end

-- Element i, from 0, of an NVFP4 tensor, decoded as model.md 2.1 says.
local function decoded(codes, scales, scale2, i)
    local code = codes.data[i // 2 + 1] >> i % 2 * 4 & 15
    local magnitude = MAGNITUDES[code & 7]
    return (code < 8 and magnitude or -magnitude) * e4m3(scales.data[i // 16 + 1]) * scale2
end

local function dequantised(codes, scales, scale)
    local n, k = codes.shape[1], codes.shape[2] * 2
    return golden.run("nvfp4_dequant", ("N=%d K=%d"):format(n, k), {
        codes = codes, scales = scales, scale = { dtype = "F32", shape = { 1 }, data = scale.data },
    }):tensor("y").data
end

local function agrees_with_lua(name)
    local codes = model:tensor(name .. ".weight")
    local scales = model:tensor(name .. ".weight_scale")
    local scale = model:tensor(name .. ".weight_scale_2")
    local got = dequantised(codes, scales, scale)
    assert.are.equal(codes.shape[1] * codes.shape[2] * 2, #got)
    for i, y in ipairs(got) do
        local want = bf16(decoded(codes, scales, scale.data[1], i - 1))
        if y ~= want then
            error(("%s: element %d is %.9g, not %.9g"):format(name, i - 1, y, want))
        end
    end
end

local function size_words(w) return ("N=%d K=%d"):format(w.shape[1], w.shape[2]) end

local function nvfp4_error(w)
    local words = size_words(w)
    local scale = golden.run("nvfp4_amax", words, { w = w }):tensor("scale")
    local quantised = golden.run("nvfp4_quant", words, { w = w, scale = scale })
    local got = dequantised(quantised:tensor("codes"), quantised:tensor("scales"), scale)
    return golden.error(got, w.data)
end

local function e4m3_error(w)
    local words = size_words(w)
    local quantised = golden.run("e4m3_row_quant.bf16", words, { w = w })
    local got = golden.run("e4m3_dequant", words, {
        q = quantised:tensor("q"), sw = quantised:tensor("sw"),
    })
    return golden.error(got:tensor("y").data, w.data)
end

local function filled(dtype, shape, value)
    local count, data = shape[1] * (shape[2] or 1), {}
    for i = 0, count - 1 do data[i + 1] = value(i // (shape[2] or 1), i % (shape[2] or 1)) end
    return { dtype = dtype, shape = shape, data = data }
end

local function signed(code) return MAGNITUDES[code & 7] * (code < 8 and 1 or -1) end

describe("rows in which element j has the code j mod 16", function()
    local ROWS <const>, N <const>, K <const> = 16, 22, 704  -- 1.4 tiles, 5.5 pairs of chunks
    local codes = filled("U8", { N, K // 2 }, function(n, j)
        return (2 * j + n) % 16 | (2 * j + 1 + n) % 16 << 4
    end)
    local scales = filled("F8_E4M3", { N, K // 16 }, function(n) return 0x38 + 8 * (n % 4) end)
    local ones = filled("F32", { N }, function() return 1.0 end)

    it("are decoded with the even element in the low nibble", function()
        local y = dequantised(codes, scales, { data = { 1.0 } })
        for i = 0, N * K - 1 do
            assert.equal(signed((i % K + i // K) % 16) * 2.0 ^ (i // K % 4), y[i + 1])
        end
    end)

    -- Row m of the other side is 1 at element m of each group, so that the sum is that element's.
    local function is_each_element(family, inputs)
        local y = golden.run(family, ("M=%d N=%d K=%d"):format(ROWS, N, K), inputs):tensor("y").data
        for i = 0, ROWS * N - 1 do
            local m, n = i // N, i % N
            assert.equal(signed((m + n) % 16) * 2.0 ^ (n % 4) * (K // 16), y[i + 1])
        end
    end

    it("stand at their places in a product", function()
        is_each_element("w4a16_gemv", {
            x = filled("BF16", { ROWS, K }, function(m, k) return k % 16 == m and 1.0 or 0.0 end),
            w = codes, ws = scales, sw = ones,
        })
        is_each_element("w4a4_gemv", {
            x = filled("U8", { ROWS, K // 2 }, function(m, j)
                return j % 8 == m // 2 and 2 << m % 2 * 4 or 0
            end),
            xs = filled("F8_E4M3", { ROWS, K // 16 }, function() return 0x38 end),
            gs = filled("F32", { ROWS }, function() return 1.0 end),
            w = codes, ws = scales, sw = ones,
        })
    end)
end)

describe("load-time formats on the tiny model", function()
    it("each NVFP4 tensor of the dense layer dequantises to what plain Lua decodes", function()
        for _, projection in ipairs(PROJECTIONS) do
            agrees_with_lua(LAYERS .. "0.mlp." .. projection)
        end
    end)

    it("each NVFP4 tensor of a MoE layer dequantises to what plain Lua decodes", function()
        for expert = 0, 15 do
            for _, projection in ipairs(PROJECTIONS) do
                agrees_with_lua(("%s4.mlp.experts.%d.%s"):format(LAYERS, expert, projection))
            end
        end
    end)

    it("bf16 weights through E4M3 rows come back within its steps", function()
        for _, name in ipairs({ "0.self_attn.f_b_proj", "3.self_attn.q_a_proj" }) do
            local off = e4m3_error(model:tensor(LAYERS .. name .. ".weight"))
            assert.is_true(off > 0.015 and off < 0.035, ("%s is off by %.4f"):format(name, off))
        end
    end)

    it("bf16 weights through NVFP4 come back within its steps", function()
        for _, name in ipairs({ "0.self_attn.q_proj", "1.mlp.shared_experts.down_proj" }) do
            local off = nvfp4_error(model:tensor(LAYERS .. name .. ".weight"))
            assert.is_true(off > 0.05 and off < 0.1, ("%s is off by %.4f"):format(name, off))
        end
    end)
end)
