-- Packs NVFP4 rows into 16-row tiles: unit (tile, pair of chunks of 64 k) is 1 KB of codes and 128
-- bytes of scales. In a chunk lane l holds rows l/4 and l/4 + 8, k 16*(l%4) and on: one scale group
-- of each. The codes' bits lie as lt_nvfp4_codes takes them apart; scales become exponent
-- and mantissa without a sign or subnormals (their sign moves into the codes).
local family = require("gen.family")
local tile = require("gen.tile")

local PAIR <const> = 128
local CODES <const> = 1024  -- bytes of a unit
local SCALES <const> = 128

local function tiles(s) return tile.count(s.N) end
local function units(s) return tile.ceil(s.K, PAIR) end

return family("pack_nvfp4_tile16", {
    rev = 1,
    maths = "codes and scales of rows l/4, l/4 + 8 and group l%4 of each chunk in lane l",
    packs = "nvfp4_tile16",

    shape = { "N", "K" },
    serves = function(s)
        if s.K % 16 ~= 0 then return nil, "K is not a whole number of NVFP4 groups of 16" end
        return true
    end,

    args = {
        { "w", "u8", { tiles, units, CODES }, out = true },
        { "ws", "u8", { tiles, units, SCALES }, out = true },
        { "w_rows", "e2m1x2", { "N", function(s) return s.K // 2 end } },
        { "ws_rows", "e4m3", { "N", function(s) return s.K // 16 end } },
    },
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
        samples = { { N = 22, K = 16 }, { N = 96, K = 1552 }, { N = 704, K = 288 } },
        real = { { N = 1536, K = 4096 } },
        draw = { ws_rows = "bytes" },
    },
})
