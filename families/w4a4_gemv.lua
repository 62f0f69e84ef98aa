-- W4A4 GEMV: y[m,n] = gs[m] * sw[n] * sum over k of e2m1(x[m,k]) * xs[m,k/16] * e2m1(w[n,k]) *
-- ws[n,k/16], NVFP4 on both sides. The floor is N*K*9/16 bytes over the memory bandwidth. Where
-- there is no FP4 mma both sides become bf16, exactly: unpacking must stay under 4 instructions a
-- weight, so x is unpacked once a block or share. The sign of xs is ignored. NaN scales give NaN.
local family = require("gen.family")
local tile = require("gen.tile")

local GROUP <const> = 16  -- codes that share a scale
local PAIR <const> = 128  -- k of a unit: two chunks of 64, whose scales fill a word

local TEMPLATES <const> = { [2] = "w4a4_gemv_share", [3] = "w4a4_gemv_own" }

local function pairs_of(s) return tile.ceil(s.K, PAIR) end

-- Bytes of x as operands of mma (w4a4_gemv_own.cut): of each unit four or eight columns, which are
-- rows or, twice, the steps of a chunk.  ORDER ITEMS
local function own_shared(s)
    local columns = (s.M == 1 or s.M == 3 or s.M == 4) and 4 or 8
    return pairs_of(s) * columns * (s.M <= 2 and 64 or 256)
end

-- Where each warp unpacks x, that weighs as much as the weights of one tile.
local function reuses_x(s, v) return v.tiles > 1 or tile.count(s.N) == 1 end

-- One unpacking of x serves a block, where there is room; else a warp's serves its tiles.
local function unpacks_well(s, v, dev)
    if v.mma == 2 then return v.block == 0 end
    local stages = v.parts == 1 and tile.can_stage(s, v, dev)
    if v.late == 1 then return v.block == (stages and 1 or 0) end
    return v.block == 1 and stages or v.block == 0 and reuses_x(s, v)
end

local function kind(v)
    if v.mma == 2 then return "mma.nvf4" end
    return v.late == 1 and "mma.bf16_sums" or "mma.bf16_steps"
end

return family("w4a4_gemv", {
    rev = 3,
    maths = "y[m,n] = bf16(gs[m] * sw[n] * sum over k of (x * xs)[m,k] * (w * ws)[n,k])",

    shape = { "M", "N", "K" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows: a GEMM's work" end
        if s.K % GROUP ~= 0 then return nil, "K is not a whole number of NVFP4 groups of 16" end
        return true
    end,

    args = {
        { "y", "bf16", { "M", "N" }, out = true },
        { "x", "e2m1x2", { "M", function(s) return s.K // 2 end } },
        { "xs", "e4m3", { "M", function(s) return s.K // GROUP end } },
        { "gs", "f32", { "M" } },  -- one a row
        { "w", "e2m1x2", { "N", function(s) return s.K // 2 end }, layout = "nvfp4_tile16" },
        { "ws", "e4m3", { "N", function(s) return s.K // GROUP end }, layout = "nvfp4_tile16" },
        { "sw", "f32", { "N" } },  -- weight_scale_2, a row each: stacked tensors differ
    },
    scratch = tile.scratch,

    knobs = {
        { "mma", 2, 1 },              -- block-scaled FP4, or bf16
        { "late", 1, 0 },             -- scales multiply sums of 16 products, or codes
        { "tiles", 1, 2, 4 },         -- tiles a warp carries: reuse of x
        { "split", 16, 8, 4, 2, 1 },  -- warps of a block, or blocks of a cluster, that share one K
        { "groups", 1, 2, 4, 8 },     -- groups of such warps in a block
        { "unroll", 2, 3, 4, 1 },     -- units on their way to a warp
        { "parts", 1, 2, 4 },         -- blocks that share one K
        { "block", 1, 0, 2, 3 },      -- x unpacked by a block, by a warp, by a cluster, for a share
    },
    class = function(_, v) return ("%s_%dx%d"):format(kind(v), v.parts, v.split) end,
    keep = function(s, v, dev)
        if v.block == 3 then
            return v.mma == 1 and tile.is_alone(s, v, pairs_of(s), own_shared(s), dev)
        end
        if v.block == 2 then
            return v.mma == 1 and (s.M <= 8 or v.unroll == 1)  -- registers
                and tile.is_shared(s, v, pairs_of(s), dev)
        end
        return v.groups <= 4 and (v.mma == 1 or dev.nvf4 and v.late == 0)
            and (v.late == 0 or v.split < 16)  -- a row of x for few tiles
            and (v.mma == 1 and tile.is_streamed(s, v, dev)
                or v.mma == 2 and v.tiles * v.unroll * tile.halves(s.M) <= 8 and v.unroll ~= 3)
            and tile.is_kept(s, v, pairs_of(s), dev)
            and unpacks_well(s, v, dev)
    end,
    template = function(_, v)
        return v.mma == 2 and "w4a4_gemv_nvf4" or TEMPLATES[v.block] or "w4a4_gemv"
    end,

    launch = function(s, v)
        if v.block == 2 then return tile.shared_launch(s, v) end
        if v.block == 3 then
            local tiles = tile.count(s.N)
            return { grid = { tiles, 1, 1 }, block = 32 * v.split, shared = own_shared(s) }
        end
        return {
            grid = { tile.blocks(s.N, v), v.parts, 1 }, block = 32 * tile.warps(v),
            shared = v.block * tile.staged(s.M, s.K, v),
        }
    end,
    work = function(s)
        local k_bytes = s.K // 2 + s.K // GROUP + 4
        return {
            bytes = s.N * k_bytes + s.M * k_bytes + 2 * s.M * s.N, flops = 2 * s.M * s.N * s.K,
        }
    end,

    check = {
        ulp = 1,
        exact = true,
        samples = {
            { M = 1, N = 22, K = 16 }, { M = 1, N = 22, K = 1520 },
            { M = 2, N = 768, K = 256 }, { M = 2, N = 96, K = 1552 }, { M = 2, N = 40, K = 1008 },
            { M = 3, N = 22, K = 2064 }, { M = 4, N = 22, K = 2048 },
            { M = 5, N = 22, K = 704 }, { M = 8, N = 64, K = 1024 }, { M = 8, N = 104, K = 1024 },
            { M = 16, N = 256, K = 768 }, { M = 16, N = 104, K = 1024 },
            { M = 16, N = 72, K = 1072 },
        },
        real = {
            { M = 1, N = 4096, K = 4096 }, { M = 1, N = 24576, K = 4096 },
            { M = 1, N = 4096, K = 12288 }, { M = 16, N = 4096, K = 4096 },
        },
        draw = { xs = "bytes", gs = "scale32", ws = "bytes", sw = "scale32" },
    },
})
