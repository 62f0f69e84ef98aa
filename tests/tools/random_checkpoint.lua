-- Writes a checkpoint with random weights, in the formats of nvidia's: of the full model's shapes
-- with fewer layers and experts, or of any others. From the project's folder:
--   lua5.4 tests/tools/random_checkpoint.lua FOLDER [FIELD=NUMBER ..] [format=bf16] [shard=BYTES]
-- FIELD: of config.json, such as num_hidden_layers=5, or layers, experts, hidden for short.
-- A tensor is a block of random values, repeated: its rows differ, and it costs no time.
local cjson = require("cjson")
local config = require("lua.model.config")
local tensors = require("lua.model.tensors")

-- The full model's, but for layers and experts.
local FIELDS <const> = {
    vocab_size = 154880, hidden_size = 4096, num_hidden_layers = 5, num_nextn_predict_layers = 1,
    max_position_embeddings = 1048576, hc_mult = 4, hc_sinkhorn_iters = 20, linear_num_heads = 64,
    linear_head_dim = 128, linear_conv_kernel_dim = 4, num_attention_heads = 64,
    q_lora_rank = 1536, kv_lora_rank = 512, qk_nope_head_dim = 256, v_head_dim = 256,
    index_n_heads = 32, index_head_dim = 128, index_kpool = 4, index_topk = 2048,
    intermediate_size = 12288, n_routed_experts = 16, num_experts_per_tok = 8,
    moe_intermediate_size = 2048, n_shared_experts = 1, first_k_dense_replace = 3,
    bos_token_id = 256, eos_token_id = 256,
}
local SHORT <const> = {
    layers = "num_hidden_layers", experts = "n_routed_experts", hidden = "hidden_size",
}
local SHARD <const> = 4 << 30  -- bytes of a file, about
local BLOCK <const> = 65521    -- elements: a prime, so that rows of 2^n begin at different ones
local SEED <const> = 7
local INPUT_SCALE <const> = 0.0022  -- the tiny model's

-- The values of a site that are no usual weights: the first pattern that fits. middle, spread.
local VALUES <const> = {
    { "norm_b$", 0, 0.3 }, { "norm", 1, 0.04 }, { "a_log$", -0.08, 0.01 }, { "dt_bias$", -4.5, 2 },
    { "hc_.*scale$", 1, 0.05 }, { "hc_.*base$", 0, 0.02 }, { "router.bias$", 0, 0.1 },
    { "index.ape$", 0, 1.5 }, { "conv_", 0, 0.1 },
}
local BYTES <const> = { BF16 = 2, F32 = 4, U8 = 1, F8_E4M3 = 1 }

-- ---- values ----

local function bf16(x)
    local word = string.unpack("<I4", string.pack("<f", x))
    return string.pack("<I2", (word + 0x7fff + (word >> 16 & 1)) >> 16)
end

local MAKE <const> = {
    BF16 = function(middle, spread) return bf16(middle + spread * (2 * math.random() - 1)) end,
    F32 = function(middle, spread)
        return string.pack("<f", middle + spread * (2 * math.random() - 1))
    end,
    U8 = function() return string.char(math.random(0, 255)) end,             -- two E2M1 codes
    F8_E4M3 = function() return string.char(math.random(0x68, 0x77)) end,    -- 32 to 120
}

local blocks = {}

local function block_of(dtype, middle, spread)
    local key = ("%s %.6g %.6g"):format(dtype, middle, spread)
    if not blocks[key] then
        local list = {}
        for i = 1, BLOCK do list[i] = MAKE[dtype](middle, spread) end
        blocks[key] = table.concat(list)
    end
    return blocks[key]
end

