-- KDA's output: each head's RMS norm with weight and a sigmoid gate, y = o / sqrt(mean over the
-- head of o^2 + 1e-5) * w * sigmoid(gate). The gate is columns GOFFSET and on of rows of GSTRIDE.
-- Bound by the launch: 8 bytes a channel. NaN in a head's o makes its row of y NaN; in the gate,
-- one element.
local family = require("gen.family")

-- Every other head is so small that the mean's 1e-5 shows.
local function draw_o(s, i, random)
    return (random(65537) - 32768) / (i // s.D % 2 == 0 and 1 << 14 or 1 << 23)
end

return family("kda_out", {
    rev = 1,
    maths = "y = bf16(o / sqrt(mean(o^2) + 1e-5) * w * sigmoid(gate)), the mean over a head",

    shape = { "M", "HEADS", "D", "GSTRIDE", "GOFFSET" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.D > 1024 then return nil, "a head is more than a warp's registers hold" end
        if s.GOFFSET + s.HEADS * s.D > s.GSTRIDE then
            return nil, "the gate goes past its row's end"
        end
        return true
    end,

    args = {
        { "y", "bf16", { "M", "HEADS", "D" }, out = true },
        { "o", "f32", { "M", "HEADS", "D" } },
        { "gate", "bf16", { "M", "GSTRIDE" } },
        { "w", "bf16", { "D" } },
    },
    knobs = { { "warps", 1, 2, 4 } },          -- heads a block, a warp each
    class = function() return "warp" end,      -- a lane's squares, then the butterfly
    keep = function(_, v) return v.warps > 0 end,
    launch = function(s, v)
        return { grid = { (s.HEADS + v.warps - 1) // v.warps, s.M, 1 }, block = 32 * v.warps }
    end,
    work = function(s)
        return { bytes = s.D * 2 + s.M * s.HEADS * s.D * 8, flops = s.M * s.HEADS * s.D * 24 }
    end,

    check = {
        ulp = 1,
        samples = {
            { M = 1, HEADS = 4, D = 64, GSTRIDE = 256, GOFFSET = 0 },
            { M = 3, HEADS = 3, D = 128, GSTRIDE = 771, GOFFSET = 385 },
            { M = 16, HEADS = 1, D = 24, GSTRIDE = 24, GOFFSET = 0 },
        },
        real = {
            { M = 1, HEADS = 64, D = 128, GSTRIDE = 8192, GOFFSET = 0 },
            { M = 1, HEADS = 22, D = 128, GSTRIDE = 2816, GOFFSET = 0 },
            { M = 2, HEADS = 21, D = 128, GSTRIDE = 5376, GOFFSET = 2688 },
        },
        draw = { o = draw_o },
    },
})
