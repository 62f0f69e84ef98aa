-- The time below which no kernel can be: what must move over what the memory delivers.
local floor = {}

-- key of the device, microseconds of a launch that does nothing, bytes a microsecond of cold reads,
-- as measured (1.4 us + bytes / 4.55 TB/s on an H200; GB10 reads 249 GB/s)
local DEVICES <const> = {
    ["nvidia-h200"] = { 1.4, 4.55e6 },
    ["nvidia-gb10"] = { 0.0, 2.49e5 },
}

-- Microseconds of a launch; nil for a device that was not measured.
function floor.us(key, work)
    local device = DEVICES[key]
    return device and device[1] + work.bytes / device[2]
end

-- Bytes a microsecond that the memory gives; nil for a device that was not measured.
function floor.bandwidth(key) return DEVICES[key] and DEVICES[key][2] end

-- Microseconds that bytes alone take, however many launches move them.
function floor.bytes_us(key, bytes)
    local device = DEVICES[key]
    return device and bytes / device[2]
end

return floor
