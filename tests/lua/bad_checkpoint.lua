-- Checkpoints for tests: a reduced copy of the tiny model, to be changed and written anew: whole,
-- in shards, in BF16, or broken on purpose.
--
-- A model here is { config = config.json as a table, tensors = name -> { dtype, shape, data } },
-- where data are bytes. The reduced copy has a KDA layer with a dense FFN (0), a DSA layer with
-- four experts (1) and the MTP layer (2).
local cjson = require("cjson")

local checkpoint = {}

checkpoint.TINY = "tests/tiny"
checkpoint.PREFIX = "model.language_model."

local EXPERTS <const> = 4
local LAYERS <const> = { ["0"] = "0", ["3"] = "1", ["8"] = "2" }  -- of the tiny model, and here
local E2M1 <const> = { [0] = 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0 }

local function read(path)
    local file <close> = assert(io.open(path, "rb"))
    return file:read("a")
end

function checkpoint.save(path, text)
    local file <close> = assert(io.open(path, "wb"))
    assert(file:write(text))
end

-- ---- reading ----

-- The whole tiny model.
function checkpoint.tiny()
    local file = read(checkpoint.TINY .. "/model.safetensors")
    local size = string.unpack("<I8", file)
    local model = { config = cjson.decode(read(checkpoint.TINY .. "/config.json")), tensors = {} }
    for name, entry in pairs(cjson.decode(file:sub(9, 8 + size))) do
        if name ~= "__metadata__" then
            local from, to = table.unpack(entry.data_offsets)
            local shape = {}
            for i, n in ipairs(entry.shape) do shape[i] = math.tointeger(n) end
            model.tensors[name] = { dtype = entry.dtype, shape = shape,
                data = file:sub(math.tointeger(9 + size + from), math.tointeger(8 + size + to)) }
        end
    end
    return model
end

-- The name in the reduced copy; nil where it has none.
local function reduced_name(name)
    local layer, rest = name:match("^model%.language_model%.layers%.(%d+)%.(.*)$")
    if not layer then return name end
    local expert = rest:match("^mlp%.experts%.(%d+)%.")
    if not LAYERS[layer] or expert and tonumber(expert) >= EXPERTS then return nil end
    return ("%slayers.%s.%s"):format(checkpoint.PREFIX, LAYERS[layer], rest)
end

local function reduce_config(config)
    local text = config.text_config
    text.num_hidden_layers, text.n_routed_experts = 2, EXPERTS
    text.layer_types = { "linear_attention", "deepseek_sparse_attention" }
    text.mlp_layer_types, text.indexer_types = { "dense", "sparse" }, { "full", "full" }
    local ignore = config.quantization_config.ignore
    for i, glob in ipairs(ignore) do ignore[i] = glob:gsub("layers%.8", "layers.2") end
end

