-- Products that end with SwiGLU have, in every variant, the bits of the product, of SwiGLU and of
-- the quantisation as launches of their own.
local arch = require("gen.arch")
local catalog = require("gen.catalog")
local golden = require("tests.lua.golden")
local shape = require("gen.shape")
local variant = require("gen.variant")

local WIDE <const> = 6  -- root mean square of the sums: beyond both clamps, and between them

local function read(path)
    local file <close> = io.open(path, "rb")
    return file and file:read("a")
end

local function families()
    return catalog.load(read, { "w4a16_gemv.lua", "w4a4_moe.lua" })
end

local function words_of(family, s, arch_name, v)
    local words = {}
    for i, size in ipairs(family.shape) do words[i] = ("%s=%d"):format(size, s[size]) end
    return ("%s --arch %s --knobs %s"):format(table.concat(words, " "), arch_name,
        variant.text(family, v))
end

-- Calls test(words, plain) for every variant that a family keeps at a shape; plain: the words of
-- the other family's first one of that class that reads slots one by one.
local function each_variant(names, s, arch_name, test)
    local all, dev, count = families(), arch.device(arch_name, 1), 0
    local one, other = all.by_name[names[1]], all.by_name[names[2]]
    for _, v in ipairs(variant.kept(one, s, dev)) do
        local plain
        for _, w in ipairs(variant.kept(other, s, dev)) do
            if not plain and (w.join or 0) == 0 and other.class(s, w) == one.class(s, v) then
                plain = words_of(other, s, arch_name, w)
            end
        end
        test(words_of(one, s, arch_name, v), assert(plain, variant.text(one, v)))
        count = count + 1
    end
    assert(count > 1, shape.text(one, s))
end

local function inputs_of(file, names)
    local inputs = {}
    for _, name in ipairs(names) do inputs[name] = file:tensor(name) end
    return inputs
end

-- Makes the product's sums WIDE: y is what they are.
local function widen(inputs, y)
    local sum = 0
    for _, x in ipairs(y) do sum = sum + (x == x and x * x or 0) end
    for i, x in ipairs(inputs.sw.data) do
        inputs.sw.data[i] = math.abs(x) * WIDE / (sum / #y) ^ 0.5
    end
end

local function same(got, want, what)
    assert.equal(#want, #got)
    for i = 1, #want do
        assert(got[i] == want[i], ("%s: element %d is %s, not %s"):format(what, i, got[i], want[i]))
    end
end

local EXPERTS <const> = { "x", "xs", "gs", "ids", "w", "ws", "sw" }

-- Every slot has an expert; finite scales; few elements, so that none of a variant's sums is
-- rounded otherwise than the reference's.
local function inputs_of_experts(s, words)
    local drawn = golden.run("w4a4_moe.gate_up", words, {})
    local inputs = inputs_of(drawn, EXPERTS)
    for i, id in ipairs(inputs.ids.data) do inputs.ids.data[i] = id % s.EXPERTS end
    for _, name in ipairs({ "xs", "ws" }) do
        for i, byte in ipairs(inputs[name].data) do inputs[name].data[i] = byte % 32 + 40 end
    end
    widen(inputs, golden.run("w4a4_moe.gate_up", words, inputs):tensor("y").data)
    return inputs
end

local function same_experts(s, words, plain, inputs)
    local scale = { input_scale = { dtype = "F32", shape = { 1 }, data = { 0.01 } } }
    local sums = golden.run("w4a4_moe.gate_up", plain, inputs):tensor("y")
    sums.shape = { s.M * s.TOPK, s.N }
    local want = golden.run("w4a4_swiglu_quant", ("M=%d K=%d"):format(s.M * s.TOPK, s.N // 2),
        { x = sums, input_scale = scale.input_scale })
    for name, each in pairs(inputs) do scale[name] = each end
    local got = golden.run("w4a4_moe.swiglu", words, scale)
    for name, other in pairs({ q = "q", qs = "qs", qgs = "gs" }) do
        same(got:tensor(name).data, want:tensor(other).data, words .. " " .. name)
    end
end

describe("SwiGLU behind a product", function()
    for _, s in ipairs({ { M = 1, N = 48, K = 2048 }, { M = 3, N = 32, K = 1552 },
        { M = 16, N = 80, K = 1072 } }) do
        it(("has its bits: w4a16_gemv_swiglu, %d rows"):format(s.M), function()
            local inputs
            each_variant({ "w4a16_gemv_swiglu", "w4a16_gemv" }, s, "sm_90a", function(words, plain)
                if not inputs then
                    local drawn = golden.run("w4a16_gemv", plain, {})
                    inputs = inputs_of(drawn, { "x", "w", "ws", "sw" })
                    widen(inputs, drawn:tensor("y").data)
                end
                local sums = golden.run("w4a16_gemv", plain, inputs):tensor("y")
                local want = golden.run("swiglu_clamp", ("M=%d N=%d"):format(s.M, s.N // 2),
                    { x = sums }):tensor("y").data
                same(golden.run("w4a16_gemv_swiglu", words, inputs):tensor("y").data, want, words)
            end)
        end)
    end

    for _, s in ipairs({ { M = 1, TOPK = 4, EXPERTS = 3, N = 96, K = 1040 },
        { M = 5, TOPK = 3, EXPERTS = 2, N = 64, K = 528 } }) do
        for _, arch_name in ipairs({ "sm_90a", "sm_121a" }) do
            it(("has its bits: w4a4_moe.swiglu, %d rows, %s"):format(s.M, arch_name), function()
                local inputs
                each_variant({ "w4a4_moe.swiglu", "w4a4_moe.gate_up" }, s, arch_name,
                    function(words, plain)
                        inputs = inputs or inputs_of_experts(s, plain)
                        same_experts(s, words, plain, inputs)
                    end)
            end)
        end
    end
end)
