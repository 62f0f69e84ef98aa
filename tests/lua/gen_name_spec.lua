local arch = require("gen.arch")
local catalog = require("gen.catalog")
local fixtures = require("tests.lua.fixtures")
local name = require("gen.name")
local shape = require("gen.shape")

local S <const> = { M = 2, N = 4096, K = 11264 }
local V <const> = { cols = 2, warps = 8, split = 1, unroll = 2 }

describe("name", function()
    local c, rows

    before_each(function()
        c = fixtures.catalog()
        rows = c.by_name["w8a8_rows"]
    end)

    it("is family, shape in the family's order and knobs by their letters", function()
        assert.equal("w8a8_rows__m2_n4096_k11264__c2w8s1u2", name.kernel(rows, S, V))
        assert.equal("w8a8_rows@1 m2_n4096_k11264", name.tuning(rows, S))
        assert.equal("moe_up__e3_n22_k704__p1m0", name.kernel(c.by_name["moe.up"],
            { E = 3, N = 22, K = 704 }, { parts = 1, mma = 0 }))
    end)

    it("is parsed back to family, shape and variant", function()
        local family, s, v = catalog.find_kernel(c, name.kernel(rows, S, V))
        assert.equal(rows, family)
        assert.same(S, s)
        assert.same(V, v)
        assert.equal("moe.up", catalog.find_kernel(c, "moe_up__e3_n22_k704__p1m0").name)
    end)

    it("of something else is refused with the form that it should have", function()
        local cases = {
            { "w8a8_rows", "'w8a8_rows' is not a kernel's name (<family>__<shape>__<variant>)" },
            { "other__m2__c1", "kernel other__m2__c1: unknown family 'other'" },
            { "w8a8_rows__m2_n4__c1", "family w8a8_rows: size K is missing" },
            { "w8a8_rows__m2_n4_k1_q1__c1",
                "family w8a8_rows: unknown size 'Q' (the sizes are M N K)" },
            { "w8a8_rows__m2_m2_k1__c1", "shape 'm2_m2_k1': size M is given twice" },
            { "w8a8_rows__m2__k1__c1", "shape 'm2__k1': '' is not a size and its value" },
        }
        for _, case in ipairs(cases) do
            local family, why = catalog.find_kernel(c, case[1])
            assert.is_nil(family)
            assert.equal(case[2], why)
        end
    end)

    it("of more than 200 letters is refused", function()
        local long = { name = ("x"):rep(191), shape = { "M" }, knobs = {} }
        assert.matches("has 201 letters, at most 200 are allowed$",
            fixtures.failure(name.kernel, long, { M = 12 }, {}))
        assert.equal(200, #name.kernel(long, { M = 1 }, {}))
    end)
end)

describe("shape", function()
    local rows

    before_each(function() rows = fixtures.family("w8a8_rows") end)

    it("is read from K=V words in any order", function()
        assert.same(S, shape.from_words(rows, { "K=11264", "M=2", "N=4096" }))
    end)

    it("says what is wrong with a word", function()
        local cases = {
            { { "M=2", "N=x" }, "'N=x' is not a size and its value (write M=2)" },
            { { "M=2", "M=2" }, "size M is given twice (write M=2)" },
            { { "M=2" }, "family w8a8_rows: size N is missing" },
            { { "m=2" }, "family w8a8_rows: unknown size 'm' (the sizes are M N K)" },
            { { "M=2", "N=1", "K=2147483648" }, "family w8a8_rows: size K must be an integer from"
                .. " 0 to 2147483647, got the integer 2147483648" },
            { { "M=18446744073709551617" }, "'M=18446744073709551617' is not a size and its value"
                .. " (write M=2)" },
        }
        for _, case in ipairs(cases) do
            local s, why = shape.from_words(rows, case[1])
            assert.is_nil(s)
            assert.equal(case[2], why)
        end
    end)
end)

describe("arch", function()
    it("lists the known names when asked for another", function()
        local found, why = arch.find("sm_90")
        assert.is_nil(found)
        assert.equal("unknown arch 'sm_90' (known: sm_90a sm_100a sm_100f sm_120a"
            .. " sm_120f sm_121a sm_121f cpu)", why)
    end)

    it("knows folder, tensor-core model and limits", function()
        assert.same({ name = "sm_121f", text = "sm_121f", prelude = "cuda", folder = "sm120",
            model = 120, shared = 101376, threads_per_sm = 1536, cluster = 8, nvf4 = true },
            arch.get("sm_121f"))
        assert.same({ name = "cpu", text = "sm_90a", prelude = "cpu", folder = "sm90", model = 90,
            shared = 232448, threads_per_sm = 2048, cluster = 16, nvf4 = false }, arch.get("cpu"))
        assert.same(arch.device("sm_90a", 1), arch.device("cpu", 1))
        assert.same(arch.device("sm_121a", 1), arch.device(arch.on_cpu("sm_121a"), 1))
    end)
end)
