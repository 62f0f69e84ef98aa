-- Router (model.md 4.20): logit = x . w of each expert, s = sigmoid(logit); the TOPK largest s +
-- bias, ties to the lower id; weights s / (their sum + 1e-20) * factor. No sort: of TOPK or a few
-- more sets of experts the least best one bounds the choice, the highest such bound of three ways
-- to make sets, and each expert that is not below it counts how many beat it.
-- The floor is the 2*N*K bytes of w. NaN in a row of w makes that expert's choice come last,
-- and its weight the row's weights NaN; ids are always distinct and in range.
local family = require("gen.family")
local tile = require("gen.tile")

local MOST_THREADS <const> = 1024  -- a block
local MOST_CHOSEN <const> = 32     -- a warp writes the weights
local LEAST_WARPS <const> = 4      -- of a block: loads in flight

local function warps(s) return math.max(LEAST_WARPS, tile.ceil(s.N, 32)) end
local function shares(s) return warps(s) < 8 and 4 or 8 end  -- of a part of K: warps
local function tiles(s) return tile.count(s.N) end

return family("moe_router", {
    rev = 4,
    maths = "s = sigmoid(x . w); ids = top TOPK of s + bias; weights = factor * s / (sum of s)",

    shape = { "M", "N", "TOPK", "K" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.N > MOST_THREADS then return nil, "more than 1024 experts" end
        if s.TOPK > s.N then return nil, "TOPK is more than EXPERTS" end
        if s.TOPK > MOST_CHOSEN then return nil, "TOPK is more than 32" end
        return true
    end,

    args = {
        { "ids", "i32", { "M", "TOPK" }, out = true },      -- by descending choice
        { "weights", "f32", { "M", "TOPK" }, out = true },
        { "x", "bf16", { "M", "K" } },
        { "w", "bf16", { "N", "K" }, layout = "bf16_tile16" },
        { "bias", "f32", { "N" } },                   -- of the choice, not of the weight
        { "factor", "f32", { 1 } },                         -- routed_scaling_factor
    },
    scratch = function(s, v)
        return {
            { "sums", "u32", { s.M, v.parts, s.N, 2 } },  -- a part and its turn
            { "turns", "u32", { tiles(s) * v.parts } },         -- launches that a block has ended
        }
    end,
    knobs = { { "parts", 8, 4, 16, 1 } },  -- blocks that share one K
    class = function(s, v) return ("mma.bf16_%dx%d"):format(v.parts, shares(s)) end,
    keep = function(s, v)
        return v.parts == 1 or s.K >= 32 * shares(s) * v.parts  -- no warp starts out idle
    end,
    launch = function(s, v) return { grid = { tiles(s), v.parts, 1 }, block = 32 * warps(s) } end,
    work = function(s)
        return { bytes = 2 * s.N * s.K + 2 * s.M * s.K + 4 * s.N + 4 + 8 * s.M * s.TOPK,
            flops = 2 * s.M * s.N * s.K }
    end,

    check = {
        relative = 1e-5,
        samples = {
            { M = 1, N = 1, TOPK = 1, K = 8 }, { M = 4, N = 16, TOPK = 4, K = 256 },
            { M = 3, N = 37, TOPK = 8, K = 64 }, { M = 2, N = 33, TOPK = 32, K = 22 },
            { M = 16, N = 288, TOPK = 8, K = 576 }, { M = 5, N = 20, TOPK = 3, K = 2048 },
            { M = 2, N = 288, TOPK = 8, K = 64 },
        },
        real = { { M = 1, N = 288, TOPK = 8, K = 4096 } },
        -- Sums are exact, so that ties are ties. With 37 experts all scores are equal; with K = 64
        -- three warps have no expert to choose, as where ranks hold a part of them.
        draw = {
            x = function(_, _, random) return (random(5) - 2) / 8 end,
            w = function(s, _, random) return s.N == 37 and 0 or (random(5) - 2) / 16 end,
            bias = function(s, i, random)
                if s.N == 37 then return 0.5 end
                return s.K == 64 and i >= 192 and -10000 or random(3) / 8
            end,
            factor = function() return 2.5 end,
        },
    },
})
