-- mHC head: the unweighted mean of the four streams, rounded to bf16.
-- Bound by the launch: 18 bytes a column. NaN and infinity stay in their column.
local family = require("gen.family")
local tile = require("gen.tile")

local STREAMS <const> = 4
local LOAD <const> = 8  -- columns of a thread

return family("mhc_head", {
    rev = 1,
    maths = "h[m,d] = bf16((streams[m,0,d] + .. + streams[m,3,d]) / 4)",

    shape = { "M", "H" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.H % LOAD ~= 0 then return nil, "H is not a whole number of 16-byte loads" end
        return true
    end,

    args = {
        { "h", "bf16", { "M", "H" }, out = true },
        { "streams", "f32", { "M", STREAMS, "H" } },
    },
    knobs = { { "warps", 2, 1, 4, 8 } },  -- warps a block
    class = function() return "ascending" end,
    keep = function(s, v) return v.warps == 1 or s.H > (v.warps // 2) * 32 * LOAD end,
    launch = function(s, v)
        return { grid = { tile.ceil(s.H, 32 * v.warps * LOAD), s.M, 1 }, block = 32 * v.warps }
    end,
    work = function(s)
        return { bytes = s.M * s.H * (2 + 4 * STREAMS), flops = STREAMS * s.M * s.H }
    end,

    check = {
        ulp = 1,
        samples = { { M = 1, H = 256 }, { M = 3, H = 8 }, { M = 16, H = 1544 } },
        real = { { M = 1, H = 4096 } },
    },
})
