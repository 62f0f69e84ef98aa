-- mHC pre (model.md 4.2): a row's streams x give 24 dots with fn; these give the weights of the
-- collapsed row u = sum of pre[i] * x[i], which is normalised (RMSNorm) and rounded once, and post
-- and comb for mhc_post. The floor is the 192*H bytes of fn and 16*H a row of streams; the products
-- of the streams with each other give the norm of u, so that the blocks of a row meet only once.
-- NaN and infinity in a row make NaN of that row alone.
local family = require("gen.family")
local tile = require("gen.tile")

local STREAMS <const> = 4
local MIX <const> = (2 + STREAMS) * STREAMS            -- dots: pre, post, comb
local GRAM <const> = STREAMS * (STREAMS + 1) // 2      -- products of streams
local STEP <const> = 64                                -- columns that a warp reads at once
local LOAD <const> = 8                                 -- of them, a lane

local function slices(s, v) return tile.ceil(s.H, STEP * v.steps) end
local function groups(s, v) return tile.ceil(s.M, v.rows) end

return family("mhc_pre", {
    rev = 1,
    maths = "m = fn . x / rms(x); pre, post = sigmoids, comb = Sinkhorn(20); xn = rmsnorm(pre . x)",

    shape = { "M", "H" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.H % LOAD ~= 0 then return nil, "H is not a whole number of 16-byte loads" end
        return true
    end,

    args = {
        { "xn", "bf16", { "M", "H" }, out = true },
        { "post", "f32", { "M", STREAMS }, out = true },
        { "comb", "f32", { "M", STREAMS, STREAMS }, out = true },  -- source, destination
        { "streams", "f32", { "M", STREAMS, "H" } },
        { "fn", "bf16", { MIX, STREAMS, "H" } },
        { "scale", "f32", { 3 } },    -- of pre, post, comb
        { "base", "f32", { MIX } },
        { "norm", "bf16", { "H" } },  -- the site's RMSNorm
    },
    scratch = function(s, v)
        return {
            { "partial", "f32", { s.M, MIX + GRAM, slices(s, v) } },
            { "arrived", "u32", { groups(s, v) } },
        }
    end,

    knobs = {
        { "steps", 2, 1 },       -- of 64 columns, that a block takes
        { "warps", 12, 8, 16 },  -- of a block, which share the dots; all but one the columns
        { "rows", 1, 2, 4 },     -- that a block carries: reuse of fn
    },
    class = function(_, v) return ("slice%d"):format(STEP * v.steps) end,
    keep = function(s, v)
        return v.rows <= s.M and (v.steps == 1 or s.H > STEP)
            and v.steps * v.rows <= 4  -- fn and a row stay in registers
    end,
    launch = function(s, v)
        return { grid = { slices(s, v), groups(s, v), 1 }, block = 32 * v.warps }
    end,
    work = function(s)
        return {
            bytes = 2 * MIX * STREAMS * s.H + 2 * s.H + 4 * (3 + MIX)
                + s.M * (4 * STREAMS * s.H + 2 * s.H + 4 * (STREAMS + 1) * STREAMS),
            flops = 2 * s.M * s.H * (MIX * STREAMS + GRAM + STREAMS),
        }
    end,

    check = {
        ulp = 1,
        relative = 1e-5,
        samples = {
            { M = 1, H = 256 }, { M = 3, H = 8 }, { M = 2, H = 200 }, { M = 4, H = 64 },
            { M = 16, H = 320 }, { M = 1, H = 2304 },
        },
        real = { { M = 1, H = 4096 } },
        draw = {
            scale = "scale32",
            base = function(s, i, random)  -- where M is even, so far out that both eps count
                local unit = (random(2001) - 1000) * 0x1p-10
                if s.M % 2 == 1 then return unit end
                return i < STREAMS and 2 * unit - 14 or 16 * unit
            end,
        },
    },
})
