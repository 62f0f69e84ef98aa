-- Tokens of the selected pools: ids 4 * pool .. + 3 of the row's min(K, candidates) pools, in their
-- order, then the tail, the (position + 1) % 4 tokens behind the last whole pool; -1 in the rest.
-- Bound by the launch: 20 bytes a pool.
-- A pool below 0 gives four times -1; a row without a slot writes nothing.
local family = require("gen.family")
local paged = require("gen.paged")

local POOL <const> = 4     -- tokens
local THREADS <const> = 256

local function width(s) return POOL * s.K + POOL - 1 end

-- The pools of row m: the candidates from the last one down, every 7th a hole.
local function pool(s, i)
    local candidates = (paged.position(s, i // s.K) + 1) // POOL
    local j = i % s.K
    return j % 7 ~= 6 and j < candidates and candidates - 1 - j or -1
end

return family("dsa_expand", {
    rev = 1,
    maths = "ids[m] = 4 * pools[m, j] + (0 .. 3) for the candidates j, then the tail, then -1",

    shape = { "M", "K" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        return true
    end,

    args = {
        { "ids", "i32", { "M", width }, out = true },
        { "pools", "i32", { "M", "K" } },
        { "positions", "i32", { "M" } },
        { "slots", "i32", { "M" } },  -- -1: the row writes nothing
    },
    knobs = {},
    class = function() return "exact" end,
    keep = function() return true end,
    launch = function(s)
        return { grid = { (width(s) + THREADS - 1) // THREADS, s.M, 1 }, block = THREADS }
    end,
    work = function(s) return { bytes = s.M * 4 * (s.K + width(s)), flops = 0 } end,

    check = {
        bits = true,
        samples = { { M = 1, K = 16 }, { M = 16, K = 16 }, { M = 13, K = 512 }, { M = 3, K = 1 } },
        real = { { M = 1, K = 512 }, { M = 4, K = 512 } },
        draw = {
            pools = function(s, i) return pool({ PAGES = 8192, K = s.K }, i) end,
            positions = function(_, i) return paged.position({ PAGES = 8192 }, i) end,
            slots = function(_, i) return paged.slot({ SLOTS = 2 }, i) end,
        },
    },
})
