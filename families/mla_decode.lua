-- Attention of absorbed queries over the selected latents: z = QK^-0.5 * q . c of the tokens c that
-- ids names, p = softmax(z), y = sum of p * c. Ids outside of 0 .. position (-1), and of a page
-- without a block, are skipped; a row without any gives zeros, one without a slot writes nothing.
-- Bound by WIDTH * D bytes of latents, which every eight heads read again, and by the steps of a
-- launch that depend on each other: ids, block table, latents, products, the meeting of the splits.
-- NaN in a query makes NaN of its head, NaN in a latent (code 0x7f) of its row.
local family = require("gen.family")
local paged = require("gen.paged")

local TILE <const> = 16       -- tokens: rows of m16n8k16
local OCTET <const> = 8       -- heads: its columns
local WAVE <const> = 132      -- blocks that an H200 runs at once, at one a multiprocessor
local MOST <const> = 33       -- blocks that share a row's ids
local LEAST <const> = 101376  -- bytes of shared memory that every device has for a block
local STATIC <const> = 2048   -- bytes that don't grow with heads or tokens

local function ceil(n, d) return (n + d - 1) // d end
local function group(v) return OCTET * v.octets end
local function groups(s, v) return ceil(s.HEADS, group(v)) end
local function tiles(s, v) return ceil(ceil(s.WIDTH, TILE), v.parts) end  -- of a block

-- Latents as they are, those of the slice as f16, queries.
local function shared(s, v)
    local latent = ceil(s.D, 128) * 128 + 64 + 2 * (s.D // v.slices + 8)
    return tiles(s, v) * TILE * latent + 2 * group(v) * s.D
end

-- And weights, what tiles and parts say of each head.
local function bytes(s, v)
    local head = 4 * (tiles(s, v) * TILE + 8) + 8 * tiles(s, v) + 12 * v.parts
    return shared(s, v) + group(v) * head + STATIC
end

local function finest(s)  -- slices of whole 64 columns
    for _, n in ipairs({ 8, 4, 2 }) do
        if s.D % (64 * n) == 0 then return n end
    end
    return 1
end

-- What every device has room for.
local function is_least(s, v)
    return v.octets == 1 and v.parts == MOST and v.slices == finest(s)
end

local function warps(s, v) return ceil(tiles(s, v), v.each) end

-- Is there no room for fewer slices?
local function is_coarsest(s, v, dev)
    if v.slices == 1 then return true end
    local fewer = { octets = v.octets, parts = v.parts, slices = v.slices // 2, each = v.each }
    return bytes(s, fewer) > dev.shared
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
    rev = 1,
    maths = "y[m,h] = sum over a in ids of softmax_a(QK^-0.5 q[m,h] . cache[a]) cache[a]",

    -- QK: width of a head before it was absorbed
    shape = { "M", "HEADS", "D", "QK", "WIDTH", "SLOTS", "PAGES", "BLOCKS" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.D % 64 ~= 0 or s.D > 512 then return nil, "D is no multiple of 64 up to 512" end
        if bytes(s, { parts = MOST, octets = 1, slices = finest(s) }) > LEAST then
            return nil, "more ids than 33 blocks hold"
        end
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
        if v.parts == 1 then return {} end
        local parts = s.M * groups(s, v) * v.slices
        return {
            { "partial", "f32", { parts, v.parts, group(v), s.D // v.slices } },
            { "sums", "f32", { parts, v.parts, group(v), 2 } },  -- largest z, sum of exp
            { "arrived", "u32", { parts } },
        }
    end,
    knobs = {
        { "octets", 3, 1, 2, 4 },              -- of heads, of a block
        { "parts", 11, 16, 8, 22, MOST, 4, 2, 1 },  -- blocks that share the ids
        { "slices", 4, 8, 2, 1 },              -- blocks that share the columns of y
        { "each", 1, 2, 4 },                   -- tiles of a warp
    },
    class = function(_, v) return ("mma.f16_%d"):format(v.parts) end,
    keep = function(s, v, dev)
        local blocks = s.M * groups(s, v) * v.slices * v.parts
        return s.D % (64 * v.slices) == 0
            and (v.octets == 1 or s.HEADS > 24)  -- few heads leave the wave to the parts
            and (v.parts == 1 or ceil(s.WIDTH, TILE) >= v.parts)
            and (blocks <= WAVE or is_coarsest(s, v, dev) or is_least(s, v))
            and warps(s, v) <= 16 and (v.each == 1 or warps(s, v) >= 4)
            and bytes(s, v) <= dev.shared
    end,

    launch = function(s, v)
        return {
            grid = { v.parts, groups(s, v) * v.slices, s.M }, block = 32 * warps(s, v),
            shared = shared(s, v),
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
            { M = 2, HEADS = 9, D = 192, QK = 96, WIDTH = 300, SLOTS = 1, PAGES = 40,
                BLOCKS = 44 },
            { M = 2, HEADS = 26, D = 128, QK = 64, WIDTH = 67, SLOTS = 1, PAGES = 4, BLOCKS = 4 },
            { M = 3, HEADS = 1, D = 64, QK = 64, WIDTH = 3, SLOTS = 1, PAGES = 1, BLOCKS = 1 },
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
