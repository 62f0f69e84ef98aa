-- RMSNorm: y = x * (1 / sqrt(mean(x^2) + 1e-5)) * w, one rounding at the end.
-- Bound by the launch: 6 bytes an element. NaN and infinity in a row make NaN and zeros of that
-- row alone.
local family = require("gen.family")

local LOAD <const> = 8    -- elements a thread reads at once
local STEPS <const> = 4   -- such loads that it keeps
local MOST <const> = 32   -- warps a block may have

local function reach(v) return 32 * LOAD * v.warps end  -- elements that a block reads at once

return family("rms_norm", {
    rev = 1,
    maths = "y[m,k] = bf16(x[m,k] * (1 / sqrt(mean over k of x[m,k]^2 + 1e-5)) * w[k])",

    shape = { "M", "K" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        return true
    end,

    args = {
        { "y", "bf16", { "M", "K" }, out = true },
        { "x", "bf16", { "M", "K" } },
        { "w", "bf16", { "K" } },
    },
    knobs = { { "warps", 8, 16, 4, 2, 1, 32 } },  -- warps a row: loads in flight
    class = function(_, v) return ("sum%d"):format(v.warps) end,
    keep = function(s, v)
        return (v.warps == 1 or s.K > reach(v) // 2)           -- most threads have something
            and (v.warps == MOST or s.K <= STEPS * reach(v))   -- the row stays in registers
    end,
    launch = function(s, v) return { grid = s.M, block = 32 * v.warps } end,
    work = function(s) return { bytes = 4 * s.M * s.K + 2 * s.K, flops = 4 * s.M * s.K } end,

    check = {
        ulp = 1,
        samples = {
            { M = 1, K = 22 }, { M = 2, K = 128 }, { M = 3, K = 256 }, { M = 16, K = 1536 },
            { M = 1, K = 4096 },
        },
        real = { { M = 1, K = 4096 }, { M = 1, K = 1536 }, { M = 1, K = 512 } },
    },
})
