-- A kernel's name, <family>__<shape>__<variant>, written and parsed; and the words of a tuning key.
-- The name is a C symbol and a file name, and the same string in each log, cache and record.
local shape = require("gen.shape")
local variant = require("gen.variant")

local name = {}

local MOST <const> = 200  -- letters: a cache file's name has room for 255 with its key

-- A family's name as part of a symbol: w4a4_moe.gate_up -> w4a4_moe_gate_up.
function name.symbol(family_name)
    return (family_name:gsub("%.", "_"))
end

-- w8a8_gemv__m2_n4096_k11264__c2w8s1u2; one that is too long is an error.
function name.kernel(family, s, v)
    local text = ("%s__%s__%s"):format(
        name.symbol(family.name), shape.text(family, s), variant.text(family, v))
    if #text > MOST then
        error(("kernel name %s has %d letters, at most %d are allowed"):format(
            text, #text, MOST), 0)
    end
    return text
end

-- Symbol of the family, shape text, variant text; or nil and a sentence.
function name.parse(text)
    local symbol, shape_text, variant_text = text:match("^([a-z0-9_]-)__([a-z0-9_]-)__([a-z0-9]+)$")
    if not symbol then
        return nil, ("'%s' is not a kernel's name (<family>__<shape>__<variant>)"):format(text)
    end
    return symbol, shape_text, variant_text
end

-- w8a8_gemv@1 m2_n4096_k11264: the words of a tuning record that come after the device.
function name.tuning(family, s)
    return ("%s@%d %s"):format(family.name, family.rev, shape.text(family, s))
end

return name