-- The reduced copy: 2 MB.
function checkpoint.small()
    local whole = checkpoint.tiny()
    local model = { config = whole.config, tensors = {} }
    reduce_config(model.config)
    for name, tensor in pairs(whole.tensors) do
        local reduced = reduced_name(name)
        if reduced then
            if name:find("%.mlp%.gate%.") then  -- a row for each expert
                tensor.data = tensor.data:sub(1, #tensor.data // tensor.shape[1] * EXPERTS)
                tensor.shape[1] = EXPERTS
            end
            model.tensors[reduced] = tensor
        end
    end
    return model
end

-- A copy that may be changed; the bytes are shared.
function checkpoint.copy(model)
    local copy = { config = cjson.decode(cjson.encode(model.config)), tensors = {} }
    for name, t in pairs(model.tensors) do
        copy.tensors[name] = { dtype = t.dtype, shape = { table.unpack(t.shape) }, data = t.data }
    end
    return copy
end

-- ---- BF16 from NVFP4 ----

local function e4m3(byte)
    local exponent, mantissa = byte >> 3 & 15, byte & 7
    if exponent == 0 then return mantissa * 0x1p-9 end
    return (8 + mantissa) * 2.0 ^ (exponent - 10)
end

local function bf16(x)
    local word = string.unpack("<I4", string.pack("<f", x))
    return string.pack("<I2", (word + 0x7fff + (word >> 16 & 1)) >> 16)
end

local function decoded(weight, scales, scale_2)
    local known, out = {}, {}
    for i = 1, #weight do
        local scale = scales:byte((i - 1) // 8 + 1)
        local byte = weight:byte(i)
        for _, code in ipairs({ byte & 15, byte >> 4 }) do
            local key = scale << 4 | code
            if not known[key] then
                local sign = code < 8 and 1.0 or -1.0
                known[key] = bf16(sign * E2M1[code & 7] * e4m3(scale) * scale_2)
            end
            out[#out + 1] = known[key]
        end
    end
    return table.concat(out)
end

-- Makes the NVFP4 weights whose names match the pattern BF16.
function checkpoint.dequantise(model, pattern)
    local stems = {}
    for name in pairs(model.tensors) do
        local stem = name:match("^(.*%.)weight_scale$")
        if stem and name:find(pattern) then stems[#stems + 1] = stem end
    end
    for _, stem in ipairs(stems) do
        local weight = model.tensors[stem .. "weight"]
        local scale_2 = string.unpack("<f", model.tensors[stem .. "weight_scale_2"].data)
        weight.data = decoded(weight.data, model.tensors[stem .. "weight_scale"].data, scale_2)
        weight.dtype, weight.shape[2] = "BF16", weight.shape[2] * 2
        for _, suffix in ipairs({ "weight_scale", "weight_scale_2", "input_scale" }) do
            model.tensors[stem .. suffix] = nil
        end
    end
    return model
end

-- ---- writing ----

local function sorted_names(tensors)
    local names = {}
    for name in pairs(tensors) do names[#names + 1] = name end
    table.sort(names)
    return names
end

-- A safetensors file of some of the tensors. pad: spaces behind the header.
function checkpoint.write_file(path, tensors, names, pad)
    local header, parts, at = {}, {}, 0
    for i, name in ipairs(names or sorted_names(tensors)) do
        local t = tensors[name]
        header[i] = ('%s:{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}'):format(
            cjson.encode(name), t.dtype, table.concat(t.shape, ","), at, at + #t.data)
        parts[i], at = t.data, at + #t.data
    end
    local text = "{" .. table.concat(header, ",") .. "}" .. (" "):rep(pad or 0)
    checkpoint.save(path, string.pack("<I8", #text) .. text .. table.concat(parts))
end

function checkpoint.write_config(folder, model)
    checkpoint.save(folder .. "/config.json", cjson.encode(model.config))
end

function checkpoint.write(folder, model)
    checkpoint.write_config(folder, model)
    checkpoint.write_file(folder .. "/model.safetensors", model.tensors)
end

function checkpoint.write_index(folder, map)
    checkpoint.save(folder .. "/model.safetensors.index.json",
        cjson.encode({ metadata = { total_size = 1 }, weight_map = map }))
end

function checkpoint.shard_name(i, count)
    return ("model-%05d-of-%05d.safetensors"):format(i, count)
end

-- In so many shards, neighbours together; the index's map.
function checkpoint.write_shards(folder, model, count)
    local names, map, shards = sorted_names(model.tensors), {}, {}
    for i, name in ipairs(names) do
        local shard = (i - 1) * count // #names + 1
        shards[shard] = shards[shard] or {}
        table.insert(shards[shard], name)
        map[name] = checkpoint.shard_name(shard, count)
    end
    checkpoint.write_config(folder, model)
    for i, list in ipairs(shards) do
        checkpoint.write_file(folder .. "/" .. checkpoint.shard_name(i, count), model.tensors, list)
    end
    checkpoint.write_index(folder, map)
    return map
end

return checkpoint
