local catalog = require("gen.catalog")
local family = require("gen.family")
local fixtures = require("tests.lua.fixtures")
local message = require("gen.message")

describe("catalog", function()
    it("holds the families in the order of files and lists", function()
        local names = {}
        for i, f in ipairs(fixtures.catalog().list) do names[i] = f.name .. " " .. f.file end
        assert.same({ "moe.up families/moe.lua", "moe.down families/moe.lua",
            "w8a8_rows families/w8a8_rows.lua" }, names)
    end)

    it("suggests the nearest name for an unknown one", function()
        local found, why = catalog.find(fixtures.catalog(), "w8a8_row")
        assert.is_nil(found)
        assert.equal("unknown family 'w8a8_row' (did you mean 'w8a8_rows'?)", why)
    end)

    it("finds the packer of a layout", function()
        local packer = { name = "pack_rows" }
        local c = { by_name = { pack_rows = packer } }
        assert.equal(packer, catalog.packer(c, "rows"))
        assert.equal("layout 'tile' has no packer (family pack_tile)",
            select(2, catalog.packer(c, "tile")))
    end)

    it("refuses one name in two files and a file that is not there", function()
        assert.equal("families/b.lua: family w8a8_rows: this name is taken by families/a.lua",
            fixtures.failure(catalog.load, function()
                return fixtures.read("families/w8a8_rows.lua")
            end, { "a.lua", "b.lua" }))
        assert.equal("families/none.lua: not found",
            fixtures.failure(catalog.load, fixtures.read, { "none.lua" }))
    end)
end)

describe("family", function()
    it("checks a table where it is called, outside of a catalog too", function()
        local function author() local f = family("x", { rev = 1 }) return f end
        assert.matches("gen_catalog_spec.lua:%d+: family x: field 'maths' is missing$",
            fixtures.failure(author))
    end)

    it("may keep variants on one kind of device alone", function()
        local t = fixtures.family("moe.up")
        t.keep, t.name = function(_, _, dev) return dev.nvf4 end, nil
        t.file = nil
        assert.equal(t, family("moe.up", t))
    end)

    it("has a line in docs/family.md for each field", function()
        local file <close> = assert(io.open("docs/family.md"))
        local text = file:read("a")
        for _, field in ipairs(family.FIELDS) do
            assert(text:find(("\n| `%s` |"):format(field[1]), 1, true), field[1])
        end
        for _, field in ipairs(require("gen.sample").FIELDS) do
            assert(text:find(("\n| `check.%s` |"):format(field), 1, true), field)
        end
    end)
end)

describe("message", function()
    it("suggests a word only where it is near", function()
        local legal = { "knobs", "keep", "check" }
        assert.equal(" (did you mean 'knobs'?)", message.did_you_mean("knob", legal))
        assert.equal(" (did you mean 'keep'?)", message.did_you_mean("kepe", legal))
        assert.equal("", message.did_you_mean("launching", legal))
        assert.equal("", message.did_you_mean("ab", { "cd" }))
    end)
end)
