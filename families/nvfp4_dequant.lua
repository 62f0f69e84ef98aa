-- NVFP4 rows as bf16 rows, at load: y = bf16(e2m1 * scale * scale2), the exact product rounded
-- once.
-- Reads 9/16 of N*K bytes, writes 2*N*K. A NaN among the scales gives NaN for its group.
local family = require("gen.family")
local tile = require("gen.tile")

local GROUP <const> = 16

local function groups(s) return s.N * (s.K // GROUP) end

return family("nvfp4_dequant", {
    rev = 1,
    maths = "y[n,k] = bf16(e2m1(codes[n,k]) * scales[n,k/16] * scale2)",

    shape = { "N", "K" },
    serves = function(s)
        if s.K % GROUP ~= 0 then return nil, "K is not a whole number of NVFP4 groups of 16" end
        return true
    end,

    args = {
        { "y", "bf16", { "N", "K" }, out = true },
        { "codes", "e2m1x2", { "N", function(s) return s.K // 2 end } },
        { "scales", "e4m3", { "N", function(s) return s.K // GROUP end } },
        { "scale", "f32", { 1 } },  -- scale2
    },
    knobs = { { "warps", 8 } },             -- warps a block: a lane has one group
    class = function() return "exact" end,  -- each element for itself
    keep = function() return true end,
    launch = function(s, v)
        return { grid = tile.ceil(groups(s), 32 * v.warps), block = 32 * v.warps }
    end,
    work = function(s)
        return { bytes = 2 * s.N * s.K + 9 * groups(s) + 4, flops = 2 * s.N * s.K }
    end,

    check = {
        bits = true,
        samples = { { N = 1, K = 16 }, { N = 22, K = 704 }, { N = 96, K = 288 } },
        real = { { N = 2048, K = 4096 } },
        draw = {
            scale = function(s)  -- 9 and 3 times these lie beside a tie of bf16
                return s.N == 22 and (1 + 7 / 256) / 9 or (1 + 9 / 256) / 3
            end,
        },
    },
})
