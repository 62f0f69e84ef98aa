-- The families of a folder of description files, in the files' order. Each file runs in a sandbox:
-- it can load modules of gen and compute, and touch nothing else.
local message = require("gen.message")
local name = require("gen.name")
local shape = require("gen.shape")
local template = require("gen.template")
local variant = require("gen.variant")

local catalog = {}

-- `return family(...)` would be a tail call, which has no line to report: a variable that is to be
-- closed, in front of the file's first line, makes it an ordinary call.
local NO_TAIL_CALL <const> = "local _ <close> = nil "

local function require_gen(module)
    if type(module) ~= "string" or not module:match("^gen%.%l+$") then
        error(("a family may load modules of gen only, not '%s'"):format(tostring(module)), 2)
    end
    return require(module)
end

local function sandbox()
    local names = template.libraries("a family")
    names.require, names.ipairs, names.select, names.type = require_gen, ipairs, select, type
    names.tostring, names.tonumber, names.error, names.assert = tostring, tonumber, error, assert
    return template.sealed(names, "", "a family")
end

-- The families that a file returns, as a list. names: what it sees.
local function run(path, source, names)
    local chunk, why = load(NO_TAIL_CALL .. source, "@" .. path, "t", names)
    if not chunk then error(why, 0) end
    local result = chunk()
    if type(result) ~= "table" then
        error(("%s: a family or a list of families must be returned, got %s"):format(
            path, message.describe(result)), 0)
    end
    if result.name then return { result } end
    if #result == 0 then error(("%s: the list of families is empty"):format(path), 0) end
    return result
end

local function add(c, family, path)
    local symbol = type(family) == "table" and family.name and name.symbol(family.name)
    if not symbol then error(("%s: the list holds what is no family"):format(path), 0) end
    if c.by_symbol[symbol] then
        error(("%s: family %s: this name is taken by %s"):format(
            path, family.name, c.by_symbol[symbol].file), 0)
    end
    family.file = path
    c.list[#c.list + 1] = family
    c.by_name[family.name], c.by_symbol[symbol] = family, family
end

-- names: the files of families/, of which those that end in .lua are read. Returns the catalog:
-- list (in order), by_name, by_symbol (dots as underscores).
function catalog.load(read, names)
    local c, seen = { list = {}, by_name = {}, by_symbol = {} }, sandbox()
    for _, file in ipairs(names) do
        local path = "families/" .. file
        if file:match("%.lua$") then
            local source = read(path)
            if not source then error(("%s: not found"):format(path), 0) end
            for _, family in ipairs(run(path, source, seen)) do add(c, family, path) end
        end
    end
    return c
end

-- The family of this name, or nil and a sentence.
function catalog.find(c, family_name)
    local family = c.by_name[family_name]
    if family then return family end
    local names = {}
    for i, each in ipairs(c.list) do names[i] = each.name end
    return nil, ("unknown family '%s'%s"):format(
        family_name, message.did_you_mean(family_name, names))
end

-- The family that makes a weight's layout from its rows, or nil and a sentence.
function catalog.packer(c, layout)
    local family = c.by_name["pack_" .. layout]
    if family then return family end
    return nil, ("layout '%s' has no packer (family pack_%s)"):format(layout, layout)
end

-- Family, shape and variant of a kernel's name; or nil and a sentence.
function catalog.find_kernel(c, kernel_name)
    local symbol, shape_text, variant_text = name.parse(kernel_name)
    if not symbol then return nil, shape_text end
    local family = c.by_symbol[symbol]
    if not family then
        return nil, ("kernel %s: unknown family '%s'"):format(kernel_name, symbol)
    end
    local s, wrong = shape.parse(family, shape_text)
    if not s then return nil, wrong end
    local v, v_wrong = variant.parse(family, variant_text)
    if not v then return nil, v_wrong end
    return family, s, v
end

return catalog
