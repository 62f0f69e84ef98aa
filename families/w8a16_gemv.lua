-- W8A16 GEMV: y[m,n] = sw[n] * sum over k of w[n,k] * x[m,k], E4M3 weights with one scale a row,
-- bf16 activations. The floor is N*K bytes over the memory bandwidth. NaN and infinity in a row of
-- x reach all of that row's results, no other's; a weight of NaN counts as 480.
local family = require("gen.family")
local tile = require("gen.tile")

local CHUNK <const> = 64  -- k of a unit: 16 rows x 64 bytes

local function chunks(s) return tile.ceil(s.K, CHUNK) end

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
        return ("%s_%dx%d"):format(v.mma == 1 and "mma.bf16" or "dot", v.parts, v.split)
    end,
    keep = function(s, v, dev)
        return tile.is_kept(s, v, chunks(s), dev)
            and (s.M <= 8 or v.mma == 0 or v.tiles > 1 or tile.count(s.N) == 1)  -- x weighs more
            and (v.mma == 1 or tile.is_for_dots(v))
            and v.tiles * v.unroll * tile.halves(s.M) <= 8  -- the loads in flight stay in registers
    end,
    template = function(_, v) return v.mma == 1 and "w8a16_gemv" or "w8a16_gemv_dot" end,

    launch = function(s, v)
        return { grid = { tile.blocks(s.N, v), v.parts, 1 }, block = 32 * tile.warps(v) }
    end,
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
        },
        real = {
            { M = 1, N = 51619, K = 4096 }, { M = 1, N = 51618, K = 4096 },
            { M = 1, N = 154856, K = 4096 },
        },
        draw = { sw = "scale32" },
    },
})
