-- mHC post: new[j,d] = post[j] * y[d] + sum over i of comb[i,j] * streams[i,d], in place; y is the
-- sublayer's output, or the sum in f32 of the ranks' partials of it, which is then stored too.
-- Bound by the launch: 34 bytes a column, 2 more a rank. NaN and infinity stay in their column.
local family = require("gen.family")
local tile = require("gen.tile")

local STREAMS <const> = 4
local LOAD <const> = 4  -- columns of a thread

local function is_whole(s)
    if s.M > 16 then return nil, "more than 16 rows" end
    if s.H % LOAD ~= 0 then return nil, "H is not a whole number of 16-byte loads" end
    return true
end

local function class() return "ascending" end
local function keep(s, v) return v.warps == 1 or s.H > (v.warps // 2) * 32 * LOAD end

local function launch(s, v)
    return { grid = { tile.ceil(s.H, 32 * v.warps * LOAD), s.M, 1 }, block = 32 * (v.warps + 1) }
end

local function bytes(s) return s.M * (s.H * 2 * STREAMS * 4 + 80) end
local function flops(s) return s.M * s.H * STREAMS * (STREAMS + 1) * 2 end

local KNOBS <const> = { { "warps", 2, 1, 4, 8 } }  -- warps a block, besides the one that balances

-- Logits of every other row so far apart that a column's first sum may be little more than eps.
local function draw_mix(_, i, random)
    return (random(2001) - 1000) * (i // (STREAMS * STREAMS) % 2 == 0 and 0x1p-5 or 0x1p-9)
end

return {
    family("mhc_post", {
        rev = 1,
        maths = "streams[m,j,d] = post[m,j] * y[m,d] + sum over i of comb[m,i,j] * streams[m,i,d]",
        shape = { "M", "H" },
        serves = is_whole,
        args = {
            { "streams", "f32", { "M", STREAMS, "H" }, inout = true },
            { "post", "f32", { "M", STREAMS } },
            { "mix", "f32", { "M", STREAMS, STREAMS } },  -- source, destination
            { "y", "bf16", { "M", "H" } },
        },
        knobs = KNOBS, class = class, keep = keep, launch = launch,
        work = function(s) return { bytes = bytes(s) + 2 * s.M * s.H, flops = flops(s) } end,
        check = {
            relative = 1e-5, draw = { mix = draw_mix },
            samples = { { M = 1, H = 256 }, { M = 3, H = 4 }, { M = 16, H = 772 } },
            real = { { M = 1, H = 4096 } },
        },
    }),

    family("mhc_post_rank_sum", {
        rev = 1,
        maths = "y[m,d] = sum over r of parts[r,m,d]; streams[m,j,d] as mhc_post, y not rounded",
        shape = { "M", "H", "RANKS" },
        serves = function(s)
            if s.RANKS < 1 or s.RANKS > 16 then return nil, "RANKS must be from 1 to 16" end
            return is_whole(s)
        end,
        args = {
            { "streams", "f32", { "M", STREAMS, "H" }, inout = true },
            { "y", "bf16", { "M", "H" }, out = true },
            { "post", "f32", { "M", STREAMS } },
            { "mix", "f32", { "M", STREAMS, STREAMS } },
            { "parts", "bf16", { "RANKS", "M", "H" } },
        },
        knobs = KNOBS, class = class, keep = keep, launch = launch,
        template = function() return "mhc_post" end,
        work = function(s)
            return { bytes = bytes(s) + 2 * s.M * s.H * (s.RANKS + 1), flops = flops(s) }
        end,
        check = {
            relative = 1e-5,
            ulp = 1, draw = { mix = draw_mix },
            samples = {
                { M = 1, H = 256, RANKS = 3 }, { M = 3, H = 4, RANKS = 1 },
                { M = 16, H = 772, RANKS = 4 },
            },
            real = { { M = 2, H = 4096, RANKS = 3 } },
        },
    }),
}
