-- E4M3 rows as bf16 rows, at load: y = bf16(e4m3 * sw[n]), the exact product rounded once.
-- Reads N*K bytes, writes 2*N*K. NaN stays NaN.
local family = require("gen.family")
local tile = require("gen.tile")

local LOAD <const> = 16  -- codes a lane reads at once

local function lanes(s)
    return s.N * (s.K % LOAD == 0 and s.K // LOAD or s.K)
end

return family("e4m3_dequant", {
    rev = 1,
    maths = "y[n,k] = bf16(q[n,k] * sw[n])",

    shape = { "N", "K" },
    serves = function() return true end,

    args = {
        { "y", "bf16", { "N", "K" }, out = true },
        { "q", "e4m3", { "N", "K" } },
        { "sw", "f32", { "N" } },
    },
    knobs = { { "warps", 8 } },             -- warps a block
    class = function() return "exact" end,  -- each element for itself
    keep = function() return true end,
    launch = function(s, v)
        return { grid = tile.ceil(lanes(s), 32 * v.warps), block = 32 * v.warps }
    end,
    work = function(s) return { bytes = 3 * s.N * s.K + 4 * s.N, flops = s.N * s.K } end,

    check = {
        bits = true,
        samples = { { N = 1, K = 22 }, { N = 22, K = 704 }, { N = 96, K = 64 } },
        real = { { N = 2304, K = 4096 } },
        draw = {
            sw = function(_, i)  -- some products lie beside a tie of bf16
                return (1 + (2 * i + 1) % 256 / 256) / (i % 7 + 9)
            end,
        },
    },
})
