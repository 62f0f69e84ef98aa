-- Packs NVFP4 rows into 16-row tiles: unit (tile, pair of chunks of 64 k) is 1 KB of codes and 128
-- bytes of scales. In a chunk lane l holds rows l/4 and l/4 + 8, k 16*(l%4) and on: one scale group
-- of each. The codes' bits lie as lt_nvfp4_codes takes them apart; scales become exponent
-- and mantissa without a sign or subnormals (their sign moves into the codes). halves: the rows g
-- of a tile, g < 8, are row 8 * tile + g of the first half of N, the rows g + 8 the same of the
-- second half, so a lane that has the sums of rows g and g + 8 has gate and up of a channel.
-- experts: those of stacked experts, each packed as one tensor: expert e's N rows are tiles
-- e * N / 16 and on.
local family = require("gen.family")
local tile = require("gen.tile")

local PAIR <const> = 128    -- k of a unit
local CODES <const> = 1024  -- bytes of a unit
local SCALES <const> = 128

local function rows(s) return (s.EXPERTS or 1) * s.N end
local function half(s) return s.N // 2 end
local function codes(s) return s.K // 2 end
local function scales(s) return s.K // 16 end
local function tiles(s) return tile.count(rows(s)) end
local function units(s) return tile.ceil(s.K, PAIR) end

-- its: shape, samples, real, and refusal of an N that is no multiple of 16, nil: it is served.
local function packer(name, maths, its, w_rows, ws_rows)
    return family("pack_" .. name, {
        rev = 1,
        maths = maths,
        packs = name,

        shape = its.shape,
        serves = function(s)
            if its.refusal and s.N % 16 ~= 0 then return nil, its.refusal end
            if s.K % 16 ~= 0 then return nil, "K is not a whole number of NVFP4 groups of 16" end
            return true
        end,

        args = {
            { "w", "u8", { tiles, units, CODES }, out = true },
            { "ws", "u8", { tiles, units, SCALES }, out = true },
            { "w_rows", "e2m1x2", w_rows }, { "ws_rows", "e4m3", ws_rows },
        },
        template = function() return "pack_nvfp4_tile16" end,
        knobs = { { "warps", 8 } },  -- warps a block
        class = function() return "copy" end,
        keep = function() return true end,
        launch = function(s, v)
            return { grid = tile.ceil(tiles(s) * units(s), v.warps), block = 32 * v.warps }
        end,
        work = function(s)
            local packed = tiles(s) * units(s) * (CODES + SCALES)
            return { bytes = rows(s) * (codes(s) + scales(s)) + packed, flops = 0 }
        end,

        check = {
            bits = true, samples = its.samples, real = its.real, draw = { ws_rows = "bytes" },
        },
    })
end

-- least: rows of the smallest sample.
local function one(least, refusal)
    return {
        shape = { "N", "K" }, refusal = refusal,
        samples = { { N = least, K = 16 }, { N = 96, K = 1552 }, { N = 704, K = 288 } },
        real = { { N = 1536, K = 4096 } },
    }
end

local EXPERTS <const> = {
    shape = { "EXPERTS", "N", "K" },
    refusal = "an expert's rows are no whole number of 16-row tiles",
    samples = { { EXPERTS = 3, N = 48, K = 16 }, { EXPERTS = 2, N = 64, K = 1552 } },
    real = { { EXPERTS = 2, N = 1408, K = 4096 }, { EXPERTS = 3, N = 4096, K = 640 } },
}

local WHOLE <const> =
    "codes and scales of rows l/4, l/4 + 8 and group l%4 of each chunk in lane l"
local HALVES <const> =
    "rows 8 tile + l/4 of both halves, group l%4 of each chunk, codes and scales in lane l"

return {
    packer("nvfp4_tile16", WHOLE, one(22), { "N", codes }, { "N", scales }),
    packer("nvfp4_tile16_halves", HALVES,
        one(16, "half of N is no whole number of half tiles of 8"),
        { 2, half, codes }, { 2, half, scales }),
    packer("nvfp4_tile16_experts", WHOLE, EXPERTS, { rows, codes }, { rows, scales }),
    packer("nvfp4_tile16_experts_halves", HALVES, EXPERTS,
        { "EXPERTS", 2, half, codes }, { "EXPERTS", 2, half, scales }),
}
