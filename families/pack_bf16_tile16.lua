-- Packs bf16 rows into 16-row tiles: unit (tile, chunk of 32 k) is 1 KB; its 16-byte piece (half,
-- lane) holds row lane/4 + 8*half, k 8*(lane%4) and on, so that a warp's loads are whole and feed
-- m16n8k16 as they are. Outside N and K: zero. The floor is twice the tensor over the bandwidth.
local family = require("gen.family")
local tile = require("gen.tile")

local CHUNK <const> = 32
local UNIT <const> = 16 * CHUNK  -- elements

local function tiles(s) return tile.count(s.N) end
local function chunks(s) return tile.ceil(s.K, CHUNK) end

return family("pack_bf16_tile16", {
    rev = 1,
    maths = "w[tile,chunk,half,lane,i] = rows[16 tile + 8 half + lane/4, 32 chunk + 8(lane%4) + i]",
    packs = "bf16_tile16",

    shape = { "N", "K" },
    serves = function() return true end,

    args = {
        { "w", "bf16", { tiles, chunks, UNIT }, out = true },
        { "w_rows", "bf16", { "N", "K" } },
    },
    knobs = { { "warps", 8 } },  -- warps a block
    class = function() return "copy" end,
    keep = function() return true end,
    launch = function(s, v)
        local pieces = tiles(s) * chunks(s) * (UNIT // 8)
        return { grid = tile.ceil(pieces, 32 * v.warps), block = 32 * v.warps }
    end,
    work = function(s)
        return { bytes = 2 * s.N * s.K + 2 * tiles(s) * chunks(s) * UNIT, flops = 0 }
    end,

    check = {
        bits = true,
        samples = { { N = 22, K = 22 }, { N = 96, K = 1552 }, { N = 700, K = 288 } },
        real = { { N = 4096, K = 8192 }, { N = 51584, K = 4096 } },
    },
})
