-- Sums the chosen experts of a token and the shared one (model.md 4.23):
-- y[m] = bf16(sum over k of weights[m,k] * ed[m,k] + shared[m]), f32, k ascending, one rounding.
-- Bound by the launch: TOPK + 2 rows of 2 * H bytes a token. NaN and infinities go through.
local family = require("gen.family")

return family("moe_combine", {
    rev = 1,
    maths = "y[m,h] = bf16(sum over k of weights[m,k] * ed[m*TOPK+k,h] + shared[m,h])",

    shape = { "M", "TOPK", "H" },
    serves = function(s)
        if s.H % 2 ~= 0 then return nil, "H is odd" end
        return true
    end,

    args = {
        { "y", "bf16", { "M", "H" }, out = true },
        { "ed", "bf16", { function(s) return s.M * s.TOPK end, "H" } },
        { "weights", "f32", { "M", "TOPK" } },
        { "shared", "bf16", { "M", "H" } },
    },
    knobs = { { "warps", 4, 2, 8 } },  -- warps a block: a thread has two columns
    class = function() return "slots" end,  -- summed in the order of the slots
    keep = function() return true end,
    launch = function(s, v)
        local threads = 32 * v.warps
        return { grid = { (s.H // 2 + threads - 1) // threads, s.M }, block = threads }
    end,
    work = function(s)
        return { bytes = s.M * (2 * s.H * (s.TOPK + 2) + 4 * s.TOPK),
            flops = s.M * s.H * (2 * s.TOPK + 1) }
    end,

    check = {
        ulp = 1,
        samples = {
            { M = 1, TOPK = 1, H = 2 }, { M = 3, TOPK = 4, H = 256 }, { M = 16, TOPK = 8, H = 130 },
        },
        real = { { M = 1, TOPK = 8, H = 4096 }, { M = 16, TOPK = 8, H = 4096 } },
    },
})
