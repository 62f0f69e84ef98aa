-- W4A4 products of the chosen experts (model.md 4.21): slot (m, k) = m * TOPK + k takes expert
-- ids[m,k], y[slot,n] = gs * sw * sum over k of (x * xs)[k] * (w * ws)[expert,n,k], NVFP4 on both
-- sides. gate_up: N is gate's rows, then up's, x the token's row; swiglu: the same, whose SwiGLU
-- is quantised as w4a4_swiglu_quant does it; down: x is the slot's row. Slots with an id outside 0
-- .. EXPERTS-1 write nothing. The floor is the weights of as many experts as rows choose on
-- average, N*K*9/16 bytes each, over the memory bandwidth; a kernel reads an expert once a slot,
-- or, with join, once for all slots that chose it, with the same bits. Where there is no FP4 mma,
-- joined experts' tiles are dealt to a block a multiprocessor; of swiglu they need not be. The
-- sign of xs is ignored. NaN scales give NaN.
local family = require("gen.family")
local moe = require("gen.moe")
local tile = require("gen.tile")

local GROUP <const> = 16  -- codes that share a scale
local NEAR <const> = 2    -- readings of experts whose tiles a block may have, where they are dealt
local UNIT_SCALES <const> = 128  -- bytes of scales of a unit, 16 rows of 128 k
local MOST_SCALES <const> = 30720  -- bytes of a block's: as much x as goes with them has room too
local STATIC_SHARED <const> = 48 * 1024  -- bytes that need no opt-in

local function codes(s) return s.K // 2 end
local function scales(s) return s.K // GROUP end

-- Slots that one reading of an expert serves, with join: what one pass over the weights takes, of
-- codes half of it. Of 16 rows 1.24 choose an expert on average; where more do than that it is read
-- again, from the L2, and all the others need fewer registers. Where tiles are dealt to 16 warps
-- there are enough for more.  ORDER COLUMNS
local function columns(s, v) return math.min(s.M, v.late == 1 and v.groups ~= 16 and 2 or 4) end

-- Is there room for all rows? Asked without join too, so that it is kept where join is.
local function can_stage(s, v, dev)
    return tile.has_room(tile.staged(columns(s, v), s.K, v), moe.sums(s, v), dev)
end

-- One unpacking of x serves a block, where there is room; else a warp's serves its tiles.
local function unpacks_well(s, v, dev)
    if v.mma == 2 then return v.block == 0 and v.late == 0 end
    local stages = can_stage(s, v, dev)
    if v.block > 0 then return stages end
    return not stages and (v.late == 1 or tile.count(s.N) == 1) or v.late == 0 and v.tiles > 1
end

local function dealt_blocks(s, dev) return math.max(dev.sms, moe.slots(s)) end  -- ORDER BLOCKS

