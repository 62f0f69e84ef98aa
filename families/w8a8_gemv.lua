-- W8A8 GEMV: y[m,n] = (sum over k of x[m,k] * w[n,k]) * sx[m] * sw[n], E4M3 in, bf16 out.
-- Every weight byte is read once, so the floor is N*K bytes over the memory bandwidth.
local family = require("gen.family")
local gemv = require("gen.gemv")
local tile = require("gen.tile")

local CHUNK <const> = 64  -- k of a unit: 16 rows x 64 bytes

return family("w8a8_gemv", {
    rev = 1,
    maths = "y[m,n] = bf16((sum over k of x[m,k] * w[n,k]) * sx[m] * sw[n])",

    shape = { "M", "N", "K" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows: a GEMM's work" end
        return true
    end,

    args = {
        { "y", "bf16", { "M", "N" }, out = true },
        { "x", "e4m3", { "M", "K" } },
        { "sx", "f32", { "M" } },  -- one scale a token
        { "w", "e4m3", { "N", "K" }, layout = "e4m3_tile16" },
        { "sw", "f32", { "N" } },  -- one scale an output channel
    },
    scratch = gemv.scratch,

    knobs = gemv.KNOBS,
    class = function(_, v) return gemv.class("mma.f16", v) end,
    keep = function(s, v, dev) return gemv.is_kept(s, v, tile.ceil(s.K, CHUNK), dev) end,
    launch = gemv.launch,
    work = function(s)
        return {
            bytes = s.N * (s.K + 4) + s.M * (s.K + 4) + 2 * s.M * s.N,
            flops = 2 * s.M * s.N * s.K,
        }
    end,

    check = {
        ulp = 1,
        exact = true,
        samples = {
            { M = 1, N = 22, K = 22 }, { M = 1, N = 8726, K = 64 },
            { M = 2, N = 96, K = 1552 }, { M = 3, N = 64, K = 1536 },
            { M = 5, N = 22, K = 704 }, { M = 8, N = 64, K = 1024 }, { M = 16, N = 288, K = 288 },
            { M = 1, N = 16, K = 8192 }, { M = 4, N = 22, K = 4100 }, { M = 9, N = 48, K = 4112 },
        },
        real = {
            { M = 1, N = 4096, K = 11264 }, { M = 1, N = 11264, K = 1536 },
            { M = 1, N = 2304, K = 4096 }, { M = 1, N = 5632, K = 128 },
            { M = 1, N = 4096, K = 32768 }, { M = 1, N = 32768, K = 1536 },
            { M = 1, N = 16384, K = 128 },
        },
        draw = { sx = "scale32", sw = "scale32" },
    },
})
