-- The tensors that a glm5_next model needs, as data: what each is, its name, its shape, its format.
-- Names are those of the public checkpoints.
local tensors = {}

-- Where the text model's tensors are; a checkpoint without a vision tower may say it shorter.
tensors.PREFIXES = { "model.language_model.", "model." }

-- Rows: site, class (a line of the table), name, shape (in the words of sizes_of), and format:
-- none = BF16; "f32" = F32; "any" = BF16 or F32; "ffn" = BF16 or NVFP4. loose: the file may have
-- more or fewer dimensions of 1.
local HEAD <const> = { "head", "head", "lm_head.weight", { "head_rows", "hidden" } }
local MODEL <const> = {
    { "embed", "embedding", "embed_tokens.weight", { "vocab", "hidden" } },
    { "norm",  "norms",     "norm.weight",         { "hidden" } },
}
local LAYER <const> = {
    { "input_norm", "norms", "input_layernorm.weight",          { "hidden" } },
    { "post_norm",  "norms", "post_attention_layernorm.weight", { "hidden" } },
}
local MHC <const> = {
    { "hc_attn.fn",    "mhc fn",          "hc_attn_fn",    { "mix", "stream_hidden" }, "any" },
    { "hc_ffn.fn",     "mhc fn",          "hc_ffn_fn",     { "mix", "stream_hidden" }, "any" },
    { "hc_attn.base",  "mhc base, scale", "hc_attn_base",  { "mix" }, "f32" },
    { "hc_ffn.base",   "mhc base, scale", "hc_ffn_base",   { "mix" }, "f32" },
    { "hc_attn.scale", "mhc base, scale", "hc_attn_scale", { "parts" }, "f32" },
    { "hc_ffn.scale",  "mhc base, scale", "hc_ffn_scale",  { "parts" }, "f32" },
}
local KDA <const> = {
    { "kda.q",       "kda q, k, v", "self_attn.q_proj.weight", { "kda", "hidden" } },
    { "kda.k",       "kda q, k, v", "self_attn.k_proj.weight", { "kda", "hidden" } },
    { "kda.v",       "kda q, k, v", "self_attn.v_proj.weight", { "kda", "hidden" } },
    { "kda.conv_q",  "kda conv", "self_attn.q_conv1d.weight", { "kda", "conv" }, "any", "loose" },
    { "kda.conv_k",  "kda conv", "self_attn.k_conv1d.weight", { "kda", "conv" }, "any", "loose" },
    { "kda.conv_v",  "kda conv", "self_attn.v_conv1d.weight", { "kda", "conv" }, "any", "loose" },
    { "kda.f_a",     "kda gates", "self_attn.f_a_proj.weight", { "kda_dim", "hidden" } },
    { "kda.f_b",     "kda gates", "self_attn.f_b_proj.weight", { "kda", "kda_dim" } },
    { "kda.g_a",     "kda gates", "self_attn.g_a_proj.weight", { "kda_dim", "hidden" } },
    { "kda.g_b",     "kda gates", "self_attn.g_b_proj.weight", { "kda", "kda_dim" } },
    { "kda.b",       "kda gates", "self_attn.b_proj.weight", { "kda_heads", "hidden" } },
    { "kda.a_log",   "kda decay", "self_attn.A_log", { "kda_heads" }, "f32", "loose" },
    { "kda.dt_bias", "kda decay", "self_attn.dt_bias", { "kda" }, "f32", "loose" },
    { "kda.o_norm",  "norms", "self_attn.o_norm.weight", { "kda_dim" } },
    { "kda.o",       "kda o", "self_attn.o_proj.weight", { "hidden", "kda" } },
}
local DSA <const> = {
    { "dsa.q_a",       "dsa q_a, kv_a", "self_attn.q_a_proj.weight", { "q_rank", "hidden" } },
    { "dsa.kv_a",      "dsa q_a, kv_a", "self_attn.kv_a_proj_with_mqa.weight",
        { "kv_rank", "hidden" } },
    { "dsa.q_a_norm",  "norms",         "self_attn.q_a_layernorm.weight", { "q_rank" } },
    { "dsa.kv_a_norm", "norms",         "self_attn.kv_a_layernorm.weight", { "kv_rank" } },
    { "dsa.q_b",       "dsa q_b, kv_b", "self_attn.q_b_proj.weight", { "q", "q_rank" } },
    { "dsa.kv_b",      "dsa q_b, kv_b", "self_attn.kv_b_proj.weight", { "kv", "kv_rank" } },
    { "dsa.o",         "dsa o",         "self_attn.o_proj.weight", { "hidden", "v" } },
    { "index.q",       "indexer",       "self_attn.indexer.wq_b.weight", { "index", "q_rank" } },
    { "index.k",       "indexer",       "self_attn.indexer.wk.weight", { "index_dim", "hidden" } },
    { "index.heads",   "indexer",       "self_attn.indexer.weights_proj.weight",
        { "index_heads", "hidden" } },
    { "index.norm_w",  "indexer",       "self_attn.indexer.k_norm.weight", { "index_dim" } },
    { "index.norm_b",  "indexer",       "self_attn.indexer.k_norm.bias", { "index_dim" } },
    { "index.gate",    "indexer",       "self_attn.indexer.index_kpool_compress_gate",
        { "index_dim", "hidden" } },
    { "index.ape",     "indexer",       "self_attn.indexer.index_kpool_compress_ape",
        { "index_pool", "index_dim" }, "any" },
}
local DENSE <const> = {
    { "mlp.gate", "dense gate, up", "mlp.gate_proj.weight", { "dense_width", "hidden" }, "ffn" },
    { "mlp.up",   "dense gate, up", "mlp.up_proj.weight",   { "dense_width", "hidden" }, "ffn" },
    { "mlp.down", "dense down",     "mlp.down_proj.weight", { "hidden", "dense_width" }, "ffn" },
}
local ROUTER <const> = {
    { "router.weight", "router", "mlp.gate.weight", { "experts", "hidden" } },
    { "router.bias",   "router", "mlp.gate.e_score_correction_bias", { "experts" }, "f32" },
}
local EXPERT <const> = {  -- of each expert; * is its number
    { "experts.gate", "experts gate, up", "mlp.experts.*.gate_proj.weight",
        { "expert_width", "hidden" }, "ffn" },
    { "experts.up",   "experts gate, up", "mlp.experts.*.up_proj.weight",
        { "expert_width", "hidden" }, "ffn" },
    { "experts.down", "experts down",     "mlp.experts.*.down_proj.weight",
        { "hidden", "expert_width" }, "ffn" },
}
local SHARED <const> = {
    { "shared.gate", "shared gate, up", "mlp.shared_experts.gate_proj.weight",
        { "shared_width", "hidden" }, "ffn" },
    { "shared.up",   "shared gate, up", "mlp.shared_experts.up_proj.weight",
        { "shared_width", "hidden" }, "ffn" },
    { "shared.down", "shared down",     "mlp.shared_experts.down_proj.weight",
        { "hidden", "shared_width" }, "ffn" },
}
local MTP <const> = {
    { "mtp.enorm", "norms",  "enorm.weight", { "hidden" } },
    { "mtp.hnorm", "norms",  "hnorm.weight", { "hidden" } },
    { "mtp.norm",  "norms",  "shared_head.norm.weight", { "hidden" } },
    { "mtp.eh",    "eh_proj", "eh_proj.weight", { "hidden", "hidden_hidden" } },
}

