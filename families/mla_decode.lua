-- Attention of absorbed queries over the selected latents: z = QK^-0.5 * q . c of the tokens c that
-- ids names, p = softmax(z), y = sum of p * c. Ids outside of 0 .. position (-1), and of a page
-- without a block, are skipped; a row without any gives zeros, one without a slot writes nothing.
-- Bound by the steps of a launch that depend on each other (ids, block table, latents, products,
-- the meeting of the parts) and by the latents' way from the L2, which every group of heads goes.
-- NaN in a query makes NaN of its head, NaN in a latent (code 0x7f) of its row; z beyond a million
-- counts as that.
local family = require("gen.family")
local paged = require("gen.paged")

local TILE <const> = 16        -- tokens: rows of m16n8k16
local OCTET <const> = 8        -- heads: its columns
local WARPS <const> = 20       -- of a block, at most
local ROOM <const> = 112       -- blocks in clusters of 16 or 8: seven GPCs of an H200 have 16 each
local ROOM_OF_4 <const> = 128  -- in clusters of 4
local LEAST <const> = 101376   -- bytes that every arch has
local MOST <const> = 32        -- parts

local function ceil(n, d) return (n + d - 1) // d end
local function group(v) return OCTET * v.octets end
local function groups(s, v) return ceil(s.HEADS, group(v)) end
local function tiles(s) return ceil(s.WIDTH, TILE) end
local function most(s, v) return ceil(tiles(s), v.parts) end  -- tiles of a part
local function has_many(v) return v.held > 1 end              -- parts

-- Places for latents in a block with many parts: with four of them, two come later.
local function places(s) return ceil(tiles(s), 8) end
local function rest(s, v) return v.held == 4 and ceil(tiles(s) - 4, 8) or 0 end
local function words_of_powers(s, v) return (ceil(most(s, v), 4) | 1) * 4 end  -- of a head

