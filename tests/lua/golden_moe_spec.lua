-- The feed-forward operators against the activations of the tiny model, whose own run did not
-- quantise them; and the promises about bits that no reference can hold.
local bad = require("tests.lua.bad_checkpoint")
local golden = require("tests.lua.golden")

local TOKENS <const>, TOPK <const>, EXPERTS <const> = 16, 4, 16
local H <const>, WIDTH <const>, DENSE <const> = 256, 64, 768

local function floats(shape, data) return { dtype = "F32", shape = shape, data = data } end
local function halves(shape, data) return { dtype = "BF16", shape = shape, data = data } end
local function filled(value, n)
    local list = {}
    for i = 1, n do list[i] = value end
    return list
end

local function append(list, more) table.move(more, 1, #more, #list + 1, list) end

-- NVFP4 tensors one behind the other: w, ws, sw, and the input scale that they share.
local function stacked(file, names, shape)
    local t = { w = {}, ws = {}, sw = {} }
    for _, name in ipairs(names) do
        append(t.w, file:tensor(name .. ".weight").data)
        append(t.ws, file:tensor(name .. ".weight_scale").data)
        append(t.sw, file:tensor(name .. ".weight_scale_2").data)
        t.input_scale = file:tensor(name .. ".input_scale").data[1]
    end
    local k = shape[#shape]
    local front = table.move(shape, 1, #shape - 1, 1, {})
    local codes, scales = table.move(front, 1, #front, 1, {}), front
    codes[#codes + 1], scales[#scales + 1] = k // 2, k // 16
    t.w = { dtype = "U8", shape = codes, data = t.w }
    t.ws = { dtype = "F8_E4M3", shape = scales, data = t.ws }
    return t
end

local function experts(file, layer, kinds, shape)
    local names = {}
    for e = 0, EXPERTS - 1 do
        for _, kind in ipairs(kinds) do
            names[#names + 1] = ("model.language_model.layers.%d.mlp.experts.%d.%s_proj"):format(
                layer, e, kind)
        end
    end
    return stacked(file, names, shape)
end

local function routing(layer)
    local values = golden.values()
    local function of(name) return values:tensor(("layer%d.experts.%s"):format(layer, name)) end
    return halves({ TOKENS, H }, of("in0").data),
        { dtype = "I32", shape = { TOKENS, TOPK }, data = of("in1").data },
        floats({ TOKENS, TOPK }, of("in2").data), of("0").data
end

-- x of a quantiser's run as the input of a product.
local function quantised(rows, k, x, input_scale)
    local out = golden.run("w4a4_act_quant.static", ("M=%d K=%d"):format(rows, k),
        { x = halves({ rows, k }, x), input_scale = floats({ 1 }, { input_scale }) })
    return out:tensor("q"), out:tensor("qs"), out:tensor("gs")
end

local function activated(rows, n, gate_up)
    return golden.run("swiglu_clamp", ("M=%d N=%d"):format(rows, n),
        { x = halves({ rows, 2 * n }, gate_up) }):tensor("y").data
end

local function combined(ed, weights)
    return golden.run("moe_combine", ("M=%d TOPK=%d H=%d"):format(TOKENS, TOPK, H), {
        ed = halves({ TOKENS * TOPK, H }, ed), weights = weights,
        shared = halves({ TOKENS, H }, filled(0, TOKENS * H)),
    }):tensor("y").data
end

local GATE_UP <const> = ("M=%d TOPK=%d EXPERTS=%d N=%d K=%d"):format(
    TOKENS, TOPK, EXPERTS, 2 * WIDTH, H)
local DOWN <const> = ("M=%d TOPK=%d EXPERTS=%d N=%d K=%d"):format(TOKENS, TOPK, EXPERTS, H, WIDTH)
local SLOTS <const> = TOKENS * TOPK

-- The same experts decoded to bf16.
local function experts_bf16(model, layer, kinds, shape)
    local w = {}
    for e = 0, EXPERTS - 1 do
        for _, kind in ipairs(kinds) do
            local tensor = model.tensors[("%slayers.%d.mlp.experts.%d.%s_proj.weight"):format(
                bad.PREFIX, layer, e, kind)]
            for at = 1, #tensor.data, 2 do
                w[#w + 1] = string.unpack("<f", "\0\0" .. tensor.data:sub(at, at + 1))
            end
        end
    end
    return halves(shape, w)
end

local function routed_bf16(model, layer)
    local x, ids, weights, want = routing(layer)
    local gate_up = golden.run("bf16_moe.gate_up", GATE_UP, { x = x, ids = ids,
        w = experts_bf16(model, layer, { "gate", "up" }, { EXPERTS, 2 * WIDTH, H }) })
    local ea = activated(SLOTS, WIDTH, gate_up:tensor("y").data)
    local ed = golden.run("bf16_moe.down", DOWN, { x = halves({ SLOTS, WIDTH }, ea), ids = ids,
        w = experts_bf16(model, layer, { "down" }, { EXPERTS, H, WIDTH }) })
    return golden.error(combined(ed:tensor("y").data, weights), want)
end

-- The product of the chosen experts with x, quantised first where scale is given.
local function product(family, words, rows, k, x, scale, t, ids)
    local inputs = { ids = ids, w = t.w, ws = t.ws, sw = floats(t.sw_shape, t.sw) }
    if scale then
        inputs.x, inputs.xs, inputs.gs = quantised(rows, k, x, scale)
    else
        inputs.x = halves({ rows, k }, x)
    end
    return golden.run(family, words, inputs):tensor("y").data
end

local function routed(family, layer, quantises)
    local x, ids, weights, want = routing(layer)
    local file = golden.model()
    local up = experts(file, layer, { "gate", "up" }, { EXPERTS, 2 * WIDTH, H })
    local down = experts(file, layer, { "down" }, { EXPERTS, H, WIDTH })
    up.sw_shape, down.sw_shape = { EXPERTS, 2 }, { EXPERTS }
    local gate_up = product(family .. ".gate_up", GATE_UP, TOKENS, H, x.data,
        quantises and up.input_scale, up, ids)
    local ea = activated(SLOTS, WIDTH, gate_up)
    local ed = product(family .. ".down", DOWN, SLOTS, WIDTH, ea, quantises and down.input_scale,
        down, ids)
    return golden.error(combined(ed, weights), want)
end

local function dense_product(names, n, k, x)
    local t = stacked(golden.model(), names, { n, k })
    local q, qs, gs = quantised(TOKENS, k, x, t.input_scale)
    local sw = {}
    for _, scale in ipairs(t.sw) do append(sw, filled(scale, n // #t.sw)) end
    return golden.run("w4a4_gemv", ("M=%d N=%d K=%d"):format(TOKENS, n, k), {
        x = q, xs = qs, gs = gs, w = t.w, ws = t.ws, sw = floats({ n }, sw),
    }):tensor("y").data
end

describe("feed-forward", function()
    it("routes the tiny model's rows to its experts, with its weights", function()
        for _, layer in ipairs({ 3, 4 }) do
            local values = golden.values()
            local function of(k)
                return values:tensor(("layer%d.router.%s"):format(layer, k)).data
            end
            local function gate(name)
                return golden.model():tensor(
                    ("model.language_model.layers.%d.mlp.gate.%s"):format(layer, name))
            end
            local out = golden.run("moe_router", ("M=%d N=%d TOPK=%d K=%d"):format(
                TOKENS, EXPERTS, TOPK, H), { x = halves({ TOKENS, H }, of("in0")),
                w = gate("weight"), bias = gate("e_score_correction_bias"),
                factor = floats({ 1 }, { 2.5 }) })
            local ids, weights = out:tensor("ids").data, out:tensor("weights").data
            local want = {}  -- its slots have no order, its x was not rounded to bf16
            for i, id in ipairs(of(2)) do want[(i - 1) // TOPK * EXPERTS + id] = of(1)[i] end
            for i, id in ipairs(ids) do
                local weight = assert(want[(i - 1) // TOPK * EXPERTS + id], "another expert")
                assert.near(weight, weights[i], 1e-3)
            end
        end
    end)

    it("quantises an activation as a quantiser behind it does, to the bit", function()
        local x = {}
        for i = 1, 8 * 2 * WIDTH do x[i] = (i * i % 401 - 200) / 23 end
        local q, qs, gs = quantised(8, WIDTH, activated(8, WIDTH, x), 0.0073)
        local both = golden.run("w4a4_swiglu_quant", ("M=8 K=%d"):format(WIDTH),
            { x = halves({ 8, 2 * WIDTH }, x), input_scale = floats({ 1 }, { 0.0073 }) })
        assert.same(q.data, both:tensor("q").data)
        assert.same(qs.data, both:tensor("qs").data)
        assert.same(gs.data, both:tensor("gs").data)
    end)

    it("gives the experts' sum of the tiny model, but for bf16", function()
        for _, layer in ipairs({ 3, 4 }) do
            local off = routed("w4a16_moe", layer, false)
            assert.is_true(off < 0.006, ("layer %d: %.4f"):format(layer, off))
        end
    end)

    it("gives it with the weights decoded to bf16 too", function()
        local off = routed_bf16(bad.dequantise(bad.tiny(), "layers%.3%.mlp%.experts%."), 3)
        assert.is_true(off < 0.006, ("%.4f"):format(off))
    end)

    it("gives it within the noise of E2M1 where activations are quantised", function()
        for _, layer in ipairs({ 3, 4 }) do
            local off = routed("w4a4_moe", layer, true)
            assert.is_true(off > 0.02 and off < 0.2, ("layer %d: %.4f"):format(layer, off))
        end
    end)

    it("gives the dense layer's output within the same noise", function()
        local values = golden.values()
        local P = "model.language_model.layers.0.mlp."
        local gate_up = dense_product({ P .. "gate_proj", P .. "up_proj" }, 2 * DENSE, H,
            values:tensor("layer0.mlp.in0").data)
        local y = dense_product({ P .. "down_proj" }, H, DENSE, activated(TOKENS, DENSE, gate_up))
        local off = golden.error(y, values:tensor("layer0.mlp.0").data)
        assert.is_true(off > 0.02 and off < 0.2, ("%.4f"):format(off))
    end)
end)
