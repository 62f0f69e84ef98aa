-- A shape gives each size of a family a value: { M = 2, N = 4096 }, written m2_n4096.
-- A size becomes an enum constant of the text, so it is an integer that a C int holds.
local message = require("gen.message")
local order = require("gen.order")

local shape = {}

local MOST <const> = 2147483647  -- of a C int

-- What is wrong with s as a shape of sizes `names`, as a sentence; nil when nothing is.
function shape.fault(names, s)
    local known = {}
    for _, size in ipairs(names) do known[size] = true end
    for _, size in ipairs(order.keys(s)) do
        if not known[size] then
            return ("unknown size '%s' (the sizes are %s)"):format(size, table.concat(names, " "))
        end
    end
    for _, size in ipairs(names) do
        local value = s[size]
        if value == nil then return ("size %s is missing"):format(size) end
        if math.type(value) ~= "integer" or value < 0 or value > MOST then
            return ("size %s must be an integer from 0 to %d, got %s"):format(
                size, MOST, message.describe(value))
        end
    end
end

-- m2_n4096_k11264, in the family's order.
function shape.text(family, s)
    local words = {}
    for i, size in ipairs(family.shape) do words[i] = ("%s%d"):format(size:lower(), s[size]) end
    return table.concat(words, "_")
end

-- Takes one word of a shape into s; a sentence when it is none.
local function take(s, word, size, digits)
    local value = digits and math.tointeger(tonumber(digits, 10))
    if not value or #digits > 10 then return ("'%s' is not a size and its value"):format(word) end
    if s[size] then return ("size %s is given twice"):format(size) end
    s[size] = value
end

local function finish(family, s)
    local wrong = shape.fault(family.shape, s)
    if wrong then return nil, ("family %s: %s"):format(family.name, wrong) end
    return s
end

-- The shape that text() wrote, or nil and a sentence.
function shape.parse(family, text)
    local s = {}
    for word in (text .. "_"):gmatch("(.-)_") do
        local size, digits = word:match("^(%l+)(%d+)$")
        local wrong = take(s, word, size and size:upper(), digits)
        if wrong then return nil, ("shape '%s': %s"):format(text, wrong) end
    end
    return finish(family, s)
end

-- The shape of { "M=2", "N=4096" } in any order, or nil and a sentence.
function shape.from_words(family, words)
    local s = {}
    for _, word in ipairs(words) do
        local size, digits = word:match("^(%a+)=(%d+)$")
        local wrong = take(s, word, size, digits)
        if wrong then return nil, ("%s (write M=2)"):format(wrong) end
    end
    return finish(family, s)
end

return shape
