-- Products of weights in 16-row tiles with up to 16 rows of x, as templates/lib/units.cut streams
-- them: their knobs, and which variants can be the fastest. A unit is 1 KB of a tile.
local tile = require("gen.tile")

local gemv = {}

local WARPS <const> = 4  -- of a block at least

gemv.KNOBS = {
    { "split", 16, 8, 4, 2, 1 },  -- warps of a block that share one K
    { "parts", 1, 4 },            -- blocks that share one K
    { "cyclic", 1, 0 },           -- a K is dealt out unit by unit, or a stretch to each warp
    { "unroll", 3, 2, 4 },        -- units in flight
    { "occupancy", 32, 24 },      -- warps of a multiprocessor that have registers: 64 or 80 each
}

local function warps(v) return math.max(v.split, WARPS) end

-- Has a warp two tiles, a unit of each in flight? Of bf16_gemv.cut alone, which has as many TILES.
local function is_pair(v) return v.unroll == 1 end

-- v as tile.lua asks for it: with the groups of warps of a block, and the tiles of each.
local function with_groups(v)
    return { tiles = is_pair(v) and 2 or 1, groups = warps(v) // v.split, parts = v.parts }
end

function gemv.scratch(s, v) return tile.scratch(s, with_groups(v)) end

function gemv.launch(s, v)
    return { grid = { tile.blocks(s.N, with_groups(v)), v.parts, 1 }, block = 32 * warps(v) }
end

-- What fixes the order of sums, behind the name of the product.
function gemv.class(product, v)
    return ("%s%s_%dx%d"):format(product, v.cyclic == 1 and ".cyclic" or "", v.parts, v.split)
end

-- The registers that the loads in flight need; with 80 only one block of 16 warps would fit, and
-- that is too few. Two tiles pay where loads of x weigh.
local function has_its_registers(s, v)
    local loads = v.unroll * tile.halves(s.M)
    if is_pair(v) then return s.M > 8 and v.occupancy == 32 end
    return loads <= 4 and v.occupancy == ((loads < 4 or v.split == 16) and 32 or 24)
end

-- Are all turns of the loop whole? Two units in flight may leave one over where half as many warps
-- would, too, or would be too few.
local function has_whole_turns(s, v, units, is_least)
    local segments = v.split * v.parts
    return units % (segments * v.unroll) == 0
        or v.unroll == 2 and (is_least or s.M > 8 or units % segments ~= 0)
end

-- No warp starts out idle; dealt out only where a block reads much of K, in a row.
local function shares_well(s, v, units, is_least)
    local segments = v.split * v.parts
    return (segments == 1 or units >= segments * v.unroll)
        and (v.cyclic == 0 or v.split >= 8 and units >= 8 * segments)
        and has_whole_turns(s, v, units, is_least)
end

-- As many warps as keep the memory busy, and not many more where they would come in a second wave
-- that is small.
local function fills(s, v, units, dev, is_least)
    local blocks = tile.blocks(s.N, with_groups(v))
    local wave = v.occupancy // warps(v) * dev.sms
    local could_split = v.split < 16 and units % (4 * v.split) == 0
    return (blocks * warps(v) >= 8 * dev.sms or not could_split)
        and (v.split >= 4 or units < 8)
        and (is_least or blocks <= wave or blocks >= 3 * wave)
        and (not is_pair(v) or blocks >= 3 * wave and tile.count(s.N) % 2 == 0 and v.split >= 4)
        and (v.parts == 1 or v.split == 16 and (blocks == 1 or 4 * blocks <= dev.sms))
end

-- least: shares of K that the sums need; 1 where none is given.
function gemv.is_kept(s, v, units, dev, least)
    least = least or 1
    local is_least = v.split < 2 * math.max(4, least)
    return v.split * v.parts >= least and has_its_registers(s, v)
        and shares_well(s, v, units, is_least) and fills(s, v, units, dev, is_least)
end

return gemv
