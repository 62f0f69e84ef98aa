-- A plan's digest: SHA-256 over config, rank, recipe, arch, and each step's kernel and places.
-- Equal for equal plans in every process; no address, no time and no folder is in it.
local lathe = require("lathe")
local memory = require("lua.plan.memory")
local order = require("gen.order")

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

return digest
