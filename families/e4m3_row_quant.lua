-- Quantises weights to E4M3 at load, a scale a row (output channel): sw = max(amax / 448, 1e-12),
-- q = E4M3(clamp(w / sw, +-448)), true divisions. Rows are bf16, or f32 as dsa_absorb writes them.
-- Every weight is read once from memory. NaN does not count towards amax and gives the code 0x7f;
-- an infinite amax gives 0 and NaN.
local family = require("gen.family")

local LOAD <const> = 16  -- bytes a lane reads at once

local function entry(format, bytes)
    return family("e4m3_row_quant." .. format, {
        rev = 1,
        maths = "sw[n] = max(max over k of |w[n,k]| / 448, 1e-12); q[n,k] = e4m3(w[n,k] / sw[n])",

        shape = { "N", "K" },
        serves = function() return true end,

        args = {
            { "q", "e4m3", { "N", "K" }, out = true },
            { "sw", "f32", { "N" }, out = true },
            { "w", format, { "N", "K" } },
        },
        knobs = { { "warps", 8, 1, 4, 16 } },   -- warps a row
        class = function() return "exact" end,  -- a maximum and one division: no order matters
        keep = function(s, v)
            return v.warps == 1 or s.K * bytes >= 32 * v.warps * LOAD  -- a load for every lane
        end,
        template = function() return "e4m3_row_quant" end,
        launch = function(s, v) return { grid = s.N, block = 32 * v.warps } end,
        work = function(s)
            return { bytes = s.N * (s.K * (bytes + 1) + 4), flops = 2 * s.N * s.K }
        end,

        check = {
            bits = true,
            samples = { { N = 1, K = 22 }, { N = 3, K = 2816 }, { N = 22, K = 64 } },
            real = { { N = 2304, K = 4096 }, { N = 4096, K = 11264 } },
            draw = {
                w = function(s, i, random)
                    if s.K == 64 and random(256) == 0 then return 0 / 0 end
                    local row = i // s.K
                    return row % 5 == 2 and 0 or (random(2001) - 1000) * 2.0 ^ (random(8) - 8 - row)
                end,
            },
        },
    })
end

return { entry("bf16", 2), entry("f32", 4) }
