-- Writes a checkpoint with random weights, in the formats of nvidia's: of the full model's shapes
-- with fewer layers and experts, or of any others. From the project's folder:
--   lua5.4 tests/tools/random_checkpoint.lua FOLDER [FIELD=NUMBER ..] [format=bf16] [shard=BYTES]
-- FIELD: of config.json, such as num_hidden_layers=5, or layers, experts, hidden for short.
-- A tensor is a block of random values, repeated: its rows differ, and it costs no time.
local cjson = require("cjson")
local config = require("lua.model.config")
local named = require("lua.model.named")
local random = require("lua.model.random")

local MODEL <const> = "glm-5.3-flash"
local FEWER <const> = { num_hidden_layers = 5, n_routed_experts = 16 }
local TOKENS <const> = { bos_token_id = 256, eos_token_id = 256 }  -- the tiny tokenizer's
local SHORT <const> = {
    layers = "num_hidden_layers", experts = "n_routed_experts", hidden = "hidden_size",
}
local SHARD <const> = 4 << 30  -- bytes of a file, about

-- ---- values ----

local function bf16(x)
    local word = string.unpack("<I4", string.pack("<f", x))
    return string.pack("<I2", (word + 0x7fff + (word >> 16 & 1)) >> 16)
end

local PACK <const> = {
    BF16 = bf16, F32 = function(x) return string.pack("<f", x) end,
    U8 = string.char, F8_E4M3 = string.char,
}

local blocks = {}

local function block_of(tensor)
    local key = ("%s %.6g %.6g"):format(tensor.dtype, tensor.middle, tensor.spread)
    if not blocks[key] then
        local list, pack = {}, PACK[tensor.dtype]
        for i = 1, random.BLOCK do list[i] = pack(random.value(tensor)) end
        blocks[key] = table.concat(list)
    end
    return blocks[key]
end

-- ---- files ----

local function write_values(file, tensor, number)
    local block = block_of(tensor)
    local from = number * 7919 % random.BLOCK * (#block // random.BLOCK)
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
    local text, options = named.fields(MODEL), { format = "nvfp4", shard = SHARD }
    for _, list in ipairs({ FEWER, TOKENS }) do
        for name, value in pairs(list) do text[name] = value end
    end
    for i = 2, #words do
        local name, value = words[i]:match("^([%w_]+)=(%w+)$")
        name = SHORT[name] or name
        local number = math.tointeger(tonumber(value))
        if name == "format" and (value == "bf16" or value == "nvfp4") then
            options.format = value
        elseif name == "shard" and number then
            options.shard = number
        elseif text[name] and number then
            text[name] = number
        else
            error(("'%s': no FIELD=NUMBER, format=bf16, format=nvfp4 or shard=BYTES"):format(
                words[i]), 0)
        end
    end
    return text, options
end

local function main(words)
    if not words[1] then error("give a folder that exists", 0) end
    local text, options = read_words(words)
    local object = named.config(text, options.format)
    local c, faults = config.read(cjson.encode(object))
    if not c then error(table.concat(faults, "\n"), 0) end
    math.randomseed(random.SEED)
    local list = {}
    for _, part in ipairs(random.parts(c, options.format)) do
        table.move(part.tensors, 1, #part.tensors, #list + 1, list)
    end
    local shards = shards_of(list, options.shard)
    save(words[1] .. "/config.json", object)
    print(("%s: %d tensors in %d files, %d bytes"):format(words[1], #list, #shards,
        write_all(words[1], shards)))
end

main(arg)
