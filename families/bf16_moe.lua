-- bf16 products of the chosen experts (model.md 4.21): slot (m, k) = m * TOPK + k takes expert
-- ids[m,k], y[slot,n] = sum over k of x[k] * w[expert,n,k]. gate_up: N is gate's rows, then up's,
-- x the token's row; down: x is the slot's row. Slots with an id outside 0 .. EXPERTS-1 write
-- nothing. The floor is the weights of as many experts as rows choose on average, 2*N*K bytes
-- each, over the memory bandwidth; a kernel reads an expert once a slot, or, with join, once for
-- all slots that chose it, with the same bits. NaN and infinities go through.
local family = require("gen.family")
local moe = require("gen.moe")
local tile = require("gen.tile")

local CHUNK <const> = 32  -- k of a unit: 16 rows x 64 bytes
local LOAD <const> = 8    -- values a lane reads at once

local function class(_, v) return ("mma.bf16_%d"):format(v.split) end

local function serves(s)
    if s.M > 16 then return nil, "more than 16 rows: a GEMM's work" end
    if s.N % 16 ~= 0 then return nil, "an expert's rows are no whole number of 16-row tiles" end
    if s.K % LOAD ~= 0 then return nil, "K is not a whole number of 16-byte loads" end
    if moe.slots(s) > 65535 then return nil, "more slots than a grid has columns of blocks" end
    return true
end

local function keep(s, v, dev) return moe.is_kept(s, v, dev, tile.ceil(s.K, CHUNK)) end

-- x_rows: how many rows of x there are.
local function work(s, x_rows)
    local slots = moe.slots(s)
    return {
        bytes = 2 * moe.chosen(s) * s.N * s.K + 2 * x_rows * s.K + slots * (2 * s.N + 4),
        flops = 2 * slots * s.N * s.K,
    }
end

local DRAW <const> = { ids = moe.draw_ids }

return {
    family("bf16_moe.gate_up", {
        rev = 1,
        maths = "y[slot,n] = bf16(sum over k of x[m,k] * w[e,n,k])",
        shape = { "M", "TOPK", "EXPERTS", "N", "K" },
        serves = serves,
        args = {
            { "y", "bf16", { moe.slots, "N" }, out = true },
            { "x", "bf16", { "M", "K" } },
            { "ids", "i32", { "M", "TOPK" } },
            { "w", "bf16", { "EXPERTS", "N", "K" }, layout = "bf16_tile16_experts" },
        },
        knobs = moe.KNOBS, class = class, keep = keep, launch = moe.launch,
        template = function() return "bf16_moe" end,
        work = function(s) return work(s, s.M) end,
        check = {
            ulp = 1,
            exact = true,
            samples = {
                { M = 1, TOPK = 1, EXPERTS = 1, N = 32, K = 8 },
                { M = 2, TOPK = 4, EXPERTS = 6, N = 128, K = 256 },
                { M = 3, TOPK = 2, EXPERTS = 3, N = 32, K = 1048 },
                { M = 16, TOPK = 2, EXPERTS = 2, N = 96, K = 144 },
                { M = 12, TOPK = 2, EXPERTS = 1, N = 32, K = 520 },
            },
            real = {
                { M = 1, TOPK = 8, EXPERTS = 5, N = 1408, K = 4096 },
                { M = 2, TOPK = 8, EXPERTS = 3, N = 1280, K = 4096 },
                { M = 1, TOPK = 8, EXPERTS = 3, N = 4096, K = 4096 },
            },
            draw = DRAW,
        },
    }),

    family("bf16_moe.down", {
        rev = 1,
        maths = "y[slot,n] = bf16(sum over k of x[slot,k] * w[e,n,k])",
        shape = { "M", "TOPK", "EXPERTS", "N", "K" },
        serves = serves,
        args = {
            { "y", "bf16", { moe.slots, "N" }, out = true },
            { "x", "bf16", { moe.slots, "K" } },
            { "ids", "i32", { "M", "TOPK" } },
            { "w", "bf16", { "EXPERTS", "N", "K" }, layout = "bf16_tile16_experts" },
        },
        knobs = moe.KNOBS, class = class, keep = keep, launch = moe.launch,
        template = function() return "bf16_moe" end,
        work = function(s) return work(s, moe.slots(s)) end,
        check = {
            ulp = 1,
            exact = true,
            samples = {
                { M = 1, TOPK = 1, EXPERTS = 1, N = 16, K = 8 },
                { M = 2, TOPK = 4, EXPERTS = 6, N = 256, K = 64 },
                { M = 4, TOPK = 2, EXPERTS = 3, N = 48, K = 704 },
                { M = 10, TOPK = 3, EXPERTS = 1, N = 16, K = 520 },
                { M = 3, TOPK = 4, EXPERTS = 1, N = 48, K = 256 },
            },
            real = {
                { M = 1, TOPK = 8, EXPERTS = 5, N = 4096, K = 704 },
                { M = 2, TOPK = 8, EXPERTS = 5, N = 4096, K = 640 },
                { M = 1, TOPK = 8, EXPERTS = 3, N = 4096, K = 2048 },
            },
            draw = DRAW,
        },
    }),
}