-- A warp for each tile, and one more than there are 32 columns of y. With many parts: one for each
-- place and each 32 columns, as long as there are registers.
local function warps(s, v)
    if not has_many(v) then
        return math.min(math.max(most(s, v), s.D // v.slices // 32 + 1), WARPS)
    end
    return math.max(math.min(places(s), v.held * v.octets > 4 and 16 or WARPS), s.D // 32)
end

-- Is the block table of a sequence brought to shared memory? Else each token's entry is looked up.
-- ORDER TABLE
local function brings_table(s) return s.PAGES % 4 == 0 and s.PAGES <= 2048 end

-- Latents, the parts' shares of y, queries, p. With many parts shares take the place of latents.
local function shared(s, v)
    local queries = group(v) * (2 * s.D + 32)
    if not has_many(v) then
        return most(s, v) * TILE * (s.D + 16) + 4 * group(v) * (s.D // v.slices) + queries
            + 4 * group(v) * most(s, v) * TILE
    end
    local p = 4 * group(v) * v.held * most(s, v) * TILE
    local table_bytes = brings_table(s) and 4 * s.PAGES or 0
    return math.max(places(s) * TILE * (s.D + 16) + math.max(p, table_bytes) + queries,
        4 * group(v) * s.D)
end

-- The rest: largest power of each tile, what the parts are weighted by, the block table.
local function static(s, v)
    return 4 * group(v) * v.held * words_of_powers(s, v) + (20 * v.cluster + 28) * group(v)
        + (brings_table(s) and not has_many(v) and 4 * s.PAGES or 0) + 1536
end

local function fits(s, v, bytes) return shared(s, v) + static(s, v) <= bytes end

-- As many parts as there are tiles, up to n.
local function parts_up_to(s, n)
    while n > tiles(s) do n = n // 2 end
    return n
end

-- Do clusters of 16 wait for each other, where fewer of them do more of the work?
local function is_crowded(s, v, blocks, dev)
    if v.cluster < 16 or blocks <= ROOM then return false end
    local octets = v.parts > 16 and v.octets or v.octets + 1
    local fewer = { octets = octets, parts = 16, cluster = 16, slices = 1, held = 1 }
    return octets <= math.min(3, groups(s, { octets = 1 })) and fits(s, fewer, dev.shared)
end

-- Blocks with two parts where those with one do not find room all at once; with four where those
-- with one and three octets do not either.
local function keeps_many(s, v, dev)
    local clusters = s.M * groups(s, v)
    if v.parts ~= 16 or v.cluster ~= 16 or dev.cluster < 16 or v.slices > 1 or v.octets > 2
        or tiles(s) < 16 or warps(s, v) < v.held or places(s) > 2 * warps(s, v)
        or rest(s, v) > warps(s, v) then
        return false
    end
    if v.held == 2 then
        return v.octets == 1 and 8 * clusters <= ROOM
            and (dev.sms == 1 or s.M > 1 and 16 * clusters > ROOM)
    end
    return (dev.sms == 1 or 16 * s.M * groups(s, { octets = 3 }) > ROOM)
        and (v.octets == 2 or 4 * clusters <= ROOM_OF_4)
end

-- The tokens of row m: all, or some, and a few that are not there or not to be seen.
local function id(s, i, random)
    local m, j = i // s.WIDTH, i % s.WIDTH
    local seen = paged.position(s, m) + 1
    if j % 37 == 5 or m % 4 == 2 and j > 20 then return -1 end
    if j % 41 == 7 then return seen + random(3) end
    if seen <= s.WIDTH then return j < seen and j or -1 end
    local first = paged.PAGE * math.max(paged.held(s) - 1, 1)
    return j % 3 == 0 and seen - 1 - random(paged.PAGE) or random(math.min(first, seen))
end

return family("mla_decode", {
    rev = 5,
    maths = "y[m,h] = sum over a in ids of softmax_a(QK^-0.5 q[m,h] . cache[a]) cache[a]",

    -- QK: width of a head before it was absorbed
    shape = { "M", "HEADS", "D", "QK", "WIDTH", "SLOTS", "PAGES", "BLOCKS" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.D % 64 ~= 0 or s.D > 512 then return nil, "D is no multiple of 64 up to 512" end
        local parts = parts_up_to(s, MOST)
        local least = { octets = 1, parts = parts, cluster = 8, slices = 1, held = 1 }
        if not fits(s, least, LEAST) then return nil, "more ids than 32 blocks hold" end
        if s.BLOCKS * paged.PAGE > 0x7fffffff then return nil, "more than 2^31 tokens" end
        return true
    end,

    args = {
        { "y", "bf16", { "M", "HEADS", "D" }, out = true },
        { "q", "bf16", { "M", "HEADS", "D" } },
        { "cache", "e4m3", { "BLOCKS", paged.PAGE, "D" } },
        { "ids", "i32", { "M", "WIDTH" } },
        { "positions", "i32", { "M" } },
        { "slots", "i32", { "M" } },  -- the row's sequence; -1: it writes nothing
        { "block_table", "i32", { "SLOTS", "PAGES" } },
    },
    scratch = function(s, v)
        local meetings = v.parts // v.cluster
        if meetings == 1 then return {} end
        local parts = s.M * groups(s, v) * v.slices
        return {
            { "partial", "f32", { parts, meetings, group(v), s.D // v.slices } },
            -- largest power of exp(z), sum of p
            { "sums", "f32", { parts, meetings, v.cluster, group(v), 2 } },
            { "arrived", "u32", { parts, v.cluster } },
        }
    end,
    knobs = {
        { "octets", 1, 2, 3 },              -- of heads, of a block
        { "parts", 1, 16, MOST, 8, 4, 2 },  -- of the ids
        { "cluster", 16, 8, 4, 2, 1 },      -- parts that meet in shared memory
        { "slices", 2, 1 },                 -- blocks that share the columns of y
        { "held", 1, 2, 4 },                -- parts of a block
    },
    class = function(_, v) return ("mma.f16_%d_%d"):format(v.parts, v.cluster) end,
    template = function(_, v) return has_many(v) and "mla_decode_many" or "mla_decode" end,
    keep = function(s, v, dev)
        if v.octets > groups(s, { octets = 1 }) or not fits(s, v, dev.shared) then return false end
        if has_many(v) then return keeps_many(s, v, dev) end
        local blocks = s.M * groups(s, v) * v.slices * v.parts
        local alone = dev.sms == 1 and v.parts * v.slices == 1  -- cheapest on the CPU device
        return v.cluster == math.min(v.parts, dev.cluster)
            and (alone or v.parts == parts_up_to(s, 16)
                or v.parts == parts_up_to(s, MOST) and v.octets < 3)
            and not is_crowded(s, v, blocks, dev)
            and s.D % (64 * v.slices) == 0 and (v.slices == 1 or blocks <= ROOM)
    end,

    launch = function(s, v)
        local cluster = v.cluster // v.held
        return {
            grid = { v.parts // v.held, groups(s, v) * v.slices, s.M }, block = 32 * warps(s, v),
            cluster = cluster > 1 and cluster or nil, shared = shared(s, v),
        }
    end,
    work = function(s)
        return {
            bytes = s.M * (s.WIDTH * (s.D + 4) + 4 * s.HEADS * s.D),
            flops = 4 * s.M * s.WIDTH * s.HEADS * s.D,
        }
    end,

    check = {
        ulp = 1, relative = 1e-5,  -- (small integers are no exact test of a softmax)
        samples = {
            { M = 1, HEADS = 4, D = 128, QK = 64, WIDTH = 67, SLOTS = 1, PAGES = 8, BLOCKS = 8 },
            { M = 10, HEADS = 2, D = 128, QK = 64, WIDTH = 67, SLOTS = 2, PAGES = 4, BLOCKS = 9 },
            { M = 1, HEADS = 22, D = 512, QK = 256, WIDTH = 67, SLOTS = 1, PAGES = 8192,
                BLOCKS = 3 },
            { M = 3, HEADS = 1, D = 64, QK = 64, WIDTH = 3, SLOTS = 1, PAGES = 1, BLOCKS = 1 },
            { M = 2, HEADS = 26, D = 128, QK = 64, WIDTH = 67, SLOTS = 1, PAGES = 4, BLOCKS = 4 },
            { M = 2, HEADS = 9, D = 64, QK = 64, WIDTH = 2051, SLOTS = 1, PAGES = 64, BLOCKS = 64 },
            { M = 1, HEADS = 17, D = 256, QK = 128, WIDTH = 530, SLOTS = 1, PAGES = 40,
                BLOCKS = 44 },
            { M = 2, HEADS = 9, D = 192, QK = 96, WIDTH = 300, SLOTS = 1, PAGES = 1024,
                BLOCKS = 44 },
        },
        real = {
            { M = 1, HEADS = 64, D = 512, QK = 256, WIDTH = 2051, SLOTS = 1, PAGES = 2048,
                BLOCKS = 2048 },
            { M = 1, HEADS = 22, D = 512, QK = 256, WIDTH = 2051, SLOTS = 1, PAGES = 2048,
                BLOCKS = 2048 },
            { M = 2, HEADS = 21, D = 512, QK = 256, WIDTH = 2051, SLOTS = 1, PAGES = 2048,
                BLOCKS = 2048 },
        },
        draw = {
            cache = "normal", ids = id, positions = paged.position, slots = paged.slot,
            block_table = paged.block,
        },
    },
})
