-- A checkpoint of the full model's shapes, for plans: config.json and headers that are whole, data
-- that are a hole in the file.
local cjson = require("cjson")
local config = require("lua.model.config")
local tensors = require("lua.model.tensors")

local full = {}

local BYTES <const> = { U8 = 1, F8_E4M3 = 1, BF16 = 2, F32 = 4 }

-- The tensors of a part: { name, dtype, shape } each. Routed experts and dense FFNs are NVFP4.
local function tensors_of(part)
    local n, k = part.shape[1], part.shape[2]
    if part.rule == "ffn" and not part.site:find("^shared") then
        local stem = part.name:gsub("weight$", "")
        return {
            { part.name, "U8", { n, k // 2 } },
            { stem .. "weight_scale", "F8_E4M3", { n, k // 16 } },
            { stem .. "weight_scale_2", "F32", {} }, { stem .. "input_scale", "F32", {} },
        }
    end
    return { { part.name, part.rule == "f32" and "F32" or "BF16", part.shape } }
end

local function write(path, text, bytes)
    local file <close> = assert(io.open(path, "wb"))
    assert(file:write(text))
    if bytes then
        assert(file:seek("set", bytes - 1))
        assert(file:write("\0"))
    end
end

-- Writes folder/config.json and folder/model.safetensors. What config.json does not say is the full
-- model's, but for these: a table of its text_config.
function full.write(folder, text_config)
    text_config.max_position_embeddings = text_config.max_position_embeddings or 1048576
    text_config.index_kpool = 4
    local text = cjson.encode({ model_type = "glm5_next", text_config = text_config })
    local c, why = config.read(text)
    assert(c, why and why[1])
    local rows, at = {}, 0
    local parts = tensors.parts(c, { prefix = "model.language_model.", head = true, mtp = false })
    for _, part in ipairs(parts) do
        for _, tensor in ipairs(tensors_of(part)) do
            local name, dtype, shape = table.unpack(tensor)
            local bytes = BYTES[dtype]
            for _, n in ipairs(shape) do bytes = bytes * n end
            rows[#rows + 1] = ('"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}'):format(
                name, dtype, table.concat(shape, ","), at, at + bytes)
            at = at + bytes
        end
    end
    local header = "{" .. table.concat(rows, ",") .. "}"
    write(folder .. "/config.json", text)
    write(folder .. "/model.safetensors", string.pack("<I8", #header) .. header, 8 + #header + at)
end

return full
