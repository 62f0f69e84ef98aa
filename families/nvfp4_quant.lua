-- Quantises bf16 weights to NVFP4 at load, given the tensor's scale2 (nvfp4_amax). Per group of 16:
-- b0 = E4M3(amax / (6 * scale2)); of the bytes b0, b0-3, b0-2, b0-1, b0+1 that are in 0..126 the
-- first with the lowest error wins (so b0 on a tie). With s = float(b) * scale2 a weight's code is
-- E2M1(x / s), a true division, and 0 where s is 0; the error is the sum of (x - code * s)^2 in
-- float, each step one fmaf, in ascending k.
-- Reads 2*N*K bytes, writes 9/16 of N*K. NaN does not count towards amax, gives the code 7 and
-- keeps b0; an infinity gives 448 and the codes 7 and 15, or NaN where scale2 is infinite too.
local family = require("gen.family")
local tile = require("gen.tile")

local GROUP <const> = 16

local function groups(s) return s.N * (s.K // GROUP) end

return family("nvfp4_quant", {
    rev = 1,
    maths = "w[n,k] ~ e2m1(codes[n,k]) * scales[n,k/16] * scale2, least squares near amax / 6",

    shape = { "N", "K" },
    serves = function(s)
        if s.K % GROUP ~= 0 then return nil, "K is not a whole number of NVFP4 groups of 16" end
        return true
    end,

    args = {
        { "codes", "e2m1x2", { "N", function(s) return s.K // 2 end }, out = true },
        { "scales", "e4m3", { "N", function(s) return s.K // GROUP end }, out = true },
        { "sw", "f32", { "N" }, out = true },  -- scale2, a row each: what the GEMVs read
        { "w", "bf16", { "N", "K" } },
        { "scale", "f32", { 1 } },  -- scale2
    },
    knobs = { { "warps", 8 } },             -- warps a block: a lane has one group
    class = function() return "exact" end,  -- each group for itself
    keep = function() return true end,
    launch = function(s, v)
        return { grid = tile.ceil(groups(s), 32 * v.warps), block = 32 * v.warps }
    end,
    work = function(s)
        return { bytes = 2 * s.N * s.K + 9 * groups(s) + 4 * s.N + 4, flops = 10 * s.N * s.K }
    end,

    check = {
        bits = true,
        samples = { { N = 1, K = 16 }, { N = 22, K = 288 }, { N = 64, K = 256 } },
        real = { { N = 1536, K = 4096 } },
        draw = {
            scale = "scale32",
            w = function(s, i, random)  -- groups of zeros, tiny, usual, saturating; a NaN
                local group = i // GROUP % 7
                if group == 3 or s.N == 22 and random(512) == 0 then
                    return group == 3 and 0 or 0 / 0
                end
                return (random(2001) - 1000) * 2.0 ^ (({ -24, -9, -6, 0, 2, -8, -7 })[group + 1])
            end,
        },
    },
})
