-- Packs the NVFP4 rows of stacked experts as pack_nvfp4_tile16_halves packs one tensor: expert e's
-- N rows are tiles e * N / 16 and on. Its text is that of pack_nvfp4_tile16.
local family = require("gen.family")
local tile = require("gen.tile")

local PAIR <const> = 128    -- k of a unit
local CODES <const> = 1024  -- bytes of a unit
local SCALES <const> = 128

local function rows(s) return s.EXPERTS * s.N end
local function tiles(s) return tile.count(rows(s)) end
local function half(s) return s.N // 2 end
local function units(s) return tile.ceil(s.K, PAIR) end

return family("pack_nvfp4_tile16_experts_halves", {
    rev = 1,
    maths = "rows 8 tile + l/4 of both halves, group l%4 of each chunk, codes and scales in lane l",
    packs = "nvfp4_tile16_experts_halves",

    shape = { "EXPERTS", "N", "K" },
    serves = function(s)
        if s.N % 16 ~= 0 then return nil, "an expert's rows are no whole number of 16-row tiles" end
        if s.K % 16 ~= 0 then return nil, "K is not a whole number of NVFP4 groups of 16" end
        return true
    end,

    args = {
        { "w", "u8", { tiles, units, CODES }, out = true },
        { "ws", "u8", { tiles, units, SCALES }, out = true },
        { "w_rows", "e2m1x2", { "EXPERTS", 2, half, function(s) return s.K // 2 end } },
        { "ws_rows", "e4m3", { "EXPERTS", 2, half, function(s) return s.K // 16 end } },
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
        return { bytes = rows(s) * (s.K // 2 + s.K // 16) + packed, flops = 0 }
    end,

    check = {
        bits = true,
        samples = { { EXPERTS = 3, N = 48, K = 16 }, { EXPERTS = 2, N = 64, K = 1552 } },
        real = { { EXPERTS = 2, N = 1408, K = 4096 }, { EXPERTS = 3, N = 4096, K = 640 } },
        draw = { ws_rows = "bytes" },
    },
})
