-- The indexer's raw rows: key = (ik - mean) / sqrt(var + 1e-6) * w + b, biased variance, rounded
-- once, and the gate score as it is, at position % RING of the sequence's ring. ik is D columns
-- from OFFSET of rows of STRIDE (the stacked in-projection), the gate D columns from GATE. Bound by
-- the launch: 8 bytes a channel.
-- NaN and infinity in ik make NaN of that key alone. Two rows at one place of a ring are a race; a
-- row without a slot writes nothing.
local family = require("gen.family")
local paged = require("gen.paged")

local LOAD <const> = 8  -- channels a lane reads at once

local function is_inside(s, from) return from + s.D <= s.STRIDE and from % LOAD == 0 end

return family("dsa_index_store", {
    rev = 1,
    maths = "raw[slot, position % RING] = bf16(layer_norm(ik; w, b, eps 1e-6)), gate",

    shape = { "M", "D", "STRIDE", "OFFSET", "GATE", "SLOTS", "RING" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.D > 2048 then return nil, "a row is more than a warp keeps" end
        if s.D % LOAD ~= 0 or s.STRIDE % LOAD ~= 0 then
            return nil, "D or STRIDE is not a whole number of 8-channel loads"
        end
        if not is_inside(s, s.OFFSET) or not is_inside(s, s.GATE) then
            return nil, "OFFSET or GATE is no multiple of 8 or not inside of a row"
        end
        return true
    end,

    args = {
        { "raw", "bf16", { "SLOTS", "RING", 2, "D" }, inout = true },  -- key, gate
        { "x", "bf16", { "M", "STRIDE" } },
        { "w", "bf16", { "D" } },
        { "b", "bf16", { "D" } },
        { "positions", "i32", { "M" } },
        { "slots", "i32", { "M" } },  -- the row's sequence; -1: it writes nothing
    },
    knobs = {},
    class = function() return "sum1" end,
    keep = function() return true end,
    launch = function(s) return { grid = s.M, block = 32 } end,
    work = function(s) return { bytes = s.M * s.D * 8 + s.D * 4, flops = s.M * s.D * 7 } end,

    check = {
        ulp = 1,
        samples = {
            { M = 1, D = 64, STRIDE = 384, OFFSET = 256, GATE = 320, SLOTS = 1, RING = 16 },
            { M = 16, D = 128, STRIDE = 256, OFFSET = 0, GATE = 128, SLOTS = 16, RING = 20 },
            { M = 4, D = 64, STRIDE = 128, OFFSET = 64, GATE = 0, SLOTS = 1, RING = 7 },
            { M = 2, D = 264, STRIDE = 536, OFFSET = 8, GATE = 272, SLOTS = 3, RING = 4 },
        },
        real = {
            { M = 1, D = 128, STRIDE = 2304, OFFSET = 2048, GATE = 2176, SLOTS = 1, RING = 16 },
        },
        draw = {
            positions = function(s, i)  -- no two at one place of the ring
                return i == 0 and 524287 // s.RING * s.RING or 5 * s.RING + i % s.RING
            end,
            slots = paged.slot,
        },
    },
})
