-- Tables on stdout: aligned columns for a person, one JSON object for a program.
local cjson = require("cjson").new()
local order = require("gen.order")

local report = {}

-- Where a number has no value.
report.NONE = "-"

-- "12.3", "0.004": three digits that mean something.
function report.number(x)
    if not x then return report.NONE end
    if x ~= x or x == math.huge or x == -math.huge then return tostring(x) end
    if x == 0 or math.abs(x) >= 100 then return ("%.0f"):format(x) end
    return ("%.3g"):format(x)
end

local function is_number(text)
    return text == report.NONE or text:match("^[-+]?[%d.]+[%a%%]*$") ~= nil
end

-- Columns: { key, title, format = function(value, row) }; rows: tables of values by key.
local function cells(columns, rows)
    local lines = { {} }
    for i, column in ipairs(columns) do lines[1][i] = column[2] end
    for _, row in ipairs(rows) do
        local line = {}
        for i, column in ipairs(columns) do
            local value = row[column[1]]
            local text = column.format and column.format(value, row) or value
            line[i] = text == nil and report.NONE or tostring(text)
        end
        lines[#lines + 1] = line
    end
    return lines
end

local function widths(lines)
    local wide, right = {}, {}
    for number, line in ipairs(lines) do
        for i, text in ipairs(line) do
            wide[i] = math.max(wide[i] or 0, utf8.len(text) or #text)
            if number > 1 then right[i] = right[i] ~= false and is_number(text) end
        end
    end
    return wide, right
end

-- The lines of a table; numbers stand on the right.
function report.lines(columns, rows)
    local lines = cells(columns, rows)
    local wide, right = widths(lines)
    for number, line in ipairs(lines) do
        for i, text in ipairs(line) do
            local space = (" "):rep(wide[i] - (utf8.len(text) or #text))
            line[i] = right[i] and space .. text or text .. space
        end
        lines[number] = table.concat(line, "  "):gsub("%s+$", "")
    end
    return lines
end

cjson.encode_invalid_numbers("null")  -- what a model that computes no numbers gives: nan, inf

-- An object's fields are sorted, so that equal values are equal texts. Every empty table is an
-- empty list, but for a variant without knobs.
local function json_of(value, key)
    if type(value) ~= "table" then return cjson.encode(value) end
    local words = {}
    if value[1] ~= nil or next(value) == nil and key ~= "variant" then
        for i, each in ipairs(value) do words[i] = json_of(each) end
        return "[" .. table.concat(words, ",") .. "]"
    end
    for i, name in ipairs(order.keys(value)) do
        words[i] = ("%s:%s"):format(cjson.encode(tostring(name)), json_of(value[name], name))
    end
    return "{" .. table.concat(words, ",") .. "}"
end

function report.json(value) print(json_of(value)) end

-- Prints rows as a table, or { rows =, ... } as JSON. extra: what JSON shows besides.
function report.print(options, columns, rows, extra)
    if options.json then
        local all = { rows = rows }
        for key, value in pairs(extra or {}) do all[key] = value end
        return report.json(all)
    end
    for _, line in ipairs(report.lines(columns, rows)) do print(line) end
end

return report
