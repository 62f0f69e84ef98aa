local fixtures = require("tests.lua.fixtures")

local SCRIPT <const> = [[
package.path = "./?.lua;" .. package.path
require("lua.strict")
local fixtures = require("tests.lua.fixtures")
local k = fixtures.kernel("moe.up", { E = 3, N = 22, K = 704 }, "p2m0")
io.write(k.source)
local c = fixtures.catalog()
for _, family in ipairs(c.list) do io.write("// ", family.name, "\n") end
local fine, why = pcall(require("gen.family"), "x", { zeta = 1, alpha = 2, mid = 3, rev = 4 })
io.write("// ", tostring(fine), " ", why, "\n")
]]

-- What the script prints in a fresh process, with some environment.
local function output(environment)
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(SCRIPT)
    file:close()
    local process <close> = assert(io.popen(("%s lua5.4 %s 2>&1"):format(environment, path)))
    local said = process:read("a")
    os.remove(path)
    return (said:gsub("%S+:%d+: family x", "family x"))
end

describe("gen", function()
    it("gives the same bytes in every process", function()
        local first = output("")
        assert.matches("\n// w8a8_rows\n// false family x: unknown field 'alpha'\n$", first)
        local here = fixtures.kernel("moe.up", { E = 3, N = 22, K = 704 }, "p2m0").source
        assert.equal(here, first:sub(1, #here))
        for i = 1, 4 do
            assert.equal(first, output(("LC_ALL=de_DE.UTF-8 PAD=%s"):format(("x"):rep(997 * i))))
        end
    end)

    it("gives the same bytes twice in one process, whatever was made between", function()
        local first = fixtures.kernel("w8a8_rows", { M = 2, N = 96, K = 1552 }, "c2w4s2u1").source
        fixtures.kernel("moe.down", { E = 3, N = 22, K = 704 }, "p1m0")
        assert.equal(first,
            fixtures.kernel("w8a8_rows", { M = 2, N = 96, K = 1552 }, "c2w4s2u1").source)
    end)
end)

describe("strict", function()
    local function run(code)
        local process <close> = assert(io.popen(
            ("lua5.4 -e 'require(\"lua.strict\") %s' 2>&1"):format(code)))
        return process:read("a")
    end

    it("stops at a global that was never set", function()
        assert.matches("%(command line%):1: unknown global 'cuont'", run("print(cuont)"))
    end)

    it("stops at a new global", function()
        assert.matches("%(command line%):1: unknown global 'count'", run("count = 1"))
    end)

    it("lets known globals be", function()
        assert.equal("3\n", run("arg = nil print(math.max(1, 3))"))
    end)
end)
