-- KDA between its projections: causal convolution of q, k and v (a window of four values a channel)
-- with SiLU, L2 norms of q and k, gates, the gated delta rule on a state S[k][v] of f32 a head, and
-- the gated RMS norm of what it gives. x is q | k | v first, and beta's logits from BOFFSET on.
-- Bound by the state, which is read and written once for all tokens of a sequence: 2.88 MB at 22
-- heads of 128, and by what depends on each other: load, two sums over k, their exchange, store.
-- NaN or infinity in q, k, f or beta makes its head's state and rows NaN, in v its column's state
-- and its head's rows; a slot is never computed from x. Snapshots are slots of the same pool, so
-- that going back is a swap.
local family = require("gen.family")

local REGISTERS <const> = 16384  -- f32 of a state that the threads of a block hold
local RUNS <const> = 32          -- whose sums one thread adds

local function channels(s) return 3 * s.HEADS * s.D end
local function sequences(s) return s.M // s.TOKENS end
local function helpers(s) return math.min(4, (s.D + 31) // 32) end  -- warps without a state
local function parts(s, v) return (s.D + 4 * v.cols - 1) // (4 * v.cols) end
local function runs(v) return 32 * v.warps // v.cols end             -- of k
local function steps(s, v) return (s.D + runs(v) - 1) // runs(v) end  -- k of a run

-- Keys and queries about as long as a head's, values of about one.
local function draw_g(_, _, random) return (random(65537) - 49152) / 16384 end
local function draw_taps(s, i, random)
    return (random(65537) - 32768) / (i // (4 * s.D) % 2 == 0 and 32768 or 1 << 17)
end
local function draw_gate(_, _, random) return (random(65537) - 32768) / 8192 end

-- Each sequence has a slot of its own, counted from the pool's end; every third of four is padding,
-- and so is one for which no slot is left. Snapshots lie in the first slots, while there are any.
local function slot(s, i) return i % 4 == 2 and -1 or math.max(s.SLOTS - 1 - i, -1) end
local function snap(s, i)
    return (i % 3 == 1 or i >= s.SLOTS - sequences(s)) and -1 or i
end

return family("kda_decode", {
    rev = 1,
    maths = "q k v = silu(conv x); S = exp(g) S; S += k (v - S . k) beta; y = norm(S . q) gated",

    -- TOKENS: rows of one sequence that follow each other; M is a whole number of them
    shape = { "M", "TOKENS", "HEADS", "D", "STRIDE", "BOFFSET", "SLOTS" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.TOKENS < 1 or s.M % s.TOKENS ~= 0 then
            return nil, "M is not a whole number of TOKENS rows"
        end
        if s.D % 4 ~= 0 then return nil, "a head is not a whole number of 16-byte loads" end
        if s.D > 256 then return nil, "a head is wider than 256" end
        if s.STRIDE < channels(s) then return nil, "rows of x are shorter than q, k and v" end
        if s.BOFFSET + s.HEADS > s.STRIDE then return nil, "beta goes past its row's end" end
        return true
    end,

    args = {
        { "y", "bf16", { "M", "HEADS", "D" }, out = true },
        { "state", "f32", { "SLOTS", "HEADS", "D", "D" }, inout = true },  -- [k][v]
        { "window", "f32", { "SLOTS", channels, 4 }, inout = true },       -- newest value last
        { "x", "bf16", { "M", "STRIDE" } },
        { "taps", "f32", { channels, 4 } },  -- oldest first
        { "f", "bf16", { "M", "HEADS", "D" } },
        { "a_log", "f32", { "HEADS" } },
        { "dt_bias", "f32", { "HEADS", "D" } },
        { "gate", "bf16", { "M", "HEADS", "D" } },
        { "w", "bf16", { "D" } },
        { "slots", "i32", { sequences } },  -- all different; -1: the sequence writes nothing
        { "snaps", "i32", { "M" } },  -- other slots of the pool; -1: no snapshot after this row
    },
    scratch = function(s, v)
        if parts(s, v) == 1 then return {} end
        return {
            { "partial", "f32", { "M", "HEADS", "D" } },
            { "arrived", "u32", { sequences(s) * s.HEADS } },
        }
    end,
    knobs = {
        { "cols", 32, 16, 8 },   -- 16-byte columns of a row of S in a block
        { "warps", 16, 8, 4 },   -- warps a block, which share the k
    },
    -- What fixes the sums over k: a run's k one after the other, then the runs.
    class = function(s, v) return ("delta%dx%d"):format(runs(v), steps(s, v)) end,
    keep = function(s, v)
        local is_first = v.cols == 32 and v.warps == 16
        return steps(s, v) * 128 * v.warps <= REGISTERS and runs(v) <= RUNS
            and (is_first or runs(v) <= s.D and 4 * v.cols <= s.D)
    end,

    launch = function(s, v)
        return {
            grid = { parts(s, v), s.HEADS, sequences(s) }, block = 32 * (v.warps + helpers(s)),
            shared = 4 * s.TOKENS * (5 * runs(v) * steps(s, v) + 4),
        }
    end,
    work = function(s)
        local row = s.HEADS * (s.D * 12 + 2)  -- q k v, f, gate, y; beta
        return {
            bytes = sequences(s) * (8 * s.HEADS * s.D * s.D + 32 * channels(s)) + s.M * row
                + 16 * channels(s) + 4 * s.HEADS * (s.D + 1) + 2 * s.D,
            flops = s.M * s.HEADS * s.D * (s.D * 7 + 80),
        }
    end,

    check = {
        ulp = 1, relative = 1e-5,
        samples = {
            { M = 1, TOKENS = 1, HEADS = 4, D = 64, STRIDE = 900, BOFFSET = 832, SLOTS = 1 },
            { M = 3, TOKENS = 1, HEADS = 1, D = 128, STRIDE = 641, BOFFSET = 500, SLOTS = 4 },
            { M = 3, TOKENS = 3, HEADS = 1, D = 128, STRIDE = 385, BOFFSET = 384, SLOTS = 4 },
            { M = 4, TOKENS = 2, HEADS = 3, D = 24, STRIDE = 219, BOFFSET = 216, SLOTS = 1 },
            { M = 16, TOKENS = 16, HEADS = 1, D = 64, STRIDE = 193, BOFFSET = 192, SLOTS = 17 },
            { M = 2, TOKENS = 1, HEADS = 1, D = 256, STRIDE = 770, BOFFSET = 769, SLOTS = 2 },
        },
        real = {
            { M = 1, TOKENS = 1, HEADS = 64, D = 128, STRIDE = 24896, BOFFSET = 24832, SLOTS = 1 },
            { M = 1, TOKENS = 1, HEADS = 22, D = 128, STRIDE = 8726, BOFFSET = 8704, SLOTS = 1 },
            { M = 2, TOKENS = 2, HEADS = 64, D = 128, STRIDE = 24896, BOFFSET = 24832, SLOTS = 3 },
            { M = 2, TOKENS = 2, HEADS = 22, D = 128, STRIDE = 8726, BOFFSET = 8704, SLOTS = 3 },
            { M = 4, TOKENS = 1, HEADS = 21, D = 128, STRIDE = 8341, BOFFSET = 8320, SLOTS = 5 },
        },
        draw = {
            taps = draw_taps, f = draw_g, gate = draw_gate, slots = slot, snaps = snap,
        },
    },
})