local function sizes_of(c)
    local sizes = {
        mix = (2 + c.streams) * c.streams, parts = 3, stream_hidden = c.streams * c.hidden,
        kda = c.kda_heads * c.kda_dim,
        q = c.mla_heads * c.qk_dim, kv = c.mla_heads * (c.qk_dim + c.v_dim),
        v = c.mla_heads * c.v_dim, index = c.index_heads * c.index_dim,
        hidden_hidden = 2 * c.hidden,
    }
    return setmetatable(sizes, { __index = c })
end

local function add(list, sizes, rows, place)
    for _, row in ipairs(rows) do
        local site, class, name, words, format, loose = table.unpack(row)
        local shape = {}
        for i, word in ipairs(words) do shape[i] = sizes[word] end
        list[#list + 1] = {
            site = site, class = (place.class or "") .. class, shape = shape, words = words,
            name = place.prefix .. name:gsub("%*", place.expert or "*"),
            rule = format or "bf16", loose = loose ~= nil,
            layer = place.layer, expert = place.expert,
        }
    end
end

local function add_ffn(list, sizes, kind, place)
    if kind == "dense" then return add(list, sizes, DENSE, place) end
    add(list, sizes, ROUTER, place)
    add(list, sizes, SHARED, place)
    for e = 0, sizes.experts - 1 do
        place.expert = e
        add(list, sizes, EXPERT, place)
    end
    place.expert = nil
end

-- What begins the names of a layer's tensors.
function tensors.layer_prefix(prefix, layer) return ("%slayers.%d."):format(prefix, layer) end

-- The parts that a config needs, in the order of the model:
-- { site, class, name, shape, words = of the shape, rule, loose, layer = nil or 0..,
-- expert = nil or 0.. }.
-- choice: { prefix, head = does it have one of its own, mtp = is the MTP layer there }
function tensors.parts(c, choice)
    local list, sizes = {}, sizes_of(c)
    add(list, sizes, MODEL, { prefix = choice.prefix })
    if choice.head then add(list, sizes, { HEAD }, { prefix = "" }) end
    for i, kind in ipairs(c.kinds) do
        local place = { prefix = tensors.layer_prefix(choice.prefix, i - 1), layer = i - 1 }
        add(list, sizes, LAYER, place)
        add(list, sizes, MHC, place)
        add(list, sizes, kind == "kda" and KDA or DSA, place)
        add_ffn(list, sizes, c.ffns[i], place)
    end
    if choice.mtp then
        local place = {
            prefix = tensors.layer_prefix(choice.prefix, c.layers), layer = c.layers,
            class = "mtp ",
        }
        for _, rows in ipairs({ MTP, LAYER, DSA }) do add(list, sizes, rows, place) end
        add_ffn(list, sizes, "moe", place)
    end
    return list
end

-- The embedding as the head that it is where there is no other.
function tensors.tied_head(embed)
    return setmetatable({ site = HEAD[1], words = HEAD[4] }, { __index = embed })
end

tensors.HEAD = HEAD[3]

return tensors
