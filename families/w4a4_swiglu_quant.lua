-- swiglu_clamp, and w4a4_act_quant.static of what it gives: a = bf16(silu(min(gate, 10)) *
-- clamp(up, -10, 10)) of a row of gate, then up; a's groups of 16 as codes and scales.
-- Bound by the launch: 4.6 bytes a value.
local family = require("gen.family")
local tile = require("gen.tile")

local GROUP <const> = 16  -- codes that share a scale

local function groups(s) return s.K // GROUP end

return family("w4a4_swiglu_quant", {
    rev = 1,
    maths = "a[m,k] as y of swiglu_clamp; q, qs, gs of a as w4a4_act_quant.static",

    shape = { "M", "K" },
    serves = function(s)
        if s.K % GROUP ~= 0 then return nil, "K is not a whole number of NVFP4 groups of 16" end
        return true
    end,

    args = {
        { "q", "e2m1x2", { "M", function(s) return s.K // 2 end }, out = true },
        { "qs", "e4m3", { "M", groups }, out = true },
        { "gs", "f32", { "M" }, out = true },
        { "x", "bf16", { "M", function(s) return 2 * s.K end } },
        { "input_scale", "f32", { 1 } },
    },
    knobs = { { "warps", 4, 2, 8 } },  -- warps a block: two lanes have one group
    class = function() return "exact" end,  -- no sum
    keep = function() return true end,
    launch = function(s, v)
        local threads = 32 * v.warps
        return { grid = tile.ceil(2 * s.M * groups(s), threads), block = threads }
    end,
    work = function(s)
        return { bytes = s.M * (4 * s.K + s.K // 2 + groups(s) + 4) + 4, flops = 12 * s.M * s.K }
    end,

    check = {
        bits = true,
        samples = {
            { M = 1, K = 16 }, { M = 3, K = 704 }, { M = 4, K = 64 }, { M = 16, K = 1552 },
        },
        real = {
            { M = 8, K = 704 }, { M = 8, K = 640 }, { M = 1, K = 12288 }, { M = 8, K = 2048 },
        },
        draw = {
            x = function(_, _, random) return (random(97) - 48) / 4 end,  -- few: none near a tie
            input_scale = function() return 0.0073 end,
        },
    },
})
