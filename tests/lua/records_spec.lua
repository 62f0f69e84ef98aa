-- What a set of tuning records answers: tests/lua/inside_records.lua runs inside ./lathe.
local ROOT <const> = assert(io.popen("mktemp -d")):read("l")
os.execute(("mkdir %s/lua && cp tests/lua/inside_records.lua %s/lua/cli.lua"):format(ROOT, ROOT))

local function answers(step)
    local pipe = assert(io.popen(("LATHE_ROOT=%s LATHE_CACHE_DIR=%s ./lathe %s 2>&1"):format(ROOT,
        ROOT, step)))
    local list = {}
    for line in pipe:lines() do list[#list + 1] = line:gsub("\t", " ") end
    return list
end

teardown(function() os.execute("rm -rf " .. ROOT) end)

describe("a set of records", function()
    it("gives the fastest, of those that were timed twice where there are such", function()
        assert.same({
            "m1t1s4g1u2p1 5 exact m1_n96_k1552 mma.f16_1x4",
            "m1t2s4g1u2p1 4 exact m1_n96_k1552 mma.f16_1x4",
            "m1t1s4g1u2p1 4.5 exact m1_n96_k1552 mma.f16_1x4",
            "m1t2s4g1u2p1 4.25 exact m1_n96_k1552 mma.f16_1x4",
        }, answers("one_of_two_passes"))
    end)

    it("never gives what hung or, the last time, was wrong", function()
        assert.same({
            "m1t1s4g1u2p1 5 exact m1_n96_k1552 mma.f16_1x4",
            "m1t1s2g2u2p1 9 exact m1_n96_k1552 mma.f16_1x2",
        }, answers("what_is_not_right"))
    end)

    it("ignores another rev, another layout and variants that the family does not keep", function()
        assert.same({ "nothing" }, answers("what_is_of_another_kind"))
    end)

    it("falls back on the nearest shape, of the class that is asked for", function()
        assert.same({
            "m1t1s4g1u2p1 1 nearest m2_n96_k1552 mma.f16_1x4",
            "m1t2s4g2u2p1 3 nearest m16_n96_k1552 mma.f16_1x4",
            "m1t1s4g1u2p1 1 nearest m2_n96_k1552 mma.f16_1x4",
            "m1t1s4g2u2p1 9 exact m4_n96_k1552 mma.f16_1x4",
            "m1t1s2g2u2p1 7 nearest m2_n96_k1552 mma.f16_1x2",
            "nothing",
        }, answers("nearest"))
    end)

    it("has the best of each class that was proved right", function()
        assert.same({
            "mma.f16_1x2 m1t1s2g2u2p1 9",
            "mma.f16_1x4 m1t2s4g1u2p1 4",
            "2 0",
        }, answers("classes"))
    end)
end)
