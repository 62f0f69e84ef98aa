-- Absorbs the two halves of kv_b (a head: D rows of keys, then D rows of values) into the products
-- beside it, at load (model.md 4.12), so that attention works on the latent:
--   q: w[h*LATENT + c, k] = sum over r of kv_b[h*2D + r, c] * q_b[h*D + r, k]
--   o: w[n, h*LATENT + c] = sum over r of o_proj[n, h*D + r] * kv_b[h*2D + D + r, c]
-- FP32, r ascending, one fmaf a step; f32 out to be quantised, or bf16 (_bf16). Bound by
-- D*LATENT*HEADS*(K or N) fmaf on the CUDA cores. NaN and infinities go through.
local family = require("gen.family")
local tile = require("gen.tile")

local TILE <const> = 64      -- rows and columns of w that a block computes
local THREADS <const> = 256  -- each has 4 x 4 of them

local function entry(name, format, is_q)
    local other = is_q and "K" or "N"
    local function latent(s) return s.HEADS * s.LATENT end
    local function heads(s) return s.HEADS * s.D end
    local function rows(s) return is_q and s.LATENT or s.N end
    local function columns(s) return is_q and s.K or s.LATENT end

    return family("dsa_absorb." .. name, {
        rev = 1,
        maths = is_q and "w[h,c,k] = sum over r of kv_b[h,r,c] * q_b[h,r,k]"
            or "w[n,h,c] = sum over r of o_proj[n,h,r] * kv_b[h,D+r,c]",

        shape = { "HEADS", "D", "LATENT", other },
        serves = function() return true end,

        args = {
            { "w", format, is_q and { latent, "K" } or { "N", latent }, out = true },
            { "kv_b", "bf16", { "HEADS", function(s) return 2 * s.D end, "LATENT" } },
            is_q and { "q_b", "bf16", { heads, "K" } } or { "o_proj", "bf16", { "N", heads } },
        },
        knobs = { { "depth", 16, 32 } },        -- r between two barriers
        class = function() return "fma" end,    -- r ascending
        keep = function() return true end,
        template = function() return "dsa_absorb" end,
        launch = function(s)
            local tiles = tile.ceil(columns(s), TILE) * tile.ceil(rows(s), TILE)
            return { grid = tiles * s.HEADS, block = THREADS }
        end,
        work = function(s)
            local out = latent(s) * s[other]
            return {
                bytes = out * (format == "f32" and 4 or 2) + 2 * heads(s) * (s.LATENT + s[other]),
                flops = 2 * out * s.D,
            }
        end,

        check = {
            ulp = 1, relative = 1e-5,
            samples = {
                { HEADS = 1, D = 64, LATENT = 128, [other] = 64 },
                { HEADS = 3, D = 22, LATENT = 70, [other] = 33 },
            },
            real = {  -- the full model's with one head: the truth of 22 takes a minute
                { HEADS = 4, D = 64, LATENT = 128, [other] = is_q and 128 or 256 },
                { HEADS = 1, D = 256, LATENT = 512, [other] = is_q and 1536 or 4096 },
            },
        },
    })
end

return {
    entry("q", "f32", true), entry("o", "f32", false),
    entry("q_bf16", "bf16", true), entry("o_bf16", "bf16", false),
}
