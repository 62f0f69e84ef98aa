-- Packs NVFP4 rows as pack_nvfp4_tile16 does, in another order: the rows g of a tile, g < 8, are
-- row 8 * tile + g of the first half of N, the rows g + 8 the same of the second half. So a lane
-- that has the sums of rows g and g + 8 has gate and up of a channel. Its text is that packer's.
local family = require("gen.family")
local tile = require("gen.tile")

local PAIR <const> = 128
local CODES <const> = 1024  -- bytes of a unit
local SCALES <const> = 128

local function tiles(s) return tile.count(s.N) end
local function units(s) return tile.ceil(s.K, PAIR) end
local function half(s) return s.N // 2 end

return family("pack_nvfp4_tile16_halves", {
    rev = 1,
    maths = "rows 8 tile + l/4 of both halves, group l%4 of each chunk, codes and scales in lane l",
    packs = "nvfp4_tile16_halves",

    shape = { "N", "K" },
    serves = function(s)
        if s.N % 16 ~= 0 then return nil, "half of N is no whole number of half tiles of 8" end
        if s.K % 16 ~= 0 then return nil, "K is not a whole number of NVFP4 groups of 16" end
        return true
    end,

    args = {
        { "w", "u8", { tiles, units, CODES }, out = true },
        { "ws", "u8", { tiles, units, SCALES }, out = true },
        { "w_rows", "e2m1x2", { 2, half, function(s) return s.K // 2 end } },
        { "ws_rows", "e4m3", { 2, half, function(s) return s.K // 16 end } },
    },
    template = function() return "pack_nvfp4_tile16" end,
    knobs = { { "warps", 8 } },  -- warps a block
    class = function() return "copy" end,
    keep = function() return true end,
    launch = function(s, v)
        return { grid = tile.ceil(tiles(s) * units(s), v.warps), block = 32 * v.warps }
    end,
    work = function(s)
        local rows = s.N * (s.K // 2 + s.K // 16)
        return { bytes = rows + tiles(s) * units(s) * (CODES + SCALES), flops = 0 }
    end,

    check = {
        bits = true,
        samples = { { N = 16, K = 16 }, { N = 96, K = 1552 }, { N = 704, K = 288 } },
        real = { { N = 1536, K = 4096 } },
        draw = { ws_rows = "bytes" },
    },
})
