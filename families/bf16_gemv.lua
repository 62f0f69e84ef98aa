-- bf16 GEMV: y[m,n] = sum over k of x[m,k] * w[n,k], out in bf16, in f32, or, of stacked weights
-- with one input, the first rows in bf16 and the last ones in f32. Every weight is read once, so
-- the floor is 2*N*K bytes over the memory bandwidth. NaN and infinity in a row of x reach all of
-- that row's results, in a row of w all of that channel's; no other.
local family = require("gen.family")
local gemv = require("gen.gemv")
local tile = require("gen.tile")

local CHUNK <const> = 32       -- k of a unit: 16 rows x 64 bytes
local F32_STEPS <const> = 128  -- each mma cuts off up to 2^-24 of the sum, and 1e-5 must be kept

local function chunks(s) return tile.ceil(s.K, CHUNK) end

local function serves(s)
    if s.M > 16 then return nil, "more than 16 rows: a GEMM's work" end
    return true
end

-- Those of products in tiles; blocks that share one K are a cluster, and where a unit is in flight,
-- it is one of each of two tiles, which share what is loaded of x.
local KNOBS <const> = {
    gemv.KNOBS[1], { "parts", 1, 8, 4 }, gemv.KNOBS[3], { "unroll", 3, 2, 4, 1 }, gemv.KNOBS[5],
}

-- Where tiles are few. Warps take a stretch of K each, and two units of it at once.
local function parts_are_kept(s, v, dev)
    local tiles <const> = tile.count(s.N)
    return v.parts <= dev.cluster and (tiles == 1 or 2 * tiles <= dev.sms)
        and chunks(s) >= 2 * v.split * v.parts
        and v.split == 8 and v.cyclic == 0 and v.unroll == 2 and v.occupancy == 32
end

-- Where units can be dealt out, they are: 95.1 us where stretches take 98.4 (51648 x 4096), 16.6
-- where they take 17.1 (4096 x 8192).
local function is_dealt(s, v)
    return v.cyclic == 1 or v.split < 8 or chunks(s) < 8 * v.split
end

local function is_kept(s, v, dev, least)
    if v.parts > 1 then return parts_are_kept(s, v, dev) end
    return is_dealt(s, v) and gemv.is_kept(s, v, chunks(s), dev, least)
end

local function keep(s, v, dev) return is_kept(s, v, dev) end

local function launch(s, v)
    if v.parts == 1 then return gemv.launch(s, v) end
    return { grid = tile.count(s.N) * v.parts, cluster = v.parts, block = 32 * v.split }
end

-- Shares of K, so that none is a longer sum.
local function least_shares(s) return tile.ceil(2 * chunks(s), F32_STEPS) end

local function serves_f32(s)
    if least_shares(s) > 16 then return nil, "K is more than the sums of 16 warps can keep" end
    return serves(s)
end

local function keep_f32(s, v, dev)
    return is_kept(s, v, dev, least_shares(s))
end

local function class(_, v) return gemv.class("mma.bf16", v) end
local function template(_, v) return v.parts > 1 and "bf16_gemv_parts" or "bf16_gemv" end

local function bytes_in(s) return 2 * s.N * s.K + 2 * s.M * s.K end
local function flops(s) return 2 * s.M * s.N * s.K end

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
        knobs = KNOBS, class = class, template = template, keep = keep, launch = launch,
        work = function(s) return { bytes = bytes_in(s) + 2 * s.M * s.N, flops = flops(s) } end,
        check = {
            ulp = 1,
            exact = true,
            samples = {
                { M = 1, N = 22, K = 22 }, { M = 1, N = 2582, K = 64 }, { M = 2, N = 320, K = 256 },
                { M = 3, N = 96, K = 1552 }, { M = 8, N = 64, K = 512 },
                { M = 16, N = 288, K = 288 }, { M = 1, N = 16, K = 4096 },
                { M = 4, N = 22, K = 2050 }, { M = 9, N = 48, K = 2056 },
                { M = 3, N = 64, K = 768 }, { M = 10, N = 192, K = 512 },
                { M = 13, N = 11, K = 4090 },
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
        serves = serves_f32,
        args = {
            { "y", "f32", { "M", "N" }, out = true },
            { "x", "bf16", { "M", "K" } },
            { "w", "bf16", { "N", "K" }, layout = "bf16_tile16" },
        },
        knobs = KNOBS, class = class, template = template, keep = keep_f32,
        launch = launch,
        work = function(s) return { bytes = bytes_in(s) + 4 * s.M * s.N, flops = flops(s) } end,
        check = {
            relative = 1e-5,
            samples = {
                { M = 1, N = 4, K = 256 }, { M = 2, N = 16, K = 256 }, { M = 1, N = 22, K = 30 },
                { M = 7, N = 32, K = 2048 }, { M = 16, N = 256, K = 128 },
                { M = 1, N = 16, K = 4096 }, { M = 2, N = 22, K = 8200 },
                { M = 9, N = 13, K = 4104 },
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
            return serves_f32(s)
        end,
        args = {
            { "y", "bf16", { "M", function(s) return s.N - s.TAIL end }, out = true },
            { "tail", "f32", { "M", "TAIL" }, out = true },
            { "x", "bf16", { "M", "K" } },
            { "w", "bf16", { "N", "K" }, layout = "bf16_tile16" },
        },
        knobs = KNOBS, class = class, template = template, keep = keep_f32,
        launch = launch,
        work = function(s)
            return { bytes = bytes_in(s) + 2 * s.M * (s.N + s.TAIL), flops = flops(s) }
        end,
        check = {
            ulp = 1,
            relative = 1e-5,
            samples = {
                { M = 1, N = 388, K = 256, TAIL = 4 }, { M = 5, N = 160, K = 544, TAIL = 32 },
                { M = 16, N = 17, K = 22, TAIL = 16 }, { M = 9, N = 40, K = 2056, TAIL = 7 },
                { M = 3, N = 15, K = 4096, TAIL = 6 },
            },
            real = {  -- gate and weights_proj; all in-projections of the draft layer
                { M = 1, N = 160, K = 4096, TAIL = 32 }, { M = 1, N = 2336, K = 4096, TAIL = 32 },
            },
        },
    }),
}
