-- `lathe tune` on a GPU that is played: what is compiled, measured, dropped, and known again by its
-- machine code.
local tune_kit = require("tests.lua.tune_kit")

local read, write = tune_kit.read, tune_kit.write
local kit <const> = tune_kit.new()
local tune, other_root = kit.tune, kit.other_root
local SCRATCH <const> = kit.scratch

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("lathe tune on a GPU", function()
    local LARGE <const> = "w8a8_gemv M=1 N=4096 K=32768"
    local log = SCRATCH .. "/log"
    local function gpu_root(name, files)
        files["lua/tune/worker.lua"] = read("tests/lua/fake_worker.lua")
        files["cache/tuned/nvidia-h200.tuned"] = ""  -- what we ship would be known
        return other_root(name, files) .. " LOG=" .. log
    end
    local root = gpu_root("gpu", {})

    local tuned <const> = SCRATCH .. "/gpu_cache/tuned/nvidia-h200.tuned"

    -- Records of the GPU that is played, by variant and pass; those of the chain by variant.
    local function recorded()
        local by = {}
        for line in read(tuned):gmatch("[^\n]+") do
            local record = { line = line }
            for field, value in line:gmatch("(%l+)=([^\t]*)") do record[field] = value end
            local of <const> = record.regime == "chain" and "chain" or record.pass
            by[record.knobs .. " " .. of] = record
        end
        return by
    end

    -- Appends a record's line as one of the chain.
    local function append_chained(line)
        write(tuned, read(tuned) .. tune_kit.sealed(line, "regime=alone", "regime=chain",
            "\tcode=%x+", ""))
    end

    local row, errors, code = tune("gpu_cache", LARGE, root)
    local asked, by = read(log), recorded()

    it("times the same code once, and records it for both", function()
        assert.equal("s16p1c0u2o32", by["s16p1c0u4o32 1"].same)
        assert.equal(by["s16p1c0u2o32 1"].us, by["s16p1c0u4o32 1"].us)
        assert.truthy(asked:find("try s16p1c0u2o32 ", 1, true))
        assert.falsy(asked:find("try s16p1c0u4o32 ", 1, true))
    end)

    it("starts another worker where a candidate cost the device, and goes on", function()
        assert.equal("device-error", by["s8p1c1u2o32 1"].status)
        assert.equal("an illegal address", by["s8p1c1u2o32 1"].why)
        assert.equal(2, select(2, asked:gsub("open ", "")))
        assert.equal(2, select(2, asked:gsub("place ", "")))
        assert.equal("compile-failed", by["s8p1c1u4o24 1"].status)
        assert.truthy(errors:find("s8p1c1u4o24: compile-failed: kernel x: out of registers", 1,
            true), errors)
        assert.equal(2, row.rejected)
        assert.equal(0, code)
    end)

    it("leaves out what cannot be much better than one near the floor", function()
        assert.equal("s16p1c1u2o32", row.best)
        assert.near(31.2, row.us, 0.001)
        assert.falsy(by["s16p1c1u4o32 1"])
        assert.equal(0, row.open)
    end)

    it("drops the hopeless, and times the best three again in alternation", function()
        assert.equal("dropped", by["s8p1c0u2o32 1"].status)
        local order = {}
        for knobs in asked:gmatch("time (%w+)") do order[#order + 1] = knobs end
        local round <const> = "s16p1c1u2o32 s16p1c0u2o32 s8p1c0u4o24"
        assert.equal(round .. " " .. round, table.concat(order, " "))
        assert.equal("32.9", by["s16p1c0u2o32 2"].us)
    end)

    it("times the best of each template again, where it is near", function()
        local apart = gpu_root("templates", {
            ["families/w8a8_gemv.lua"] = tune_kit.changed("families/w8a8_gemv.lua",
                "    launch = gemv.launch,", "    template = function(_, v) return v.unroll == 2 "
                .. "and 'w8a8_gemv_two' or 'w8a8_gemv' end,\n    launch = gemv.launch,"),
            ["templates/w8a8_gemv_two.cut"] = read("templates/w8a8_gemv.cut"),
            ["lua/tune/finals.lua"] = tune_kit.changed("lua/tune/finals.lua", "BEST <const> = 3",
                "BEST <const> = 1"),
        })
        os.remove(log)
        tune("templates", "w8a8_gemv M=1 N=32768 K=1536", apart .. " NEW=s4p1c0u2")
        local order = {}
        for knobs in read(log):gmatch("time (%w+)") do order[#order + 1] = knobs end
        local round <const> = "s8p1c0u3o32 s4p1c0u3o32 s4p1c0u2o32"  -- the last two of one class
        assert.equal(round .. " " .. round, table.concat(order, " "))
    end)

    -- Another text, whose machine code is the same but for what NEW names.
    local function tune_edited(more)
        local cut <const> = "templates/w8a8_gemv.cut"
        local edited = gpu_root("edited", { [cut] = read(cut):gsub("lane", "which_lane") })
        os.remove(log)
        return tune("gpu_cache", LARGE, edited .. " " .. more), read(log)
    end

    it("measures no text again whose machine code a record has, in the chain neither", function()
        append_chained(by["s16p1c1u2o32 2"].line)
        local other, said = tune_edited("NEW=s16p1c0")
        assert.truthy(said:find("build ", 1, true))
        for knobs in said:gmatch("try (%w+)") do assert.truthy(knobs:find("^s16p1c0")) end
        assert.equal(2, other.measured)  -- with the same code: one is the other again
        assert.equal("s16p1c1u2o32", other.best)
        local now = recorded()
        assert.equal(by["s16p1c1u2o32 2"].us, now["s16p1c1u2o32 2"].us)
        assert.equal(now["s16p1c1u2o32 2"].text, now["s16p1c1u2o32 chain"].text)
        assert.not_equal(by["s16p1c1u2o32 2"].text, now["s16p1c1u2o32 2"].text)
        assert.equal(by["s16p1c1u2o32 2"].code, now["s16p1c1u2o32 2"].code)
        assert.not_equal(by["s16p1c0u2o32 2"].code, now["s16p1c0u2o32 2"].code)
    end)

    it("measures it with --again", function()
        local edited = "LATHE_ROOT=" .. SCRATCH .. "/edited LOG=" .. log
        os.remove(log)
        assert.truthy(tune("gpu_cache", LARGE .. " --again", edited).measured > 4)
    end)

    it("compiles each shape once, and goes on past one that cannot be placed", function()
        os.remove(log)
        local _, said, status, all = tune("gpu_cache", "w8a8_gemv", root)
        local builds = select(2, read(log):gsub("build ", ""))
        assert.equal(6, builds)  -- of 7, one is known
        assert.equal(1, status)
        assert.truthy(said:find("m1_n2304_k4096: cannot be tuned: cuda:0: out of memory", 1, true),
            said)
        for _, each in ipairs(all.rows) do
            assert.equal(each.shape ~= "M=1 N=2304 K=4096", each.done)
        end
    end)
end)
