-- What the options of a command ask for: a checkpoint, for whom, and plans of it.
local checkpoint = require("lua.model.checkpoint")
local choice = require("lua.choice")
local fault = require("lua.fault")
local glm5_next = require("lua.model.glm5_next")
local imagined = require("lua.model.imagined")
local memory = require("lua.plan.memory")
local message = require("gen.message")
local named = require("lua.model.named")
local pick = require("lua.plan.pick")
local pins = require("lua.plan.pins")
local plan = require("lua.plan.plan")
local rank = require("lua.rank")
local recipe = require("lua.model.recipe")
local records = require("lua.records")
local variant = require("gen.variant")

local ask = {}

local CONTEXT <const> = 4096
local PAGE <const> = 64  -- tokens: what a context grows by

-- Mode, its least and most rows, what its rows are.
local MODES <const> = {
    decode = { 1, 1, "decode runs 1 row" },
    prefill = { 1, pick.MOST_ROWS, ("prefill runs 1 to %d rows of one sequence"):format(
        pick.MOST_ROWS) },
}
local NAMES <const> = { "decode", "prefill" }

-- Experts of a model by name that one H200 holds beside the rest where it is no rank of several.
local HELD <const> = { ["glm-5.3-flash"] = 192 }

-- Bytes of the usual device of an arch, as choice.facts has its multiprocessors.
local MEMORY <const> = {
    sm_90a = 143771 << 20, sm_100a = 183359 << 20, sm_100f = 183359 << 20,
    sm_120a = 32607 << 20, sm_120f = 32607 << 20, sm_121a = 122570 << 20, sm_121f = 122570 << 20,
}

-- The options that say which model, of which ask.found takes one. what: said of --model.
function ask.declare_model(command, what)
    command:option("--model", what)
    command:option("--model-shape", ("instead of --model: a model by name, %s"):format(
        table.concat(named.NAMES, ", "))):target("shape_name")
end

-- Refuses two models, or none where one is needed; command: its name.
function ask.check_model(options, command, is_needed)
    if options.model and options.shape_name then
        fault.usage(("%s: --model and --model-shape ask for different models (give one of them)")
            :format(command))
    end
    if is_needed and not options.model and not options.shape_name then
        fault.usage(("%s: whose? (give --model DIR or --model-shape NAME)"):format(command))
    end
end

-- The options that say which plan; absent ones are nil, so that a command can refuse them.
function ask.declare(command)
    command:option("--mode", "decode or prefill")
    command:option("--rows", "rows of a step: 1 for decode, up to 16 for prefill")
    command:option("--recipe", "precision: card (default) or reference")
    command:option("--context", ("tokens that there is room for; default %d"):format(CONTEXT))
    rank.declare(command)
    ask.declare_pins(command)
end

function ask.declare_pins(command)
    command:option("--pins", "Lua file of variants to take: { [\"FAMILY SHAPE\"] = \"KNOBS\" }")
end

-- Lets a target's plans choose by what is pinned and what was recorded, which is read once.
function ask.know(target, options)
    target.pins = pins.read(options.pins, target.families)
    target.records = target.records or target.key and records.load(target.key)
    return target
end

-- The options that say which variants of a family, of which a command takes one.
function ask.declare_variants(command)
    command:flag("--all", "every kept variant")
    command:option("--knobs", "k=v,..: instead of the default variant's values; or as a name ends")
    command:flag("--planned", "the variant that a plan takes: by what was recorded")
end

