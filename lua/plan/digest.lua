-- A plan's digest: SHA-256 over config, rank, recipe, arch, and each step's kernel and places.
-- Equal for equal plans in every process; no address, no time and no folder is in it. And a digest
-- of what all ranks run, which is the same on each of them.
local fault = require("lua.fault")
local glm5_next = require("lua.model.glm5_next")
local lathe = require("lathe")
local memory = require("lua.plan.memory")
local order = require("gen.order")
local plan = require("lua.plan.plan")
local records = require("lua.records")
local split = require("lua.model.split")

local digest = {}

local SKIP <const> = { notes = true, quantization = true }  -- of the config: words, not the model

local function text_of(value)
    if math.type(value) == "float" then return ("%.17g"):format(value) end
    if type(value) ~= "table" then return tostring(value) end
    local words = {}
    for _, key in ipairs(order.keys(value)) do
        if not SKIP[key] then words[#words + 1] = ("%s=%s"):format(key, text_of(value[key])) end
    end
    return "{" .. table.concat(words, " ") .. "}"
end

local function place_text(made_plan, step, p)
    local kind, _, key = memory.kind_of(made_plan, step, p)
    if kind ~= "activations" then return ("%s:%s:%s"):format(p.name, kind, key) end
    local place = made_plan.places[key]
    return ("%s:%d+%d:%d"):format(p.name, place.home.number, place.offset, place.bytes)
end

local function step_text(made_plan, step)
    local words = { step.site, step.kernel.name, step.kernel.class }
    for _, p in ipairs(step.kernel.params) do
        words[#words + 1] = place_text(made_plan, step, p)
    end
    return table.concat(words, " ")
end

-- 64 digits. target and model: ask.lua's; mode: { mode, rows }.
function digest.of(target, model, mode, made_plan)
    local lines = {
        "plan 2", text_of(model.found.config), text_of(model.formats),
        ("rank %d of %d"):format(model.found.rank, model.found.ranks),
        ("%s %s %s %d %d"):format(model.recipe, target.arch, mode.mode, mode.rows, model.context),
    }
    for _, step in ipairs(made_plan.steps) do lines[#lines + 1] = step_text(made_plan, step) end
    return lathe.sha256(table.concat(lines, "\n"))
end

-- Adds to lines what a rank runs, of each step the kernel and its text. met: kernels by operator,
-- as plan.try has them, and the digests of their texts.
local function add_choices(lines, target, model, rows, found, met)
    local circuit = glm5_next.circuit(found, model.formats, rows, model.context)
    for _, step in ipairs(fault.expect(plan.try(target, circuit, met.kernels)).steps) do
        local kernel = step.kernel
        met.texts[kernel] = met.texts[kernel] or records.digest(kernel)
        lines[#lines + 1] = ("%d %s %s %s %s"):format(found.rank, step.site, kernel.name,
            kernel.class, met.texts[kernel])
    end
end

-- 64 digits of what every rank of a model would run, as this one chooses: equal on all ranks where
-- they have the same program, model, context, pins, and records that lead to the same choices. The
-- order of the records is not in it, nor which rank asks. target and model: ask.lua's.
function digest.of_ranks(target, model, rows)
    local whole <const>, ranks <const> = model.found.whole, model.found.ranks
    local met = { kernels = {}, texts = {} }
    local lines = {
        "choices 1", text_of(whole.config), text_of(model.formats),
        ("%s %d %d of %d ranks"):format(target.arch, rows, model.context, ranks),
    }
    for rank = 0, ranks - 1 do
        add_choices(lines, target, model, rows, fault.expect(split.take(whole, ranks, rank)), met)
    end
    return lathe.sha256(table.concat(lines, "\n"))
end

return digest
