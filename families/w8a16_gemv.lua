-- W8A16 GEMV: y[m,n] = sw[n] * sum over k of w[n,k] * x[m,k], E4M3 weights with one scale a row,
-- bf16 activations. The floor is N*K bytes over the memory bandwidth. NaN and infinity in a row of
-- x reach all of that row's results, no other's; a weight of NaN counts as 480.
local family = require("gen.family")
local gemv = require("gen.gemv")
local tile = require("gen.tile")

local CHUNK <const> = 64  -- k of a unit: 16 rows x 64 bytes

return family("w8a16_gemv", {
    rev = 1,
    maths = "y[m,n] = bf16(sw[n] * sum over k of w[n,k] * x[m,k])",

    shape = { "M", "N", "K" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows: a GEMM's work" end
        return true
    end,

    args = {
        { "y", "bf16", { "M", "N" }, out = true },
        { "x", "bf16", { "M", "K" } },
        { "w", "e4m3", { "N", "K" }, layout = "e4m3_tile16" },
        { "sw", "f32", { "N" } },  -- one scale an output channel
    },
    scratch = gemv.scratch,

    knobs = gemv.KNOBS,
    class = function(_, v) return gemv.class("mma.bf16", v) end,
    keep = function(s, v, dev) return gemv.is_kept(s, v, tile.ceil(s.K, CHUNK), dev) end,
    launch = gemv.launch,
    work = function(s)
        return {
            bytes = s.N * (s.K + 4) + 2 * s.M * s.K + 2 * s.M * s.N,
            flops = 2 * s.M * s.N * s.K,
        }
    end,

    check = {
        ulp = 1,
        exact = true,
        samples = {
            { M = 1, N = 22, K = 22 }, { M = 1, N = 2581, K = 64 }, { M = 2, N = 320, K = 256 },
            { M = 3, N = 96, K = 1552 }, { M = 8, N = 64, K = 1024 }, { M = 16, N = 288, K = 288 },
            { M = 1, N = 16, K = 8192 }, { M = 4, N = 22, K = 4100 }, { M = 9, N = 48, K = 4104 },
            { M = 3, N = 64, K = 1536 },
        },
        real = {
            { M = 1, N = 51619, K = 4096 }, { M = 1, N = 51618, K = 4096 },
            { M = 1, N = 154856, K = 4096 },
        },
        draw = { sw = "scale32" },
    },
})
