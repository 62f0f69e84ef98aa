-- KDA's recurrence (the gated delta rule) on a state S[k][v] of f32 a head: S = S * exp(g[k]);
-- delta = (v - S . k) * beta; S = S + k delta; o = S . q / sqrt(D). Columns v do not meet, so a
-- head is several blocks; a state is read and written once a launch: 2.88 MB at 22 heads of 128.
-- NaN or infinity in k, q, g or beta makes its head's state and rows NaN, in v its column's; a slot
-- is never computed from them. Snapshots are slots of the same pool, so that going back is a swap.
local family = require("gen.family")

local STATIC_SHARED <const> = 48 * 1024  -- bytes that need no opt-in

local function channels(s) return 3 * s.HEADS * s.D end
local function slices(s, v) return (s.D + 4 * v.cols - 1) // (4 * v.cols) end
local function runs(v) return 32 * v.warps // v.cols end             -- of k
local function steps(s, v) return (s.D + runs(v) - 1) // runs(v) end  -- k of a run

local function serves(s)
    if s.M > 16 then return nil, "more than 16 rows" end
    if s.D % 4 ~= 0 then return nil, "a head is not a whole number of 16-byte loads" end
    if s.D > 256 then return nil, "a head is wider than 256" end
    return true
end

local function shared_bytes(s, v, tokens)
    local token = 3 * runs(v) * steps(s, v) + 4 * v.cols + 4
    return 4 * (tokens * token + 2 * v.warps * 8 * v.cols + tokens)
end

-- The state in registers, the tokens in shared memory; and, but for the first variant, which takes
-- small heads, no run without a k, no slice wider than a head, and as many blocks as there are
-- multiprocessors.
local function is_kept(s, v, dev, tokens)
    local is_first = v.cols == 4 and v.warps == 4
    return steps(s, v) <= 4 and shared_bytes(s, v, tokens) <= STATIC_SHARED
        and (is_first or runs(v) <= s.D and 4 * v.cols <= s.D
            and (v.cols <= 4 or slices(s, v) * s.HEADS >= dev.sms))
end

local knobs <const> = {
    { "cols", 4, 2, 8 },      -- 16-byte columns of a row of S in a block
    { "warps", 4, 2, 8, 16 }, -- warps a block, which share the k
}

