-- Products of weights in 16-row tiles with up to 16 rows of x, as templates/lib/units.cut streams
-- them: their knobs, and which variants can be the fastest. A unit is 1 KB of a tile.
local tile = require("gen.tile")

local gemv = {}

local WARPS <const> = 4  -- of a block at least

gemv.KNOBS = {
    { "tiles", 1, 2 },            -- tiles a warp carries: reuse of x
    { "split", 16, 8, 4, 2, 1 },  -- warps of a block that share one K
    { "parts", 1, 2, 4 },         -- blocks that share one K
    { "cyclic", 1, 0 },           -- a K is dealt out unit by unit, or a stretch to each warp
    { "unroll", 3, 2, 4 },        -- units in flight
    { "occupancy", 32, 24, 16 },  -- warps of a multiprocessor that have registers: 64, 80, 128 each
}

-- v with the groups of warps of a block, each of which has tiles of its own.
local function with_groups(v)
    local groups = v.split < WARPS and WARPS // v.split or 1
    return { tiles = v.tiles, split = v.split, groups = groups, parts = v.parts }
end

local function warps(v) return math.max(v.split, WARPS) end

function gemv.scratch(s, v) return tile.scratch(s, with_groups(v)) end

function gemv.launch(s, v)
    return { grid = { tile.blocks(s.N, with_groups(v)), v.parts, 1 }, block = 32 * warps(v) }
end

-- What fixes the order of sums, behind the name of the product.
function gemv.class(product, v)
    return ("%s%s_%dx%d"):format(product, v.cyclic == 1 and ".cyclic" or "", v.parts, v.split)
end

-- The registers that the loads in flight need, and no more than 64 where a block is 16 warps: with
-- 80 only one would fit, and 16 warps a multiprocessor are too few.
local function has_its_registers(s, v)
    local loads = v.tiles * v.unroll * tile.halves(s.M)
    if loads > 4 then return v.occupancy == 16 and loads <= 8 and v.unroll == 2 end
    return v.occupancy == ((loads < 4 or v.split == 16) and 32 or 24)
end

-- No warp starts out idle; more than two units in flight only where all turns are whole; dealt out
-- only where a block reads much of K, in a row.
local function shares_well(v, units)
    local segments = v.split * v.parts
    return (segments == 1 or units >= segments * v.unroll)
        and (v.unroll == 2 or units % (segments * v.unroll) == 0)
        and (v.cyclic == 0 or v.split >= 8 and units >= 8 * segments)
end

-- As many warps as keep the memory busy, and not many more where they would come in a second wave
-- that is small. least: shares of K that the sums need.
local function fills(s, v, units, dev, least)
    local blocks = tile.blocks(s.N, with_groups(v))
    local wave = v.occupancy // warps(v) * dev.sms
    local could_split = v.split < 16 and units % (2 * v.split * v.unroll) == 0
    return (blocks * warps(v) >= 8 * dev.sms or not could_split)
        and (v.split >= 4 or units < 8)
        and (v.split < 2 * math.max(4, least) or blocks <= wave or blocks >= 3 * wave)
        and (v.parts == 1 or v.split == 16 and (blocks == 1 or blocks * v.parts <= 2 * dev.sms))
end

function gemv.is_kept(s, v, units, dev, least)
    least = least or 1
    return v.split * v.parts >= least
        and (v.tiles == 1 or s.M > 8 and tile.count(s.N) > 1)  -- x weighs as much as the weights
        and has_its_registers(s, v) and shares_well(v, units) and fills(s, v, units, dev, least)
end

return gemv
