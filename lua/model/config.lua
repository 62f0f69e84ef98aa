-- config.json of a glm5_next checkpoint: read, checked, and said in our own words.
-- What the public class has a default for may be missing; that it was taken is noted.
local fields = require("lua.model.fields")

local config = {}

local FILE <const> = "config.json"

-- Whole numbers: ours, the file's, the class's default, from, to, and what must divide them.
local COUNTS <const> = {
    { "vocab",        "vocab_size",               154880, 1,  1 << 24 },
    { "hidden",       "hidden_size",              4096,   16, 1 << 16, 16 },
    { "layers",       "num_hidden_layers",        45,     1,  1024 },
    { "mtp",          "num_nextn_predict_layers", 0,      0,  1 },
    { "positions",    "max_position_embeddings",  4096,   1,  1 << 30 },
    { "streams",      "hc_mult",                  4,      1,  16 },
    { "sinkhorn",     "hc_sinkhorn_iters",        20,     1,  1024 },
    { "kda_heads",    "linear_num_heads",         64,     1,  1024 },
    { "kda_dim",      "linear_head_dim",          128,    1,  1024 },
    { "conv",         "linear_conv_kernel_dim",   4,      1,  16 },
    { "mla_heads",    "num_attention_heads",      64,     1,  1024 },
    { "q_rank",       "q_lora_rank",              1536,   1,  1 << 16 },
    { "kv_rank",      "kv_lora_rank",             512,    1,  1 << 16 },
    { "qk_dim",       "qk_nope_head_dim",         256,    1,  1024 },
    { "v_dim",        "v_head_dim",               256,    1,  1024 },
    { "index_heads",  "index_n_heads",            32,     1,  1024 },
    { "index_dim",    "index_head_dim",           128,    1,  1024 },
    { "index_pool",   "index_kpool",              16,     1,  1024 },
    { "index_topk",   "index_topk",               2048,   1,  1 << 20 },
    { "dense_width",  "intermediate_size",        12288,  16, 1 << 20, 16 },
    { "experts",      "n_routed_experts",         288,    1,  4096 },
    { "experts_topk", "num_experts_per_tok",      8,      1,  256 },
    { "expert_width", "moe_intermediate_size",    2048,   16, 1 << 20, 16 },
    { "shared",       "n_shared_experts",         1,      1,  16 },
}

-- Other numbers: ours, the file's, the class's default, above, below.
local NUMBERS <const> = {
    { "eps",          "rms_norm_eps",          1e-5, 0,     1 },
    { "hc_eps",       "hc_eps",                1e-6, 0,     1 },
    { "decay_floor",  "linear_lower_bound",    -5.0, -1000, 0 },
    { "swiglu_limit", "swiglu_limit",          10.0, 0,     1e6 },
    { "routed_scale", "routed_scaling_factor", 2.5,  0,     1e6 },
}

-- What linear_attn_config may say instead: the outer name, its name there.
local LINEAR <const> = {
    { "linear_num_heads",       "num_heads" },
    { "linear_head_dim",        "head_dim" },
    { "linear_conv_kernel_dim", "short_conv_kernel_size" },
    { "linear_lower_bound",     "gate_lower_bound" },
    { "linear_lower_bound",     "lower_bound" },
}

-- Where there is one way only: the file's name, the value, what another one would be.
local FIXED <const> = {
    { "qk_rope_head_dim", 0,               "an attention with a rotary part" },
    { "mla_use_nope",     true,            "an attention with a rotary part" },
    { "mhc",              true,            "a plain residual" },
    { "attention_bias",   false,           "projections with biases" },
    { "hidden_act",       "silu",          "another activation" },
    { "n_group",          1,               "routing by groups" },
    { "topk_group",       1,               "routing by groups" },
    { "norm_topk_prob",   true,            "routing by weights that do not sum to one" },
    { "scoring_func",     "sigmoid",       "another score of the router" },
    { "topk_method",      "noaux_tc",      "another choice of the router" },
    { "moe_router_dtype", "float32",       "a router of less precision" },
    { "index_topk_freq",  1,               "layers that share an indexer" },
    { "index_kpool_compress", true,        "an indexer without pooled keys" },
    { "index_kpool_always_select_tail", true, "an indexer that may drop the open pool" },
}

-- What the kernels' texts have as constants: no other value is served.
local SERVED <const> = {
    streams = 4, sinkhorn = 20, conv = 4, index_pool = 4, eps = 1e-5, hc_eps = 1e-6,
    decay_floor = -5.0, swiglu_limit = 10.0,
}

local KINDS <const> = {
    linear_attention = "kda", deepseek_sparse_attention = "dsa", full_attention = "dsa",
}
local FFNS <const> = { dense = "dense", sparse = "moe" }

-- What the class does where no list is given.
local DENSE <const> = 3      -- leading layers that are dense
local DSA_EVERY <const> = 4  -- the last of so many layers is DSA

-- The object with the text model's fields: text_config, or the whole where it is flat.
local function text_of(outer)
    local kind, inner = outer.model_type, outer.text_config
    if kind ~= "glm5_next" and kind ~= "glm5_next_text" then
        return nil, ("model_type is %s (only glm5_next is served)"):format(fields.shown(kind))
    end
    if inner == nil then return outer end
    if type(inner) ~= "table" then return nil, "text_config is no object" end
    kind = inner.model_type
    if kind ~= nil and kind ~= "glm5_next_text" then
        return nil, ("text_config.model_type is %s (only glm5_next_text is served)"):format(
            fields.shown(kind))
    end
    return inner
