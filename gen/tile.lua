-- The 16-row weight tiles of the tensor cores: counting them, and which ways of sharing them among
-- warps are worth compiling. A tile is 16 output channels; along K it is cut into units, each what
-- a warp loads at once (about 1 KB).
local tile = {}

local ROWS <const> = 16                 -- channels of a tile: rows of the A operand of m16n8k16
local COLUMNS <const> = 8               -- rows of x that one mma serves: its columns
local WARP_SUMS <const> = ROWS * COLUMNS * 4  -- bytes of a warp's sums for one tile and 8 rows of x
local OWN_SUMS <const> = 80              -- bytes of a row's sums of a share  ORDER ROOM
local STATIC_SHARED <const> = 48 * 1024 -- bytes that need no opt-in
local PAIR <const> = 128                -- k of a unit of NVFP4: rows of x end with a whole one
local MOST_STAGED <const> = 98304       -- bytes of x: two blocks a multiprocessor
local SPARE <const> = 1024              -- bytes that the system takes of a block's shared memory
local HELD <const> = 32                 -- warps of a multiprocessor that find registers: 64
local HELD_OWN <const> = 40             -- the same with 48: fp4_own.cut's, of long shares

function tile.ceil(n, d) return (n + d - 1) // d end

function tile.count(n) return tile.ceil(n, ROWS) end

function tile.halves(m) return tile.ceil(m, COLUMNS) end

-- Blocks along N: each has v.groups groups of warps, each group v.tiles tiles.
function tile.blocks(n, v) return tile.ceil(tile.count(n), v.tiles * v.groups) end

function tile.warps(v) return v.split * v.groups end

-- Memory where v.parts blocks of one K meet: their sums, and how many have arrived.
function tile.scratch(s, v)
    if v.parts == 1 then return {} end
    local blocks = tile.blocks(s.N, v)
    return {
        { "partial", "f32",
            { v.parts, blocks * v.groups * v.tiles, tile.halves(s.M), ROWS * COLUMNS } },
        { "arrived", "u32", { blocks } },
    }
end

-- ahead: units in flight of a warp; held: warps of a multiprocessor that find registers.
local function is_divided(s, v, units, ahead, dev, held)
    local segments = v.split * v.parts
    local warps = tile.ceil(tile.count(s.N), v.tiles) * segments
    local could_split = units >= 2 * segments * ahead and segments < 64
    return (v.tiles > 1 or tile.count(s.N) < 16 * dev.sms)     -- many: long streams
        and (segments == 1 or units >= segments * ahead)       -- no warp starts out idle
        and (warps >= 8 * dev.sms or not could_split)          -- enough loads in flight
        and (segments == 1 or warps < held * dev.sms)          -- and no more shares than that takes
end

-- v.tiles a warp, v.split warps and v.parts blocks for one K, v.unroll units in flight. Wanted: 8
-- to 32 warps a multiprocessor, each with a whole load to begin with, and a block for each
-- multiprocessor.
function tile.is_kept(s, v, units, dev)
    local warps_a_block = tile.warps(v)
    local shared = v.split > 1 and warps_a_block * v.tiles * tile.halves(s.M) * WARP_SUMS or 0
    return warps_a_block >= 4 and warps_a_block <= 16
        and shared <= STATIC_SHARED
        and (v.groups == 1 or warps_a_block == 4 or tile.blocks(s.N, v) * v.parts >= dev.sms)
        and is_divided(s, v, units, v.unroll, dev, HELD)
end

-- What fp4_product.cut has registers for: one tile a warp, two where they are many; and blocks that
-- share one K only where warps do not suffice.
function tile.is_streamed(s, v, dev)
    local halves = tile.halves(s.M)
    return (v.tiles == 1 or v.tiles == 2 and tile.count(s.N) >= 16 * dev.sms and tile.warps(v) <= 8)
        and (v.unroll == 2 or v.unroll == 3 and s.M == 1)
        and (v.late == 0 or s.M <= 4 or tile.warps(v) <= 8 and v.tiles * halves <= 2)
        and (v.parts == 1 or v.split == 16)
end

