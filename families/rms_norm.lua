-- RMSNorm: y = x * (1 / sqrt(mean(x^2) + 1e-5)) * w, one rounding at the end. part: of the first K
-- of STRIDE values of each row; part_e4m3 also quantises y. Bound by the launch: 6 bytes an
-- element. NaN and infinity in a row make NaN and zeros of that row alone.
local family = require("gen.family")

local LOAD <const> = 8    -- elements a thread reads at once
local STEPS <const> = 4   -- such loads that it keeps
local MOST <const> = 32   -- warps a block may have

local function reach(v) return 32 * LOAD * v.warps end  -- elements that a block reads at once

local function serves(s)
    if s.M > 16 then return nil, "more than 16 rows" end
    return true
end

local function serves_part(s)
    if s.STRIDE < s.K then return nil, "STRIDE is less than K" end
    if s.K % LOAD ~= 0 or s.STRIDE % LOAD ~= 0 then
        return nil, "K and STRIDE are not whole numbers of 8"
    end
    return serves(s)
end

local KNOBS <const> = { { "warps", 8, 16, 4, 2, 1, 32 } }  -- warps a row: loads in flight

local function class(_, v) return ("sum%d"):format(v.warps) end

local function keep(s, v)
    return (v.warps == 1 or s.K > reach(v) // 2)           -- most threads have something
        and (v.warps == MOST or s.K <= STEPS * reach(v))   -- the row stays in registers
end

local function launch(s, v) return { grid = s.M, block = 32 * v.warps } end
local function work(s) return { bytes = 4 * s.M * s.K + 2 * s.K, flops = 4 * s.M * s.K } end

local PART <const> = {
    { "y", "bf16", { "M", "K" }, out = true },
    { "x", "bf16", { "M", "STRIDE" } },
    { "w", "bf16", { "K" } },
}
local PARTS <const> = {
    { M = 1, K = 64, STRIDE = 64 }, { M = 3, K = 264, STRIDE = 400 },
    { M = 16, K = 1536, STRIDE = 2304 },
}
-- All of a row have one magnitude, so y is the weight or its negative: no rounding moves a code.
local function power(s, i, random) return (2 * random(2) - 3) * 2.0 ^ (8 + i // s.STRIDE % 3) end

local REAL_PART <const> = { { M = 1, K = 1536, STRIDE = 2304 } }

return {
    family("rms_norm", {
        rev = 1,
        maths = "y[m,k] = bf16(x[m,k] * (1 / sqrt(mean over k of x[m,k]^2 + 1e-5)) * w[k])",

        shape = { "M", "K" },
        serves = serves,
        args = { PART[1], { "x", "bf16", { "M", "K" } }, PART[3] },
        knobs = KNOBS, class = class, keep = keep, launch = launch, work = work,

        check = {
            ulp = 1,
            samples = {
                { M = 1, K = 22 }, { M = 2, K = 128 }, { M = 3, K = 256 }, { M = 16, K = 1536 },
                { M = 1, K = 4096 },
            },
            real = { { M = 1, K = 4096 }, { M = 1, K = 512 } },
        },
    }),

    family("rms_norm.part", {
        rev = 1,
        maths = "rms_norm of the first K of each row of x",
        shape = { "M", "K", "STRIDE" },
        serves = serves_part,
        args = PART,
        knobs = KNOBS, class = class, keep = keep, launch = launch, work = work,
        template = function() return "rms_norm" end,
        check = { ulp = 1, samples = PARTS, real = REAL_PART },
    }),

    family("rms_norm.part_e4m3", {
        rev = 1,
        maths = "y as rms_norm.part; q, sx of y as w8a8_act_quant",
        shape = { "M", "K", "STRIDE" },
        serves = serves_part,
        args = {
            PART[1],
            { "q", "e4m3", { "M", "K" }, out = true },
            { "sx", "f32", { "M" }, out = true },
            PART[2], PART[3],
        },
        knobs = KNOBS, class = class, keep = keep, launch = launch,
        template = function() return "rms_norm" end,
        work = function(s)
            local norm = work(s)
            return { bytes = norm.bytes + s.M * (s.K + 4), flops = norm.flops + 2 * s.M * s.K }
        end,
        check = {
            ulp = 1, relative = 1e-6, samples = PARTS, real = REAL_PART,
            draw = { x = power },
        },
    }),
}