end

-- Brings what linear_attn_config says to the outer names.
local function merge_linear(reader)
    local inner = reader:get("linear_attn_config")
    if inner == nil then return end
    if type(inner) ~= "table" then return reader:fault("linear_attn_config is no object") end
    for _, pair in ipairs(LINEAR) do
        local outer, value = reader.object[pair[1]], inner[pair[2]]
        if outer ~= nil and value ~= nil and outer ~= value then
            reader:fault("%s is %s, linear_attn_config.%s is %s (they mean the same)", pair[1],
                fields.shown(outer), pair[2], fields.shown(value))
        elseif value ~= nil then
            reader.object[pair[1]] = value
        end
    end
end

-- The values of some rows, where there is one way only.
local function check_served(reader, rows, c)
    for _, row in ipairs(rows) do
        local value, only = c[row[1]], SERVED[row[1]]
        if only and value ~= only then
            reader:fault("%s is %s, only %s is served", row[2], fields.shown(value),
                fields.shown(only))
        end
    end
end

local function check_relations(reader, c)
    if c.index_topk % c.index_pool ~= 0 then
        reader:fault("index_topk is %d (a multiple of index_kpool, %d, is needed)", c.index_topk,
            c.index_pool)
    end
    if c.experts_topk > c.experts then
        reader:fault("num_experts_per_tok is %d, there are %d experts", c.experts_topk, c.experts)
    end
    if c.v_dim ~= c.qk_dim then
        reader:fault("v_head_dim is %d, qk_nope_head_dim is %d (they must be equal)", c.v_dim,
            c.qk_dim)
    end
    reader:only("num_key_value_heads", c.mla_heads)
    reader:only("qk_head_dim", c.qk_dim)
end

-- kinds[i], ffns[i]: of layer i - 1.
local function read_layers(reader, c)
    local kinds = reader:words("layer_types", c.layers, c.mtp, KINDS) or {}
    local ffns = reader:words("mlp_layer_types", c.layers, c.mtp, FFNS) or {}
    local listed = #ffns > 0
    local dense = DENSE
    if reader:get("first_k_dense_replace") ~= nil then
        dense = reader:count("first_k_dense_replace", DENSE, 0, c.layers)
    end
    for i = 1, c.layers do
        local ffn = i <= dense and "dense" or "moe"
        if listed and reader:get("first_k_dense_replace") ~= nil and ffns[i] ~= ffn then
            return reader:fault("first_k_dense_replace is %d, but mlp_layer_types has layer %d %s",
                dense, i - 1, ffns[i] == "moe" and "sparse" or "dense")
        end
        kinds[i] = kinds[i] or (i % DSA_EVERY == 0 and "dsa" or "kda")
        ffns[i] = ffns[i] or ffn
    end
    c.kinds, c.ffns = kinds, ffns
end

local function check_indexers(reader, c)
    local words = { full = "full", shared = "shared" }
    local list = reader:words("indexer_types", c.layers, c.mtp, words) or {}
    for i = 1, #list do
        if c.kinds[i] == "dsa" and list[i] ~= "full" then
            return reader:fault("indexer_types says \"%s\" for layer %d, only \"full\" is served",
                list[i], i - 1)
        end
    end
end

local function read_text(reader, c)
    merge_linear(reader)
    for _, row in ipairs(COUNTS) do c[row[1]] = reader:count(table.unpack(row, 2)) end
    for _, row in ipairs(NUMBERS) do c[row[1]] = reader:number(table.unpack(row, 2)) end
    for _, row in ipairs(FIXED) do reader:only(table.unpack(row)) end
    check_served(reader, COUNTS, c)
    check_served(reader, NUMBERS, c)
    check_relations(reader, c)
    read_layers(reader, c)
    if c.kinds then check_indexers(reader, c) end
    c.bos, c.eos = reader:ids("bos_token_id", c.vocab), reader:ids("eos_token_id", c.vocab)
    if #reader.taken > 0 then
        c.notes[1] = ("%s: what it does not say is the public class's: %s"):format(FILE,
            table.concat(reader.taken, ", "))
    end
end

-- The table of a config.json's text, or nil and a list of sentences. Whole numbers are integers.
--   layers, mtp, kinds ("kda", "dsa"), ffns ("dense", "moe"): [i] is of layer i - 1
--   the names of COUNTS and NUMBERS; shared_width; head_rows: logits a row has
--   tied; bos, eos: lists of ids
--   quantization: quantization_config as it is, or nil; notes: sentences
function config.read(text)
    local outer, inner, why
    outer, why = fields.decode(text)
    if outer then inner, why = text_of(outer) end
    if not inner then return nil, { ("%s: %s"):format(FILE, why) } end
    local reader = fields.reader(FILE, inner)
    local c = { notes = {} }
    read_text(reader, c)
    if outer.tie_word_embeddings ~= nil then reader.object = outer end
    c.tied = reader:flag("tie_word_embeddings")
    local quantization = outer.quantization_config
    c.quantization = type(quantization) == "table" and quantization or nil
    if #reader.faults > 0 then return nil, reader.faults end
    c.shared_width, c.head_rows = c.shared * c.expert_width, c.vocab
    return c
end

return config
