-- mHC pre (model.md 4.2): a row's streams x give 24 dots with fn; these give the weights of the
-- collapsed row u = sum of pre[i] * x[i], which is normalised (RMSNorm) and rounded once, and for
-- mhc_post post and mix, the logits of comb. mhc_post_pre does mhc_post of the site in front first,
-- mhc_post_pre_quant also quantises the row.
-- The floor is the 192*H bytes of fn and 16*H a row of streams; the products of the streams with
-- each other give the norm of u, so that the blocks of a row meet only once.
-- NaN and infinity in a row make NaN of that row alone.
local family = require("gen.family")
local tile = require("gen.tile")

local STREAMS <const> = 4
local MIX <const> = (2 + STREAMS) * STREAMS            -- dots: pre, post, comb
local GRAM <const> = STREAMS * (STREAMS + 1) // 2      -- products of streams
local SLICE <const> = 256                              -- columns of a block: eight a lane
local WARPS <const> = { [1] = 12, [6] = 4 }            -- of it, by sets; all make sums
local SITE_WARPS <const> = { [1] = 14, [6] = 7 }       -- of mhc_post_pre: two, or three, do not
local LOAD <const> = 8                                 -- columns of 16 bytes of fn
local GROUP <const> = 16                               -- codes that share a scale
local MOST_BLOCKS <const> = 32                         -- wait for each other: on any GPU all run

local function slices(s) return tile.ceil(s.H, SLICE) end
local function groups(s, v) return tile.ceil(s.M, v.rows) end

local function serves(s)
    if s.M > 16 then return nil, "more than 16 rows" end
    if s.H > 4096 then return nil, "more than 4096 columns" end
    if s.H % LOAD ~= 0 then return nil, "H is not a whole number of 16-byte loads" end
    return true
end

local function scratch(s, v)  -- of blocks that are no cluster
    if v.cluster > 0 then return {} end
    return {
        { "sums", "u32", { s.M, slices(s), MIX + GRAM, 2 } },  -- a part and its turn
        { "turns", "u32", { groups(s, v) * slices(s) } },      -- launches that a block has ended
    }
end

local function site_scratch(s, v)
    if v.sets == 1 then return scratch(s, v) end
    return { { "readers", "u32", { groups(s, v) * slices(s) } } }  -- sets that have read a slice
end

local KNOBS <const> = {
    { "cluster", 1, 0 },        -- do the blocks of a row meet in shared memory?
    { "rows", 1, 2, 3, 4, 8 },  -- that a block carries: reuse of fn
    { "sets", 6, 1 },           -- of dots, each of a cluster of its own
}
local function class() return "slice256" end
local function keep(s, v, dev)
    if v.rows > s.M and (v.rows < 8 or s.M <= 4) then return false end  -- fewer carry all
    local can_cluster = slices(s) <= dev.cluster
    if v.sets > 1 then  -- none waits for another, but there all run at once
        local blocks = v.sets * slices(s) * groups(s, v)
        if slices(s) == 1 or dev.sms > 1 and blocks > dev.sms then return false end
        return v.cluster > 0 and can_cluster and v.rows <= 3
    end
    if v.cluster > 0 then return can_cluster and v.rows <= 3 end  -- of seven at a time six do 16
    if can_cluster and dev.sms > 1 then return false end  -- as fast alone, slower behind others
    return slices(s) * groups(s, v) <= (dev.sms < 2 * MOST_BLOCKS and 1 or 2) * MOST_BLOCKS
end
local function launch(warps)
    return function(s, v)
        return {
            grid = { slices(s), groups(s, v), v.sets },
            cluster = v.cluster > 0 and slices(s) or nil,
            block = 32 * warps[v.sets], shared = 4 * STREAMS * SLICE * v.rows,
        }
    end
end

local function bytes(s)
    return 2 * MIX * STREAMS * s.H + 2 * s.H + 4 * (3 + MIX)
        + s.M * (4 * STREAMS * s.H + 2 * s.H + 4 * (STREAMS + 1) * STREAMS)
end
local function flops(s) return 2 * s.M * s.H * (MIX * STREAMS + GRAM + STREAMS) end

local SAMPLES <const> = {
    { M = 1, H = 256 }, { M = 3, H = 8 }, { M = 2, H = 200 }, { M = 4, H = 64 },
    { M = 16, H = 320 }, { M = 1, H = 2304 }, { M = 2, H = 4088 },
}
local REAL <const> = { { M = 1, H = 4096 } }

