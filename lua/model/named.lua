-- Models that are known by name, for benches and tuning without a checkpoint: text_config's fields.
local message = require("gen.message")
local order = require("gen.order")

local named = {}

local FIELDS <const> = {
    ["glm-5.3-flash"] = {
        vocab_size = 154880, hidden_size = 4096, num_hidden_layers = 45,
        num_nextn_predict_layers = 1, max_position_embeddings = 1048576, hc_mult = 4,
        hc_sinkhorn_iters = 20, linear_num_heads = 64, linear_head_dim = 128,
        linear_conv_kernel_dim = 4, num_attention_heads = 64, q_lora_rank = 1536,
        kv_lora_rank = 512, qk_nope_head_dim = 256, v_head_dim = 256, index_n_heads = 32,
        index_head_dim = 128, index_kpool = 4, index_topk = 2048, intermediate_size = 12288,
        n_routed_experts = 288, num_experts_per_tok = 8, moe_intermediate_size = 2048,
        n_shared_experts = 1, first_k_dense_replace = 3,
    },
}

named.NAMES = order.keys(FIELDS)

-- A copy of the fields, or nil and a sentence.
function named.fields(name)
    if not FIELDS[name] then
        return nil, ("model shape '%s': no such name%s (known: %s)"):format(name,
            message.did_you_mean(name, named.NAMES), table.concat(named.NAMES, " "))
    end
    local copy = {}
    for key, value in pairs(FIELDS[name]) do copy[key] = value end
    return copy
end

-- The object of a config.json with such fields; format: of the weights, "nvfp4" or "bf16".
function named.config(fields, format)
    fields.model_type, fields.tie_word_embeddings = "glm5_next_text", false
    local object = { model_type = "glm5_next", text_config = fields, tie_word_embeddings = false }
    if format == "nvfp4" then
        object.quantization_config = { quant_method = "modelopt", quant_algo = "NVFP4", ignore = {
            "lm_head", "model.language_model.embed_tokens", "*.self_attn*", "*.mlp.gate",
            "*.shared_experts*",
            ("model.language_model.layers.%d*"):format(fields.num_hidden_layers),
        } }
    end
    return object
end

return named
