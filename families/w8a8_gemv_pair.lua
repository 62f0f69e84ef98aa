-- Two W8A8 products of two slices of K columns that lie side by side in longer rows of x: what a
-- stacked product wrote for two others, whose weights are stacked in w. Each block quantises the
-- rows of its slice by itself, with the codes of w8a8_act_quant, and the sums are w8a8_gemv's.
-- Bound by the launch: N * K bytes, 2.1 MB at 16384 x 128.
local family = require("gen.family")
local tile = require("gen.tile")

local function half(s) return s.N // 2 end

return family("w8a8_gemv_pair", {
    rev = 1,
    maths = "y, y2 = x[m, OFFSET ..], x[m, OFFSET + K ..] in E4M3 times the halves of w, scaled",

    shape = { "M", "N", "K", "STRIDE", "OFFSET" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows: a GEMM's work" end
        if s.N % 32 ~= 0 then return nil, "a product's channels do not fill tiles of 16" end
        if s.K > 256 then return nil, "a warp does not hold more than 256 k of its tile" end
        if s.OFFSET + 2 * s.K > s.STRIDE then return nil, "the slices end behind the row" end
        return true
    end,

    args = {
        { "y", "bf16", { "M", half }, out = true },
        { "y2", "bf16", { "M", half }, out = true },
        { "x", "bf16", { "M", "STRIDE" } },
        { "w", "e4m3", { "N", "K" }, layout = "e4m3_tile16" },  -- y's channels, then y2's
        { "sw", "f32", { "N" } },                               -- one scale a channel
    },

    knobs = { { "warps", 4, 8, 2 } },         -- warps a block, a tile each
    class = function() return "mma.f16" end,  -- k in the tile's order
    keep = function(_, v) return v.warps > 0 end,
    launch = function(s, v)
        return { grid = { tile.ceil(tile.count(half(s)), v.warps), 2, 1 }, block = 32 * v.warps }
    end,
    work = function(s)
        return {
            bytes = s.N * (s.K + 4) + s.M * (4 * s.K + 2 * s.N), flops = 2 * s.M * s.N * s.K,
        }
    end,

    check = {
        ulp = 1,
        samples = {
            { M = 1, N = 512, K = 64, STRIDE = 900, OFFSET = 768 },
            { M = 3, N = 32, K = 22, STRIDE = 51, OFFSET = 7 },
            { M = 16, N = 96, K = 160, STRIDE = 704, OFFSET = 384 },
        },
        real = {
            { M = 1, N = 16384, K = 128, STRIDE = 24896, OFFSET = 24576 },
            { M = 1, N = 5632, K = 128, STRIDE = 8726, OFFSET = 8448 },
            { M = 4, N = 5376, K = 128, STRIDE = 8341, OFFSET = 8064 },
        },
        draw = { sw = "scale32" },
    },
})
