-- Choices that a user pins, in a Lua file that returns them: knobs by family and shape, such as
--   return { ["w8a8_gemv m1_n4096_k11264"] = "s8p1c1u2o32" }
-- The file sees nothing of Lua's libraries.
local catalog = require("gen.catalog")
local choice = require("lua.choice")
local fault = require("lua.fault")
local input = require("lua.input")
local order = require("gen.order")
local shape = require("gen.shape")
local variant = require("gen.variant")

local pins = {}

local function refuse(path, text, ...)
    fault.usage(("--pins: %s: %s"):format(path, text:format(...)))
end

local function run(path)
    local chunk, wrong = load(input.read("--pins", path), "@" .. path, "t", {})
    if not chunk then refuse(path, "%s", wrong) end
    local ok, list = pcall(chunk)  -- a file of somebody's
    if not ok then refuse(path, "%s", tostring(list)) end
    if type(list) ~= "table" then refuse(path, "a table of pins must be returned") end
    return list
end

local function check_pin(path, families, key, knobs)
    if type(key) ~= "string" or type(knobs) ~= "string" then
        refuse(path, "a pin is [\"FAMILY SHAPE\"] = \"KNOBS\"")
    end
    local name, text = key:match("^(%S+) (%S+)$")
    if not name then refuse(path, "'%s' is not a family and a shape", key) end
    local family, why = catalog.find(families, name)
    if not family then refuse(path, "'%s': %s", key, why) end
    local s, wrong = shape.parse(family, text)
    if not s then refuse(path, "'%s': %s", key, wrong) end
    if shape.text(family, s) ~= text then
        refuse(path, "'%s': no shape is written so (write %s)", key, shape.text(family, s))
    end
    local served, reason = choice.served(family, s)
    if not served then refuse(path, "'%s' is not served: %s", key, reason) end
    local v, bad = variant.parse(family, knobs)
    if not v then refuse(path, "'%s': %s", key, bad) end
end

-- The pins of a file, as pick.variant takes them; nil where there is no path.
function pins.read(path, families)
    if not path then return nil end
    local list = run(path)
    for _, key in ipairs(order.keys(list)) do check_pin(path, families, key, list[key]) end
    return list
end

return pins
