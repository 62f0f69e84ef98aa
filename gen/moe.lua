-- Products with stacked experts: a column of blocks for each slot (row, choice), where a warp
-- carries tiles of 16 channels of the expert that the slot chose.
local tile = require("gen.tile")

local moe = {}

local PAIR <const> = 128               -- k of a unit: about 1 KB of a tile
local WARP_SUMS <const> = 512          -- bytes of a warp's sums for one tile and 8 columns
local STATIC_SHARED <const> = 48 * 1024

moe.KNOBS = {
    { "tiles", 2, 1, 4 },         -- tiles a warp carries: reuse of x
    { "split", 1, 4, 2, 8, 16 },  -- warps of a block that share one K
    { "groups", 2, 4, 1 },        -- groups of such warps in a block
    { "unroll", 2, 4 },           -- pairs of chunks in flight
    { "join", 1, 0 },             -- an expert is read once for all slots that chose it, or for each
}

function moe.slots(s) return s.M * s.TOPK end

-- Experts that M rows choose, TOPK each, where all are as likely: so many are read.
function moe.chosen(s)
    local left = 1 - math.min(s.TOPK / s.EXPERTS, 1)
    return math.floor(s.EXPERTS * (1 - left ^ s.M) + 0.5)
end

function moe.units(s) return tile.ceil(s.K, PAIR) end

function moe.serves(s)
    if s.M > 16 then return nil, "more than 16 rows: a GEMM's work" end
    if s.N % 16 ~= 0 then return nil, "an expert's rows are no whole number of 16-row tiles" end
    if s.K % 16 ~= 0 then return nil, "K is not a whole number of NVFP4 groups of 16" end
    if moe.slots(s) > 65535 then return nil, "more slots than a grid has columns of blocks" end
    return true
end

-- Bytes where the shares of one K meet, with join.
function moe.sums(s, v)
    return v.split > 1 and tile.warps(v) * v.tiles * tile.halves(s.M) * WARP_SUMS or 0
end

-- Warps of a block whose loads in flight, with join, stay in registers.
local function most_warps(s, v)
    local loads = v.tiles * v.unroll * tile.halves(s.M)
    return loads <= 4 and 16 or loads <= 8 and 8 or 0
end

-- Is a block of 4 to 16 warps, none of which starts out idle? What is kept with join is kept
-- without it.
local function is_block_kept(s, v, units)
    local warps = tile.warps(v)
    local groups = tile.ceil(tile.count(s.N), v.tiles)  -- that have a tile
    return warps >= 4 and warps <= most_warps(s, v)
        and (v.groups <= groups or v.groups == 4 and v.split == 1)
        and v.tiles <= tile.count(s.N)
        and (v.split == 1 or units >= v.split * v.unroll)
end

-- Wanted: 12 to 48 warps a multiprocessor for one row and one tile a warp, so that the same shares
-- of K are kept for all rows; several tiles a warp where one row has so many warps without shares.
local function is_spread(s, v, dev, units, least)
    local tiles = tile.count(s.N) * s.TOPK
    local warps = tiles * v.split
    local groups = tile.ceil(least, v.tiles)
    local could_split = 2 * v.split * groups <= most_warps(s, v)
        and units >= 2 * v.split * v.unroll
    return (warps >= 12 * dev.sms or not could_split)
        and (v.split == 1 or warps < 48 * dev.sms)
        and (v.tiles == 1 or s.M > 1 or tiles >= 12 * dev.sms)
end

-- units: of K, each what a warp loads at once; those of NVFP4 where none are given. least: tiles
-- that a block must have a multiple of; 1 where none are given.
function moe.is_kept(s, v, dev, units, least)
    units, least = units or moe.units(s), least or 1
    return (v.join == 0 or s.M > 1) and v.tiles * v.groups % least == 0
        and is_block_kept(s, v, units) and is_spread(s, v, dev, units, least)
        and moe.sums(s, v) <= STATIC_SHARED
end

function moe.launch(s, v)
    return { grid = { tile.blocks(s.N, v), moe.slots(s), 1 }, block = 32 * tile.warps(v) }
end

-- Experts for check.draw, some outside on both sides. Rows share them; a row may have one twice.
function moe.draw_ids(s, i, random)
    if i == 0 or s.EXPERTS == 1 and random(6) > 0 then return 0 end
    return random(s.EXPERTS + 2) - 1
end

return moe