local function base(s, i, random)  -- where M is even, so far out that eps of pre counts
    local unit = (random(2001) - 1000) * 0x1p-10
    if s.M % 2 == 1 then return unit end
    return i < STREAMS and 2 * unit - 14 or 16 * unit
end

local SITE <const> = {
    { "xn", "bf16", { "M", "H" }, out = true },
    { "streams", "f32", { "M", STREAMS, "H" }, inout = true },
    { "next_post", "f32", { "M", STREAMS }, out = true },
    { "next_mix", "f32", { "M", STREAMS, STREAMS }, out = true },
    { "post", "f32", { "M", STREAMS } },
    { "mix", "f32", { "M", STREAMS, STREAMS } },
    { "y", "bf16", { "M", "H" } },
    { "fn", "bf16", { MIX, STREAMS, "H" } },
    { "scale", "f32", { 3 } },
    { "base", "f32", { MIX } },
    { "norm", "bf16", { "H" } },
}

local function site_work(s)
    return {
        bytes = bytes(s) + s.M * (4 * STREAMS * s.H + 2 * s.H + 4 * (STREAMS + 1) * STREAMS),
        flops = flops(s) + s.M * s.H * STREAMS * (STREAMS + 1) * 2,
    }
end

return {
    family("mhc_pre", {
        rev = 4,
        maths = "m = fn . x / rms(x); pre, post: sigmoids; mix: logits; xn = rmsnorm(pre . x)",
        shape = { "M", "H" },
        serves = serves,
        args = {
            { "xn", "bf16", { "M", "H" }, out = true },
            { "post", "f32", { "M", STREAMS }, out = true },
            { "mix", "f32", { "M", STREAMS, STREAMS }, out = true },  -- source, destination
            { "streams", "f32", { "M", STREAMS, "H" } },
            { "fn", "bf16", { MIX, STREAMS, "H" } },
            { "scale", "f32", { 3 } },    -- of pre, post, comb
            { "base", "f32", { MIX } },
            { "norm", "bf16", { "H" } },  -- the site's RMSNorm
        },
        scratch = scratch, knobs = KNOBS, class = class, keep = keep, launch = launch(WARPS),
        work = function(s) return { bytes = bytes(s), flops = flops(s) } end,
        check = {
            ulp = 1, relative = 1e-5, samples = SAMPLES, real = REAL,
            draw = { scale = "scale32", base = base },
        },
    }),

    family("mhc_post_pre", {
        rev = 3,
        maths = "streams as mhc_post; xn, next_post, next_mix of these as mhc_pre",
        shape = { "M", "H" },
        serves = serves,
        args = SITE,
        scratch = site_scratch, knobs = KNOBS, class = class, keep = keep,
        launch = launch(SITE_WARPS),
        work = site_work,
        check = {
            ulp = 1, relative = 1e-5, samples = SAMPLES, real = REAL,
            draw = { scale = "scale32", base = base },
        },
    }),

    family("mhc_post_pre_quant", {
        rev = 3,
        maths = "mhc_post_pre; q, qs, gs of xn as w4a4_act_quant.static",
        shape = { "M", "H" },
        serves = function(s)
            if s.H % GROUP ~= 0 then return nil, "H is not a whole number of NVFP4 groups of 16" end
            return serves(s)
        end,
        args = {
            SITE[1],
            { "q", "e2m1x2", { "M", function(s) return s.H // 2 end }, out = true },
            { "qs", "e4m3", { "M", function(s) return s.H // GROUP end }, out = true },
            { "gs", "f32", { "M" }, out = true },
            SITE[2], SITE[3], SITE[4], SITE[5], SITE[6], SITE[7], SITE[8], SITE[9], SITE[10],
            SITE[11], { "input_scale", "f32", { 1 } },
        },
        scratch = site_scratch, knobs = KNOBS, class = class, keep = keep,
        launch = launch(SITE_WARPS),
        template = function() return "mhc_post_pre" end,
        work = function(s)
            local site = site_work(s)
            return {
                bytes = site.bytes + s.M * (s.H // 2 + s.H // GROUP + 4) + 4,
                flops = site.flops + 4 * s.M * s.H,
            }
        end,
        check = {
            ulp = 1, relative = 1e-5, real = REAL,
            samples = {
                { M = 1, H = 256 }, { M = 3, H = 16 }, { M = 4, H = 208 }, { M = 16, H = 320 },
                { M = 2, H = 4080 },
            },
            draw = {  -- all scales saturate: another rounding of xn moves no code
                scale = "scale32", base = base, input_scale = function() return 0x1p-20 end,
            },
        },
    }),
}
