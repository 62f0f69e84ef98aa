-- mHC expand: looks a row's token up in the embedding and copies it into the four streams, in f32.
-- Bound by the launch: 18 bytes a column. A token outside the vocabulary makes zeros.
local family = require("gen.family")
local tile = require("gen.tile")

local STREAMS <const> = 4
local LOAD <const> = 8  -- columns of a thread

return family("mhc_expand", {
    rev = 1,
    maths = "streams[m,i,d] = embed[tokens[m],d] for i = 0..3",

    shape = { "M", "VOCAB", "H" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.H % LOAD ~= 0 then return nil, "H is not a whole number of 16-byte loads" end
        return true
    end,

    args = {
        { "streams", "f32", { "M", STREAMS, "H" }, out = true },
        { "tokens", "i32", { "M" } },
        { "embed", "bf16", { "VOCAB", "H" } },
    },
    knobs = { { "warps", 4, 1, 8 } },  -- warps a block
    class = function() return "copy" end,
    keep = function(s, v) return v.warps == 1 or s.H > (v.warps // 2) * 32 * LOAD end,
    launch = function(s, v)
        return { grid = { tile.ceil(s.H, 32 * v.warps * LOAD), s.M, 1 }, block = 32 * v.warps }
    end,
    work = function(s) return { bytes = s.M * s.H * (2 + 4 * STREAMS) + 4 * s.M, flops = 0 } end,

    check = {
        bits = true,
        samples = {
            { M = 1, VOCAB = 320, H = 256 }, { M = 5, VOCAB = 22, H = 8 },
            { M = 16, VOCAB = 3, H = 1544 },
        },
        real = { { M = 1, VOCAB = 154880, H = 4096 } },
        draw = {
            tokens = function(s, i, random)
                local outside = { -1, s.VOCAB, -2147483648, 2147483647 }
                return i % 4 == 2 and outside[1 + random(4)] or random(s.VOCAB)
            end,
        },
    },
})
