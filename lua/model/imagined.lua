-- A model without a checkpoint: a named shape with random weights, for benches. It has what
-- checkpoint.open gives to circuits and loaders, and no file.
local checkpoint = require("lua.model.checkpoint")
local cjson = require("cjson")
local config = require("lua.model.config")
local fault = require("lua.fault")
local lathe = require("lathe")
local named = require("lua.model.named")
local random = require("lua.model.random")

local imagined = {}

local FORMATS <const> = { U8 = "nvfp4", BF16 = "bf16", F32 = "f32" }  -- of a part, by dtype
local CTYPES <const> = { U8 = "u8", F8_E4M3 = "u8", BF16 = "bf16", F32 = "f32" }
local NEVER <const> = -1e4  -- a router's bias: the expert is not chosen

-- ---- values ----

local function fill_block(ctype, value)
    local block = fault.reach(lathe.array(ctype, random.BLOCK))
    for i = 0, random.BLOCK - 1 do block:set(i, value()) end
    return block
end

-- A router's bias of which only the first experts are ever chosen: a block of its own.
local function bias_of(tensor)
    local block = fault.reach(lathe.array("f32", tensor.shape[1]))
    for i = 0, tensor.shape[1] - 1 do
        block:set(i, i < tensor.held and random.value(tensor) or NEVER)
    end
    return block
end

local function block_of(source, tensor)
    if tensor.held then return bias_of(tensor) end
    local key = ("%s %.6g %.6g"):format(tensor.dtype, tensor.middle, tensor.spread)
    local block = source.blocks[key]
    if not block then
        block = fill_block(CTYPES[tensor.dtype], function() return random.value(tensor) end)
        source.blocks[key] = block
    end
    return block
end

-- The part of lathe.weights that loaders call: runs of bytes of a tensor. Pieces begin where they
-- do in the tensor's values, repeated.
local source = {}

function source:gather(name, offset, _, _, array)
    array:tile(block_of(self, self.by_name[name]), offset)
end

function source:number(name) return self.by_name[name].middle end

-- ---- the model ----

-- Of the routed experts only the first `held` have weights, and no other is ever chosen.
local function hold(found, held)
    found.is_partial = held < found.config.experts
    for _, layer in pairs(found.layers) do
        for _, site in ipairs({ "experts.gate", "experts.up", "experts.down" }) do
            for e = held, layer[site] and found.config.experts - 1 or -1 do layer[site][e] = nil end
        end
        local bias = layer["router.bias"]
        if bias then bias.tensors[1].held = held end
    end
end

-- name: of a shape (named.lua). held: routed experts that are held in memory, at most all.
function imagined.open(name, held)
    local fields = fault.expect(named.fields(name))
    fields.num_nextn_predict_layers = 0
    local c = assert(config.read(cjson.encode(named.config(fields, "nvfp4"))))
    math.randomseed(random.SEED)
    local found = {
        folder = name, config = c, faults = {}, notes = {}, parts = random.parts(c, "nvfp4"),
        weights = setmetatable({ by_name = {}, blocks = {} }, { __index = source }),
    }
    for _, part in ipairs(found.parts) do
        part.format, part.scales = FORMATS[part.tensors[1].dtype], {}
        for _, tensor in ipairs(part.tensors) do
            found.weights.by_name[tensor.name] = tensor
            part.scales[tensor.name:match("[^.]+$")] = tensor.name
        end
    end
    checkpoint.arrange(found)
    hold(found, math.min(held, c.experts))
    return found
end

return imagined
