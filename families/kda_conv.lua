-- KDA's short convolution: a causal window of four values a channel, SiLU, and for the heads of q
-- and k the L2 norm: a = sum over j of window[c,j] * taps[c,j], s = a * sigmoid(a), y = s / sqrt(
-- sum over the head of s^2 + 1e-6) (v: y = s). x is the first 3 * HEADS * D columns of its rows.
-- Bound by the launch: 48 bytes a channel, 1.2 MB at 64 heads of 128.
-- NaN in x: its head's row, its channel's next three outputs and the window become NaN; a slot is
-- never computed from x.
local family = require("gen.family")

local function channels(s) return 3 * s.HEADS * s.D end

local function serves(s)
    if s.M > 16 then return nil, "more than 16 rows" end
    if s.D > 1024 then return nil, "a head is wider than a block" end
    if s.STRIDE < channels(s) then return nil, "rows of x are shorter than q, k and v" end
    return true
end

local function class() return "fma4_head" end  -- taps in order; a head's squares by lanes, warps
local function keep() return true end
local function threads(s) return (s.D + 31) // 32 * 32 end  -- a thread a channel, a block a head

-- Every other head's are so small that the norm's 1e-6 shows.
local function taps(s, i, random)
    return (random(65537) - 32768) / (i // (4 * s.D) % 2 == 0 and 32768 or 1 << 27)
end

-- Each row has a slot of its own, counted from the pool's end; every fourth row is padding.
local function slots(s, i) return i % 4 == 2 and -1 or s.SLOTS - 1 - i end

-- The sequence has the last slot, its snapshots the first ones; a pool of one slot: padding.
local function slot(s) return s.SLOTS > 1 and s.SLOTS - 1 or -1 end
local function snaps(s, i) return (i % 3 == 1 or i + 1 >= s.SLOTS) and -1 or i end

local rows = family("kda_conv.rows", {
    rev = 1,
    maths = "y = l2norm over heads of q and k of silu(window[slots[m]] . taps), window shifted",

    shape = { "M", "HEADS", "D", "STRIDE", "SLOTS" },
    serves = serves,
    args = {
        { "y", "bf16", { "M", channels }, out = true },            -- q | k | v
        { "window", "f32", { "SLOTS", channels, 4 }, inout = true },  -- newest value last
        { "x", "bf16", { "M", "STRIDE" } },
        { "taps", "f32", { channels, 4 } },                         -- oldest first
        { "slots", "i32", { "M" } },  -- all different; -1: the row writes nothing
    },
    knobs = {},
    class = class,
    keep = keep,
    launch = function(s) return { grid = { 3 * s.HEADS, s.M, 1 }, block = threads(s) } end,
    work = function(s)
        return { bytes = channels(s) * (16 + s.M * 36), flops = channels(s) * s.M * 20 }
    end,
    check = {
        ulp = 1, relative = 1e-5,
        samples = {
            { M = 1, HEADS = 4, D = 64, STRIDE = 900, SLOTS = 1 },
            { M = 3, HEADS = 1, D = 128, STRIDE = 641, SLOTS = 4 },
            { M = 16, HEADS = 2, D = 64, STRIDE = 516, SLOTS = 17 },
            { M = 2, HEADS = 3, D = 24, STRIDE = 216, SLOTS = 2 },
        },
        real = {
            { M = 1, HEADS = 64, D = 128, STRIDE = 24896, SLOTS = 2 },
            { M = 1, HEADS = 22, D = 128, STRIDE = 8726, SLOTS = 2 },
            { M = 4, HEADS = 21, D = 128, STRIDE = 8341, SLOTS = 5 },
        },
        draw = { taps = taps, slots = slots },
    },
})

local tokens = family("kda_conv.tokens", {
    rev = 1,
    maths = "the same for M tokens of one sequence; window[snaps[t]] = the window after row t",

    shape = { "M", "HEADS", "D", "STRIDE", "SLOTS" },
    serves = serves,
    args = {
        { "y", "bf16", { "M", channels }, out = true },
        { "window", "f32", { "SLOTS", channels, 4 }, inout = true },
        { "x", "bf16", { "M", "STRIDE" } },
        { "taps", "f32", { channels, 4 } },
        { "slot", "i32", { 1 } },     -- of the sequence; -1: nothing is written
        { "snaps", "i32", { "M" } },  -- other slots of the pool; -1: no snapshot after this row
    },
    knobs = {},
    class = class,
    keep = keep,
    launch = function(s) return { grid = 3 * s.HEADS, block = threads(s) } end,
    work = function(s)
        return { bytes = channels(s) * (48 + s.M * 4), flops = channels(s) * s.M * 20 }
    end,
    check = {
        ulp = 1, relative = 1e-5,
        samples = {
            { M = 1, HEADS = 4, D = 64, STRIDE = 900, SLOTS = 2 },
            { M = 2, HEADS = 1, D = 64, STRIDE = 193, SLOTS = 1 },
            { M = 3, HEADS = 1, D = 128, STRIDE = 641, SLOTS = 4 },
            { M = 4, HEADS = 3, D = 24, STRIDE = 216, SLOTS = 5 },
            { M = 16, HEADS = 2, D = 64, STRIDE = 516, SLOTS = 17 },
        },
        real = {
            { M = 2, HEADS = 64, D = 128, STRIDE = 24896, SLOTS = 3 },
            { M = 2, HEADS = 22, D = 128, STRIDE = 8726, SLOTS = 3 },
            { M = 4, HEADS = 21, D = 128, STRIDE = 8341, SLOTS = 5 },
        },
        draw = { taps = taps, slot = slot, snaps = snaps },
    },
})

return { rows, tokens }
