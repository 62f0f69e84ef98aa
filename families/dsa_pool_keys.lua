-- The pooled key of four tokens, when a row's position is the last of them: a softmax over the four
-- of gate + ape weighs their keys, channel by channel: P[d] = sum over i of softmax_i(gate[i,d] +
-- ape[i,d]) * key[i,d]. Read from the sequence's ring of raw rows, written to the paged cache of
-- pools. Bound by the launch: 36 bytes a channel.
-- NaN and infinity stay in their channel (NaN). A row at another position, or without a slot, page
-- or block, writes nothing.
local family = require("gen.family")
local paged = require("gen.paged")

local POOL <const> = 4  -- tokens

return family("dsa_pool_keys", {
    rev = 1,
    maths = "pooled[pool, d] = sum over its 4 tokens i of softmax_i(gate[i,d] + ape[i,d]) key[i,d]",

    shape = { "M", "D", "RING", "SLOTS", "PAGES", "BLOCKS" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.D % 2 ~= 0 or s.D > 2048 then
            return nil, "D is odd, or more than a block's two channels a thread"
        end
        if s.RING < POOL then return nil, "the ring does not hold a pool" end
        return true
    end,

    args = {
        { "pooled", "f32", { "BLOCKS", paged.PAGE // POOL, "D" }, inout = true },
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
    work = function(s) return { bytes = s.M * s.D * 20 + s.D * 16, flops = s.M * s.D * 60 } end,

    check = {
        relative = 1e-5,
        samples = {
            { M = 1, D = 64, RING = 16, SLOTS = 1, PAGES = 8, BLOCKS = 8 },
            { M = 16, D = 128, RING = 19, SLOTS = 2, PAGES = 33, BLOCKS = 70 },
            { M = 10, D = 64, RING = 4, SLOTS = 2, PAGES = 8192, BLOCKS = 5 },
            { M = 5, D = 22, RING = 5, SLOTS = 1, PAGES = 2, BLOCKS = 3 },
        },
        real = { { M = 1, D = 128, RING = 16, SLOTS = 1, PAGES = 8192, BLOCKS = 64 } },
        draw = { positions = paged.position, slots = paged.slot, block_table = paged.block },
    },
})