-- The number of columns decides the usual weight's size: a product keeps the size of its input.
local function values_of(part)
    for _, row in ipairs(VALUES) do
        if part.site:find(row[1]) then return row[2], row[3] end
    end
    return 0, (3 / part.shape[#part.shape]) ^ 0.5
end

-- ---- tensors ----

local function count(shape)
    local n = 1
    for _, extent in ipairs(shape) do n = n * extent end
    return n
end

local function add(list, name, dtype, shape, middle, spread)
    list[#list + 1] = {
        name = name, dtype = dtype, shape = shape, middle = middle or 0, spread = spread or 0,
        bytes = count(shape) * BYTES[dtype],
    }
end

local function add_nvfp4(list, part)
    local stem, n, k = part.name:gsub("weight$", ""), part.shape[1], part.shape[2]
    add(list, part.name, "U8", { n, k // 2 })
    add(list, stem .. "weight_scale", "F8_E4M3", { n, k // 16 })
    add(list, stem .. "weight_scale_2", "F32", {}, k ^ -0.5 / 230)  -- E2M1 times E4M3: about 230
    add(list, stem .. "input_scale", "F32", {}, INPUT_SCALE)
end

-- nvidia's: experts and dense layers are NVFP4, but not the MTP layer's and no shared expert.
local function is_nvfp4(part, c)
    return part.rule == "ffn" and not part.site:find("^shared") and part.layer < c.layers
end

local function list_of(c, format)
    local list = {}
    local choice = { prefix = tensors.PREFIXES[1], head = true, mtp = c.mtp == 1 }
    for _, part in ipairs(tensors.parts(c, choice)) do
        if format ~= "bf16" and is_nvfp4(part, c) then
            add_nvfp4(list, part)
        else
            local dtype = part.rule == "f32" and "F32" or "BF16"
            add(list, part.name, dtype, part.shape, values_of(part))
        end
    end
    return list
end

-- ---- files ----

local function write_values(file, tensor, number)
    local block = block_of(tensor.dtype, tensor.middle, tensor.spread)
    local from = number * 7919 % BLOCK * BYTES[tensor.dtype]
    local left = tensor.bytes
    while left > 0 do
        local piece = block:sub(from + 1, from + left)
        assert(file:write(piece))
        left, from = left - #piece, 0
    end
end

local function write_shard(path, shard)
    local header, at = {}, 0
    for i, t in ipairs(shard) do
        header[i] = ('%s:{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}'):format(
            cjson.encode(t.name), t.dtype, table.concat(t.shape, ","), at, at + t.bytes)
        at = at + t.bytes
    end
    local text = "{" .. table.concat(header, ",") .. "}"
    text = text .. (" "):rep(-#text % 8)
    local file <close> = assert(io.open(path, "wb"))
    assert(file:write(string.pack("<I8", #text), text))
    for i, t in ipairs(shard) do write_values(file, t, i) end
end

local function shards_of(list, most)
    local shards, bytes = { {} }, 0
    for _, tensor in ipairs(list) do
        if bytes > 0 and bytes + tensor.bytes > most then
            shards[#shards + 1], bytes = {}, 0
        end
        table.insert(shards[#shards], tensor)
        bytes = bytes + tensor.bytes
    end
    return shards
end

local function save(path, value)
    local file <close> = assert(io.open(path, "wb"))
    assert(file:write(cjson.encode(value), "\n"))
end

local function write_all(folder, shards)
    local map, total = {}, 0
    for i, shard in ipairs(shards) do
        local name = #shards == 1 and "model.safetensors"
            or ("model-%05d-of-%05d.safetensors"):format(i, #shards)
        write_shard(folder .. "/" .. name, shard)
        for _, tensor in ipairs(shard) do
            map[tensor.name], total = name, total + tensor.bytes
        end
    end
    if #shards > 1 then
        save(folder .. "/model.safetensors.index.json",
            { metadata = { total_size = total }, weight_map = map })
    end
    return total
end

-- ---- command line ----

local function read_words(words)
    local text, options = {}, { format = "nvfp4", shard = SHARD }
    for name, value in pairs(FIELDS) do text[name] = value end
    for i = 2, #words do
        local name, value = words[i]:match("^([%w_]+)=(%w+)$")
        name = SHORT[name] or name
        local number = math.tointeger(tonumber(value))
        if name == "format" and (value == "bf16" or value == "nvfp4") then
            options.format = value
        elseif name == "shard" and number then
            options.shard = number
        elseif FIELDS[name] and number then
            text[name] = number
        else
            error(("'%s': no FIELD=NUMBER, format=bf16, format=nvfp4 or shard=BYTES"):format(
                words[i]), 0)
        end
    end
    return text, options
end

-- The config.json of such fields.
local function config_of(text, format)
    text.model_type, text.tie_word_embeddings = "glm5_next_text", false
    local object = { model_type = "glm5_next", text_config = text, tie_word_embeddings = false }
    if format == "nvfp4" then
        object.quantization_config = { quant_method = "modelopt", quant_algo = "NVFP4", ignore = {
            "lm_head", "model.language_model.embed_tokens", "*.self_attn*", "*.mlp.gate",
            "*.shared_experts*",
            ("model.language_model.layers.%d*"):format(text.num_hidden_layers),
        } }
    end
    return object
end

local function main(words)
    if not words[1] then error("give a folder that exists", 0) end
    local text, options = read_words(words)
    local object = config_of(text, options.format)
    local c, faults = config.read(cjson.encode(object))
    if not c then error(table.concat(faults, "\n"), 0) end
    math.randomseed(SEED)
    local list = list_of(c, options.format)
    local shards = shards_of(list, options.shard)
    save(words[1] .. "/config.json", object)
    print(("%s: %d tensors in %d files, %d bytes"):format(words[1], #list, #shards,
        write_all(words[1], shards)))
end

main(arg)
