-- The scale of a whole NVFP4 tensor: scale2 = amax / (6 * 448), or 1 where every weight is zero.
-- At load. Every weight is read once: 2*N*K bytes. NaN does not count; an infinity gives infinity.
local family = require("gen.family")

local LOAD <const> = 8  -- weights a lane reads at once

local function threads(v) return 32 * v.warps end

return family("nvfp4_amax", {
    rev = 1,
    maths = "scale2 = max over n, k of |w[n,k]| / 2688, or 1 where that is 0",

    shape = { "N", "K" },
    serves = function() return true end,

    args = {
        { "scale", "f32", { 1 }, out = true },
        { "w", "bf16", { "N", "K" } },
    },
    scratch = function(_, v)
        return { { "partial", "f32", { v.parts } }, { "arrived", "u32", { 1 } } }
    end,

    knobs = {
        { "parts", 1024, 128, 16, 1 },  -- blocks
        { "warps", 8 },                 -- a block
    },
    class = function() return "exact" end,  -- a maximum: no order matters
    keep = function(s, v)
        return v.parts == 1 or s.N * s.K >= v.parts * threads(v) * LOAD
    end,
    launch = function(_, v) return { grid = v.parts, block = threads(v) } end,
    work = function(s) return { bytes = 2 * s.N * s.K + 4, flops = s.N * s.K } end,

    check = {
        bits = true,
        samples = {
            { N = 1, K = 1 }, { N = 22, K = 16 }, { N = 7, K = 339 }, { N = 96, K = 400 },
        },
        real = { { N = 1536, K = 4096 } },
        draw = {
            w = function(s, i, random)  -- zeros alone; NaN among small and large, the largest last
                if s.N == 22 then return 0 end
                if i == s.N * s.K - 1 then return -2.0 ^ 20 end
                if random(64) == 0 then return 0 / 0 end
                return (random(255) - 127) * 2.0 ^ (random(40) - 30)
            end,
        },
    },
})
