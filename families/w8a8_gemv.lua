-- W8A8 GEMV: y[m,n] = (sum over k of x[m,k] * w[n,k]) * sx[m] * sw[n], E4M3 in, bf16 out.
-- Every weight byte is read once, so the floor is N*K bytes over the memory bandwidth.
local family = require("gen.family")
local tile = require("gen.tile")

local CHUNK <const> = 64  -- k of a unit: 16 rows x 64 bytes

local function chunks(s) return tile.ceil(s.K, CHUNK) end

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
    scratch = tile.scratch,

    knobs = {
        { "mma", 1, 0 },              -- tensor cores, or CUDA cores
        { "tiles", 1, 2, 4 },         -- tiles a warp carries: reuse of x
        { "split", 16, 8, 4, 2, 1 },  -- warps of a block that share one K
        { "groups", 1, 2, 4 },        -- groups of such warps in a block
        { "unroll", 2, 4 },           -- chunks in flight
        { "parts", 1, 2, 4 },         -- blocks that share one K
    },
    class = function(_, v)
        return ("%s_%dx%d"):format(v.mma == 1 and "mma.f16" or "dot", v.parts, v.split)
    end,
    keep = function(s, v, dev)
        return tile.is_kept(s, v, chunks(s), dev)
            and (s.M <= 8 or v.mma == 0 or v.tiles > 1 or tile.count(s.N) == 1)  -- x weighs as much
            and (v.mma == 1 or tile.is_for_dots(v))
            and v.tiles * v.unroll <= 8  -- the loads in flight stay in registers
    end,
    template = function(_, v) return v.mma == 1 and "w8a8_gemv" or "w8a8_gemv_dot" end,

    launch = function(s, v)
        return { grid = { tile.blocks(s.N, v), v.parts, 1 }, block = 32 * tile.warps(v) }
    end,
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
            { M = 2, N = 96, K = 1552 },
            { M = 5, N = 22, K = 704 }, { M = 8, N = 64, K = 1024 }, { M = 16, N = 288, K = 288 },
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
