-- SwiGLU with clamps (model.md 4.19): g = min(gate, 10), u = clamp(up, -10, 10),
-- y = bf16(g * sigmoid(g) * u). A row is gate, then up: what a product with stacked weights gives.
-- Bound by the launch: 6 bytes a value. NaN gives NaN; a gate of -infinity gives an infinity.
local family = require("gen.family")

local function wide(s) return s.N % 8 == 0 and 8 or 1 end  -- values a thread: 16 bytes, or any N

return family("swiglu_clamp", {
    rev = 1,
    maths = "y[m,n] = bf16(silu(min(x[m,n], 10)) * clamp(x[m,N+n], -10, 10))",

    shape = { "M", "N" },
    serves = function() return true end,

    args = {
        { "y", "bf16", { "M", "N" }, out = true },
        { "x", "bf16", { "M", function(s) return 2 * s.N end } },
    },
    knobs = { { "warps", 4, 2, 8 } },  -- warps a block
    class = function() return "exact" end,  -- no sum
    keep = function() return true end,
    launch = function(s, v)
        local threads = 32 * v.warps
        return { grid = (s.M * s.N // wide(s) + threads - 1) // threads, block = threads }
    end,
    work = function(s) return { bytes = 6 * s.M * s.N, flops = 8 * s.M * s.N } end,

    check = {
        ulp = 1,
        samples = { { M = 1, N = 1 }, { M = 4, N = 64 }, { M = 3, N = 190 }, { M = 16, N = 704 } },
        real = {
            { M = 1, N = 768 }, { M = 1, N = 640 }, { M = 1, N = 4096 }, { M = 1, N = 12288 },
            { M = 8, N = 704 }, { M = 8, N = 2048 }, { M = 128, N = 704 },
        },
        draw = { x = function(_, _, random) return (random(4001) - 2000) / 128 end },
    },
})
