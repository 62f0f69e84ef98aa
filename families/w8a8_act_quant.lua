-- Quantises each row of activations to E4M3: sx = max(amax / 448, 1e-12), q = E4M3(clamp(x / sx,
-- +-448)), true divisions. Bound by the launch: a few KB. NaN does not count towards amax and gives
-- the code 0x7f; an infinite amax gives 0 and NaN.
local family = require("gen.family")
local tile = require("gen.tile")

local MOST_WARPS <const> = 1024  -- of blocks that wait for each other: on any GPU all run

-- Blocks of a row: one, unless it would need more than two passes.
local function parts(s, v)
    local many = tile.ceil(s.K, 256 * v.warps)
    local can_share = s.K % 8 == 0 and s.M * many * v.warps <= MOST_WARPS
    return many > 2 and can_share and many or 1
end

return family("w8a8_act_quant", {
    rev = 1,
    maths = "sx[m] = max(max over k of |x[m,k]| / 448, 1e-12); q[m,k] = e4m3(x[m,k] / sx[m])",

    shape = { "M", "K" },
    serves = function(s)
        if s.M > 16 then return nil, "more than 16 rows" end
        return true
    end,

    args = {
        { "q", "e4m3", { "M", "K" }, out = true },
        { "sx", "f32", { "M" }, out = true },
        { "x", "bf16", { "M", "K" } },
    },
    scratch = function(s, v)
        if parts(s, v) == 1 then return {} end
        return {
            { "largest", "u32", { s.M, parts(s, v), 2 } },  -- of a part, and its turn
            { "turns", "u32", { s.M * parts(s, v) } },      -- launches that a block has ended
        }
    end,
    knobs = { { "warps", 8, 16, 4, 32 } },  -- warps a block
    class = function() return "exact" end,  -- a maximum and one division: no order matters
    keep = function(s, v)
        return v.warps == 32 or parts(s, v) > 1 or 2 * 256 * v.warps >= s.K  -- two passes
    end,
    template = function(s, v)
        return parts(s, v) > 1 and "w8a8_act_quant_parts" or "w8a8_act_quant"
    end,
    launch = function(s, v)
        local many = parts(s, v)
        return { grid = many > 1 and { many, s.M, 1 } or s.M, block = 32 * v.warps }
    end,
    work = function(s) return { bytes = s.M * (3 * s.K + 4), flops = 2 * s.M * s.K } end,

    check = {
        bits = true,
        samples = {
            { M = 1, K = 22 }, { M = 3, K = 704 }, { M = 16, K = 1536 }, { M = 2, K = 12296 },
        },
        real = { { M = 1, K = 11264 }, { M = 1, K = 32768 } },
    },
})
