-- bf16 GEMV: y[m,n] = sum over k of x[m,k] * w[n,k], out in bf16, in f32, or, of stacked weights
-- with one input, the first rows in bf16 and the last ones in f32. Every weight is read once, so
-- the floor is 2*N*K bytes over the memory bandwidth. NaN and infinity in a row of x reach all of
-- that row's results, in a row of w all of that channel's; no other.
local family = require("gen.family")
local tile = require("gen.tile")

local CHUNK <const> = 32       -- k of a unit: 16 rows x 64 bytes
local F32_STEPS <const> = 128  -- each mma cuts off up to 2^-24 of the sum, and 1e-5 must be kept

local function chunks(s) return tile.ceil(s.K, CHUNK) end

local function serves(s)
    if s.M > 16 then return nil, "more than 16 rows: a GEMM's work" end
    return true
end

local function keep(s, v, dev)
    return tile.is_kept(s, v, chunks(s), dev)
        and (s.M <= 8 or v.mma == 0 or v.tiles > 1 or tile.count(s.N) == 1)  -- x weighs as much
        and (v.mma == 1 or tile.is_for_dots(v))
        and v.tiles * v.unroll * tile.halves(s.M) <= 8  -- the loads in flight stay in registers
end

local function keep_f32(s, v, dev)
    return keep(s, v, dev)
        and (v.mma == 0 or 2 * chunks(s) <= F32_STEPS * v.split * v.parts)
end

local function class(_, v)
    return ("%s_%dx%d"):format(v.mma == 1 and "mma.bf16" or "dot", v.parts, v.split)
end

local function template(_, v) return v.mma == 1 and "bf16_gemv" or "bf16_gemv_dot" end

local function launch(s, v)
    return { grid = { tile.blocks(s.N, v), v.parts, 1 }, block = 32 * tile.warps(v) }
end

local function bytes_in(s) return 2 * s.N * s.K + 2 * s.M * s.K end
local function flops(s) return 2 * s.M * s.N * s.K end

local KNOBS <const> = {
    { "mma", 1, 0 },              -- tensor cores, or CUDA cores
    { "tiles", 1, 2, 4 },         -- tiles a warp carries: reuse of x
    { "split", 16, 8, 4, 2, 1 },  -- warps of a block that share one K
    { "groups", 1, 2, 4 },        -- groups of such warps in a block
    { "unroll", 2, 4 },           -- chunks in flight
    { "parts", 1, 2, 4 },         -- blocks that share one K
}

return {
    family("bf16_gemv", {
        rev = 1,
        maths = "y[m,n] = bf16(sum over k of x[m,k] * w[n,k])",
        shape = { "M", "N", "K" },
        serves = serves,
        args = {
            { "y", "bf16", { "M", "N" }, out = true },
            { "x", "bf16", { "M", "K" } },
            { "w", "bf16", { "N", "K" }, layout = "bf16_tile16" },
        },
        scratch = tile.scratch,
        knobs = KNOBS, class = class, keep = keep, template = template, launch = launch,
        work = function(s) return { bytes = bytes_in(s) + 2 * s.M * s.N, flops = flops(s) } end,
        check = {
            ulp = 1,
            exact = true,
            samples = {
                { M = 1, N = 22, K = 22 }, { M = 1, N = 2582, K = 64 }, { M = 2, N = 320, K = 256 },
                { M = 3, N = 96, K = 1552 }, { M = 8, N = 64, K = 512 },
                { M = 16, N = 288, K = 288 },
            },
            real = {
                { M = 1, N = 51648, K = 4096 }, { M = 1, N = 51584, K = 4096 },
                { M = 1, N = 154880, K = 4096 }, { M = 1, N = 4096, K = 8192 },
                { M = 1, N = 11264, K = 1536 }, { M = 1, N = 32768, K = 1536 },
                { M = 1, N = 10752, K = 1536 }, { M = 1, N = 4096, K = 11264 },
                { M = 1, N = 4096, K = 10752 }, { M = 1, N = 4096, K = 32768 },
                { M = 1, N = 128, K = 4096 },
            },
        },
    }),

    family("bf16_gemv_f32", {
        rev = 1,
        maths = "y[m,n] = sum over k of x[m,k] * w[n,k]",
        shape = { "M", "N", "K" },
        serves = serves,
        args = {
            { "y", "f32", { "M", "N" }, out = true },
            { "x", "bf16", { "M", "K" } },
            { "w", "bf16", { "N", "K" }, layout = "bf16_tile16" },
        },
        scratch = tile.scratch,
        knobs = KNOBS, class = class, keep = keep_f32, template = template, launch = launch,
        work = function(s) return { bytes = bytes_in(s) + 4 * s.M * s.N, flops = flops(s) } end,
        check = {
            relative = 1e-5,
            samples = {
                { M = 1, N = 4, K = 256 }, { M = 2, N = 16, K = 256 }, { M = 1, N = 22, K = 30 },
                { M = 7, N = 32, K = 2048 }, { M = 16, N = 256, K = 128 },
            },
            real = {
                { M = 1, N = 288, K = 4096 }, { M = 1, N = 4096, K = 1536 },
                { M = 1, N = 32, K = 4096 }, { M = 1, N = 51648, K = 4096 },
            },
        },
    }),

    family("bf16_gemv_pair", {
        rev = 1,
        maths = "bf16_gemv for channels n < N - TAIL, bf16_gemv_f32 for the TAIL last ones",
        shape = { "M", "N", "K", "TAIL" },
        serves = function(s)
            if s.TAIL < 1 or s.TAIL >= s.N then return nil, "TAIL must be from 1 to N - 1" end
            return serves(s)
        end,
        args = {
            { "y", "bf16", { "M", function(s) return s.N - s.TAIL end }, out = true },
            { "tail", "f32", { "M", "TAIL" }, out = true },
            { "x", "bf16", { "M", "K" } },
            { "w", "bf16", { "N", "K" }, layout = "bf16_tile16" },
        },
        scratch = tile.scratch,
        knobs = KNOBS, class = class, keep = keep_f32, template = template, launch = launch,
        work = function(s)
            return { bytes = bytes_in(s) + 2 * s.M * (s.N + s.TAIL), flops = flops(s) }
        end,
        check = {
            ulp = 1,
            relative = 1e-5,
            samples = {
                { M = 1, N = 388, K = 256, TAIL = 4 }, { M = 5, N = 160, K = 544, TAIL = 32 },
                { M = 16, N = 17, K = 22, TAIL = 16 },
            },
            real = {  -- gate and weights_proj; all in-projections of the draft layer
                { M = 1, N = 160, K = 4096, TAIL = 32 }, { M = 1, N = 2336, K = 4096, TAIL = 32 },
            },
        },
    }),
}
