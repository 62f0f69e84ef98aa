-- What the tests of gen/ work on: the files below tests/lua/fixtures, read as lathe reads its own.
local catalog = require("gen.catalog")
local emit = require("gen.emit")
local variant = require("gen.variant")

local fixtures = {}

local FOLDER <const> = "tests/lua/fixtures/"

function fixtures.read(path)
    local file <close> = io.open(FOLDER .. path)
    return file and file:read("a")
end

-- read, with the text of some paths given instead.
function fixtures.read_with(texts)
    return function(path)
        if texts[path] ~= nil then return texts[path] or nil end
        return fixtures.read(path)
    end
end

function fixtures.catalog()
    return catalog.load(fixtures.read, { "moe.lua", "w8a8_rows.c", "w8a8_rows.lua" })
end

function fixtures.family(name) return assert(catalog.find(fixtures.catalog(), name)) end

-- The kernel of a family's shape; the variant is a text such as c2w8s1u2.
function fixtures.kernel(name, s, variant_text, arch_name, read)
    local family = fixtures.family(name)
    return emit.kernel({
        family = family, shape = s, variant = assert(variant.parse(family, variant_text)),
        arch = arch_name or "sm_90a", read = read or fixtures.read,
    })
end

-- One line of a fixture file.
function fixtures.line(path, number)
    local at = 0
    for text in fixtures.read(path):gmatch("(.-)\n") do
        at = at + 1
        if at == number then return text end
    end
end

-- What f(...) fails with, as text.
function fixtures.failure(f, ...)
    local fine, message = pcall(f, ...)
    assert(not fine, "no error")
    return message
end

return fixtures