-- What fixes the sums over k: a run's k one after the other, a warp's runs, the warps in order.
local function class(s, v)
    return ("delta%dx%dx%d"):format(v.warps, 32 // v.cols, steps(s, v))
end

-- Keys and queries of about unit length, values of about one.
local function draw_x(s, i, random)
    local unit = (random(65537) - 32768) / 32768
    local is_value = i % channels(s) >= 2 * s.HEADS * s.D
    return unit * (is_value and 1.7 or (3 / s.D) ^ 0.5)
end
local function draw_g(_, _, random) return -(random(4999) + 1) / 1000 end
local function draw_beta(_, _, random) return (random(999) + 1) / 1000 end

-- Each row has a slot of its own, counted from the pool's end; every fourth row is padding.
local function slots(s, i) return i % 4 == 2 and -1 or s.SLOTS - 1 - i end

-- The sequence has the last slot, its snapshots the first ones; a pool of one slot: padding.
local function slot(s) return s.SLOTS > 1 and s.SLOTS - 1 or -1 end
local function snaps(s, i) return (i % 3 == 1 or i + 1 >= s.SLOTS) and -1 or i end

local function flops(s) return s.M * s.HEADS * s.D * s.D * 7 end
local function row_bytes(s) return s.M * s.HEADS * (s.D * 14 + 4) end  -- q k v in bf16, g, o, beta
local function state_bytes(s) return s.HEADS * s.D * s.D * 4 end

local rows = family("kda_recurrent.rows", {
    rev = 1,
    maths = "S = exp(g) S; S += k (v - S . k) beta; o = S . q / sqrt(D), S = state[slots[m]][head]",

    shape = { "M", "HEADS", "D", "SLOTS" },
    serves = serves,
    args = {
        { "o", "f32", { "M", "HEADS", "D" }, out = true },
        { "state", "f32", { "SLOTS", "HEADS", "D", "D" }, inout = true },  -- [k][v]
        { "x", "bf16", { "M", channels } },  -- q | k | v, q and k of unit length
        { "g", "f32", { "M", "HEADS", "D" } },
        { "beta", "f32", { "M", "HEADS" } },
        { "slots", "i32", { "M" } },  -- all different; -1: the row writes nothing
    },
    knobs = knobs,
    class = class,
    keep = function(s, v, dev) return is_kept(s, v, dev, 1) end,
    launch = function(s, v)
        return { grid = { slices(s, v), s.HEADS, s.M }, block = 32 * v.warps }
    end,
    work = function(s)
        return { bytes = 2 * s.M * state_bytes(s) + row_bytes(s), flops = flops(s) }
    end,
    check = {
        relative = 1e-5,
        samples = {
            { M = 1, HEADS = 4, D = 64, SLOTS = 1 },
            { M = 3, HEADS = 1, D = 128, SLOTS = 4 },
            { M = 16, HEADS = 1, D = 64, SLOTS = 17 },
            { M = 2, HEADS = 3, D = 24, SLOTS = 2 },
        },
        real = {
            { M = 1, HEADS = 64, D = 128, SLOTS = 2 }, { M = 1, HEADS = 22, D = 128, SLOTS = 2 },
            { M = 4, HEADS = 21, D = 128, SLOTS = 5 },
        },
        draw = { x = draw_x, g = draw_g, beta = draw_beta, slots = slots },
    },
})

local tokens = family("kda_recurrent.tokens", {
    rev = 1,
    maths = "the same for M tokens of one sequence; state[snaps[t]] = the state after token t",

    shape = { "M", "HEADS", "D", "SLOTS" },
    serves = function(s)
        if s.M * s.D > 3072 then return nil, "the tokens of a head do not fit shared memory" end
        return serves(s)
    end,
    args = {
        { "o", "f32", { "M", "HEADS", "D" }, out = true },
        { "state", "f32", { "SLOTS", "HEADS", "D", "D" }, inout = true },
        { "x", "bf16", { "M", channels } },
        { "g", "f32", { "M", "HEADS", "D" } },
        { "beta", "f32", { "M", "HEADS" } },
        { "slot", "i32", { 1 } },     -- of the sequence; -1: nothing is written
        { "snaps", "i32", { "M" } },  -- other slots of the pool; -1: no snapshot after this token
    },
    knobs = knobs,
    class = class,
    keep = function(s, v, dev) return is_kept(s, v, dev, s.M) end,
    launch = function(s, v)
        return { grid = { slices(s, v), s.HEADS, 1 }, block = 32 * v.warps }
    end,
    work = function(s)
        return { bytes = 2 * state_bytes(s) + row_bytes(s), flops = flops(s) }
    end,
    check = {
        relative = 1e-5,
        samples = {
            { M = 1, HEADS = 4, D = 64, SLOTS = 2 }, { M = 2, HEADS = 1, D = 64, SLOTS = 1 },
            { M = 3, HEADS = 1, D = 128, SLOTS = 4 }, { M = 4, HEADS = 3, D = 24, SLOTS = 5 },
            { M = 16, HEADS = 1, D = 64, SLOTS = 17 },
        },
        real = {
            { M = 2, HEADS = 64, D = 128, SLOTS = 3 }, { M = 2, HEADS = 22, D = 128, SLOTS = 3 },
            { M = 4, HEADS = 21, D = 128, SLOTS = 5 },
        },
        draw = { x = draw_x, g = draw_g, beta = draw_beta, slot = slot, snaps = snaps },
    },
})

return { rows, tokens }
