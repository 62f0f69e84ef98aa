-- The pooled key of four tokens, when a row's position is the last of them: a softmax over the four
-- of gate + ape weighs their keys, channel by channel: P[d] = sum over i of softmax_i(gate[i,d] +
-- ape[i,d]) * key[i,d]. Read from the sequence's ring of raw rows, written to the paged cache of
-- pools as dsa_scores multiplies it: P = (pooled[0] + 2^-11 pooled[1]) scale, two f16 of which the
-- second holds 2^11 times what the first leaves, and a power of two that brings the sum of P's
-- magnitudes to 2^14 .. 2^15. A page's f16 are a product's fragments: of 16 channels after 16
-- channels, lane (g, t)'s eight are channels 4 t, 4 t + 1 of pools g and g + 8, then 4 t + 2,
-- 4 t + 3 of them. Bound by the launch: 36 bytes a channel.
-- NaN and infinity are NaN in their channel, and leave little or nothing of the pool's others. A
-- row at another position, or without a slot, page or block, writes nothing.
local family = require("gen.family")
local paged = require("gen.paged")

local POOL <const> = 4  -- tokens
local KEYS <const> = paged.PAGE // POOL

return family("dsa_pool_keys", {
    rev = 2,
    maths = "pooled[pool, d] = sum over its 4 tokens i of softmax_i(gate[i,d] + ape[i,d]) key[i,d]",

    shape = { "M", "D", "RING", "SLOTS", "PAGES", "BLOCKS" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.D % 32 ~= 0 or s.D > 128 then return nil, "D is no multiple of 32 up to 128" end
        if s.RING < POOL then return nil, "the ring does not hold a pool" end
        return true
    end,

    args = {
        { "pooled", "f16", { "BLOCKS", 2, KEYS, "D" }, inout = true },
        { "scale", "f32", { "BLOCKS", KEYS }, inout = true },
        { "raw", "bf16", { "SLOTS", "RING", 2, "D" } },  -- key, gate
        { "ape", "f32", { POOL, "D" } },
        { "positions", "i32", { "M" } },
        { "slots", "i32", { "M" } },  -- the row's sequence; -1: it writes nothing
        { "block_table", "i32", { "SLOTS", "PAGES" } },
    },
    knobs = {},
    class = function() return "fma4" end,
    keep = function() return true end,
    launch = function(s) return { grid = s.M, block = (s.D + 63) // 64 * 32 } end,
    work = function(s)
        return { bytes = s.M * (s.D * 20 + 4) + s.D * 16, flops = s.M * s.D * 60 }
    end,

    check = {
        relative = 1e-5,
        ulp = 1,  -- and 1e-5 of a key (dsa_pool_keys.c)
        samples = {
            { M = 1, D = 64, RING = 16, SLOTS = 1, PAGES = 8, BLOCKS = 8 },
            { M = 16, D = 128, RING = 19, SLOTS = 2, PAGES = 33, BLOCKS = 70 },
            { M = 10, D = 64, RING = 4, SLOTS = 2, PAGES = 8192, BLOCKS = 5 },
            { M = 5, D = 32, RING = 5, SLOTS = 1, PAGES = 2, BLOCKS = 3 },
        },
        real = { { M = 1, D = 128, RING = 16, SLOTS = 1, PAGES = 8192, BLOCKS = 64 } },
        draw = { positions = paged.position, slots = paged.slot, block_table = paged.block },
    },
})
