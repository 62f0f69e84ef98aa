-- W4A16 products of the chosen experts, NVFP4 weights, bf16 activations (the draft layer's,
-- model.md 4.25): slot (m, k) = m * TOPK + k takes expert ids[m,k], y[slot,n] = sw * sum over k of
-- x[k] * (w * ws)[expert,n,k]. gate_up: N is gate's rows, then up's, x the token's row; down: x is
-- the slot's row. Slots with an id outside 0 .. EXPERTS-1 write nothing. The floor is the weights
-- of as many experts as rows choose on average, N*K*9/16 bytes each, over the memory bandwidth; a
-- kernel reads an expert once a slot, or, with join, once for all slots that chose it, with the
-- same bits. NaN and infinities go through.
local family = require("gen.family")
local moe = require("gen.moe")

local function codes(s) return s.K // 2 end
local function scales(s) return s.K // 16 end

local function class(_, v) return ("mma.bf16_%d"):format(v.split) end

-- x_rows: how many rows of x there are.
local function work(s, x_rows)
    local slots = moe.slots(s)
    return {
        bytes = moe.chosen(s) * s.N * (codes(s) + scales(s)) + 2 * x_rows * s.K
            + slots * (2 * s.N + 4),
        flops = 2 * slots * s.N * s.K,
    }
end

local DRAW <const> = { ws = "scales", sw = "scale32", ids = moe.draw_ids }

return {
    family("w4a16_moe.gate_up", {
        rev = 1,
        maths = "y[slot,n] = bf16(sw[e,2n/N] * sum over k of x[m,k] * (w * ws)[e,n,k])",
        shape = { "M", "TOPK", "EXPERTS", "N", "K" },
        serves = function(s)
            if s.N % 32 ~= 0 then return nil, "half of N is no whole number of 16-row tiles" end
            return moe.serves(s)
        end,
        args = {
            { "y", "bf16", { moe.slots, "N" }, out = true },
            { "x", "bf16", { "M", "K" } },
            { "ids", "i32", { "M", "TOPK" } },
            { "w", "e2m1x2", { "EXPERTS", "N", codes }, layout = "nvfp4_tile16_experts" },
            { "ws", "e4m3", { "EXPERTS", "N", scales }, layout = "nvfp4_tile16_experts" },
            { "sw", "f32", { "EXPERTS", 2 } },  -- weight_scale_2 of gate and of up
        },
        knobs = moe.KNOBS, class = class, keep = moe.is_kept, launch = moe.launch,
        template = function() return "w4a16_moe" end,
        work = function(s) return work(s, s.M) end,
        check = {
            ulp = 1,
            exact = true,
            samples = {
                { M = 1, TOPK = 1, EXPERTS = 1, N = 32, K = 16 },
                { M = 2, TOPK = 4, EXPERTS = 6, N = 128, K = 256 },
                { M = 3, TOPK = 2, EXPERTS = 3, N = 32, K = 1552 },
                { M = 16, TOPK = 2, EXPERTS = 2, N = 96, K = 144 },
                { M = 12, TOPK = 2, EXPERTS = 1, N = 32, K = 1040 },
            },
            real = {
                { M = 1, TOPK = 8, EXPERTS = 5, N = 1408, K = 4096 },
                { M = 2, TOPK = 8, EXPERTS = 3, N = 1280, K = 4096 },
                { M = 1, TOPK = 8, EXPERTS = 3, N = 4096, K = 4096 },
            },
            draw = DRAW,
        },
    }),

    family("w4a16_moe.down", {
        rev = 1,
        maths = "y[slot,n] = bf16(sw[e] * sum over k of x[slot,k] * (w * ws)[e,n,k])",
        shape = { "M", "TOPK", "EXPERTS", "N", "K" },
        serves = moe.serves,
        args = {
            { "y", "bf16", { moe.slots, "N" }, out = true },
            { "x", "bf16", { moe.slots, "K" } },
            { "ids", "i32", { "M", "TOPK" } },
            { "w", "e2m1x2", { "EXPERTS", "N", codes }, layout = "nvfp4_tile16_experts" },
            { "ws", "e4m3", { "EXPERTS", "N", scales }, layout = "nvfp4_tile16_experts" },
            { "sw", "f32", { "EXPERTS" } },  -- weight_scale_2
        },
        knobs = moe.KNOBS, class = class, keep = moe.is_kept, launch = moe.launch,
        template = function() return "w4a16_moe" end,
        work = function(s) return work(s, moe.slots(s)) end,
        check = {
            ulp = 1,
            exact = true,
            samples = {
                { M = 1, TOPK = 1, EXPERTS = 1, N = 16, K = 16 },
                { M = 2, TOPK = 4, EXPERTS = 6, N = 256, K = 64 },
                { M = 4, TOPK = 2, EXPERTS = 3, N = 48, K = 704 },
                { M = 10, TOPK = 3, EXPERTS = 1, N = 16, K = 1040 },
                { M = 3, TOPK = 4, EXPERTS = 1, N = 48, K = 1024 },
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
