local arch = require("gen.arch")
local fixtures = require("tests.lua.fixtures")
local variant = require("gen.variant")

local function texts(family, list)
    local out = {}
    for i, v in ipairs(list) do out[i] = variant.text(family, v) end
    return table.concat(out, " ")
end

describe("variant", function()
    local rows, moe, dev

    before_each(function()
        rows, moe = fixtures.family("w8a8_rows"), fixtures.family("moe.up")
        dev = arch.device("sm_90a", 1)
    end)

    it("lists every combination with the last knob turning fastest", function()
        assert.equal("p1m0 p1m1 p2m0 p2m1", texts(moe, variant.all(moe)))
        assert.equal(81, #variant.all(rows))
    end)

    it("keeps what the family keeps, in the same order, the default first", function()
        local s = { M = 8, N = 64, K = 1024 }
        assert.equal("c1w4s1u1 c1w4s1u2 c1w4s2u1 c1w8s1u1 c1w8s1u2 c1w8s2u1 c1w16s1u1 c1w16s1u2"
            .. " c1w16s2u1 c2w4s1u1 c2w4s1u2 c2w4s2u1 c2w8s1u1 c2w8s1u2 c2w8s2u1 c2w16s1u1"
            .. " c2w16s1u2 c2w16s2u1", texts(rows, variant.kept(rows, s, dev)))
        assert.same({ cols = 1, warps = 4, split = 1, unroll = 1 }, variant.default(rows, s, dev))
    end)

    it("asks keep about the device", function()
        local s = { E = 1, N = 2, K = 2 }
        assert.equal("p1m0 p2m0", texts(moe, variant.kept(moe, s, dev)))
        assert.equal("p1m0 p1m1 p2m0 p2m1",
            texts(moe, variant.kept(moe, s, arch.device("sm_121a", 48))))
        moe.keep = function() return false end
        assert.is_nil(variant.default(moe, s, dev))
    end)

    it("makes a variant once, whoever reaches it first", function()
        local _, first = variant.each(rows)(nil, 0)
        local all = variant.all(rows)
        assert.equal(first, all[1])
        for i, v in variant.each(rows) do assert.equal(all[i], v) end
    end)

    it("reads back what it wrote", function()
        for _, family in ipairs({ rows, moe }) do
            for _, v in ipairs(variant.all(family)) do
                assert.same(v, variant.parse(family, variant.text(family, v)))
            end
        end
    end)

    it("writes the only variant of a family without knobs as 'one'", function()
        local bare = { name = "bare", knobs = {} }
        assert.equal("one", variant.text(bare, variant.all(bare)[1]))
        assert.same({}, variant.parse(bare, "one"))
    end)

    it("says what is wrong with a variant's text", function()
        local cases = {
            { "c2w8", "family w8a8_rows: variant 'c2w8' has no split at ''" },
            { "w8c2s1u1", "family w8a8_rows: variant 'w8c2s1u1' has no cols at 'w8c2s1u1'" },
            { "c2w8s1u1x", "family w8a8_rows: variant 'c2w8s1u1x' does not end at 'x'" },
            { "c3w8s1u1", "family w8a8_rows: knob 'cols' takes 1 2 4, got the integer 3" },
        }
        for _, case in ipairs(cases) do
            local v, why = variant.parse(rows, case[1])
            assert.is_nil(v)
            assert.equal(case[2], why)
        end
    end)

    it("takes knobs by name, the others from the base or their first value", function()
        assert.same({ cols = 2, warps = 8, split = 1, unroll = 1 },
            variant.from_words(rows, "warps=8,cols=2"))
        assert.same({ cols = 4, warps = 8, split = 2, unroll = 1 },
            variant.from_words(rows, "warps=8", { cols = 4, warps = 4, split = 2, unroll = 1 }))
        assert.same({ parts = 1, mma = 0 }, variant.from_words(moe, ""))
    end)

    it("says what is wrong with a knob's word", function()
        local cases = {
            { "colls=2", "family w8a8_rows: unknown knob 'colls' (did you mean 'cols'?)"
                .. " (the knobs are cols warps split unroll)" },
            { "cols", "'cols' is not a knob and its value (write cols=1)" },
            { "cols=2,", "'' is not a knob and its value (write cols=1)" },
            { "cols=2,cols=4", "knob 'cols' is given twice" },
            { "cols=99999999999999999999", "family w8a8_rows: knob 'cols' takes 1 2 4, got"
                .. " the string '99999999999999999999'" },
        }
        for _, case in ipairs(cases) do
            local v, why = variant.from_words(rows, case[1])
            assert.is_nil(v)
            assert.equal(case[2], why)
        end
    end)
end)
