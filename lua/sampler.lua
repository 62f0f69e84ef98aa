-- Draws the next token on the device: temperature, top-k, top-p, seed (families/sample.lua says
-- exactly how). Temperature 0 takes the most likely one.
local catalog = require("gen.catalog")
local choice = require("lua.choice")
local compile = require("lua.plan.compile")
local fault = require("lua.fault")
local lathe = require("lathe")
local variant = require("gen.variant")

local sampler = {}

local FAMILY <const> = "sample.f32"
local MOST_K <const> = (1 << 31) - 1

function sampler.declare(command)
    command:option("--temperature", "above 0: draw tokens; 0 takes the most likely one", "0")
    command:option("--top-k", "draw among the k most likely tokens; 0: among all")
    command:option("--top-p", "draw among the likely tokens that have this probability together")
    command:option("--seed", "of the draw: the same seed draws the same tokens")
end

-- A number of an option from `least` to `most`.
local function real(option, text, least, most)
    local n = text:match("^[%d.]+$") and tonumber(text)
    if not n or n < least or n > most then
        fault.usage(("%s: '%s' is not a number from %g to %g"):format(option, text, least, most))
    end
    return n + 0.0
end

-- What the options ask for; nil: the most likely token.
function sampler.wanted(options)
    local temperature = real("--temperature", options.temperature, 0, 1e6)
    local k = choice.number("--top-k", options.top_k, 0) or 0
    local p = options.top_p and real("--top-p", options.top_p, 0, 1) or 1.0
    local seed = choice.number("--seed", options.seed, 0) or 0
    if k > MOST_K then fault.usage(("--top-k: %d is more than %d"):format(k, MOST_K)) end
    if temperature > 0 then
        return { temperature = temperature, top_k = k, top_p = p, seed = seed }
    end
    for _, name in ipairs({ "top_k", "top_p", "seed" }) do
        if options[name] then
            fault.usage(("--%s: says how to draw, and --temperature 0 does not draw (give one "
                .. "above 0)"):format((name:gsub("_", "-"))))
        end
    end
end

-- A buffer with the same numbers for each row.
local function repeated(s, format, rows, ...)
    local words <const> = { ... }
    local a <close> = fault.reach(lathe.array(format, rows * #words))
    for i = 0, rows * #words - 1 do a:set(i, words[i % #words + 1]) end
    local buffer = fault.reach(s.target.device:alloc(4 * rows * #words))
    fault.reach(buffer:write(a))
    return buffer
end

local function kernel_for(s, rows)
    local family = fault.expect(catalog.find(s.target.families, FAMILY))
    local shape = { M = rows, VOCAB = s.found.config.head_rows }
    local v = variant.default(family, shape, s.target.dev)
    if not v then fault.usage(choice.no_variant(family, shape, s.target.dev)) end
    return choice.kernel(family, shape, v, s.target.arch, s.target.dev)
end

-- The draw of a program of the session: { run, token }.
local function drawing(self, p)
    local s, wanted, rows = self.session, self.asked, p.rows
    local kernel = kernel_for(s, rows)
    local values = {
        token = fault.reach(s.target.device:alloc(4 * rows)), positions = p.positions,
        temperature = repeated(s, "f32", rows, wanted.temperature),
        top_k = repeated(s, "i32", rows, wanted.top_k),
        top_p = repeated(s, "f32", rows, wanted.top_p),
        seeds = repeated(s, "u32", rows, wanted.seed & 0xffffffff, wanted.seed >> 32),
    }
    for _, name in ipairs({ "logits", "best", "top" }) do
        local place = p.plan.places["/" .. name]
        values[name] = { place.buffer, place.offset }
    end
    local args = {}
    for i, each in ipairs(kernel.params) do
        args[i] = values[each.name] or fault.reach(s.target.device:alloc(each.bytes))
        if each.scratch then fault.reach(args[i]:fill(0)) end  -- counters begin at 0
    end
    local loaded = compile.load(s.target, { kernel })[kernel.name]
    return {
        token = values.token,
        run = fault.reach(s.target.device:program({
            { kernel = loaded, launch = kernel.launch, args = args },
        })),
    }
end

-- The token behind the last row of a program that has run.
function sampler:pick(p)
    if not self.asked then return self.session:best(p) end
    local d = self.drawings[p.rows]
    if not d then
        d = drawing(self, p)
        self.drawings[p.rows] = d
    end
    fault.reach(d.run:run())
    local a <close> = fault.reach(lathe.array("i32", p.rows))
    fault.reach(d.token:read(a))
    return self.session:token(a, p.rows)
end

-- s: a session; wanted: what sampler.wanted gave.
function sampler.new(s, wanted)
    return setmetatable({ session = s, asked = wanted, drawings = {} }, { __index = sampler })
end

return sampler
