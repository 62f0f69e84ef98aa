-- config.json of a model: what it may say and leave out, and a sentence for each thing it may not.
local cjson = require("cjson")
local config = require("lua.model.config")

local function tiny()
    local file <close> = assert(io.open("tests/tiny/config.json"))
    return cjson.decode(file:read("a"))
end

local function read(outer) return config.read(cjson.encode(outer)) end

-- A config of the tiny model with changed fields of its text model.
local function changed(edit)
    local outer = tiny()
    edit(outer.text_config, outer)
    return outer
end

local function with(field, value)
    return changed(function(text) text[field] = value end)
end

describe("config.json", function()
    it("of the tiny model becomes a table in our words", function()
        local c = assert(read(tiny()))
        local want = {
            vocab = 320, hidden = 256, layers = 8, mtp = 1, positions = 4096, streams = 4,
            sinkhorn = 20, kda_heads = 4, kda_dim = 64, conv = 4, mla_heads = 4, q_rank = 128,
            kv_rank = 128, qk_dim = 64, v_dim = 64, index_heads = 4, index_dim = 64,
            index_pool = 4, index_topk = 64, dense_width = 768, experts = 16, experts_topk = 4,
            expert_width = 64, shared = 1,
        }
        for name, value in pairs(want) do
            assert.equal(value, c[name], name)
            assert.equal("integer", math.type(c[name]), name)
        end
        local floats = { eps = 1e-5, hc_eps = 1e-6, decay_floor = -5.0, swiglu_limit = 10.0,
            routed_scale = 2.5 }
        for name, value in pairs(floats) do
            assert.equal(value, c[name], name)
            assert.equal("float", math.type(c[name]), name)
        end
        assert.equal("kda kda kda dsa kda kda kda dsa", table.concat(c.kinds, " "))
        assert.equal("dense moe moe moe moe moe moe moe", table.concat(c.ffns, " "))
        assert.same({ 256 }, c.eos)
        assert.is_false(c.tied)
        assert.equal("NVFP4", c.quantization.quant_algo)
        assert.same({}, c.notes)
    end)

    it("may be flat, and may leave out what the public class has a default for", function()
        local c = assert(config.read('{"model_type":"glm5_next","index_kpool":4}'))
        assert.equal(45, c.layers)
        assert.equal(288, c.experts)
        assert.equal(0, c.mtp)
        local kinds = { kda = 0, dsa = 0, dense = 0, moe = 0 }
        for i = 1, 45 do
            kinds[c.kinds[i]] = kinds[c.kinds[i]] + 1
            kinds[c.ffns[i]] = kinds[c.ffns[i]] + 1
        end
        assert.same({ kda = 34, dsa = 11, dense = 3, moe = 42 }, kinds)
        assert.equal("dsa", c.kinds[44])
        assert.equal("kda", c.kinds[45])
        assert.equal(1, #c.notes)
        assert.truthy(c.notes[1]:find("hidden_size 4096", 1, true), c.notes[1])
    end)

    it("may describe KDA in linear_attn_config, and DSA as full attention", function()
        local c = assert(read(changed(function(text)
            text.linear_num_heads, text.linear_head_dim, text.linear_conv_kernel_dim = nil, nil, nil
            text.linear_lower_bound = nil
            text.linear_attn_config = { num_heads = 8, head_dim = 32, short_conv_kernel_size = 4,
                gate_lower_bound = -5, kda_layers = { 0, 1, 2 } }
            text.layer_types[4] = "full_attention"
        end)))
        assert.equal(8, c.kda_heads)
        assert.equal(32, c.kda_dim)
        assert.equal(4, c.conv)
        assert.equal(-5.0, c.decay_floor)
        assert.equal("dsa", c.kinds[4])
    end)

    it("may list several ends, and the layers of the MTP part", function()
        local c = assert(read(changed(function(text)
            text.eos_token_id = { 256, 257 }
            table.insert(text.layer_types, "deepseek_sparse_attention")
            table.insert(text.indexer_types, "full")
        end)))
        assert.same({ 256, 257 }, c.eos)
        assert.equal(8, #c.kinds)
    end)

    it("may share the indexer where a layer has none", function()
        assert.truthy(read(changed(function(text) text.indexer_types[1] = "shared" end)))
    end)

    it("says in its outer part whether the head is tied", function()
        local c = read(changed(function(text, outer)
            text.tie_word_embeddings, outer.tie_word_embeddings = false, true
        end))
        assert.is_true(c.tied)
        c = read(changed(function(text, outer)
            text.tie_word_embeddings, outer.tie_word_embeddings = true, nil
        end))
        assert.is_true(c.tied)
    end)
end)

local MANY <const> = " (a whole number from 1 to 1024 is needed)"

local REFUSED <const> = {
    -- field, value, the sentence behind "config.json: "
    { "hidden_size", "256", 'hidden_size is "256" (a whole number from 16 to 65536 is needed)' },
    { "hidden_size", 256.5, "hidden_size is 256.5 (a whole number" },
    { "hidden_size", 0, "hidden_size is 0 (a whole" },
    { "hidden_size", -256, "hidden_size is -256 (a whole" },
    { "hidden_size", 1e300, "hidden_size is 1e+300 (a whole" },
    { "hidden_size", 264, "hidden_size is 264 (a multiple of 16 is needed)" },
    { "hidden_size", true, "hidden_size is true (a whole" },
    { "hidden_size", cjson.null, "hidden_size is null (a whole" },
    { "hidden_size", { 256 }, "hidden_size is a list or an object (a whole" },
    { "vocab_size", 1 << 25, "vocab_size is 33554432 (a whole number from 1 to 16777216" },
    { "num_nextn_predict_layers", 2, "num_nextn_predict_layers is 2 (a whole number from 0 to 1" },
    { "hc_mult", 0, "hc_mult is 0 (a whole number from 1 to 16 is needed)" },
    { "hc_sinkhorn_iters", 0, "hc_sinkhorn_iters is 0" .. MANY },
    { "linear_num_heads", 0, "linear_num_heads is 0" .. MANY },
    { "linear_head_dim", 5000, "linear_head_dim is 5000" .. MANY },
    { "linear_conv_kernel_dim", 17, "linear_conv_kernel_dim is 17 (a whole number from 1 to 16" },
    { "q_lora_rank", cjson.null, "q_lora_rank is null (a whole" },
    { "kv_lora_rank", 0, "kv_lora_rank is 0 (a whole" },
    { "qk_nope_head_dim", 0, "qk_nope_head_dim is 0" .. MANY },
    { "v_head_dim", 0, "v_head_dim is 0" .. MANY },
    { "index_n_heads", 0, "index_n_heads is 0" .. MANY },
    { "index_head_dim", 0, "index_head_dim is 0" .. MANY },
    { "index_topk", 66, "index_topk is 66 (a multiple of index_kpool, 4, is needed)" },
    { "intermediate_size", 760, "intermediate_size is 760 (a multiple of 16 is needed)" },
    { "moe_intermediate_size", 8, "moe_intermediate_size is 8 (a whole number from 16" },
    { "n_routed_experts", 5000, "n_routed_experts is 5000 (a whole number from 1 to 4096" },
    { "n_shared_experts", 0, "n_shared_experts is 0 (a whole number from 1 to 16 is needed)" },
    { "num_experts_per_tok", 17, "num_experts_per_tok is 17, there are 16 experts" },
    { "rms_norm_eps", 0, "rms_norm_eps is 0 (a number between 0 and 1 is needed)" },
    { "rms_norm_eps", "1e-5", 'rms_norm_eps is "1e-5" (a number' },
    { "hc_eps", 1, "hc_eps is 1 (a number between 0 and 1 is needed)" },
    { "linear_lower_bound", 5, "linear_lower_bound is 5 (a number between -1000 and 0 is needed)" },
    { "linear_lower_bound", cjson.null, "linear_lower_bound is null (a number" },
    { "swiglu_limit", cjson.null, "swiglu_limit is null (a number" },
    { "routed_scaling_factor", -1, "routed_scaling_factor is -1 (a number" },
    { "num_key_value_heads", 2, "num_key_value_heads is 2, only 4 is served" },
    { "qk_head_dim", 128, "qk_head_dim is 128, only 64 is served" },
    -- what the kernels have as constants
    { "hc_mult", 2, "hc_mult is 2, only 4 is served" },
    { "hc_sinkhorn_iters", 10, "hc_sinkhorn_iters is 10, only 20 is served" },
    { "hc_eps", 1e-5, "hc_eps is 1e-05, only 1e-06 is served" },
    { "rms_norm_eps", 1e-6, "rms_norm_eps is 1e-06, only 1e-05 is served" },
    { "linear_conv_kernel_dim", 3, "linear_conv_kernel_dim is 3, only 4 is served" },
    { "linear_lower_bound", -4, "linear_lower_bound is -4, only -5 is served" },
    { "swiglu_limit", 7, "swiglu_limit is 7, only 10 is served" },
    { "index_kpool", 16, "index_kpool is 16, only 4 is served" },
    { "index_kpool", nil, "index_kpool is 16, only 4 is served" },
    { "v_head_dim", 32, "v_head_dim is 32, qk_nope_head_dim is 64 (they must be equal)" },
    -- one way only
    { "qk_rope_head_dim", 64,
        "qk_rope_head_dim is 64, only 0 is served (the other is an attention with a rotary part)" },
    { "mla_use_nope", false, "mla_use_nope is false, only true is served (the other" },
    { "mhc", false, "mhc is false, only true is served" },
    { "attention_bias", true, "attention_bias is true, only false is served" },
    { "hidden_act", "gelu", 'hidden_act is "gelu", only "silu" is served' },
    { "n_group", 8, "n_group is 8, only 1 is served (the other is routing by groups)" },
    { "topk_group", 4, "topk_group is 4, only 1 is served" },
    { "norm_topk_prob", false, "norm_topk_prob is false, only true is served" },
    { "scoring_func", "softmax", 'scoring_func is "softmax", only "sigmoid" is served' },
    { "topk_method", "greedy", 'topk_method is "greedy", only "noaux_tc" is served' },
    { "moe_router_dtype", "bfloat16", 'moe_router_dtype is "bfloat16", only "float32" is served' },
    { "index_kpool_compress", false, "index_kpool_compress is false, only true is served" },
    { "index_kpool_always_select_tail", false, "index_kpool_always_select_tail is false, only" },
    { "index_topk_freq", 4, "index_topk_freq is 4, only 1 is served" },
    -- lists
    { "layer_types", { "linear_attention" }, "layer_types has 1 entries, there are 8 layers" },
    { "layer_types", "linear_attention", "layer_types has 0 entries, there are 8 layers" },
    { "mlp_layer_types", {}, "mlp_layer_types has 0 entries, there are 8 layers" },
    { "first_k_dense_replace", 2,
        "first_k_dense_replace is 2, but mlp_layer_types has layer 1 sparse" },
    { "first_k_dense_replace", 9, "first_k_dense_replace is 9 (a whole number from 0 to 8" },
    { "eos_token_id", 320, "eos_token_id is 320 (an id below 320 is needed)" },
    { "eos_token_id", { 256, -1 }, "eos_token_id is -1 (an id below 320 is needed)" },
    { "bos_token_id", "256", 'bos_token_id is "256" (an id below 320 is needed)' },
    { "linear_attn_config", 3, "linear_attn_config is no object" },
    { "linear_attn_config", { head_dim = 32 },
        "linear_head_dim is 64, linear_attn_config.head_dim is 32 (they mean the same)" },
    { "linear_attn_config", { gate_lower_bound = cjson.null },
        "linear_lower_bound is -5, linear_attn_config.gate_lower_bound is null" },
}

-- Says this sentence, perhaps among others that follow from it.
local function refuses(outer, sentence)
    local c, sentences = read(outer)
    assert.is_nil(c)
    local said = table.concat(sentences, "\n")
    assert.truthy(said:find("config.json: " .. sentence, 1, true),
        ("'%s' does not say '%s'"):format(said, sentence))
    return sentences
end

describe("config.json is refused where", function()
    for _, case in ipairs(REFUSED) do
        local field, value, sentence = table.unpack(case, 1, 3)
        it(sentence, function() refuses(with(field, value), sentence) end)
    end

    it("a layer has a kind that is not served", function()
        refuses(changed(function(text) text.layer_types[3] = "sliding_attention" end),
            'layer_types says "sliding_attention" for layer 2, which is not served')
        refuses(changed(function(text) text.layer_types[3] = cjson.null end),
            "layer_types says null for layer 2, which is not served")
        refuses(changed(function(text) text.mlp_layer_types[8] = "moe" end),
            'mlp_layer_types says "moe" for layer 7, which is not served')
        refuses(changed(function(text) text.indexer_types[8] = "shared" end),
            'indexer_types says "shared" for layer 7, only "full" is served')
    end)

    it("the model is another one", function()
        refuses(changed(function(_, outer) outer.model_type = "glm4_moe" end),
            'model_type is "glm4_moe" (only glm5_next is served)')
        refuses(changed(function(_, outer) outer.model_type = nil end),
            "model_type is missing (only glm5_next is served)")
        refuses(changed(function(text) text.model_type = "glm_moe_dsa" end),
            'text_config.model_type is "glm_moe_dsa" (only glm5_next_text is served)')
        refuses(changed(function(_, outer) outer.text_config = "glm" end),
            "text_config is no object")
        refuses(changed(function(_, outer) outer.tie_word_embeddings = "no" end),
            'tie_word_embeddings is "no" (true or false is needed)')
    end)

    it("a word holds bytes that no terminal should get: each is a `?`", function()
        refuses(with("hidden_act", "silu\0\27[2J\xff"),
            'hidden_act is "silu??[2J?", only "silu" is served')
    end)

    it("it is no JSON", function()
        local whole = cjson.encode(tiny())
        for _, text in ipairs({ "", "{", "nothing", '{"a":NaN}', '{"a":0x10}', "\0",
            whole .. "\0", whole .. "\0x" }) do
            local c, sentences = config.read(text)
            assert.is_nil(c)
            assert.truthy(sentences[1]:find("^config%.json: is no JSON: "), sentences[1])
        end
        local _, sentences = config.read("3")
        assert.same({ "config.json: is no object" }, sentences)
    end)

    it("several things are wrong: all are told", function()
        local sentences = refuses(changed(function(text)
            text.hidden_size, text.rms_norm_eps, text.n_group = 0, 2, 3
        end), "n_group is 3")
        assert.equal(3, #sentences)
    end)
end)
