-- The K best of a row's (position + 1) / 4 candidate pools: score descending, of equal ones the
-- lower index first, -0 equal to +0, NaN of any sign below all numbers. The ids leave in ascending
-- order (the set is what the attention wants); with no more candidates than K they are all of
-- them, then -1. A row without a slot writes nothing. Bound by the launch and by the steps that
-- depend on each other: the score is 4 bytes a pool, once.
local family = require("gen.family")
local paged = require("gen.paged")

local MOST <const> = 8  -- scores of a thread

local HUGE <const> = 0x1.fffffep127
local ODD <const> = {
    0.0, -0.0, 1 / 0, -1 / 0, 0 / 0, -(0 / 0), HUGE, -HUGE, 0x1p-149, -0x1p-149, 1.0,
}

-- Kinds of rows: like sums, all equal, odd numbers, the last bit apart, few values, ascending,
-- descending, zeros of both signs.
local DRAWS <const> = {
    function(_, _, random)
        return (random(1 << 22) + random(1 << 22) + random(1 << 22) - (3 << 21)) / (1 << 20)
    end,
    function() return 0.0 end,
    function(_, _, random) return ODD[random(#ODD) + 1] end,
    function(_, _, random) return 1 + random(512) / (1 << 23) end,
    function(s, p, random) return p < s.K // 2 and 1.0 or random(7) - 7 end,
    function(_, p) return p - 100.0 end,
    function(_, p) return -1.0 - p end,
    function(_, p) return p % 3 == 0 and -0.0 or 0.0 end,
}

-- Scores that a thread holds, in whole loads of four.
local function each(s, v)
    local threads = 32 * v.warps * v.parts
    return (s.POOLS + 4 * threads - 1) // (4 * threads) * 4
end

local function candidates(s, m)
    local last = 4 * s.POOLS - 1
    local all = { last, 4 * s.K - 1, 4 * s.K + 3, last, last, 0, 3, last, last, last - 1, last }
    return math.min(all[m % #all + 1], last)
end

-- Garbage behind the candidates.
local function score(s, i, random)
    local m, p = i // s.POOLS, i % s.POOLS
    if p >= (candidates(s, m) + 1) // 4 then return 1 / 0 end
    return DRAWS[(m + s.M - 1) % #DRAWS + 1](s, p, random)
end

return family("dsa_topk", {
    rev = 2,
    maths = "ids[m] = the min(K, candidates) pools of the best score, ascending, then -1",

    shape = { "M", "K", "POOLS" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.POOLS > 131072 then return nil, "more than 131072 pools" end
        return true
    end,

    args = {
        { "ids", "i32", { "M", "K" }, out = true },
        { "score", "f32", { "M", "POOLS" } },  -- what is behind the candidates doesn't count
        { "positions", "i32", { "M" } },
        { "slots", "i32", { "M" } },  -- -1: the row writes nothing
    },
    knobs = {
        { "parts", 1, 8, 4, 2, 16 },  -- blocks that share a row: a cluster
        { "warps", 32, 16, 8 },       -- a block
    },
    class = function() return "exact" end,
    keep = function(s, v, dev)
        local warps = v.parts * v.warps
        return v.parts <= dev.cluster
            and (warps == 8 or 128 * warps <= s.POOLS)                    -- all have some
            and (each(s, v) <= MOST or v.parts == 8 and v.warps == 32)    -- which has all it needs
    end,

    launch = function(s, v)
        return { grid = { v.parts, s.M, 1 }, cluster = v.parts, block = 32 * v.warps }
    end,
    work = function(s) return { bytes = 4 * s.M * (s.POOLS + s.K), flops = 0 } end,

    check = {
        bits = true,
        samples = {
            { M = 1, K = 16, POOLS = 16 }, { M = 16, K = 16, POOLS = 1024 },
            { M = 16, K = 7, POOLS = 33 }, { M = 8, K = 512, POOLS = 4096 },
            { M = 2, K = 512, POOLS = 8200 }, { M = 1, K = 1, POOLS = 1 },
            { M = 1, K = 512, POOLS = 131072 }, { M = 2, K = 300, POOLS = 16384 },
            { M = 1, K = 4150, POOLS = 8200 },
        },
        real = {
            { M = 1, K = 512, POOLS = 32768 }, { M = 1, K = 512, POOLS = 131072 },
            { M = 4, K = 512, POOLS = 32768 }, { M = 1, K = 512, POOLS = 2048 },
        },
        draw = {
            score = score, positions = candidates,
            slots = function(_, i) return paged.slot({ SLOTS = 3 }, i) end,
        },
    },
})
