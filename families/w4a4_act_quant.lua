-- Quantises each row of activations to NVFP4 (model.md 2.1): per 16 values a scale s = e4m3(max *
-- (1/6) * (1/gs)) and codes e2m1(x * (1 / (s * gs))), true divisions. static: gs is given; dynamic:
-- gs = max of the row / 2688, or 1 where that is below 2^-126 (a row of zeros, or nearly).
-- Bound by the launch: 2.6 bytes a value. NaN counts towards no maximum and gives the code 7; an
-- infinity gives its group the scale NaN and, in dynamic, all others the scale 0.
local family = require("gen.family")

local GROUP <const> = 16  -- codes that share a scale

local function groups(s) return s.K // GROUP end

local OUTS <const> = {
    { "q", "e2m1x2", { "M", function(s) return s.K // 2 end }, out = true },
    { "qs", "e4m3", { "M", groups }, out = true },
    { "gs", "f32", { "M" }, out = true },  -- one a row, whatever its source
    { "x", "bf16", { "M", "K" } },
}

local function serves(s)
    if s.K % GROUP ~= 0 then return nil, "K is not a whole number of NVFP4 groups of 16" end
    return true
end

-- Two roundings, a maximum and divisions: no order matters.
local function class() return "exact" end

local function work(s)
    return { bytes = s.M * (2 * s.K + s.K // 2 + groups(s) + 4), flops = 4 * s.M * s.K }
end

-- Groups of different magnitude, and empty ones; row 2 is all zero.
local function value(s, i, random)
    local group = i // GROUP
    local magnitude = i // s.K == 2 and 0 or group % 5 == 4 and 0 or 1 << group % 7
    return (random(4001) - 2000) * magnitude / 32000
end

-- With 1/2048 the largest values saturate.
local function input_scale(s) return s.M % 2 == 1 and 0.0021 or 1 / 2048 end

local SAMPLES <const> = {
    { M = 1, K = 16 }, { M = 3, K = 704 }, { M = 4, K = 64 }, { M = 6, K = 256 },
    { M = 16, K = 1552 },
}
local REAL <const> = {
    { M = 1, K = 4096 }, { M = 8, K = 704 }, { M = 8, K = 640 }, { M = 8, K = 2048 },
    { M = 1, K = 12288 }, { M = 16, K = 4096 },
}

return {
    family("w4a4_act_quant.static", {
        rev = 1,
        maths = "qs = e4m3(max |x of 16| / 6 / gs); q = e2m1(x / (qs * gs)); gs[m] = input_scale",
        shape = { "M", "K" },
        serves = serves,
        args = { OUTS[1], OUTS[2], OUTS[3], OUTS[4], { "input_scale", "f32", { 1 } } },
        knobs = { { "warps", 4, 2, 8 } },  -- warps a block: two lanes have one group
        class = class,
        keep = function() return true end,
        launch = function(s, v)
            local threads = 32 * v.warps
            return { grid = (2 * s.M * groups(s) + threads - 1) // threads, block = threads }
        end,
        work = work,
        check = {
            bits = true, samples = SAMPLES, real = REAL,
            draw = { x = value, input_scale = input_scale },
        },
    }),
    family("w4a4_act_quant.dynamic", {
        rev = 1,
        maths = "gs[m] = max |x[m]| / 2688, or 1; then as static",
        shape = { "M", "K" },
        serves = serves,
        args = OUTS,
        knobs = { { "warps", 8, 4, 16 } },  -- warps a row
        class = class,
        keep = function() return true end,
        launch = function(s, v) return { grid = s.M, block = 32 * v.warps } end,
        work = work,
        check = { bits = true, samples = SAMPLES, real = REAL, draw = { x = value } },
    }),
}
