-- The largest logit of each row and its id, the lowest one on a tie. NaN never wins: a row of NaN
-- alone gives -1 and -infinity. -0 ties +0. Every logit is read once: M*VOCAB floats, or half.
-- `top` is what ranks compare when each has a share of the vocabulary, and what `sample` reads.
local family = require("gen.family")

local function threads(v) return 32 * v.warps end

local function entry(format, bytes)
    return family("argmax." .. format, {
        rev = 1,
        maths = "best[m] = the lowest id of the largest logits[m,id]; top[m] = that logit",

        shape = { "M", "VOCAB" },
        serves = function(s)
            if s.M > 16 then return nil, "more than 16 rows" end
            return true
        end,

        args = {
            { "best", "i32", { "M" }, out = true },
            { "top", "f32", { "M" }, out = true },
            { "logits", format, { "M", "VOCAB" } },
        },
        scratch = function(s, v)
            return {
                { "partial", "f32", { s.M, v.parts } },
                { "place", "i32", { s.M, v.parts } },
                { "arrived", "u32", { s.M } },
            }
        end,

        knobs = {
            { "parts", 64, 32, 16, 4, 1 },  -- blocks a row
            { "warps", 4, 8 },              -- a block
        },
        class = function() return "exact" end,  -- a maximum: no order matters
        keep = function(s, v)
            return v.parts == 1 or s.VOCAB >= v.parts * threads(v) * 2
        end,
        template = function() return "argmax" end,
        launch = function(s, v) return { grid = { v.parts, s.M, 1 }, block = threads(v) } end,
        work = function(s)
            return { bytes = s.M * (bytes * s.VOCAB + 8), flops = s.M * s.VOCAB }
        end,

        check = {
            bits = true,
            samples = {
                { M = 1, VOCAB = 1 }, { M = 4, VOCAB = 320 }, { M = 16, VOCAB = 1037 },
                { M = 5, VOCAB = 8256 },
            },
            real = {
                { M = 1, VOCAB = 154880 }, { M = 2, VOCAB = 51648 }, { M = 1, VOCAB = 51584 },
                { M = 1, VOCAB = 51619 },
            },
            draw = {
                logits = function(s, i, random)  -- one maximum somewhere; many; NaN; infinities; -0
                    local row, any = i // s.VOCAB, random(257)
                    if s.M ~= 5 and i % s.VOCAB == (row * 71 + 1036) % s.VOCAB then return 32 end
                    if any == 0 or row == 1 and s.M == 5 then return 0 / 0 end
                    if s.M ~= 5 then return any * 0.125 - 16 end
                    if row == 2 then return any == 1 and 0 / 0 or -1 / 0 end
                    if row == 3 then return any % 2 == 0 and 0.0 or -0.0 end
                    if row == 4 and any < 3 then return 1 / 0 end
                    return any * 0.125 - 16
                end,
            },
        },
    })
end

return { entry("f32", 4), entry("bf16", 2) }
