-- Writes latents into the paged cache: e4m3(x * (1 / sqrt(mean(x^2) + 1e-5)) * w), not rounded in
-- between, at the row's position. x is D columns from OFFSET of rows of STRIDE (the stacked
-- in-projection). Bound by the launch: 3 bytes a channel.
-- NaN in a row gives the code 0x7f in all of it, infinity gives 0 and, in its place, 0x7f. Two rows
-- at one position of one sequence are a race; a row without a slot, page or block writes nothing.
local family = require("gen.family")
local paged = require("gen.paged")

local LOAD <const> = 8  -- channels a lane reads at once

return family("mla_latent_write", {
    rev = 1,
    maths = "cache[block(position)] = e4m3(x * (1 / sqrt(mean(x^2) + 1e-5)) * w)",

    shape = { "M", "D", "STRIDE", "OFFSET", "SLOTS", "PAGES", "BLOCKS" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.D > 2048 then return nil, "a row is more than a warp keeps" end
        if s.OFFSET + s.D > s.STRIDE then return nil, "the latent is not inside of its row" end
        if s.D % LOAD ~= 0 or s.STRIDE % LOAD ~= 0 or s.OFFSET % LOAD ~= 0 then
            return nil, "D, STRIDE or OFFSET is not a whole number of 8-channel loads"
        end
        return true
    end,

    args = {
        { "cache", "e4m3", { "BLOCKS", paged.PAGE, "D" }, inout = true },
        { "x", "bf16", { "M", "STRIDE" } },
        { "w", "bf16", { "D" } },
        { "positions", "i32", { "M" } },
        { "slots", "i32", { "M" } },  -- the row's sequence; -1: it writes nothing
        { "block_table", "i32", { "SLOTS", "PAGES" } },
    },
    knobs = {},
    class = function() return "exact" end,  -- the sum of squares is taken in double
    keep = function() return true end,
    launch = function(s) return { grid = s.M, block = 32 } end,
    work = function(s) return { bytes = s.M * s.D * 3 + s.D * 2, flops = s.M * s.D * 4 } end,

    check = {
        bits = true,
        samples = {
            { M = 1, D = 128, STRIDE = 384, OFFSET = 128, SLOTS = 1, PAGES = 64, BLOCKS = 64 },
            { M = 16, D = 128, STRIDE = 128, OFFSET = 0, SLOTS = 2, PAGES = 33, BLOCKS = 70 },
            { M = 5, D = 512, STRIDE = 2304, OFFSET = 1536, SLOTS = 2, PAGES = 8192, BLOCKS = 9 },
            { M = 2, D = 24, STRIDE = 40, OFFSET = 8, SLOTS = 3, PAGES = 1, BLOCKS = 3 },
        },
        real = {
            { M = 1, D = 512, STRIDE = 2304, OFFSET = 1536, SLOTS = 1, PAGES = 8192, BLOCKS = 64 },
        },
        draw = { positions = paged.position, slots = paged.slot, block_table = paged.block },
    },
})
