-- Router (model.md 4.20): s = sigmoid(logit); the TOPK largest s + bias, ties to the lower id;
-- weights s / (their sum + 1e-20) * factor. Each expert counts how many of its warp beat it, the
-- TOPK best of each warp how many of those: no sort. Bound by the launch: a few KB.
-- A NaN choice comes last, its weight makes the row's weights NaN; ids are always distinct and in
-- range.
local family = require("gen.family")

local MOST_THREADS <const> = 1024  -- a block
local MOST_CHOSEN <const> = 32     -- a warp writes the weights

return family("moe_router", {
    rev = 1,
    maths = "ids = top TOPK of sigmoid(logits) + bias; weights = s / (sum of s + 1e-20) * factor",

    shape = { "M", "EXPERTS", "TOPK" },
    serves = function(s)
        if s.EXPERTS > MOST_THREADS then return nil, "more than 1024 experts" end
        if s.TOPK > s.EXPERTS then return nil, "TOPK is more than EXPERTS" end
        if s.TOPK > MOST_CHOSEN then return nil, "TOPK is more than 32" end
        return true
    end,

    args = {
        { "ids", "i32", { "M", "TOPK" }, out = true },      -- by descending choice
        { "weights", "f32", { "M", "TOPK" }, out = true },
        { "logits", "f32", { "M", "EXPERTS" } },
        { "bias", "f32", { "EXPERTS" } },                   -- of the choice, not of the weight
        { "factor", "f32", { 1 } },                         -- routed_scaling_factor
    },
    knobs = {},
    class = function() return "slots" end,  -- weights are summed in the order of the slots
    keep = function() return true end,
    launch = function(s) return { grid = s.M, block = (s.EXPERTS + 31) // 32 * 32 } end,
    work = function(s)
        return { bytes = 4 * (s.M * s.EXPERTS + s.EXPERTS + 1) + 8 * s.M * s.TOPK,
            flops = s.M * s.EXPERTS * 40 }
    end,

    check = {
        relative = 1e-5,
        samples = {
            { M = 1, EXPERTS = 1, TOPK = 1 }, { M = 4, EXPERTS = 16, TOPK = 4 },
            { M = 3, EXPERTS = 37, TOPK = 8 }, { M = 2, EXPERTS = 33, TOPK = 32 },
            { M = 16, EXPERTS = 288, TOPK = 8 },
        },
        real = { { M = 1, EXPERTS = 288, TOPK = 8 } },
        draw = {  -- few values, so many ties; with 37 experts all scores are equal
            logits = function(s, _, random)
                return s.EXPERTS == 37 and 0.25 or (random(33) - 16) / 4
            end,
            bias = function(s, _, random) return s.EXPERTS == 37 and 0.5 or random(3) / 8 end,
            factor = function() return 2.5 end,
        },
    },
})