-- Bytes of x of a dealing block's readings, and of its tiles' sums where two tiles are least.
local function dealt_shared(s, v, dev, least)
    local pairs_of = tile.ceil(moe.slots(s) * tile.count(s.N) // 2, dealt_blocks(s, dev))
    return NEAR * tile.staged(columns(s, v), s.K, v)
        + (least == 2 and pairs_of * 2 * columns(s, v) * 64 or 0)
end

-- Bytes of a slot's x, and of the scales of all warps' tiles.  ORDER SCALES
local function slot_shared(s, v)
    local bytes = v.groups * moe.units(s) * UNIT_SCALES
    return tile.staged(1, s.K, v) + (v.split == 1 and bytes <= MOST_SCALES and bytes or 0)
end

-- 16 or 20 warps of a block that each have shares of K of their own, where registers suffice. A
-- class has them where it is kept for slots one by one.
local function deals_well(s, v, dev, least)
    local is_even = moe.units(s) % (v.split * v.unroll) == 0
    local fits = v.late == 0 or is_even or v.groups == 16 and v.split == 1
    local one = { tiles = 1, split = v.split, unroll = 2, join = 0 }
    one.groups = math.max(4 // math.min(v.split, 4), least)
    local parts = v.split > 1 and v.groups * v.split * (v.late == 1 and 2 or 4) * 128 or 0
    local static = parts + 8 * moe.slots(s) + 1024
    return v.mma == 1 and v.join == 1 and s.M > 1
        and v.tiles == 1 and v.unroll == 2 and v.block == 1
        and fits and moe.is_kept(s, one, dev, nil, least) and static <= STATIC_SHARED
        and dealt_shared(s, v, dev, least) + static <= dev.shared
end

local function kind(v)
    if v.mma == 2 then return "mma.nvf4" end
    return v.late == 1 and "mma.bf16_sums" or "mma.bf16_codes"
end

local KNOBS <const> = {
    { "mma", 2, 1 },    -- block-scaled FP4, or bf16
    { "late", 1, 0 },   -- scales multiply sums of 16 products, or codes
    moe.KNOBS[1], moe.KNOBS[2],
    { "groups", 2, 4, 1, 16, 20 },  -- groups of such warps in a block; warps, where tiles are dealt
    { "unroll", 2, 3, 4 },  -- units on their way to a warp
    moe.KNOBS[5],
    { "block", 1, 0, 2 },  -- x unpacked by a block, each warp, a block while more weights come
}

local function class(_, v) return ("%s_%d"):format(kind(v), v.split) end

-- least: tiles of a block, 1 where none are given.
local function is_streamed(s, v, dev, least)
    return (v.mma == 1 and v.tiles == 1 and (v.unroll == 2 or v.unroll == 3 and s.M == 1)
            or v.mma == 2 and dev.nvf4 and v.unroll ~= 3)
        and (v.block < 2 or v.join == 0 and s.M == 1)
        and v.groups <= 4 and moe.is_kept(s, v, dev, nil, least) and unpacks_well(s, v, dev)
end

local function keep(s, v, dev)
    if v.groups > 4 then return deals_well(s, v, dev, 1) end
    return (v.mma == 2 or v.join == 0) and is_streamed(s, v, dev)
end

local function template(_, v)
    if v.mma == 2 then return "w4a4_moe_nvf4" end
    if v.block == 2 then return "w4a4_moe_slot" end
    return v.groups > 4 and "w4a4_moe_deal" or "w4a4_moe"
end

local function launch(s, v, dev, least)
    if v.groups > 4 then
        return {
            grid = dealt_blocks(s, dev), block = 32 * v.groups,
            shared = dealt_shared(s, v, dev, least or 1),
        }
    end
    local l = moe.launch(s, v)
    l.shared = v.block == 2 and slot_shared(s, v)
        or v.block * tile.staged(v.join == 1 and columns(s, v) or 1, s.K, v)
    return l
end

-- x_rows: how many rows of x there are.
local function work(s, x_rows)
    local slots, row = moe.slots(s), codes(s) + scales(s)
    return {
        bytes = moe.chosen(s) * s.N * row + x_rows * (row + 4) + slots * (2 * s.N + 4),
        flops = 2 * slots * s.N * s.K,
    }
end

local function serves_gate_up(s)
    if s.N % 32 ~= 0 then return nil, "half of N is no whole number of 16-row tiles" end
    return moe.serves(s)
end

local DRAW <const> = {
    xs = "bytes", gs = "scale32", ws = "bytes", sw = "scale32", ids = moe.draw_ids,
}

return {
    family("w4a4_moe.gate_up", {
        rev = 2,
        maths = "y[slot,n] = bf16(gs[m] * sw[e,2n/N] * sum of (x * xs)[m,k] * (w * ws)[e,n,k])",
        shape = { "M", "TOPK", "EXPERTS", "N", "K" },
        serves = serves_gate_up,
        args = {
            { "y", "bf16", { moe.slots, "N" }, out = true },
            { "x", "e2m1x2", { "M", codes } },
            { "xs", "e4m3", { "M", scales } },
            { "gs", "f32", { "M" } },  -- one a row
            { "ids", "i32", { "M", "TOPK" } },
            { "w", "e2m1x2", { "EXPERTS", "N", codes }, layout = "nvfp4_tile16_experts" },
            { "ws", "e4m3", { "EXPERTS", "N", scales }, layout = "nvfp4_tile16_experts" },
            { "sw", "f32", { "EXPERTS", 2 } },  -- weight_scale_2 of gate and of up
        },
        knobs = KNOBS, class = class, keep = keep, template = template, launch = launch,
        work = function(s) return work(s, s.M) end,
        check = {
            ulp = 1,
            exact = true,
            samples = {
                { M = 1, TOPK = 1, EXPERTS = 1, N = 32, K = 16 },
                { M = 2, TOPK = 4, EXPERTS = 6, N = 128, K = 256 },
                { M = 3, TOPK = 2, EXPERTS = 3, N = 32, K = 1552 },
                { M = 16, TOPK = 2, EXPERTS = 2, N = 96, K = 144 },
                { M = 12, TOPK = 2, EXPERTS = 1, N = 32, K = 1040 },
            },
            real = {
                { M = 1, TOPK = 8, EXPERTS = 5, N = 1408, K = 4096 },
                { M = 2, TOPK = 8, EXPERTS = 5, N = 1280, K = 4096 },
                { M = 1, TOPK = 8, EXPERTS = 3, N = 4096, K = 4096 },
            },
            draw = DRAW,
        },
    }),

    family("w4a4_moe.swiglu", {
        rev = 1,
        maths = "q, qs, qgs of w4a4_swiglu_quant, its x what w4a4_moe.gate_up gives",
        shape = { "M", "TOPK", "EXPERTS", "N", "K" },
        serves = serves_gate_up,
        args = {
            { "q", "e2m1x2", { moe.slots, function(s) return s.N // 4 end }, out = true },
            { "qs", "e4m3", { moe.slots, function(s) return s.N // 32 end }, out = true },
            { "qgs", "f32", { moe.slots }, out = true },
            { "x", "e2m1x2", { "M", codes } },
            { "xs", "e4m3", { "M", scales } },
            { "gs", "f32", { "M" } },  -- one a row
            { "ids", "i32", { "M", "TOPK" } },
            { "w", "e2m1x2", { "EXPERTS", "N", codes }, layout = "nvfp4_tile16_experts_halves" },
            { "ws", "e4m3", { "EXPERTS", "N", scales }, layout = "nvfp4_tile16_experts_halves" },
            { "sw", "f32", { "EXPERTS", 2 } },  -- weight_scale_2 of gate and of up
            { "input_scale", "f32", { 1 } },    -- of q
        },
        knobs = KNOBS, class = class, template = template,
        launch = function(s, v, dev) return launch(s, v, dev, 2) end,
        keep = function(s, v, dev)
            if v.groups > 4 then return deals_well(s, v, dev, 2) end
            return is_streamed(s, v, dev, 2)
        end,
        work = function(s)
            local w = work(s, s.M)
            w.bytes = w.bytes - moe.slots(s) * (2 * s.N - s.N // 4 - s.N // 32 - 4) + 4
            return w
        end,
        check = {
            bits = true,
            samples = {
                { M = 1, TOPK = 1, EXPERTS = 1, N = 32, K = 16 },
                { M = 1, TOPK = 1, EXPERTS = 1, N = 64, K = 528 },
                { M = 2, TOPK = 4, EXPERTS = 6, N = 128, K = 256 },
                { M = 3, TOPK = 2, EXPERTS = 3, N = 32, K = 1552 },
                { M = 16, TOPK = 2, EXPERTS = 2, N = 96, K = 144 },
                { M = 12, TOPK = 2, EXPERTS = 1, N = 32, K = 1040 },
            },
            real = {
                { M = 1, TOPK = 8, EXPERTS = 5, N = 1408, K = 4096 },
                { M = 2, TOPK = 8, EXPERTS = 5, N = 1280, K = 4096 },
                { M = 1, TOPK = 8, EXPERTS = 3, N = 4096, K = 4096 },
            },
            draw = {  -- sums are few multiples of 1/4: none near a tie
                x = function(s, _, random)
                    return random(s.K) < 8 and 1 + random(2) + 8 * random(2) or 0
                end,
                xs = "ones", ws = "ones", gs = "ones", sw = "ones",
                input_scale = function() return 0.0073 end, ids = moe.draw_ids,
            },
        },
    }),

    family("w4a4_moe.down", {
        rev = 2,
        maths = "y[slot,n] = bf16(gs[slot] * sw[e] * sum of (x * xs)[slot,k] * (w * ws)[e,n,k])",
        shape = { "M", "TOPK", "EXPERTS", "N", "K" },
        serves = moe.serves,
        args = {
            { "y", "bf16", { moe.slots, "N" }, out = true },
            { "x", "e2m1x2", { moe.slots, codes } },
            { "xs", "e4m3", { moe.slots, scales } },
            { "gs", "f32", { moe.slots } },  -- one a row
            { "ids", "i32", { "M", "TOPK" } },
            { "w", "e2m1x2", { "EXPERTS", "N", codes }, layout = "nvfp4_tile16_experts" },
            { "ws", "e4m3", { "EXPERTS", "N", scales }, layout = "nvfp4_tile16_experts" },
            { "sw", "f32", { "EXPERTS" } },  -- weight_scale_2
        },
        knobs = KNOBS, class = class, keep = keep, template = template, launch = launch,
        work = function(s) return work(s, moe.slots(s)) end,
        check = {
            ulp = 1,
            exact = true,
            samples = {
                { M = 1, TOPK = 1, EXPERTS = 1, N = 16, K = 16 },
                { M = 2, TOPK = 4, EXPERTS = 6, N = 256, K = 64 },
                { M = 4, TOPK = 2, EXPERTS = 3, N = 48, K = 704 },
                { M = 10, TOPK = 3, EXPERTS = 1, N = 16, K = 1040 },
                { M = 3, TOPK = 4, EXPERTS = 1, N = 48, K = 1024 },
                { M = 16, TOPK = 3, EXPERTS = 9, N = 48, K = 704 },
            },
            real = {
                { M = 1, TOPK = 8, EXPERTS = 5, N = 4096, K = 704 },
                { M = 2, TOPK = 8, EXPERTS = 5, N = 4096, K = 640 },
                { M = 1, TOPK = 8, EXPERTS = 3, N = 4096, K = 2048 },
            },
            draw = DRAW,
        },
    }),
}
