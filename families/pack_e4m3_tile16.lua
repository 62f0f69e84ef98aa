-- Packs E4M3 rows into 16-row tiles: unit (tile, chunk of 64 k) is 1 KB; its 16-byte piece (half,
-- lane) holds row lane/4 + 8*half, k 16*(lane%4) and on, so that a warp's loads are whole and feed
-- m16n8k16 as they are. Outside N and K: zero.
local family = require("gen.family")
local tile = require("gen.tile")

local CHUNK <const> = 64
local UNIT <const> = 16 * CHUNK  -- bytes

local function tiles(s) return tile.count(s.N) end
local function chunks(s) return tile.ceil(s.K, CHUNK) end

return family("pack_e4m3_tile16", {
    rev = 1,
    maths = "16 bytes of row 16 tile + 8 half + lane/4, k 64 chunk + 16 (lane%4) lie at half, lane",
    packs = "e4m3_tile16",

    shape = { "N", "K" },
    serves = function() return true end,

    args = {
        { "w", "e4m3", { tiles, chunks, UNIT }, out = true },
        { "w_rows", "e4m3", { "N", "K" } },
    },
    knobs = { { "warps", 8 } },  -- warps a block
    class = function() return "copy" end,
    keep = function() return true end,
    launch = function(s, v)
        local pieces = tiles(s) * chunks(s) * (UNIT // 16)
        return { grid = tile.ceil(pieces, 32 * v.warps), block = 32 * v.warps }
    end,
    work = function(s) return { bytes = s.N * s.K + tiles(s) * chunks(s) * UNIT, flops = 0 } end,

    check = {
        bits = true,
        samples = { { N = 22, K = 22 }, { N = 96, K = 1552 }, { N = 704, K = 288 } },
        real = { { N = 2304, K = 4096 } },
    },
})