-- Bytes in shared memory of rows of x as bf16, each padded by 16, in whole passes of fp4_sums.cut
-- (v.late) or fp4_columns.cut, and of one group of zeros.  ORDER STAGED
function tile.staged(rows, k, v)
    local whole = v.late == 1 and rows > 1 and tile.ceil(rows, 2) * 2
        or v.late == 0 and rows > COLUMNS and tile.ceil(rows, COLUMNS) * COLUMNS or rows
    return whole * (tile.ceil(k, PAIR) * PAIR + 8) * 2 + 32
end

-- Is there room for them, beside `sums` bytes where warps meet?
function tile.has_room(staged, sums, dev)
    return staged <= MOST_STAGED and staged + sums + SPARE <= dev.shared
end

-- May s.M rows of x stay in shared memory, beside the sums of the warps that share one K?
function tile.can_stage(s, v, dev)
    local sums = tile.warps(v) * v.tiles * tile.halves(s.M) * WARP_SUMS
    return tile.has_room(tile.staged(s.M, s.K, v), sums, dev)
end

-- ---- warps that have x in registers (fp4_own.cut) ----

function tile.is_power_of_two(n) return n & n - 1 == 0 end

-- Warps of a block: for more than eight rows one for two shares, if those are more than 16 a
-- multiprocessor.  ORDER FOLD
function tile.own_warps(s, v, dev)
    local are_many = tile.count(s.N) * v.split > 16 * dev.sms
    return tile.ceil(v.split, s.M > COLUMNS and v.split > 4 and are_many and 2 or 1)
end

-- Worth it where shares of K are short, one to four units, so that a row of x would be brought for
-- little. A number of shares that is no power of two divides K. Copied to shared memory (v.block 4)
-- comes a row of x, for equal shares: with four units it took 18 % longer.
function tile.is_own(s, v, units, dev)
    return v.late == 0 and v.tiles == 1 and v.parts == 1 and v.groups == 1 and v.unroll == 1
        and v.split >= 4 and units <= 4 * v.split
        and (tile.is_power_of_two(v.split) or units % v.split == 0)
        and (v.block == 3 or s.M == 1 and s.K % (PAIR * v.split) == 0 and units <= 2 * v.split)
        and is_divided(s, v, units, 1, dev, HELD_OWN)
end

-- ---- warps that unpack their share of x (w4a4_gemv_own.cut) ----

-- Up to eight rows, of equal shares that are written out: one to eight units. `staged` bytes of x a
-- block must not cost warps.
function tile.is_alone(s, v, units, staged, dev)
    local sums = v.split * s.M * OWN_SUMS
    return v.late == 0 and v.tiles == 1 and v.parts == 1 and v.groups == 1 and v.unroll == 1
        and s.M <= COLUMNS and v.split >= 4
        and units % v.split == 0 and units <= 8 * v.split
        and HELD // v.split * (staged + sums + SPARE) <= dev.shared
        and is_divided(s, v, units, 2, dev, HELD)
end

-- ---- a cluster whose blocks have a share of K each (fp4_share.cut) ----

local function share_staged(s, v)
    return tile.staged(s.M, tile.ceil(tile.ceil(s.K, PAIR), v.split) * PAIR, v)
end

-- v.split blocks of v.groups warps: several rows, of which a block brings its share for as many
-- tiles. What is kept for one row is kept for all.
function tile.is_shared(s, v, units, dev)
    local sums = tile.ceil(v.groups, v.split) * v.split * tile.halves(s.M) * WARP_SUMS
    return s.M > 1 and v.late == 0 and v.tiles == 1 and v.parts == 1
        and (v.unroll == 1 or v.unroll == (units == 3 * v.split and 3 or 2))  -- three: all at once
        and v.split > 1 and v.split <= dev.cluster and (v.groups == 8 or v.groups == 4)
        and is_divided(s, v, units, math.max(v.unroll, 2), dev, HELD)
        and share_staged(s, v) + sums + SPARE <= dev.shared
end

function tile.shared_launch(s, v)
    return {
        grid = { tile.ceil(tile.count(s.N), v.groups) * v.split, 1, 1 }, cluster = v.split,
        block = 32 * v.groups, shared = share_staged(s, v),
    }
end

return tile
