-- Packs NVFP4 rows into 16-row tiles: unit (tile, pair of chunks of 64 k) is 1 KB of codes and 128
-- bytes of scales. In a chunk lane l holds rows l/4 and l/4 + 8, k 16*(l%4) and on: one scale group
-- of each. The codes' bits lie as lt_nvfp4_codes takes them apart; scales become exponent
-- and mantissa without a sign or subnormals (their sign moves into the codes). halves: the rows g
-- of a tile, g < 8, are row 8 * tile + g of the first half of N, the rows g + 8 the same of the
-- second half, so a lane that has the sums of rows g and g + 8 has gate and up of a channel.
local family = require("gen.family")
local tile = require("gen.tile")

local PAIR <const> = 128
local CODES <const> = 1024  -- bytes of a unit
local SCALES <const> = 128

local function tiles(s) return tile.count(s.N) end
local function units(s) return tile.ceil(s.K, PAIR) end
local function half(s) return s.N // 2 end
local function codes(s) return s.K // 2 end
local function scales(s) return s.K // 16 end

-- least: rows of the smallest sample, and what N is a multiple of.
local function packer(name, maths, w_rows, ws_rows, least, multiple)
    return family("pack_" .. name, {
        rev = 1,
        maths = maths,
        packs = name,

        shape = { "N", "K" },
        serves = function(s)
            if s.N % multiple ~= 0 then
                return nil, "half of N is no whole number of half tiles of 8"
            end
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
            local rows = s.N * (codes(s) + scales(s))
            return { bytes = rows + tiles(s) * units(s) * (CODES + SCALES), flops = 0 }
        end,

        check = {
            bits = true,
            samples = { { N = least, K = 16 }, { N = 96, K = 1552 }, { N = 704, K = 288 } },
            real = { { N = 1536, K = 4096 } },
            draw = { ws_rows = "bytes" },
        },
    })
end

return {
    packer("nvfp4_tile16",
        "codes and scales of rows l/4, l/4 + 8 and group l%4 of each chunk in lane l",
        { "N", codes }, { "N", scales }, 22, 1),
    packer("nvfp4_tile16_halves",
        "rows 8 tile + l/4 of both halves, group l%4 of each chunk, codes and scales in lane l",
        { 2, half, codes }, { 2, half, scales }, 16, 16),
}
