-- One weight of a checkpoint: is it there, in a format that is served, with the shape that the
-- config gives it? An NVFP4 weight is four tensors.
local part = {}

local GROUP <const> = 16  -- elements of an NVFP4 scale

-- The formats that a rule of tensors.lua takes, by the dtype in the file.
local FORMATS <const> = {
    bf16 = { BF16 = "bf16" },
    ffn = { BF16 = "bf16" },
    f32 = { F32 = "f32", BF16 = "bf16" },
    any = { BF16 = "bf16", F32 = "f32" },
}
local WANTED <const> = { bf16 = "BF16", ffn = "BF16", f32 = "F32", any = "BF16 or F32" }

local function shape_text(shape) return "[" .. table.concat(shape, ",") .. "]" end

local function without_ones(shape)
    local out = {}
    for _, n in ipairs(shape) do if n ~= 1 then out[#out + 1] = n end end
    return out
end

local function same_shape(got, want, loose)
    if loose then got, want = without_ones(got), without_ones(want) end
    return shape_text(got) == shape_text(want)
end

local function refuse(found, tensor, dtype, shape, more)
    found:fault("tensor", "tensor '%s': is %s %s (%s %s is needed%s)", tensor.name, tensor.dtype,
        shape_text(tensor.shape), dtype, shape_text(shape), more or "")
end

local function take(p, tensor)
    tensor.used = true
    p.bytes = (p.bytes or 0) + tensor.bytes
end

local function scale_shapes(p)
    return {
        { "weight_scale", "F8_E4M3", { p.shape[1], p.shape[2] // GROUP } },
        { "weight_scale_2", "F32", {} },
        { "input_scale", "F32", {} },
    }
end

local function check_scales(found, p)
    local stem, whole = p.name:gsub("weight$", ""), true
    p.scales = {}
    for _, row in ipairs(scale_shapes(p)) do
        local suffix, dtype, shape = table.unpack(row)
        local tensor = found.by_name[stem .. suffix]
        if not tensor then
            whole = false
            found:fault("missing", "tensor '%s%s': is not in this checkpoint (an NVFP4 weight "
                .. "needs weight_scale, weight_scale_2 and input_scale)", stem, suffix)
        else
            if tensor.dtype ~= dtype or not same_shape(tensor.shape, shape) then
                whole = false
                refuse(found, tensor, dtype, shape)
            end
            take(p, tensor)
            p.scales[suffix] = tensor.name
        end
    end
    return whole
end

local function check_nvfp4(found, p, tensor)
    local packed = { p.shape[1], p.shape[2] // 2 }
    if tensor.dtype ~= "U8" then
        return found:fault("format", "tensor '%s': is %s, but its weight_scale is there (an NVFP4 "
            .. "weight is U8)", p.name, tensor.dtype)
    end
    if not same_shape(tensor.shape, packed) then return refuse(found, tensor, "U8", packed) end
    if check_scales(found, p) then p.format = "nvfp4" end
end

-- Finds it in the files: its format and bytes, or a fault.
function part.check(found, p)
    local tensor = found.by_name[p.name]
    if not tensor then
        if found.index and found.index[p.name] then return end  -- said by the index's check
        return found:fault("missing", "tensor '%s': is not in this checkpoint", p.name)
    end
    take(p, tensor)
    local scale = found.by_name[p.name .. "_scale"]
    if p.rule == "ffn" and (scale or tensor.dtype == "U8") then
        return check_nvfp4(found, p, tensor)
    end
    local format = FORMATS[p.rule][tensor.dtype]
    if not format or not same_shape(tensor.shape, p.shape, p.loose) then
        local more = scale and "; only the FFNs' weights may be NVFP4"
        return refuse(found, tensor, WANTED[p.rule], p.shape, more)
    end
    p.format = format
    if p.rule == "f32" and format == "bf16" then
        found.narrowed.count = found.narrowed.count + 1
        found.narrowed.first = found.narrowed.first or p.name
    end
end

return part
