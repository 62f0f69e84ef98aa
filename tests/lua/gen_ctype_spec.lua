local ctype = require("gen.ctype")
local fixtures = require("tests.lua.fixtures")

-- The float whose bits a literal of f32() spells, read digit by digit.
local function value_of(literal)
    local sign, whole = literal:match("^(-?)(%d+)%.0f$")
    if whole then return (sign == "-" and -1.0 or 1.0) * tonumber(whole) end
    local minus, first, digits, exponent = literal:match("^(-?)0x([01])%.(%x+)p(-?%d+)f$")
    local mantissa = tonumber(first .. digits, 16) / 16.0 ^ #digits
    return (minus == "-" and -1.0 or 1.0) * mantissa * 2.0 ^ tonumber(exponent)
end

describe("ctype", function()
    it("knows bytes, C spelling and file spelling of each format", function()
        local rows = {}
        for i, name in ipairs(ctype.names) do
            local f = ctype.find(name)
            rows[i] = ("%s %d %s %s"):format(f.name, f.bytes, f.c, f.file)
        end
        assert.same({
            "bf16 2 bf16 BF16", "f16 2 f16 F16", "f32 4 float F32", "e4m3 1 e4m3 F8_E4M3",
            "u8 1 u8 U8", "i8 1 i8 I8", "u16 2 u16 U16", "i32 4 i32 I32", "u32 4 u32 U32",
            "e2m1x2 1 u8 U8",
        }, rows)
    end)

    it("names the known formats when asked for another", function()
        local format, why = ctype.find("fp8")
        assert.is_nil(format)
        assert.equal("unknown number format 'fp8' (known: bf16 f16 f32 e4m3 u8 i8 u16"
            .. " i32 u32 e2m1x2)", why)
    end)

    it("writes f32 literals that are short for whole numbers", function()
        assert.equal("0.0f", ctype.f32(0))
        assert.equal("-0.0f", ctype.f32(-0.0))
        assert.equal("448.0f", ctype.f32(448))
        assert.equal("-16777215.0f", ctype.f32(-16777215.0))
        assert.equal("0x1.000000p24f", ctype.f32(1 << 24))
        assert.equal("0x1.000000p-1f", ctype.f32(0.5))
    end)

    it("writes f32 literals with exactly the bits of the nearest float", function()
        local bits = { 1, 0x007fffff, 0x00800000, 0x3dcccccd, 0x3f7fffff, 0x4b800000, 0x7f7fffff }
        for _, low in ipairs(bits) do
            for _, all in ipairs({ low, low | 0x80000000 }) do
                local x = ("<f"):unpack(("<I4"):pack(all))
                assert.equal(all, ("<I4"):unpack(("<f"):pack(value_of(ctype.f32(x)))))
            end
        end
        assert.equal(ctype.f32(("<f"):unpack(("<f"):pack(0.1))), ctype.f32(0.1))
    end)

    it("uses no conversion that a locale can change", function()
        local format = string.format
        finally(function() string.format = format end)  -- luacheck: ignore 122
        string.format = function(text, ...)             -- luacheck: ignore 122
            assert(not text:find("%%[%d.]*[aAeEfgG]"), "a locale's decimal point: " .. text)
            return format(text, ...)
        end
        assert.equal("0x1.99999ap-4f", ctype.f32(0.1))
        assert.equal("3.0f", ctype.f32(3.0))
    end)

    it("refuses what no float holds", function()
        local failure = fixtures.failure
        assert.matches("f32 needs a number that a float can hold, got the float inf$",
            failure(ctype.f32, math.huge))
        assert.matches("got the float 1e%+39$", failure(ctype.f32, 1e39))
        assert.matches("f32 needs a number, got the string '1'$", failure(ctype.f32, "1"))
    end)
end)