function ask.check_variants(options, command)
    local given = {}
    for _, name in ipairs({ "all", "knobs", "planned" }) do
        if options[name] then given[#given + 1] = "--" .. name end
    end
    if #given > 1 then
        fault.usage(("%s: %s ask for different variants (give one of them)"):format(command,
            table.concat(given, " and ")))
    end
end

-- The variants that are asked for, of a family at a shape whose M are the rows of a step; and where
-- a planned one comes from (pick.variant).
function ask.variants(target, family, s, options)
    local list, origin
    if options.all then
        list = variant.kept(family, s, target.dev)
    elseif options.planned then
        list = {}
        list[1], origin = pick.variant(ask.know(target, {}), family, s, s.M or 1)
    else
        list = { choice.variant(family, s, target.dev, options.knobs) }
    end
    if #list == 0 then fault.usage(choice.no_variant(family, s, target.dev)) end
    return list, origin
end

local function mode_of(options, mode)
    local row = MODES[mode]
    if not row then
        fault.usage(("--mode: '%s' is not served%s (known: %s)"):format(mode,
            message.did_you_mean(mode, NAMES), table.concat(NAMES, " ")))
    end
    local rows = choice.number("--rows", options.rows, 1) or row[2]
    if rows < row[1] or rows > row[2] then
        fault.usage(("--rows: %d rows are asked for, but %s"):format(rows, row[3]))
    end
    return { mode = mode, rows = rows }
end

-- One mode, { mode, rows }; where nothing is said decode.
function ask.mode(options) return mode_of(options, options.mode or "decode") end

-- All that a run with whole chunks needs, unless the options say one.
function ask.modes(options)
    if options.mode or options.rows then return { ask.mode(options) } end
    return { mode_of(options, "decode"), mode_of(options, "prefill") }
end

-- A checkpoint without a fault. scan: as checkpoint.open has it.
function ask.checkpoint(folder, scan)
    local found, why = checkpoint.open(folder, scan)
    if not found then fault.usage(("--model: %s"):format(why)) end
    if #found.faults > 0 then
        fault.usage(("%s: %s (`lathe plan --model %s --check` lists %d faults)"):format(
            folder, found.faults[1].text, folder, #found.faults))
    end
    return found
end

-- What --model or --model-shape names: a checkpoint, or a model by name without files. scan: as
-- checkpoint.open has it.
function ask.found(options, scan)
    if options.model then return ask.checkpoint(options.model, scan) end
    local is_alone = (choice.number("--ranks", options.ranks, 1) or 1) == 1
    return imagined.open(options.shape_name, is_alone and HELD[options.shape_name] or math.huge)
end

-- A target without a device: arch_name's usual one, or one with `sms` multiprocessors.
function ask.target(arch_name, sms)
    return {
        families = choice.catalog(), arch = arch_name, dev = choice.facts(arch_name, sms),
        key = choice.key(arch_name, sms), is_cpu = arch_name == "cpu",
        is_apart = arch_name == "cpu", memory = MEMORY[arch_name],
        named = arch_name,
    }
end

-- The target of a device that is here.
function ask.device(device_name)
    local _, info, dev = choice.device(device_name)
    return {
        families = choice.catalog(), arch = info.arch, dev = dev, key = info.key,
        is_cpu = info.name == "cpu", is_apart = info.name == "cpu",
        memory = info.memory > 0 and info.memory or nil, named = info.model,
    }
end

-- What all plans of these options have in common: { found, recipe, formats, context }; found is a
-- rank's (split.take).
function ask.model(options, found)
    local name = options.recipe or "card"
    local formats, why = recipe.find(name)
    if not formats then fault.usage("--recipe: " .. why) end
    local context = choice.number("--context", options.context, 1) or CONTEXT
    local most = found.config.positions
    if context > most then
        if options.context then
            fault.usage(("--context: %d tokens are asked for, the model has %d positions"):format(
                context, most))
        end
        context = most
    end
    local mine = rank.take(options, found)
    return { found = mine, recipe = name, formats = formats, context = context }
end

-- A plan of a step of `rows` rows; known: as plan.try has it.
function ask.plan(target, model, rows, known)
    local circuit = glm5_next.circuit(model.found, model.formats, rows, model.context)
    return fault.expect(plan.try(target, circuit, known))
end

-- The most tokens for which such a plan fits into the target's memory, and is served; nil where
-- that memory is unknown.
function ask.largest_context(target, model, rows, known)
    if not target.memory then return nil end
    local room = memory.room(target.memory, target.is_cpu)
    return memory.largest(PAGE, model.found.config.positions, function(tokens)
        local circuit = glm5_next.circuit(model.found, model.formats, rows, tokens)
        local made = plan.try(target, circuit, known)
        return made ~= nil and select(2, memory.rows(made)) <= room
    end)
end

return ask
