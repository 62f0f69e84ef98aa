-- The values of a checkpoint's scales: NaN where no NaN may be, global scales that are no scales,
-- and what one launch makes of the input scales of its weights.
local scales = {}

local SMALLEST <const> = 0x1p-126  -- the smallest normal F32: less has lost digits

-- The scale that is the tensor of this name, from lathe.weights(); or nil and a sentence.
function scales.number(tensors, name)
    local x = tensors:number(name)
    if x >= SMALLEST and x < math.huge then return x end
    return nil, ("tensor '%s': is %g (a finite number of at least %g is needed)"):format(name, x,
        SMALLEST)
end

local function check_number(found, name)
    local x, why = scales.number(found.weights, name)
    if not x then found:fault("value", "%s", why) end
    return x
end

-- weight_scale, of one byte a group of 16: row and group of element i.
local function check_bytes(found, part)
    local name, groups = part.scales.weight_scale, part.shape[2] // 16
    local bytes = found.weights:scan(name)
    local function tell(count, first, what)
        if count == 0 then return end
        found:fault("value", "tensor '%s': %d of its scales %s, the first in row %d, group %d",
            name, count, what, first // groups, first % groups)
    end
    tell(bytes.nan, bytes.first_nan, "are NaN")
    tell(bytes.negative, bytes.first_negative, "are negative")
end

-- The launch that reads a weight: gate and up are read together, of all experts of a layer.
local function launch_of(part)
    local block, projection = part.site:match("^(.-)%.(.*)$")
    return ("L%02d.%s.%s"):format(part.layer, block, projection == "down" and "down" or "gate_up")
end

-- One input is quantised once for a launch, by the largest of its weights' scales: a smaller one
-- would clip.
local function add_input(inputs, key, x)
    local launch = inputs[key]
    if not launch then
        launch = { key = key, least = x, most = x, count = 0 }
        inputs[key], inputs[#inputs + 1] = launch, launch
    end
    launch.count = launch.count + 1
    launch.least, launch.most = math.min(launch.least, x), math.max(launch.most, x)
end

-- Looks at them all.
function scales.check(found)
    local inputs = {}
    for _, part in ipairs(found.parts) do
        if part.format == "nvfp4" then
            check_bytes(found, part)
            check_number(found, part.scales.weight_scale_2)
            local x = check_number(found, part.scales.input_scale)
            if x then add_input(inputs, launch_of(part), x) end
        end
    end
    for _, launch in ipairs(inputs) do
        if launch.least < launch.most then
            found:note("%s: the input_scale of its %d weights runs from %.9g to %.9g: the largest "
                .. "is used", launch.key, launch.count, launch.least, launch.most)
        end
    end
end

return scales
