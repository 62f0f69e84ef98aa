-- KDA between its two projections: causal convolution of q, k and v (a window of four values a
-- channel) with SiLU, L2 norms of q and k, the products that give a decay a key channel and a gate
-- a value channel, the gated delta rule on a state S[k][v] of f32 a head, and the gated RMS norm of
-- what it gives. Rows of x are q | k | v | f_a | g_a | b, a block has a head, or a cluster has.
-- Bound by the state, which is read and written once for all tokens of a sequence, 2.88 MB at 22
-- heads of 128, through as many multiprocessors as there are blocks; and by what depends on each
-- other: load, sums over k, their exchange, store.
-- NaN or infinity in q, k, f_a or b makes its head's state and rows NaN, in v its column's state
-- and its head's rows, in g_a rows; a slot is never computed from x. Snapshots are slots of the
-- same pool, so that going back is a swap.
local family = require("gen.family")
local tile = require("gen.tile")

local MOST_K <const> = 256  -- of a weight's row that a warp holds

local function channels(s) return 3 * s.HEADS * s.D end
local function sequences(s) return s.M // s.TOKENS end
local function cols(s, v)  -- threads of a row of the block's columns of S
    local width = s.D // v.split
    return width > 64 and 32 or width > 32 and 16 or 8
end
local function runs(s, v) return 32 * v.warps // cols(s, v) end  -- of k
local function steps(s, v) return tile.ceil(s.D, runs(s, v)) end  -- k of a run
local function rest(s, v)  -- warps with v
    local width = s.D // v.split
    return width > 64 and tile.ceil(width, 32) or 2
