-- Packs the bf16 rows of stacked experts as pack_bf16_tile16 packs one tensor: expert e's N rows
-- are tiles e * N / 16 and on. Its text is that packer's.
local family = require("gen.family")
local tile = require("gen.tile")

local CHUNK <const> = 32
local UNIT <const> = 16 * CHUNK  -- elements

local function rows(s) return s.EXPERTS * s.N end
local function tiles(s) return tile.count(rows(s)) end
local function chunks(s) return tile.ceil(s.K, CHUNK) end

return family("pack_bf16_tile16_experts", {
    rev = 1,
    maths = "w[tile,chunk,half,lane,i] = rows[16 tile + 8 half + lane/4, 32 chunk + 8(lane%4) + i]",
    packs = "bf16_tile16_experts",

    shape = { "EXPERTS", "N", "K" },
    serves = function(s)
        if s.N % 16 ~= 0 then return nil, "an expert's rows are no whole number of 16-row tiles" end
        return true
    end,

    args = {
        { "w", "bf16", { tiles, chunks, UNIT }, out = true },
        { "w_rows", "bf16", { rows, "K" } },
    },
    template = function() return "pack_bf16_tile16" end,
    knobs = { { "warps", 8 } },  -- warps a block
    class = function() return "copy" end,
    keep = function() return true end,
    launch = function(s, v)
        local pieces = tiles(s) * chunks(s) * (UNIT // 8)
        return { grid = tile.ceil(pieces, 32 * v.warps), block = 32 * v.warps }
    end,
    work = function(s)
        return { bytes = 2 * rows(s) * s.K + 2 * tiles(s) * chunks(s) * UNIT, flops = 0 }
    end,

    check = {
        bits = true,
        samples = { { EXPERTS = 3, N = 48, K = 22 }, { EXPERTS = 2, N = 64, K = 1552 } },
        real = { { EXPERTS = 2, N = 1408, K = 4096 }, { EXPERTS = 3, N = 4096, K = 640 } },
    },
})
