-- The parameters of a kernel: its args in order, then its scratch. Each is one device pointer.
-- A row is { name, ctype, extents, out = true?, inout = true?, layout = "..."? }; bytes follow from
-- the shape. An inout arg is read and written: a state.
local ctype = require("gen.ctype")
local message = require("gen.message")
local order = require("gen.order")

local param = {}

local MOST <const> = 24  -- ORDER PARAMS: LT_MAX_PARAMS of runtime/lathe.h
local MOST_BYTES <const> = 1 << 62  -- of one parameter: past any memory, and a product stays whole
local LEGAL <const> = {
    [1] = true, [2] = true, [3] = true, out = true, inout = true, layout = true,
}

local function extent_fault(extent, sizes)
    if type(extent) == "function" then return nil end
    if math.type(extent) == "integer" and extent >= 1 then return nil end
    for _, size in ipairs(sizes) do
        if extent == size then return nil end
    end
    return ("an extent is a size, an integer of 1 or more or a function, got %s"):format(
        message.describe(extent))
end

local function extents_fault(extents, sizes)
    if type(extents) ~= "table" or #extents == 0 then
        return "the third word must be a list of extents such as { \"M\", \"K\" }"
    end
    for _, extent in ipairs(extents) do
        local wrong = extent_fault(extent, sizes)
        if wrong then return wrong end
    end
end

local function options_fault(row)
    for _, key in ipairs(order.keys(row)) do
        if not LEGAL[key] then
            return ("unknown word '%s' (legal: out, inout, layout)"):format(tostring(key))
        end
    end
    for _, word in ipairs({ "out", "inout" }) do
        if row[word] ~= nil and row[word] ~= true then
            return ("%s must be true, got %s"):format(word, message.describe(row[word]))
        end
    end
    if row.out and row.inout then return "out and inout exclude each other" end
    if row.layout ~= nil and not tostring(row.layout):match("^%l[%l%d_]*$") then
        return "layout must be a name in small letters, got " .. message.describe(row.layout)
    end
end

local function row_fault(row, sizes)
    local _, unknown = ctype.find(row[2])
    return unknown or extents_fault(row[3], sizes) or options_fault(row)
end

-- What is wrong with a list of rows, as a sentence; nil when nothing is.
function param.fault(list, sizes)
    if type(list) ~= "table" or #list ~= #order.keys(list) then
        return "a list of { name, format, extents } is needed"
    end
    local seen = {}
    for i, row in ipairs(list) do
        local name = type(row) == "table" and row[1]
        if type(name) ~= "string" or not name:match("^%l[%l%d_]*$") then
            return ("row %d must begin with a name in small letters, got %s"):format(
                i, message.describe(name or row))
        end
        if seen[name] then return ("the name '%s' is there twice"):format(name) end
        seen[name] = true
        local wrong = row_fault(row, sizes)
        if wrong then return ("'%s': %s"):format(name, wrong) end
    end
end

-- Appends the rows with their extents and bytes for shape s; a sentence when one has none, and the
-- function that gave it.
local function evaluate(rows, s, scratch, params)
    for _, row in ipairs(rows) do
        local format = ctype.find(row[2])
        local extents, bytes = {}, format.bytes
        for i, extent in ipairs(row[3]) do
            local value = type(extent) == "function" and extent(s) or s[extent] or extent
            local culprit = type(extent) == "function" and extent or nil
            if math.type(value) ~= "integer" or value < 1 then
                return ("extent %d of '%s' must be an integer of 1 or more, got %s"):format(
                    i, row[1], message.describe(value)), culprit
            end
            if value > MOST_BYTES // bytes then
                return ("'%s' is larger than any memory"):format(row[1]), culprit
            end
            extents[i], bytes = value, bytes * value
        end
        params[#params + 1] = {
            name = row[1], ctype = row[2], extents = extents, bytes = bytes,
            out = row.out or row.inout or false, inout = row.inout,
            scratch = scratch, layout = row.layout,
        }
    end
end

-- What is wrong with the whole list, as a sentence; nil when nothing is.
local function whole_fault(params)
    if #params > MOST then
        return ("%d parameters, at most %d are allowed"):format(#params, MOST)
    end
    local seen = {}
    for _, p in ipairs(params) do
        if seen[p.name] then return ("'%s' is an arg already"):format(p.name) end
        seen[p.name] = true
    end
end

-- { name, ctype, extents, bytes, out, inout, scratch, layout } for each arg; or nil, a sentence,
-- the field of the family that it is about and, where one is to blame, the function in it.
function param.args(family, s)
    local params = {}
    local wrong, culprit = evaluate(family.args, s, false, params)
    wrong = wrong or whole_fault(params)
    if wrong then return nil, wrong, "args", culprit end
    return params
end

-- The same for all parameters, scratch behind the args.
function param.list(family, s, v)
    local params, wrong, field, culprit = param.args(family, s)
    if not params or not family.scratch then return params, wrong, field, culprit end
    local rows = family.scratch(s, v)
    wrong = param.fault(rows, family.shape)
    if not wrong then wrong, culprit = evaluate(rows, s, true, params) end
    wrong = wrong or whole_fault(params)
    if wrong then return nil, wrong, "scratch", culprit end
    return params
end

-- The C type of a parameter's elements behind the pointer: "const e4m3", "bf16".
function param.spelling(p)
    return (p.out or p.scratch) and ctype.spelling(p.ctype) or "const " .. ctype.spelling(p.ctype)
end

return param
