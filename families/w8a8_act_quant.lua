-- Quantises each row of activations to E4M3: sx = max(amax / 448, 1e-12), q = E4M3(clamp(x / sx,
-- +-448)), true divisions. Bound by the launch: a few KB. NaN does not count towards amax and gives
-- the code 0x7f; an infinite amax gives 0 and NaN.
local family = require("gen.family")

return family("w8a8_act_quant", {
    rev = 1,
    maths = "sx[m] = max(max over k of |x[m,k]| / 448, 1e-12); q[m,k] = e4m3(x[m,k] / sx[m])",

    shape = { "M", "K" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        return true
    end,

    args = {
        { "q", "e4m3", { "M", "K" }, out = true },
        { "sx", "f32", { "M" }, out = true },
        { "x", "bf16", { "M", "K" } },
    },
    knobs = { { "warps", 8, 16, 4, 32 } },  -- warps a row
    class = function() return "exact" end,  -- a maximum and one division: no order matters
    keep = function(s, v) return v.warps == 32 or 2 * 256 * v.warps >= s.K end,  -- two passes
    launch = function(s, v) return { grid = s.M, block = 32 * v.warps } end,
    work = function(s) return { bytes = s.M * (3 * s.K + 4), flops = 2 * s.M * s.K } end,

    check = {
        bits = true,
        samples = { { M = 1, K = 22 }, { M = 3, K = 704 }, { M = 16, K = 1536 } },
        real = { { M = 1, K = 11264 }, { M = 1, K = 32768 } },
    },
})
