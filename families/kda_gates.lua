-- KDA's gates: a log decay for each head and key channel, g = -5 * sigmoid(exp(a_log[h]) * (f +
-- dt_bias)), and beta = sigmoid(b) for each head, both in f32. f is columns FOFFSET and on of rows
-- of FSTRIDE, b columns BOFFSET and on of rows of BSTRIDE: slices of stacked projections, unpacked.
-- Bound by the launch: 10 bytes a channel. NaN in, NaN out; an infinite f gives -5 or -0.
local family = require("gen.family")

return family("kda_gates", {
    rev = 1,
    maths = "g = -5 * sigmoid(exp(a_log) * (f + dt_bias)); beta = sigmoid(b)",

    shape = { "M", "HEADS", "D", "FSTRIDE", "FOFFSET", "BSTRIDE", "BOFFSET" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.FOFFSET + s.HEADS * s.D > s.FSTRIDE then return nil, "f goes past its row's end" end
        if s.BOFFSET + s.HEADS > s.BSTRIDE then return nil, "b goes past its row's end" end
        return true
    end,

    args = {
        { "g", "f32", { "M", "HEADS", "D" }, out = true },
        { "beta", "f32", { "M", "HEADS" }, out = true },
        { "f", "bf16", { "M", "FSTRIDE" } },
        { "b", "bf16", { "M", "BSTRIDE" } },
        { "a_log", "f32", { "HEADS" } },
        { "dt_bias", "f32", { "HEADS", "D" } },
    },
    knobs = { { "warps", 4, 2, 8 } },         -- warps a block, a channel a thread
    class = function() return "one" end,      -- no sum: each element for itself
    keep = function(_, v) return v.warps > 0 end,
    launch = function(s, v)
        local threads = 32 * v.warps
        return { grid = { (s.HEADS * s.D + threads - 1) // threads, s.M, 1 }, block = threads }
    end,
    work = function(s)
        return {
            bytes = s.HEADS * (s.D * 4 + 4) + s.M * s.HEADS * (s.D * 6 + 6),
            flops = s.M * s.HEADS * (s.D + 1) * 20,
        }
    end,

    check = {
        relative = 1e-5,
        samples = {
            { M = 1, HEADS = 4, D = 64, FSTRIDE = 256, FOFFSET = 0, BSTRIDE = 900, BOFFSET = 832 },
            { M = 3, HEADS = 2, D = 128, FSTRIDE = 513, FOFFSET = 257, BSTRIDE = 2, BOFFSET = 0 },
            { M = 16, HEADS = 5, D = 24, FSTRIDE = 120, FOFFSET = 0, BSTRIDE = 13, BOFFSET = 7 },
        },
        real = {
            { M = 1, HEADS = 64, D = 128, FSTRIDE = 8192, FOFFSET = 0, BSTRIDE = 24896,
                BOFFSET = 24704 },
            { M = 1, HEADS = 22, D = 128, FSTRIDE = 2816, FOFFSET = 0, BSTRIDE = 8726,
                BOFFSET = 8576 },
            { M = 2, HEADS = 21, D = 128, FSTRIDE = 5376, FOFFSET = 0, BSTRIDE = 8341,
                BOFFSET = 8192 },
        },
    },
})
