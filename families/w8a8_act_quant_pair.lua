-- w8a8_act_quant of two slices of K columns that lie side by side in longer rows: what a stacked
-- product wrote for two others. Bound by the launch.
local family = require("gen.family")

return family("w8a8_act_quant_pair", {
    rev = 1,
    maths = "q, sx of x[m, OFFSET ..] and q2, sx2 of x[m, OFFSET + K ..], K columns each",

    shape = { "M", "K", "STRIDE", "OFFSET" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.OFFSET + 2 * s.K > s.STRIDE then return nil, "the slices end behind the row" end
        return true
    end,

    args = {
        { "q", "e4m3", { "M", "K" }, out = true },
        { "sx", "f32", { "M" }, out = true },
        { "q2", "e4m3", { "M", "K" }, out = true },
        { "sx2", "f32", { "M" }, out = true },
        { "x", "bf16", { "M", "STRIDE" } },
    },
    knobs = { { "warps", 4, 8, 16, 32 } },  -- warps a slice
    class = function() return "exact" end,  -- a maximum and one division: no order matters
    keep = function(s, v) return v.warps == 32 or 2 * 256 * v.warps >= s.K end,  -- two passes
    launch = function(s, v) return { grid = 2 * s.M, block = 32 * v.warps } end,
    work = function(s) return { bytes = s.M * (6 * s.K + 8), flops = 4 * s.M * s.K } end,

    check = {
        bits = true,
        samples = {
            { M = 1, K = 64, STRIDE = 772, OFFSET = 640 },
            { M = 3, K = 22, STRIDE = 51, OFFSET = 7 },
            { M = 16, K = 128, STRIDE = 704, OFFSET = 448 },
        },
        real = {
            { M = 1, K = 128, STRIDE = 8726, OFFSET = 8448 },
            { M = 4, K = 128, STRIDE = 24896, OFFSET = 24576 },
        },
    },
})
