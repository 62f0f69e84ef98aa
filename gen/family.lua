-- A family describes kernels that one launch runs: family(name, table) checks the table and returns
-- it, with its name in it. FIELDS is the only list of legal fields.
local message = require("gen.message")
local order = require("gen.order")
local param = require("gen.param")
local sample = require("gen.sample")

local family = {}

family.FIELDS = {  -- name, type, is it needed
    { "rev",      "integer",  true },   -- raised when old tuning records must not be trusted
    { "maths",    "string",   true },   -- what it computes, in one line
    { "shape",    "table",    true },   -- sizes, in order: become constants of the text
    { "serves",   "function", true },   -- (s) -> true, or nil and a reason
    { "args",     "table",    true },   -- { name, format, extents, out =, layout = } in order
    { "scratch",  "function", false },  -- (s, v) -> rows like args: memory besides the args
    { "knobs",    "table",    true },   -- { name, value, ... } in order, safe values first
    { "class",    "function", true },   -- (s, v) -> what fixes the bits of a row, one word
    { "keep",     "function", true },   -- (s, v, dev) -> is the variant worth compiling
    { "launch",   "function", true },   -- (s, v, dev) -> { grid =, block =, shared = }
    { "work",     "function", true },   -- (s) -> { bytes =, flops = } that cannot be avoided
    { "template", "function", false },  -- (s, v, dev) -> base name, where there are several texts
    { "packs",    "string",   false },  -- the layout that this family makes
    { "check",    "table",    true },   -- how near the results are, and at which shapes
}

local SIZE <const> = "^%u+$"     -- capital letters
local LONGEST_SIZE <const> = 8   -- letters
local KNOB <const> = "^%l+$"     -- small letters

local function kind_of(x) return math.type(x) or type(x) end

local function name_fault(name)
    local whole = type(name) == "string" and name:match("^%l[%l%d_]*$") or
        type(name) == "string" and name:match("^%l[%l%d_]*%.%l[%l%d_]*$")
    if not whole or name:find("__", 1, true) or name:find("_%.") or name:find("_$") then
        return "a name is small letters, digits and single underscores, with at most one dot"
    end
end

local function unknown_fault(t)
    local legal = {}
    for i, field in ipairs(family.FIELDS) do legal[i], legal[field[1]] = field[1], true end
    for _, key in ipairs(order.keys(t)) do
        if not legal[key] then
            key = tostring(key)
            return ("unknown field '%s'%s"):format(key, message.did_you_mean(key, legal))
        end
    end
end

local function field_fault(t)
    for _, field in ipairs(family.FIELDS) do
        local name, kind, needed = field[1], field[2], field[3]
        local value = t[name]
        if value == nil and needed then return ("field '%s' is missing"):format(name) end
        if value ~= nil and kind_of(value) ~= kind then
            return ("field '%s' must be %s %s, got %s"):format(name,
                kind == "integer" and "an" or "a", kind, message.describe(value))
        end
    end
end

local function text_fault(t)
    if t.rev < 1 then return ("rev must be 1 or more, got %d"):format(t.rev) end
    if t.maths == "" or t.maths:find("\n", 1, true) then return "maths must be one line" end
end

local function shape_fault(t)
    local seen = {}
    if #t.shape == 0 then return "shape needs at least one size" end
    for _, size in ipairs(t.shape) do
        if type(size) ~= "string" or not size:match(SIZE) or #size > LONGEST_SIZE then
            return ("a size is 1 to %d capital letters, got %s"):format(
                LONGEST_SIZE, message.describe(size))
        end
        if seen[size] then return ("shape has the size %s twice"):format(size) end
        seen[size] = true
    end
end

local function values_fault(knob)
    local seen = {}
    if #knob < 2 then return ("knob '%s' has no values"):format(knob[1]) end
    for i = 2, #knob do
        local value = knob[i]
        if math.type(value) ~= "integer" or value < 0 then
            return ("knob '%s' takes integers of 0 or more, got %s"):format(
                knob[1], message.describe(value))
        end
        if seen[value] then return ("knob '%s' has the value %d twice"):format(knob[1], value) end
        seen[value] = true
    end
end

local function knob_name_fault(name, sizes, letters)
    if type(name) ~= "string" then
        return "a knob is { name, value, ... }, got the name " .. message.describe(name)
    end
    for _, size in ipairs(sizes) do
        if name:upper() == size then return ("knob '%s' hides the size %s"):format(name, size) end
    end
    if not name:match(KNOB) then
        return ("a knob's name is one word of small letters, got '%s'"):format(name)
    end
    local letter = name:sub(1, 1)
    if letters[letter] == name then return ("knobs has the name '%s' twice"):format(name) end
    if letters[letter] then
        return ("knobs '%s' and '%s' both begin with '%s'"):format(letters[letter], name, letter)
    end
    letters[letter] = name
end

local function knobs_fault(t)
    local letters = {}
    for i, knob in ipairs(t.knobs) do
        if type(knob) ~= "table" then
            return ("knobs[%d] must be { name, value, ... }, got %s"):format(
                i, message.describe(knob))
        end
        local wrong = knob_name_fault(knob[1], t.shape, letters) or values_fault(knob)
        if wrong then return wrong end
    end
end

local function args_fault(t)
    local wrong = param.fault(t.args, t.shape)
    if wrong then return "args: " .. wrong end
    for _, row in ipairs(t.args) do
        if row.out or row.inout then return nil end
    end
    return "args: none is out, so the kernel would compute nothing"
end

local function packs_fault(t, name)
    if t.packs and name ~= "pack_" .. t.packs then
        return ("it packs '%s', so its name must be pack_%s"):format(t.packs, t.packs)
    end
end

local CHECKS <const> = {  -- each may rely on the ones before it
    unknown_fault, field_fault, text_fault, shape_fault, knobs_fault, args_fault, packs_fault,
    sample.fault,
}

local function fault(name, t)
    local wrong = name_fault(name)
    if wrong then return wrong end
    if type(t) ~= "table" then return "a table of fields is needed, got " .. message.describe(t) end
    for _, check in ipairs(CHECKS) do
        wrong = check(t, name)
        if wrong then return wrong end
    end
end

-- family(name, t): t, checked, with t.name; a mistake is an error at the caller's line.
local function describe_family(_, name, t)
    local wrong = fault(name, t)
    if wrong then error(("family %s: %s"):format(tostring(name), wrong), 2) end
    t.name = name
    return t
end

return setmetatable(family, { __call = describe_family })
