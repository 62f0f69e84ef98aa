-- Packs bf16 rows into 16-row tiles: unit (tile, chunk of 32 k) is 1 KB; its 16-byte piece (half,
-- lane) holds row lane/4 + 8*half, k 8*(lane%4) and on, so that a warp's loads are whole and feed
-- m16n8k16 as they are. Outside N and K: zero. The floor is twice the tensor over the bandwidth.
-- experts: the rows of stacked experts, each packed as one tensor: expert e's N rows are tiles
-- e * N / 16 and on.
local family = require("gen.family")
local tile = require("gen.tile")

local CHUNK <const> = 32
local UNIT <const> = 16 * CHUNK  -- elements

local function rows(s) return (s.EXPERTS or 1) * s.N end
local function tiles(s) return tile.count(rows(s)) end
local function chunks(s) return tile.ceil(s.K, CHUNK) end

-- its: shape, serves, samples, real.
local function packer(name, its, w_rows)
    return family("pack_" .. name, {
        rev = 1,
        maths =
            "w[tile,chunk,half,lane,i] = rows[16 tile + 8 half + lane/4, 32 chunk + 8(lane%4) + i]",
        packs = name,

        shape = its.shape,
        serves = its.serves,

        args = {
            { "w", "bf16", { tiles, chunks, UNIT }, out = true },
            { "w_rows", "bf16", w_rows },
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

        check = { bits = true, samples = its.samples, real = its.real },
    })
end

local ONE <const> = {
    shape = { "N", "K" },
    serves = function() return true end,
    samples = { { N = 22, K = 22 }, { N = 96, K = 1552 }, { N = 700, K = 288 } },
    real = { { N = 4096, K = 8192 }, { N = 51584, K = 4096 } },
}
local EXPERTS <const> = {
    shape = { "EXPERTS", "N", "K" },
    serves = function(s)
        if s.N % 16 ~= 0 then return nil, "an expert's rows are no whole number of 16-row tiles" end
        return true
    end,
    samples = { { EXPERTS = 3, N = 48, K = 22 }, { EXPERTS = 2, N = 64, K = 1552 } },
    real = { { EXPERTS = 2, N = 1408, K = 4096 }, { EXPERTS = 3, N = 4096, K = 640 } },
}

return {
    packer("bf16_tile16", ONE, { "N", "K" }),
    packer("bf16_tile16_experts", EXPERTS, { rows, "K" }),
}
