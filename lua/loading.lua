-- What the commands that run a model have in common: its folder, a recipe, a session.
local ask = require("lua.plan.ask")
local choice = require("lua.choice")
local digest = require("lua.plan.digest")
local fault = require("lua.fault")
local fields = require("lua.model.fields")
local input = require("lua.input")
local lathe = require("lathe")
local place = require("lua.place")
local progress = require("lua.progress")
local rank = require("lua.rank")
local recipe = require("lua.model.recipe")
local session = require("lua.session")
local tokenizer = require("lua.tokenizer")

local loading = {}

local GENERATION <const> = "generation_config.json"

function loading.declare(command)
    command:option("--model", "folder with config.json, tokenizer.json and *.safetensors")
        :count(1)
    command:option("--recipe", "precision: card or reference", "card")
    command:option("--as", "ARCH:SMS: the CPU device runs the kernels of such a GPU")
        :target("played")
    rank.declare(command)
    ask.declare_pins(command)
end

-- The arch and the multiprocessors of --as sm_90a:132.
local function played(options)
    if not options.played then return end
    local arch_name, sms = options.played:match("^([%w_]+):(%d+)$")
    if not arch_name then
        fault.usage(("--as: '%s' is not an arch and a number of multiprocessors (as sm_90a:132)")
            :format(options.played))
    end
    return arch_name, choice.number("--as", sms, 1)
end

-- The tokenizer of the model's folder; says what its file asks for and is not done.
function loading.tokenizer(options)
    local tok, notes = tokenizer.open(options.model .. "/tokenizer.json")
    for _, note in ipairs(notes) do lathe.debug(0, "tokenizer.json: " .. note) end
    return tok
end

-- Refuses ids that the model does not have.
function loading.check_ids(command, ids, vocab)
    for _, id in ipairs(ids) do
        if id >= vocab then
            fault.usage(("%s: %d is no token of the model (it has %d)"):format(command, id, vocab))
        end
    end
end

-- The session of the options. room_of(config): the tokens that it has room for, once what they
-- are for is known to fit the model.
function loading.open(options, room_of)
    local formats = fault.expect(recipe.find(options.recipe))
    local shown <close> = progress.new()
    local start = lathe.now_us()
    local found = rank.take(options, ask.checkpoint(options.model))  -- while the device opens
    local capacity = room_of(found.config)
    local target = ask.know(place.open(options.device, nil, played(options)), options)
    local s = session.open({
        target = target, found = found,
        formats = formats, capacity = capacity,
        tell = function(done, count, bytes)
            local seconds = (lathe.now_us() - start) / 1e6
            shown:show(("weights %d of %d, %.2f GB/s"):format(
                done, count, bytes / seconds / 1e9))
        end,
    })
    lathe.debug(2, ("model %s: loaded in %.0f ms"):format(
        options.model, (lathe.now_us() - start) / 1000))
    shown:clear()
    if found.ranks > 1 then
        local model = { found = found, formats = formats, context = capacity }
        rank.warn(found, digest.of_ranks(target, model, 1))
    end
    return s
end

-- The tokens that end a text: those of generation_config.json where it names some, else config's.
function loading.endings(s)
    local c, set = s.found.config, {}
    local list = c.eos
    local path = ("%s/%s"):format(s.found.folder, GENERATION)
    local file <close> = io.open(path, "rb")
    if file then
        local object, why = fields.decode(input.read(GENERATION, path))
        if not object then fault.usage(("%s: %s"):format(GENERATION, why)) end
        local reader = fields.reader(GENERATION, object)
        local ids = reader:ids("eos_token_id", c.vocab)
        if reader.faults[1] then fault.usage(reader.faults[1]) end
        if #ids > 0 then list = ids end
    end
    for _, id in ipairs(list) do set[id] = true end
    return set
end

-- "21 kernels compiled, 0 cached"
function loading.kernels(s)
    local counts = s.target.counts
    return ("%d kernels compiled, %d cached"):format(counts.compiled, counts.cached)
end

return loading
