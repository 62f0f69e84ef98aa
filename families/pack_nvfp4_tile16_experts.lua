-- Packs the NVFP4 rows of stacked experts as pack_nvfp4_tile16, or its halves, packs one tensor:
-- expert e's N rows are tiles e * N / 16 and on. Its text is that packer's.
local family = require("gen.family")
local tile = require("gen.tile")

local PAIR <const> = 128    -- k of a unit
local CODES <const> = 1024  -- bytes of a unit
local SCALES <const> = 128

local function rows(s) return s.EXPERTS * s.N end
local function half(s) return s.N // 2 end
local function codes(s) return s.K // 2 end
local function scales(s) return s.K // 16 end
local function tiles(s) return tile.count(rows(s)) end
local function units(s) return tile.ceil(s.K, PAIR) end

local function packer(name, maths, w_rows, ws_rows)
    return family("pack_" .. name, {
        rev = 1,
        maths = maths,
        packs = name,

        shape = { "EXPERTS", "N", "K" },
        serves = function(s)
            if s.N % 16 ~= 0 then
                return nil, "an expert's rows are no whole number of 16-row tiles"
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
            local packed = tiles(s) * units(s) * (CODES + SCALES)
            return { bytes = rows(s) * (codes(s) + scales(s)) + packed, flops = 0 }
        end,

        check = {
            bits = true,
            samples = { { EXPERTS = 3, N = 48, K = 16 }, { EXPERTS = 2, N = 64, K = 1552 } },
            real = { { EXPERTS = 2, N = 1408, K = 4096 }, { EXPERTS = 3, N = 4096, K = 640 } },
            draw = { ws_rows = "bytes" },
        },
    })
end

return {
    packer("nvfp4_tile16_experts",
        "codes and scales of rows l/4, l/4 + 8 and group l%4 of each chunk in lane l",
        { rows, codes }, { rows, scales }),
    packer("nvfp4_tile16_experts_halves",
        "rows 8 tile + l/4 of both halves, group l%4 of each chunk, codes and scales in lane l",
        { "EXPERTS", 2, half, codes }, { "EXPERTS", 2, half, scales }),
}
