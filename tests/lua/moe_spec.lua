-- Products with stacked experts: reading an expert once for all slots that chose it leaves the bits
-- of reading it for each, and M rows in one launch those of M launches; on both kinds of mma. And
-- what the block-scaled mma does is played, since no test runs sm_121a by itself.
local golden = require("tests.lua.golden")

local M <const>, TOPK <const>, EXPERTS <const>, N <const>, K <const> = 11, 3, 4, 64, 272
local KINDS <const> = {  -- arch, knobs of slots and of joined ones
    { "sm_90a", "mma=1,split=1,groups=4", "mma=1,split=1,groups=16" },
    { "sm_121a", "mma=2,split=1,groups=4", "mma=2,split=1,groups=4" },
}
local BF16 <const> = { "sm_90a", "split=1,groups=4", "split=1,groups=4" }

local QUANTISED <const> = { "x", "xs", "gs", "ids", "w", "ws", "sw" }
local CASES <const> = {  -- family, arch and knobs, inputs
    { "w4a4_moe.gate_up", KINDS[1], QUANTISED }, { "w4a4_moe.gate_up", KINDS[2], QUANTISED },
    { "w4a4_moe.down", KINDS[1], QUANTISED }, { "w4a4_moe.down", KINDS[2], QUANTISED },
    { "bf16_moe.gate_up", BF16, { "x", "ids", "w" } },
    { "bf16_moe.down", BF16, { "x", "ids", "w" } },
}

local function run(family, kind, m, join, inputs)
    local words = ("M=%d TOPK=%d EXPERTS=%d N=%d K=%d --arch %s --knobs %s,join=%d"):format(
        m, TOPK, EXPERTS, N, K, kind[1], kind[2 + join], join)
    return golden.run(family, words, inputs)
end

local function same(got, want)
    assert.equal(#want, #got)
    for i = 1, #want do  -- what was not written is NaN
        assert(got[i] == want[i] or got[i] ~= got[i] and want[i] ~= want[i],
            ("element %d is %s, not %s"):format(i, got[i], want[i]))
    end
end

-- Row m of all that has a row for each m.
local function row_of(file, names, m)
    local inputs = {}
    for _, name in ipairs(names) do
        local t = file:tensor(name)
        if not name:find("^[ws]w?s?$") then
            local count = #t.data // M
            t.shape[1] = t.shape[1] // M
            t.data = table.move(t.data, m * count + 1, (m + 1) * count, 1, {})
        end
        inputs[name] = t
    end
    return inputs
end

describe("stacked experts", function()
    for _, case in ipairs(CASES) do
        local family, kind, names = table.unpack(case)
        it(("%s on %s: joined rows, slots and single rows have the same bits"):format(
            family, kind[1]), function()
            local joined = run(family, kind, M, 1, {})
            local y = joined:tensor("y").data
            same(run(family, kind, M, 0, {}):tensor("y").data, y)
            local rows = {}
            for m = 0, M - 1 do
                local row = run(family, kind, 1, 0, row_of(joined, names, m)):tensor("y").data
                table.move(row, 1, #row, #rows + 1, rows)
            end
            same(rows, y)
        end)
    end

    it("may have no token, or all of them: the rest of 288 is not read or written", function()
        local function last() return 287 end
        local function apart(i) return (i * 37 + 5) % 288 end  -- 128 different ones
        for _, case in ipairs(CASES) do
            local family, kind = table.unpack(case)
            for topk, chosen in pairs({ [1] = last, [8] = apart }) do
                local ids, y = {}, {}
                for i = 0, 16 * topk - 1 do ids[i + 1] = chosen(i) end
                for join = 0, 1 do
                    y[join] = golden.run(family, ("M=16 TOPK=%d EXPERTS=288 N=32 K=16 --arch %s "
                        .. "--knobs %s,join=%d"):format(topk, kind[1], kind[2 + join], join), {
                            ids = { dtype = "I32", shape = { 16, topk }, data = ids },
                        }):tensor("y").data
                end
                same(y[1], y[0])
                for _, x in ipairs(y[0]) do assert(x == x, "a slot was not written") end
            end
        end
    end)

    it("come out of every variant for the block-scaled mma", function()
        for _, family in ipairs({ "w4a4_gemv", "w4a4_moe.gate_up", "w4a4_moe.swiglu",
            "w4a4_moe.down" }) do
            local command = "./lathe check %s --all --arch sm_121a --device cpu > /dev/null"
            assert(os.execute(command:format(family)), family)
        end
    end)
end)

describe("experts that rows choose", function()
    it("are as many as a draw gives on average", function()
        local moe = require("gen.moe")
        local function chosen(m, topk, experts)
            return moe.chosen({ M = m, TOPK = topk, EXPERTS = experts })
        end
        assert.same({ 8, 16, 72, 1, 5 }, {
            chosen(1, 8, 288), chosen(2, 8, 288), chosen(16, 8, 96), chosen(3, 2, 1),
            chosen(1, 8, 5),
        })
    end)
end)
