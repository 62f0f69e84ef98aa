-- A variant gives each knob one of its values: { cols = 2, warps = 8 }, written c2w8.
-- Odometer order: the last knob turns fastest; the first kept variant is the default.
local message = require("gen.message")

local variant = {}

local NONE <const> = "one"  -- how the only variant of a family without knobs is written

local function count(family)
    local n = 1
    for _, knob in ipairs(family.knobs) do n = n * (#knob - 1) end
    return n
end

-- The combination that the odometer shows after `index` turns.
local function at(family, index)
    local v = {}
    for i = #family.knobs, 1, -1 do
        local knob = family.knobs[i]
        local values = #knob - 1
        v[knob[1]], index = knob[2 + index % values], index // values
    end
    return v
end

local made <const> = setmetatable({}, { __mode = "k" })  -- lists by family, as far as asked for

-- `for i, v in variant.each(family)`: every combination of values, kept or not, in odometer order.
-- Each is made when it is first reached, and everyone's: to read.
function variant.each(family)
    local list, most = made[family] or {}, count(family)
    made[family] = list
    return function(_, i)
        i = i + 1
        if list[i] then return i, list[i] end
        if i > most then return nil end
        list[i] = at(family, i - 1)
        return i, list[i]
    end, nil, 0
end

-- All of them as a list.
function variant.all(family)
    local list = {}
    for i, v in variant.each(family) do list[i] = v end
    return list
end

-- The variants that the family keeps for shape s on dev, in odometer order.
function variant.kept(family, s, dev)
    local list = {}
    for _, v in variant.each(family) do
        if family.keep(s, v, dev) then list[#list + 1] = v end
    end
    return list
end

-- The first of them, or nil where none is kept.
function variant.default(family, s, dev)
    for _, v in variant.each(family) do
        if family.keep(s, v, dev) then return v end
    end
end

-- c2w8s1u2, in the family's order.
function variant.text(family, v)
    local words = {}
    for i, knob in ipairs(family.knobs) do
        words[i] = ("%s%d"):format(knob[1]:sub(1, 1), v[knob[1]])
    end
    return #words == 0 and NONE or table.concat(words)
end

-- What is wrong with v, as a sentence; nil when each knob has one of its values.
function variant.fault(family, v)
    for _, knob in ipairs(family.knobs) do
        local found = false
        for i = 2, #knob do found = found or v[knob[1]] == knob[i] end
        if not found then
            return ("knob '%s' takes %s, got %s"):format(
                knob[1], table.concat(knob, " ", 2), message.describe(v[knob[1]]))
        end
    end
end

local function finish(family, v)
    local wrong = variant.fault(family, v)
    if wrong then return nil, ("family %s: %s"):format(family.name, wrong) end
    return v
end

-- The variant that text() wrote, or nil and a sentence.
function variant.parse(family, text)
    local v, rest = {}, text == NONE and "" or text
    for _, knob in ipairs(family.knobs) do
        local digits = rest:match("^" .. knob[1]:sub(1, 1) .. "(%d+)")
        if not digits then
            return nil, ("family %s: variant '%s' has no %s at '%s'"):format(
                family.name, text, knob[1], rest)
        end
        v[knob[1]], rest = math.tointeger(tonumber(digits)) or digits, rest:sub(#digits + 2)
    end
    if rest ~= "" then
        return nil, ("family %s: variant '%s' does not end at '%s'"):format(
            family.name, text, rest)
    end
    return finish(family, v)
end

local function knob_names(family)
    local names = {}
    for i, knob in ipairs(family.knobs) do names[i] = knob[1] end
    return names
end

-- What could be written instead.
local function hint(family)
    local first = family.knobs[1]
    return first and ("write %s=%d"):format(first[1], first[2]) or "it has no knobs"
end

-- The variant of "cols=2,warps=8", or nil and a sentence. A knob that is not named has its value
-- in `base`, or its first one.
function variant.from_words(family, words, base)
    local v, seen = {}, {}
    for _, knob in ipairs(family.knobs) do v[knob[1]] = base and base[knob[1]] or knob[2] end
    for word in (words == "" and "" or words .. ","):gmatch("(.-),") do
        local knob, digits = word:match("^(%l+)=(%d+)$")
        if not knob then
            return nil, ("'%s' is not a knob and its value (%s)"):format(word, hint(family))
        end
        if not v[knob] then
            local names = knob_names(family)
            local known = #names > 0 and "the knobs are " .. table.concat(names, " ")
            return nil, ("family %s: unknown knob '%s'%s (%s)"):format(family.name, knob,
                message.did_you_mean(knob, names), known or hint(family))
        end
        if seen[knob] then return nil, ("knob '%s' is given twice"):format(knob) end
        v[knob], seen[knob] = math.tointeger(tonumber(digits)) or digits, true
    end
    return finish(family, v)
end

return variant