end
local function helpers(s, v)  -- warps without a state: with q and k, with tiles, with v
    return math.max(v.warps, s.D // 16) - v.warps + s.D // 16 + rest(s, v)
end

local function serves(s)
    if s.M > 16 then return nil, "more than 16 rows" end
    if s.TOKENS < 1 or s.M % s.TOKENS ~= 0 then
        return nil, "M is not a whole number of TOKENS rows"
    end
    if s.D % 16 ~= 0 or s.D > 128 then return nil, "D is no multiple of 16 up to 128" end
    if s.N ~= 2 * s.HEADS * s.D then return nil, "w has not f's and g's rows of all heads" end
    if s.K > MOST_K then return nil, "a warp does not hold more than 256 k of its tile" end
    if s.STRIDE < channels(s) + 2 * s.K + s.HEADS then return nil, "rows of x are too short" end
    return true
end

-- What fixes the sums: over k a run's one after the other, then the runs of a warp, then the warps;
-- over the columns those of a block, then the blocks.
local function class(s, v)
    local blocks = v.split > 1 and ("_%d"):format(v.split) or ""
    return ("delta%dx%dx%d%s"):format(v.warps, runs(s, v) // v.warps, steps(s, v), blocks)
end

local function keep(s, v, dev)
    if v.split == 1 then  -- where columns cannot be shared, or nobody is there to share them
        return v.warps == 8 and s.D % 32 ~= 0 or v.warps == 4 and dev.sms == 1
    end
    return s.D % (16 * v.split) == 0 and v.split * v.warps >= 16
        and (v.split == 2 or dev.sms == 1                        -- any on the CPU device
            or s.HEADS * sequences(s) * v.split <= dev.sms)      -- no block waits for another
end

-- Words of a token for each channel, column and block; the dots of a token, and behind them the
-- state, 16 bytes of it a step, whose room the next tokens' dots take.
local function shared(s, v)
    local dots, outs = 32 * v.warps * cols(s, v), s.D // 16 + rest(s, v)
    local last = s.TOKENS > 8 and math.min(outs, 8) or outs
    local rooms = s.TOKENS <= last and s.TOKENS or last + 1
    return 4 * s.TOKENS * (4 * runs(s, v) * steps(s, v) + s.D // v.split + 4 + 4 * v.split) + dots
        + math.max(v.split > 1 and 512 * v.warps * steps(s, v) or 0, (rooms - 1) * dots)
end

local function launch(s, v)
    return {
        grid = { s.HEADS * v.split, sequences(s), 1 }, cluster = v.split,
        block = 32 * (v.warps + helpers(s, v)), shared = shared(s, v),
    }
end

local function work(s, weight_bytes)
    local row = 2 * (channels(s) + 2 * s.K + s.HEADS + s.HEADS * s.D)
    return {
        bytes = sequences(s) * (8 * s.HEADS * s.D * s.D + 32 * channels(s)) + s.M * row
            + weight_bytes + 16 * channels(s) + 4 * s.HEADS * (s.D + 1) + 2 * s.D,
        flops = s.M * (s.HEADS * s.D * (s.D * 7 + 80) + 2 * s.N * s.K),
    }
end

local KNOBS <const> = {
    { "warps", 4, 8 },     -- that share the k of a block's state
    { "split", 1, 4, 2 },  -- blocks that share a head's columns: a cluster
}

-- Taps of every other head are so small that the norm's 1e-6 shows.
local function draw_taps(s, i, random)
    return (random(65537) - 32768) / (i // (4 * s.D) % 2 == 0 and 32768 or 1 << 17)
end

-- Small integers in steps of a power of two, whose products have exact sums: a convolution that
-- cancels is exact, and of f and g, rounded, there is one. They are about one.
local function draw_x(_, _, random) return (random(9) - 4) / 4 end
local function draw_w(_, _, random) return (random(9) - 4) / 32 end
local function draw_sw(_, _, random) return (random(64) + 1) / 1024 end

-- Each sequence has a slot of its own, counted from the pool's end; every third of four is padding,
-- and so is one for which no slot is left. Snapshots lie in the first slots, while there are any.
local function slot(s, i) return i % 4 == 2 and -1 or math.max(s.SLOTS - 1 - i, -1) end
local function snap(s, i)
    return (i % 3 == 1 or i >= s.SLOTS - sequences(s)) and -1 or i
end

local function sample(m, tokens, heads, d, slots, more)
    local k = more and more.K or d
    return {
        M = m, TOKENS = tokens, HEADS = heads, D = d, N = 2 * heads * d, K = k,
        STRIDE = 3 * heads * d + 2 * k + heads + (more and more.behind or 0), SLOTS = slots,
    }
end

local function check(draw)
    draw.x, draw.window, draw.taps = draw_x, draw_x, draw_taps
    draw.slots, draw.snaps = slot, snap
    return {
        ulp = 1, relative = 1e-5,
        samples = {
            sample(1, 1, 4, 64, 1), sample(3, 1, 1, 128, 4, { K = 128, behind = 5 }),
            sample(3, 3, 1, 128, 4), sample(4, 2, 3, 48, 1, { K = 22, behind = 1 }),
            sample(12, 12, 1, 128, 13, { K = 200 }),
            sample(16, 16, 1, 64, 17),
        },
        real = {
            sample(1, 1, 64, 128, 1), sample(1, 1, 22, 128, 1), sample(2, 2, 64, 128, 3),
            sample(2, 2, 22, 128, 3), sample(4, 1, 21, 128, 5),
        },
        draw = draw,
    }
end

local w8a8 = family("kda_decode.w8a8", {
    rev = 4,
    maths = "q k v = silu(conv x); S = exp(g) S; S += k (v - S . k) beta; y = norm(S . q) gated",

    -- TOKENS: rows of one sequence that follow each other; M is a whole number of them
    shape = { "M", "TOKENS", "HEADS", "D", "N", "K", "STRIDE", "SLOTS" },
    serves = serves,
    args = {
        { "y", "bf16", { "M", "HEADS", "D" }, out = true },
        { "state", "f32", { "SLOTS", "HEADS", "D", "D" }, inout = true },  -- [k][v]
        { "window", "f32", { "SLOTS", channels, 4 }, inout = true },       -- newest value last
        { "x", "bf16", { "M", "STRIDE" } },
        { "taps", "f32", { channels, 4 } },                      -- oldest first
        { "w", "e4m3", { "N", "K" }, layout = "e4m3_tile16" },  -- f_b, then g_b
        { "sw", "f32", { "N" } },
        { "a_log", "f32", { "HEADS" } },
        { "dt_bias", "f32", { "HEADS", "D" } },
        { "norm", "bf16", { "D" } },
        { "slots", "i32", { sequences } },  -- all different; -1: the sequence writes nothing
        { "snaps", "i32", { "M" } },  -- other slots of the pool; -1: no snapshot after this row
    },
    knobs = KNOBS,
    class = class,
    keep = keep,
    template = function() return "kda_decode" end,
    launch = launch,
    work = function(s) return work(s, s.N * (s.K + 4)) end,
    check = check({ w = draw_w, sw = draw_sw }),
})

local bf16 = family("kda_decode.bf16", {
    rev = 4,
    maths = "the same with f_b and g_b in bf16, whose products take f_a and g_a as they are",

    shape = { "M", "TOKENS", "HEADS", "D", "N", "K", "STRIDE", "SLOTS" },
    serves = serves,
    args = {
        { "y", "bf16", { "M", "HEADS", "D" }, out = true },
        { "state", "f32", { "SLOTS", "HEADS", "D", "D" }, inout = true },
        { "window", "f32", { "SLOTS", channels, 4 }, inout = true },
        { "x", "bf16", { "M", "STRIDE" } },
        { "taps", "f32", { channels, 4 } },
        { "w", "bf16", { "N", "K" }, layout = "bf16_tile16" },
        { "a_log", "f32", { "HEADS" } },
        { "dt_bias", "f32", { "HEADS", "D" } },
        { "norm", "bf16", { "D" } },
        { "slots", "i32", { sequences } },
        { "snaps", "i32", { "M" } },
    },
    knobs = KNOBS,
    class = class,
    keep = keep,
    template = function() return "kda_decode" end,
    launch = launch,
    work = function(s) return work(s, 2 * s.N * s.K) end,
    check = check({ w = draw_w }),
})

return { w8a8, bf16 }
