-- The fields of a JSON object, each read with a sentence where it is not what is needed.
-- A reader gathers the sentences, so that a file's faults are told together.
local cjson = require("cjson")

local fields = {}

local MOST <const> = 100  -- bytes of a string that a sentence shows

-- A text as a sentence shows it: at most so many bytes, `?` for each that no terminal should get.
function fields.printable(text, most) return (text:sub(1, most or MOST):gsub("[^ -~]", "?")) end

-- A value as a sentence shows it.
function fields.shown(value)
    if value == nil then return "missing" end
    if value == cjson.null then return "null" end
    if type(value) == "string" then return ('"%s"'):format(fields.printable(value)) end
    if type(value) == "table" then return "a list or an object" end
    if type(value) == "number" then return ("%.14g"):format(value) end
    return tostring(value)
end

-- The object of a JSON text, or nil and what is wrong.
function fields.decode(text)
    local zero = text:find("\0", 1, true)  -- where the library takes the text to end
    if zero then return nil, ("is no JSON: byte %d is zero"):format(zero) end
    local json = cjson.new()
    json.decode_invalid_numbers(false)
    local ok, value = pcall(json.decode, text)  -- the library has no other way to say no
    if not ok then return nil, "is no JSON: " .. value end
    if type(value) ~= "table" then return nil, "is no object" end
    return value
end

-- file: what sentences begin with.
function fields.reader(file, object)
    return setmetatable({ file = file, object = object, faults = {}, taken = {} },
        { __index = fields })
end

function fields:fault(text, ...)
    table.insert(self.faults, ("%s: "):format(self.file) .. text:format(...))
end

-- The value of a field; nil where it is missing or null.
function fields:get(name)
    local value = self.object[name]
    if value == cjson.null then return nil end
    return value
end

-- The same, or a default, which is remembered in `taken`.
function fields:or_default(name, default)
    local value = self.object[name]
    if value ~= nil then return value end
    table.insert(self.taken, ("%s %s"):format(name, fields.shown(default)))
    return default
end

-- A whole number; JSON's numbers come as floats.
local function whole(value) return type(value) == "number" and math.tointeger(value) or nil end

function fields:count(name, default, from, to, unit)
    local value = self:or_default(name, default)
    local n = whole(value)
    if not n or n < from or n > to then
        self:fault("%s is %s (a whole number from %d to %d is needed)", name, fields.shown(value),
            from, to)
        return default
    end
    if n % (unit or 1) ~= 0 then
        self:fault("%s is %d (a multiple of %d is needed)", name, n, unit)
    end
    return n
end

function fields:number(name, default, above, below)
    local value = self:or_default(name, default)
    if type(value) ~= "number" or value <= above or value >= below then
        self:fault("%s is %s (a number between %g and %g is needed)", name, fields.shown(value),
            above, below)
        return default
    end
    return value + 0.0
end

function fields:flag(name)
    local value = self:get(name)
    if value ~= nil and type(value) ~= "boolean" then
        self:fault("%s is %s (true or false is needed)", name, fields.shown(value))
    end
    return value == true
end

-- Refuses every other value than the one that is served; why: what the other would need.
function fields:only(name, wanted, why)
    local value = self:get(name)
    if value ~= nil and value ~= wanted then
        self:fault("%s is %s, only %s is served%s", name, fields.shown(value),
            fields.shown(wanted), why and (" (the other is %s)"):format(why) or "")
    end
end

-- A word for each of `count` layers, translated; `more` others may follow. nil: missing or wrong.
function fields:words(name, count, more, meaning)
    local list = self:get(name)
    if list == nil then return nil end
    local entries = type(list) == "table" and #list or 0
    if entries ~= count and entries ~= count + more then
        return self:fault("%s has %d entries, there are %d layers", name, entries, count)
    end
    local out = {}
    for i = 1, count do
        out[i] = meaning[list[i]]
        if not out[i] then
            return self:fault("%s says %s for layer %d, which is not served", name,
                fields.shown(list[i]), i - 1)
        end
    end
    return out
end

-- Ids of tokens: one, or a list of them; {} where there is none.
function fields:ids(name, below)
    local value, ids = self:get(name), {}
    for i, each in ipairs(type(value) == "table" and value or { value }) do
        ids[i] = whole(each) or -1
        if ids[i] < 0 or ids[i] >= below then
            self:fault("%s is %s (an id below %d is needed)", name, fields.shown(each), below)
        end
    end
    return ids
end

return fields
