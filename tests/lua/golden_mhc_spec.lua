-- mHC and the norms on the tiny model: the captured rows of its prompt, against what the public
-- implementation made of them.
local golden = require("tests.lua.golden")

local ROWS <const>, H <const> = 16, 256
local SITES <const> = {  -- mixer and hc module, its norm, what leaves the site, and where
    { "attn", "input_layernorm", "self_attn.0", "ffn_hc.in0" },
    { "ffn", "post_attention_layernorm", "mlp.0", "0" },
}

local function bf16(shape, data) return { dtype = "BF16", shape = shape, data = data } end
local function f32(shape, data) return { dtype = "F32", shape = shape, data = data } end
local function streams_of(data) return f32({ ROWS, 4, H }, data) end

-- The f32 x without the 16 bits that bf16 lacks.
local function cut(x)
    local word = string.unpack("<I4", string.pack("<f", x))
    return (string.unpack("<f", string.pack("<I4", word & 0xffff0000)))
end

-- data as the sum of three bf16 parts, behind one another.
local function parts_of(data)
    local parts, rest = {}, data
    for _ = 1, 3 do
        local left = {}
        for i, x in ipairs(rest) do
            parts[#parts + 1] = cut(x)
            left[i] = x - cut(x)
        end
        rest = left
    end
    return parts
end

local function zeros(count)
    local list = {}
    for i = 1, count do list[i] = 0 end
    return list
end

-- What mhc_post makes of unit vectors, and of a y of nothing, is comb: its row i in column i.
local function comb_of(mix)
    local units, comb = {}, {}
    for at = 0, ROWS * 4 * H - 1 do units[at + 1] = at % H == at // H % 4 and 1 or 0 end
    local streams = golden.run("mhc_post", ("M=%d H=%d"):format(ROWS, H), {
        streams = streams_of(units), mix = mix, post = f32({ ROWS, 4 }, zeros(ROWS * 4)),
        y = bf16({ ROWS, H }, zeros(ROWS * H)),
    }):tensor("streams").data
    for m = 0, ROWS - 1 do
        for i = 0, 3 do
            for j = 0, 3 do comb[#comb + 1] = streams[(m * 4 + j) * H + i + 1] end
        end
    end
    return comb
end

-- mhc_post_pre_quant writes what mhc_post_pre and a quantiser behind it do, to the bit.
local function quantises_its_row(words, given, plain)
    given.input_scale = f32({ 1 }, { 0.0021 })
    local both = golden.run("mhc_post_pre_quant", words, given)
    local codes = golden.run("w4a4_act_quant.static", ("M=%d K=%d"):format(ROWS, H),
        { x = plain:tensor("xn"), input_scale = given.input_scale })
    for _, name in ipairs({ "xn", "streams", "next_post", "next_mix" }) do
        assert.same(plain:tensor(name).data, both:tensor(name).data, name)
    end
    for _, name in ipairs({ "q", "qs", "gs" }) do
        assert.same(codes:tensor(name).data, both:tensor(name).data, name)
    end
end

describe("golden mhc", function()
    local values, model = golden.values(), golden.model()
    local words <const> = ("M=%d H=%d"):format(ROWS, H)

    local function value(name, ...) return values:tensor(name:format(...)).data end
    local function weight(name, ...)
        return model:tensor("model.language_model." .. name:format(...)).data
    end

    it("expand: the embedding of the captured positions", function()
        local prompt, tokens = values:tensor("prompt").data, {}
        for i, at in ipairs(values:tensor("positions").data) do tokens[i] = prompt[at + 1] end
        local got = golden.run("mhc_expand", words .. " VOCAB=320", {
            tokens = { dtype = "I32", shape = { ROWS }, data = tokens },
            embed = bf16({ 320, H }, weight("embed_tokens.weight")),
        })
        assert.same(value("layer0.in0"), got:tensor("streams").data)
    end)

    for _, index in ipairs({ 0, 3, 4 }) do
        for _, site in ipairs(SITES) do
            local hc <const> = ("layer%d.%s_hc."):format(index, site[1])
            local function given_pre(layer, at)
                local from = ("layers.%d.hc_%s_"):format(layer, at[1])
                return {
                    fn = bf16({ 24, 4, H }, weight(from .. "fn")),
                    scale = f32({ 3 }, weight(from .. "scale")),
                    base = f32({ 24 }, weight(from .. "base")),
                    norm = bf16({ H }, weight("layers.%d.%s.weight", layer, at[2])),
                }
            end

            local function pre()
                local given = given_pre(index, site)
                given.streams = streams_of(value(hc .. "in0"))
                return golden.run("mhc_pre", words, given)
            end

            it(hc .. ": pre", function()
                local got = pre()
                assert.near(0, golden.error(got:tensor("post").data, value(hc .. "0")), 1e-6)
                local comb = comb_of(got:tensor("mix"))
                assert.near(0, golden.error(comb, value(hc .. "1")), 1e-6)
                local xn = value("layer%d.%s.0", index, site[2])
                assert.near(0, golden.error(got:tensor("xn").data, xn), 0.003)
            end)

            it(hc .. ": post, of y and of ranks' partials of it", function()
                local y = value("layer%d.%s", index, site[3])
                local want = value("layer%d.%s", index, site[4])
                local given = {
                    streams = streams_of(value(hc .. "in0")),
                    post = f32({ ROWS, 4 }, value(hc .. "0")), mix = pre():tensor("mix"),
                    y = bf16({ ROWS, H }, y),
                }
                local got = golden.run("mhc_post", words, given):tensor("streams").data
                assert.near(0, golden.error(got, want), 0.003)
                given.y, given.parts = nil, bf16({ 3, ROWS, H }, parts_of(y))
                got = golden.run("mhc_post_rank_sum", words .. " RANKS=3", given)
                assert.near(0, golden.error(got:tensor("streams").data, want), 1e-6)
                assert.near(0, golden.error(got:tensor("y").data, y), 0.003)
            end)
            if site[1] == "attn" then
                it(hc .. ": post, and pre of the site behind it", function()
                    local behind <const> = ("layer%d.ffn_hc."):format(index)
                    local given = given_pre(index, SITES[2])
                    given.streams, given.mix = streams_of(value(hc .. "in0")), pre():tensor("mix")
                    given.post = f32({ ROWS, 4 }, value(hc .. "0"))
                    given.y = bf16({ ROWS, H }, value("layer%d.self_attn.0", index))
                    local got = golden.run("mhc_post_pre", words, given)
                    local streams, post = got:tensor("streams").data, got:tensor("next_post").data
                    assert.near(0, golden.error(streams, value(behind .. "in0")), 0.003)
                    assert.near(0, golden.error(post, value(behind .. "0")), 0.003)
                    local comb = comb_of(got:tensor("next_mix"))
                    assert.near(0, golden.error(comb, value(behind .. "1")), 0.003)
                    local xn = value("layer%d.post_attention_layernorm.0", index)
                    assert.near(0, golden.error(got:tensor("xn").data, xn), 0.005)
                    quantises_its_row(words, given, got)
                end)
            end
        end
    end

    it("head and final norm: the hidden rows", function()
        local h = golden.run("mhc_head", words, { streams = streams_of(value("layer7.0")) })
        local y = golden.run("rms_norm", ("M=%d K=%d"):format(ROWS, H), {
            x = h:tensor("h"), w = bf16({ H }, weight("norm.weight")),
        }):tensor("y").data
        local hidden, want = value("final_hidden"), {}
        for _, at in ipairs(values:tensor("positions").data) do
            table.move(hidden, at * H + 1, (at + 1) * H, #want + 1, want)
        end
        assert.near(0, golden.error(y, want), 0.005)
    end)

    for _, name in ipairs({ "q_a_layernorm", "kv_a_layernorm" }) do
        it("rms_norm: " .. name, function()
            local y = golden.run("rms_norm", "M=16 K=128", {
                x = bf16({ ROWS, 128 }, value("layer3.%s.in0", name)),
                w = bf16({ 128 }, weight("layers.3.self_attn.%s.weight", name)),
            }):tensor("y").data
            assert.near(0, golden.error(y, value("layer3.%s.0", name)), 0.004)
        end)
    end
end)
