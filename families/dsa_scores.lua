-- Index scores over paged keys: score[m,p] = sum over heads h of iw[m,h] * (HEADS * D)^-0.5 *
-- max(0, iq[m,h] . key[p]) for the (position + 1) / 4 whole pools p that row m sees. A key is what
-- dsa_pool_keys writes, two f16 a channel and a power of two, and every one is read once for TOKENS
-- rows of one sequence: 4 D + 4 bytes a pool over the memory bandwidth.
-- The rest of a row's last page of 16 pools, and pools of a page without a block, get -FLT_MAX;
-- nothing behind that page is written, nor a row without a slot. NaN or infinity in a key, a query
-- or a weight makes NaN of the scores that it enters.
local family = require("gen.family")
local paged = require("gen.paged")

local KEYS <const> = 16  -- pools of a page, which a warp carries
local STATIC <const> = 3072  -- bytes of shared memory besides what is counted

local function ceil(n, d) return (n + d - 1) // d end

-- Queries as two f16; 16 bytes more a step, of 32 or eight heads.
local function shared(s, share)
    local octets = ceil(s.HEADS, 8)
    local steps = s.D // 16 * (octets % 4 == 0 and octets // 4 or octets)
    return share * (octets * 8 * s.D * 4 + steps * 16)
end

local function most_rows(s, dev)  -- a power of two, as many as shared memory holds of up to eight
    local share = 1
    while share < math.min(s.TOKENS, 8) and shared(s, 2 * share) + STATIC <= dev.shared do
        share = 2 * share
    end
    return share
end

local function last_pools(s) return s.PAGES * KEYS end

-- TOKENS rows of a sequence, at positions that follow each other.
local function position(s, i)
    local first = math.max(paged.position(s, i // s.TOKENS) - s.TOKENS + 1, 0)
    return math.min(first + i % s.TOKENS, paged.tokens(s) - 1)
end

-- Of a sequence's rows every seventh is padding too.
local function slot(s, i) return i % 7 == 5 and -1 or paged.slot(s, i // s.TOKENS) end

return family("dsa_scores", {
    rev = 3,
    maths = "score[m,p] = sum over h of iw[m,h] (HEADS D)^-0.5 max(0, iq[m,h] . key[p])",

    -- TOKENS: rows of one sequence that follow each other; M is a whole number of them
    shape = { "M", "TOKENS", "HEADS", "D", "POOLS", "SLOTS", "PAGES", "BLOCKS" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        if s.TOKENS < 1 or s.M % s.TOKENS ~= 0 then
            return nil, "M is not a whole number of TOKENS rows"
        end
        if s.D % 32 ~= 0 or s.D > 128 then return nil, "D is no multiple of 32 up to 128" end
        if s.HEADS > 64 then return nil, "more than 64 heads" end
        if s.POOLS > last_pools(s) then return nil, "more POOLS than the pages hold" end
        return true
    end,

    args = {
        { "score", "f32", { "M", "POOLS" }, out = true },
        { "iq", "f32", { "M", "HEADS", "D" } },
        { "iw", "f32", { "M", "HEADS" } },
        { "pooled", "f16", { "BLOCKS", 2, KEYS, "D" } },
        { "scale", "f32", { "BLOCKS", KEYS } },
        { "positions", "i32", { "M" } },
        { "slots", "i32", { "M" } },  -- the row's sequence; -1: it writes nothing
        { "block_table", "i32", { "SLOTS", "PAGES" } },
    },
    scratch = function(s, v)  -- pages that were taken, of those that no warp owns
        if v.share > 1 then return {} end
        return { { "taken", "u32", { s.M // s.TOKENS * ceil(s.TOKENS, v.share) } } }
    end,
    knobs = {
        { "share", 1, 2, 4, 8 },  -- rows that share one read of the keys
        { "warps", 12, 16 },      -- a block: pages on their way
    },
    class = function() return "mma.f16x2" end,
    keep = function(s, v, dev) return v.share == most_rows(s, dev) end,

    launch = function(s, v, dev)
        local blocks = math.min(ceil(s.POOLS, KEYS), dev.sms)  -- then pages a warp
        local shares = s.M // s.TOKENS * ceil(s.TOKENS, v.share)
        return {
            grid = { blocks, shares, 1 }, block = 32 * v.warps,
            shared = shared(s, v.share),
        }
    end,
    work = function(s)
        local sequences = s.M // s.TOKENS
        return {
            bytes = 4 * (sequences * s.POOLS * (s.D + 1) + s.M * (s.POOLS + s.HEADS * (s.D + 1))),
            flops = 2 * s.M * s.POOLS * s.HEADS * s.D,
        }
    end,

    check = {
        ulp = 1,  -- and 1e-5 of what a score is without cancellation (dsa_scores.c)
        samples = {
            { M = 1, TOKENS = 1, HEADS = 4, D = 64, POOLS = 16, SLOTS = 1, PAGES = 1, BLOCKS = 1 },
            { M = 4, TOKENS = 4, HEADS = 4, D = 64, POOLS = 512, SLOTS = 1, PAGES = 32,
                BLOCKS = 40 },
            { M = 15, TOKENS = 3, HEADS = 4, D = 64, POOLS = 48, SLOTS = 2, PAGES = 4,
                BLOCKS = 8 },
            { M = 2, TOKENS = 1, HEADS = 32, D = 128, POOLS = 131072, SLOTS = 2, PAGES = 8192,
                BLOCKS = 6 },
            { M = 10, TOKENS = 10, HEADS = 64, D = 96, POOLS = 100, SLOTS = 1, PAGES = 7,
                BLOCKS = 9 },
            { M = 2, TOKENS = 2, HEADS = 2, D = 32, POOLS = 30, SLOTS = 1, PAGES = 3,
                BLOCKS = 3 },
        },
        real = {
            { M = 1, TOKENS = 1, HEADS = 32, D = 128, POOLS = 32768, SLOTS = 1, PAGES = 2048,
                BLOCKS = 2048 },
            { M = 2, TOKENS = 2, HEADS = 32, D = 128, POOLS = 32768, SLOTS = 1, PAGES = 2048,
                BLOCKS = 2048 },
            { M = 1, TOKENS = 1, HEADS = 32, D = 128, POOLS = 131072, SLOTS = 1, PAGES = 8192,
                BLOCKS = 8192 },
        },
        draw = { scale = "scale32", positions = position, slots = slot, block_table = paged.block },
    },
})
