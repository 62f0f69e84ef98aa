-- Number formats: bytes, spelling in the text, name in a safetensors file; and literals.
-- Literals are written digit by digit from the bits, so no locale reaches them.
local message = require("gen.message")

local ctype = {}

-- name, bytes, C spelling, safetensors name
local FORMATS <const> = {
    { "bf16",   2, "bf16",  "BF16" },
    { "f16",    2, "f16",   "F16" },
    { "f32",    4, "float", "F32" },
    { "e4m3",   1, "e4m3",  "F8_E4M3" },
    { "u8",     1, "u8",    "U8" },
    { "i8",     1, "i8",    "I8" },
    { "u16",    2, "u16",   "U16" },
    { "i32",    4, "i32",   "I32" },
    { "u32",    4, "u32",   "U32" },
    { "e2m1x2", 1, "u8",    "U8" },  -- two 4-bit codes, the first in the low half
}

ctype.names = {}  -- in the table's order
local by_name = {}
for i, row in ipairs(FORMATS) do
    ctype.names[i] = row[1]
    by_name[row[1]] = { name = row[1], bytes = row[2], c = row[3], file = row[4] }
end

-- { name, bytes, c, file }, or nil and a sentence.
function ctype.find(name)
    local format = by_name[name]
    if format then return format end
    return nil, ("unknown number format '%s' (known: %s)"):format(
        tostring(name), table.concat(ctype.names, " "))
end

-- The C spelling of a format; an unknown name is an error at the caller's line.
function ctype.spelling(name)
    local format, why = ctype.find(name)
    if not format then error(why, 2) end
    return format.c
end

-- A C literal of the float nearest to x, exact: 0.5 is 0x1.000000p-1f, 3 is 3.0f.
function ctype.f32(x)
    if type(x) ~= "number" then error("f32 needs a number, got " .. message.describe(x), 2) end
    local bits = ("<I4"):unpack(("<f"):pack(x))
    local sign = bits >> 31 == 1 and "-" or ""
    local exponent, fraction = bits >> 23 & 0xff, bits & 0x7fffff
    if exponent == 0xff then
        error("f32 needs a number that a float can hold, got " .. message.describe(x), 2)
    end
    local whole = math.tointeger(("<f"):unpack(("<I4"):pack(bits & 0x7fffffff)))
    if whole and whole < 1 << 24 then return ("%s%d.0f"):format(sign, whole) end
    if exponent == 0 then return ("%s0x0.%06xp-126f"):format(sign, fraction << 1) end
    return ("%s0x1.%06xp%df"):format(sign, fraction << 1, exponent - 127)
end

return ctype
