-- Draws a token of each row: temperature, top-k, top-p. `best` and `top` are argmax's. Exactly:
--   q = (top - logit) / temperature, 0 where logit >= top; a token's weight is exp(-q) in 2^-30,
--   rounded down: w = (int)(lt_exp(-q) * 2^30), and 0 unless q < 21. Candidates have w > 0, in the
--   order of falling logits, the lower id first on a tie (-0 ties +0). W is the sum of weights.
--   1. top_k >= 1: only the first k candidates stay.
--   2. top_p < 1: of those the shortest beginning stays whose sum is at least p * W, and at least 1
--      (p rounded down to 31 bits, p * W to an integer).
--   3. The token is the first one where the running sum of the rest exceeds r * W / 2^32, W being
--      the rest's sum and r the upper half of mix(mix(seed + G) + (position + 1) * G), the
--      finaliser of splitmix64 with G = 0x9e3779b97f4a7c15; seeds are two words, the low one first.
-- Only integers are summed, so that no order matters and both devices draw the same token. A
-- temperature that is not above 0 gives `best`, so does a row without candidates; `best` of -1
-- (all NaN) gives -1. NaN has no weight. A position below 0 writes nothing.
-- The logits are read twice where few candidates are left: spread over blocks, then by one.
local family = require("gen.family")

local BINS <const> = 1024        -- of a histogram
local IDS <const> = 1 << 22      -- fit beside a logit's 32 bits
local LEAST <const> = 2          -- logits a lane of a part reads

-- Of the rows of a sample. The third row has logits above its `top`, the ninth weights of 1 and 2.
local TOP <const> = { 4.0, 4.0, 0.25, 3.0, 4.0, 512.0, 4.0, 4.0, 44.0 }
local TEMPERATURE <const> = { 1.0, 2.0, 8.0, 0.0, 1e30, 2.5, 0.01 }
local TOP_P <const> = { 1.0, 0.9, 0.999, 1.0, 0.25, -1.0, 0 / 0, 0.0 }

local function threads(v) return 32 * v.warps end

local function nth(list, i) return list[i % #list + 1] end

local function entry(format, bytes)
    return family("sample." .. format, {
        rev = 1,
        maths = "token[m] ~ exp(logits[m,i] / temperature[m]) of the top k, of those the top p",

        shape = { "M", "VOCAB" },
        serves = function(s)
            if s.M > 16 then return nil, "more than 16 rows" end
            if s.VOCAB > IDS then return nil, "more than 2^22 tokens" end
            return true
        end,

        args = {
            { "token", "i32", { "M" }, out = true },
            { "logits", format, { "M", "VOCAB" } },
            { "best", "i32", { "M" } },
            { "top", "f32", { "M" } },
            { "temperature", "f32", { "M" } },
            { "top_k", "i32", { "M" } },
            { "top_p", "f32", { "M" } },
            { "seeds", "u32", { "M", 2 } },
            { "positions", "i32", { "M" } },
        },
        scratch = function(s)
            return { { "bins", "u32", { s.M, 3, BINS } }, { "arrived", "u32", { s.M } } }
        end,

        knobs = {
            { "warps", 32, 8 },         -- a block: the last one of a row is alone
            { "parts", 64, 16, 4, 1 },  -- blocks a row
        },
        class = function() return "exact" end,  -- integers
        keep = function(s, v)
            return v.parts == 1 or s.VOCAB >= v.parts * threads(v) * LEAST
        end,
        template = function() return "sample" end,
        launch = function(s, v) return { grid = { v.parts, s.M, 1 }, block = threads(v) } end,
        work = function(s)
            return { bytes = s.M * (bytes * s.VOCAB + 40), flops = 20 * s.M * s.VOCAB }
        end,

        check = {
            bits = true,
            samples = {
                { M = 1, VOCAB = 1 }, { M = 16, VOCAB = 320 }, { M = 7, VOCAB = 1037 },
                { M = 6, VOCAB = 4224 },
            },
            real = {
                { M = 1, VOCAB = 154880 }, { M = 2, VOCAB = 51648 }, { M = 1, VOCAB = 51584 },
            },
            draw = {
                logits = function(s, i, random)  -- ties; NaN; infinities; a row of equal ones
                    local row, any = i // s.VOCAB, random(4096)
                    if any == 0 then return 0 / 0 end
                    if any == 1 then return -1 / 0 end
                    if row == 2 then return 0.5 end
                    if row == 5 then return (any - 2048) * 0.25 end
                    return (any - 2048) * 0.001953125
                end,
                best = function(s, i, random) return i % 8 == 7 and -1 or random(s.VOCAB) end,
                top = function(_, i) return nth(TOP, i) end,
                temperature = function(_, i) return nth(TEMPERATURE, i) end,
                top_k = function(s, i)
                    return nth({ 0, 40, 1, s.VOCAB + 7, 3, -5, s.VOCAB // 2 }, i // 2)
                end,
                top_p = function(_, i) return nth(TOP_P, i) end,
                seeds = "bytes",
                positions = function(_, i, random) return i % 8 == 6 and -1 or random(524288) end,
            },
        },
    })
end

return { entry("f32", 4), entry("bf16", 2) }
