-- The distinct experts of M rows, ascending, and for each the slots (m * TOPK + k) that chose it,
-- ascending: those of expert u are slots[starts[u] .. starts[u+1] - 1], u < count. What is left of
-- experts and slots is -1, of starts the number of slots. Ids outside 0 .. EXPERTS-1 count nowhere.
-- Bound by the launch: a few hundred bytes; each slot counts the slots before it.
local family = require("gen.family")

local MOST_SLOTS <const> = 1024  -- a thread each

local function slots(s) return s.M * s.TOPK end

return family("moe_row_union", {
    rev = 1,
    maths = "experts = sorted distinct ids; slots grouped by expert from starts",

    shape = { "M", "TOPK", "EXPERTS" },
    serves = function(s)
        if slots(s) > MOST_SLOTS then return nil, "more than 1024 slots" end
        return true
    end,

    args = {
        { "count", "i32", { 1 }, out = true },
        { "experts", "i32", { slots }, out = true },
        { "starts", "i32", { function(s) return slots(s) + 1 end }, out = true },
        { "slots", "i32", { slots }, out = true },
        { "ids", "i32", { "M", "TOPK" } },
    },
    knobs = {},
    class = function() return "exact" end,  -- integers
    keep = function() return true end,
    launch = function(s) return { grid = 1, block = (slots(s) + 31) // 32 * 32 } end,
    work = function(s) return { bytes = 4 * (4 * slots(s) + 2), flops = slots(s) * slots(s) } end,

    check = {
        bits = true,
        samples = {
            { M = 1, TOPK = 1, EXPERTS = 1 }, { M = 1, TOPK = 8, EXPERTS = 288 },
            { M = 4, TOPK = 4, EXPERTS = 16 }, { M = 16, TOPK = 8, EXPERTS = 24 },
            { M = 3, TOPK = 5, EXPERTS = 2 },
        },
        real = { { M = 2, TOPK = 8, EXPERTS = 288 }, { M = 16, TOPK = 8, EXPERTS = 288 } },
        draw = {  -- a few outside, on both sides
            ids = function(s, _, random) return random(s.EXPERTS + 2) - 1 end,
        },
    },
})
