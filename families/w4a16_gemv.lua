-- W4A16 GEMV: y[m,n] = sw[n] * sum over k of e2m1(w[n,k]) * ws[n,k/16] * x[m,k], NVFP4 weights,
-- bf16 activations. The floor is N*K*9/16 bytes over the memory bandwidth; unpacking must stay
-- under 4 instructions a weight. Where scales multiply sums, x from 2^64 on counts as infinite.
-- w4a16_gemv_swiglu: of gate's rows, then up's; swiglu_clamp of both sums, each rounded to bf16.
local family = require("gen.family")
local tile = require("gen.tile")

local GROUP <const> = 16  -- codes that share a scale
local PAIR <const> = 128  -- k of a unit: two chunks of 64, whose scales fill a word

local function pairs_of(s) return tile.ceil(s.K, PAIR) end

-- Scales on codes: few rows for a block, where there is room; several are found in the L1 too.
local function brings_well(s, v, dev)
    local stages = tile.can_stage(s, v, dev)
    if v.late == 1 or s.M == 1 then return v.block == (stages and 1 or 0) end
    return v.block == 0 or v.block == 1 and s.M <= 4 and stages
end

local TEMPLATES <const> = {
    [2] = "w4a16_gemv_share", [3] = "w4a16_gemv_own", [4] = "w4a16_gemv_own",
}

-- What fixes the bits of a row, beside the shares of K.
local function kind(v)
    if v.block >= 3 then return "chunks" end  -- even and odd chunks of K have sums of their own
    return v.late == 1 and "sums" or "codes"
end

local SHAPE <const> = { "M", "N", "K" }

local function serves(s)
    if s.M > 16 then return nil, "more than 16 rows: a GEMM's work" end
    if s.K % GROUP ~= 0 then return nil, "K is not a whole number of NVFP4 groups of 16" end
    return true
end

local KNOBS <const> = {
    { "late", 1, 0 },             -- scales multiply sums of 16 products, or codes
    { "tiles", 1, 2, 4 },         -- tiles a warp carries: reuse of x
    { "split", 16, 8, 4, 2, 1, 11, 6 },  -- warps of a block, or blocks of a cluster, for one K
    { "groups", 1, 2, 4, 8 },     -- groups of such warps in a block
    { "unroll", 2, 3, 1 },        -- units on their way to a warp
    { "parts", 1, 2, 4 },         -- blocks that share one K
    { "block", 1, 0, 2, 3, 4 },   -- x brought by a block, warp or cluster; to registers; copied
}

local function class(_, v) return ("mma.bf16_%s_%dx%d"):format(kind(v), v.parts, v.split) end

local function keep(s, v, dev)
    if v.block >= 3 then return tile.is_own(s, v, pairs_of(s), dev) end
    if not tile.is_power_of_two(v.split) then return false end
    if v.block == 2 then return tile.is_shared(s, v, pairs_of(s), dev) end
    return v.groups <= 4
        and (v.late == 0 or v.split < 16)            -- a row of x for few tiles
        and tile.is_streamed(s, v, dev)
        and tile.is_kept(s, v, pairs_of(s), dev)
        and brings_well(s, v, dev)
end

local function template(_, v) return TEMPLATES[v.block] or "w4a16_gemv" end

local function launch(s, v, dev)
    if v.block == 2 then return tile.shared_launch(s, v) end
    return {
        grid = { tile.blocks(s.N, v), v.parts, 1 },
        block = 32 * (v.block >= 3 and tile.own_warps(s, v, dev) or tile.warps(v)),
        shared = v.block == 1 and tile.staged(s.M, s.K, v) or 0,
    }
end

-- width: of a row of y.
local function work(s, width)
    return {
        bytes = s.N * (s.K // 2 + s.K // GROUP + 4) + 2 * s.M * s.K + 2 * s.M * width,
        flops = 2 * s.M * s.N * s.K,
    }
end

local function half(s) return s.N // 2 end

local DRAW <const> = { ws = "scales", sw = "scale32" }

return {
    family("w4a16_gemv", {
        rev = 2,
        maths = "y[m,n] = bf16(sw[n] * sum over k of e2m1(w[n,k]) * ws[n,k/16] * x[m,k])",
        shape = SHAPE,
        serves = serves,
        args = {
            { "y", "bf16", { "M", "N" }, out = true },
            { "x", "bf16", { "M", "K" } },
            { "w", "e2m1x2", { "N", function(s) return s.K // 2 end }, layout = "nvfp4_tile16" },
            { "ws", "e4m3", { "N", function(s) return s.K // GROUP end }, layout = "nvfp4_tile16" },
            { "sw", "f32", { "N" } },  -- weight_scale_2, a row each: stacked tensors differ
        },
        scratch = tile.scratch, knobs = KNOBS, class = class, keep = keep, template = template,
        launch = launch,
        work = function(s) return work(s, s.N) end,
        check = {
            ulp = 1,
            exact = true,
            samples = {
                { M = 1, N = 22, K = 16 }, { M = 1, N = 8726, K = 128 }, { M = 1, N = 22, K = 704 },
                { M = 1, N = 22, K = 4096 }, { M = 2, N = 96, K = 1552 },
                { M = 3, N = 22, K = 2064 }, { M = 5, N = 22, K = 704 },
                { M = 8, N = 64, K = 2048 }, { M = 9, N = 22, K = 2048 },
                { M = 16, N = 288, K = 288 }, { M = 16, N = 40, K = 2816 },
                { M = 16, N = 72, K = 1072 },
            },
            real = {
                { M = 1, N = 8726, K = 4096 }, { M = 1, N = 4096, K = 2816 },
                { M = 1, N = 1536, K = 4096 }, { M = 1, N = 4096, K = 768 },
                { M = 1, N = 24896, K = 4096 }, { M = 1, N = 4096, K = 8192 },
                { M = 1, N = 4096, K = 4096 }, { M = 1, N = 4096, K = 2048 },
            },
            draw = DRAW,
        },
    }),

    family("w4a16_gemv_swiglu", {
        rev = 1,
        maths = "y[m,n] = y of swiglu_clamp, x what w4a16_gemv gives for N rows: gates, then ups",
        shape = SHAPE,
        serves = function(s)
            if s.N % 16 ~= 0 then return nil, "half of N is no whole number of half tiles of 8" end
            return serves(s)
        end,
        args = {
            { "y", "bf16", { "M", half }, out = true },
            { "x", "bf16", { "M", "K" } },
            { "w", "e2m1x2", { "N", function(s) return s.K // 2 end },
                layout = "nvfp4_tile16_halves" },
            { "ws", "e4m3", { "N", function(s) return s.K // GROUP end },
                layout = "nvfp4_tile16_halves" },
            { "sw", "f32", { "N" } },  -- weight_scale_2, a row each
        },
        scratch = tile.scratch, knobs = KNOBS, class = class, keep = keep, template = template,
        launch = launch,
        work = function(s) return work(s, half(s)) end,
        check = {
            ulp = 1,
            samples = {
                { M = 1, N = 32, K = 16 }, { M = 1, N = 48, K = 704 }, { M = 2, N = 96, K = 1552 },
                { M = 3, N = 16, K = 2064 }, { M = 5, N = 32, K = 704 },
                { M = 8, N = 64, K = 2048 }, { M = 16, N = 288, K = 288 },
                { M = 16, N = 80, K = 1072 },
            },
            real = { { M = 1, N = 1536, K = 4096 }, { M = 1, N = 4096, K = 4096 } },
            draw = DRAW,
        },
    }),
}
