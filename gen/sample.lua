-- The `check` of a family: how near its results must be, and at which shapes that is looked at.
-- Each sample must be served; one without a kept variant is refused where it is run.
local message = require("gen.message")
local order = require("gen.order")
local shape = require("gen.shape")

local sample = {}

sample.FIELDS = {  -- in docs/family.md's order
    "ulp",       -- of bf16 and f16 outs: units in the last place
    "relative",  -- of f32 outs: of the larger of |reference| and the row's root mean square
    "bits",      -- true: equal bits, which outs of other formats must have in any case
    "exact",     -- true: on small integers every sum is exact, so ulp outs are rounded once
    "samples",   -- shapes that bite
    "draw",      -- arg -> distribution of its values, or (s, i, random) -> element i of them
    "real",      -- shapes of the model
}
local MEASURES <const> = { "ulp", "relative", "bits" }
local FLOATS <const> = {  -- what measures an out of this format, the first that is given
    bf16 = { "ulp", "relative" }, f16 = { "ulp", "relative" }, f32 = { "relative", "ulp" },
}

local function fields_fault(check)
    for _, key in ipairs(order.keys(check)) do
        local known = false
        for _, field in ipairs(sample.FIELDS) do known = known or field == key end
        if not known then
            key = tostring(key)
            return ("unknown field '%s'%s"):format(key, message.did_you_mean(key, sample.FIELDS))
        end
    end
end

local function measure_fault(check)
    local given = {}
    for _, measure in ipairs(MEASURES) do
        if check[measure] ~= nil then given[#given + 1] = measure end
    end
    if #given == 0 or check.bits ~= nil and #given > 1 then
        return ("ulp, relative or both, or bits alone is needed, got %s"):format(
            #given == 0 and "none" or table.concat(given, " and "))
    end
    if check.bits ~= nil and check.bits ~= true then
        return "bits must be true, got " .. message.describe(check.bits)
    end
    if check.exact ~= nil and not (check.exact == true and check.ulp) then
        return "exact must be true and needs ulp, got " .. message.describe(check.exact)
    end
    for _, measure in ipairs({ "ulp", "relative" }) do
        local value = check[measure]
        if value ~= nil and (type(value) ~= "number" or value < 0) then
            return ("%s must be a number of 0 or more, got %s"):format(
                measure, message.describe(value))
        end
    end
end

local function draw_fault(family)
    local names = {}
    for i, row in ipairs(family.args) do names[i] = row[1] end
    for _, arg in ipairs(order.keys(family.check.draw or {})) do
        local known = false
        for _, name in ipairs(names) do known = known or name == arg end
        if not known then return ("draw names '%s', which is no arg"):format(arg) end
        local draw = family.check.draw[arg]
        if type(draw) ~= "string" and type(draw) ~= "function" then
            return ("draw of '%s' must be a distribution's name or a function, got %s"):format(
                arg, message.describe(family.check.draw[arg]))
        end
    end
end

-- How an out of this format is compared: "ulp", "relative" or "bits".
function sample.measure(family, ctype)
    for _, measure in ipairs(FLOATS[ctype] or {}) do
        if family.check[measure] then return measure end
    end
    return "bits"
end

local function extent_text(extent) return type(extent) == "function" and "?" or extent end

-- What a family's C reference is written for: "M K; y bf16 M,K out near; x bf16 M,K". Of an extent
-- that is a function it only says that it is one.
function sample.signature(family)
    local list = { table.concat(family.shape, " ") }
    for _, row in ipairs(family.args) do
        local extents = {}
        for i, extent in ipairs(row[3]) do extents[i] = extent_text(extent) end
        local words = { row[1], row[2], table.concat(extents, ",") }
        if row.out or row.inout then
            words[4] = row.out and "out" or "inout"
            words[5] = sample.measure(family, row[2]) == "bits" and "bits" or "near"
        end
        list[#list + 1] = table.concat(words, " ")
    end
    return table.concat(list, "; ")
end

local function shape_fault(family, s)
    if type(s) ~= "table" then return "a shape is a table, got " .. message.describe(s) end
    local wrong = shape.fault(family.shape, s)
    if wrong then return wrong end
    local text = shape.text(family, s)
    local served, reason = family.serves(s)
    if served ~= true and type(reason) ~= "string" then
        return ("serves must return true, or nil and a reason, got %s for %s"):format(
            message.describe(served), text)
    end
    if served ~= true then return ("%s is not served: %s"):format(text, reason) end
end

local function shapes_fault(family, field)
    local list = family.check[field]
    if type(list) ~= "table" or #list == 0 then
        return ("%s must be a list of shapes, got %s"):format(field, message.describe(list))
    end
    for i, s in ipairs(list) do
        local wrong = shape_fault(family, s)
        if wrong then return ("%s[%d]: %s"):format(field, i, wrong) end
    end
end

-- What is wrong with a family's check, as a sentence; nil when nothing is. The rest of the family
-- must be right already.
function sample.fault(family)
    local check = family.check
    local wrong = fields_fault(check) or measure_fault(check) or draw_fault(family)
        or shapes_fault(family, "samples")
        or check.real ~= nil and shapes_fault(family, "real") or nil
    return wrong and "check: " .. wrong or nil
end

return sample
