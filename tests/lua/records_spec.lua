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
            "s4p1c0u2o32 5 exact m1_n32_k4096 mma.f16_1x4",
            "s4p1c0u4o24 4 exact m1_n32_k4096 mma.f16_1x4",
            "s4p1c0u2o32 4.5 exact m1_n32_k4096 mma.f16_1x4",
            "s4p1c0u4o24 4.25 exact m1_n32_k4096 mma.f16_1x4",
        }, answers("one_of_two_passes"))
    end)

    it("never gives what hung or, the last time, was wrong", function()
        assert.same({
            "s4p1c0u2o32 5 exact m1_n32_k4096 mma.f16_1x4",
            "s16p1c0u2o32 9 exact m1_n32_k4096 mma.f16_1x16",
        }, answers("what_is_not_right"))
    end)

    it("ignores another rev, another layout and variants that the family does not keep", function()
        assert.same({ "nothing" }, answers("what_is_of_another_kind"))
    end)

    it("falls back on the nearest shape, of the class that is asked for", function()
        assert.same({
            "s4p1c0u2o32 1 nearest m2_n32_k4096 mma.f16_1x4",
            "s4p1c0u2o24 3 nearest m16_n32_k4096 mma.f16_1x4",
            "s4p1c0u2o32 1 nearest m2_n32_k4096 mma.f16_1x4",
            "s4p1c0u4o24 9 exact m4_n32_k4096 mma.f16_1x4",
            "s16p1c0u2o32 7 nearest m2_n32_k4096 mma.f16_1x16",
            "nothing",
        }, answers("nearest"))
    end)

    it("finds a cache's room near, the nearest one first, and nothing else so far", function()
        assert.same({
            "one 2 nearest m1_d64_ring16_slots1_pages64_blocks64 fma4",
            "one 3 nearest m1_d64_ring16_slots1_pages2048_blocks2048 fma4", "nothing",
        }, answers("room"))
    end)

    it("has the best of each class that was proved right", function()
        assert.same({
            "mma.f16_1x16 s16p1c0u2o32 9",
            "mma.f16_1x4 s4p1c0u4o24 4",
            "2 0",
        }, answers("classes"))
    end)

    it("reads finite numbers alone, and of times alone those that take some", function()
        assert.same({
            "us alone:4.5 chain:4.5 alone:7 chain:7 chain:0 chain:-1",
            "spread alone:0 chain:0", "floor alone:2.5 chain:2.5", "pass alone:2 chain:2",
        }, answers("numbers"))
    end)
end)
