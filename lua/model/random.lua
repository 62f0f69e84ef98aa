-- What a model's weights look like where nobody trained them: the tensors of a checkpoint in the
-- formats of nvidia's, and the range of each one's values, so that what flows keeps its size.
local tensors = require("lua.model.tensors")

local random = {}

random.SEED = 7
random.BLOCK = 65521  -- values, repeated: a prime, so that rows of 2^n begin at different ones

local INPUT_SCALE <const> = 0.0022  -- the tiny model's
local CODE_BY_SCALE <const> = 230   -- E2M1 times E4M3 as drawn: about so much

-- The values of a site that are no usual weights: the first pattern that fits. middle, spread.
local VALUES <const> = {
    { "norm_b$", 0, 0.3 }, { "norm", 1, 0.04 }, { "a_log$", -0.08, 0.01 }, { "dt_bias$", -4.5, 2 },
    { "hc_.*scale$", 1, 0.05 }, { "hc_.*base$", 0, 0.02 }, { "router.bias$", 0, 0.1 },
    { "index.ape$", 0, 1.5 }, { "conv_", 0, 0.1 },
}
local BYTES <const> = { BF16 = 2, F32 = 4, U8 = 1, F8_E4M3 = 1 }
local CODES <const> = {  -- least and most byte: two E2M1 codes; 32 to 120
    U8 = { 0x00, 0xff }, F8_E4M3 = { 0x68, 0x77 },
}

-- The number of columns decides the usual weight's size: a product keeps the size of its input.
local function values_of(part)
    for _, row in ipairs(VALUES) do
        if part.site:find(row[1]) then return row[2], row[3] end
    end
    return 0, (3 / part.shape[#part.shape]) ^ 0.5
end

-- A value of a tensor: a number, or a byte of codes.
function random.value(tensor)
    local codes = CODES[tensor.dtype]
    if codes then return math.random(codes[1], codes[2]) end
    return tensor.middle + tensor.spread * (2 * math.random() - 1)
end

local function tensor_of(name, dtype, shape, middle, spread)
    local bytes = BYTES[dtype]
    for _, extent in ipairs(shape) do bytes = bytes * extent end
    return {
        name = name, dtype = dtype, shape = shape, middle = middle or 0, spread = spread or 0,
        bytes = bytes,
    }
end

-- Experts and dense layers are NVFP4, but not the MTP layer's and no shared expert.
local function is_nvfp4(part, c)
    return part.rule == "ffn" and not part.site:find("^shared") and part.layer < c.layers
end

local function nvfp4_of(part)
    local stem, n, k = part.name:gsub("weight$", ""), part.shape[1], part.shape[2]
    return {
        tensor_of(part.name, "U8", { n, k // 2 }),
        tensor_of(stem .. "weight_scale", "F8_E4M3", { n, k // 16 }),
        tensor_of(stem .. "weight_scale_2", "F32", {}, k ^ -0.5 / CODE_BY_SCALE),
        tensor_of(stem .. "input_scale", "F32", {}, INPUT_SCALE),
    }
end

-- The parts of a config (tensors.lua), each with its tensors: { name, dtype, shape, middle, spread,
-- bytes }. format: "nvfp4" as nvidia's, or "bf16".
function random.parts(c, format)
    local choice = { prefix = tensors.PREFIXES[1], head = true, mtp = c.mtp == 1 }
    local list = tensors.parts(c, choice)
    for _, part in ipairs(list) do
        if format == "nvfp4" and is_nvfp4(part, c) then
            part.tensors = nvfp4_of(part)
        else
            local dtype = part.rule == "f32" and "F32" or "BF16"
            part.tensors = { tensor_of(part.name, dtype, part.shape, values_of(part)) }
        end
    end
    return list
end

return random
