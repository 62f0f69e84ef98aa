-- lathe run: text from a model, streaming.
local choice = require("lua.choice")
local fault = require("lua.fault")
local lathe = require("lathe")
local place = require("lua.place")
local progress = require("lua.progress")
local recipe = require("lua.model.recipe")
local session = require("lua.session")
local tokenizer = require("lua.tokenizer")

local run = { summary = "generate text with a model" }

local CHUNK <const> = 16  -- rows of a prefill step

function run.declare(command)
    command:option("--model", "folder with config.json, tokenizer.json and *.safetensors")
        :count(1)
    command:option("--prompt", "what the text begins with"):default("")
    command:option("-n --count", "tokens to generate", "128")
    command:option("--context", "tokens that there is room for; default: prompt and text")
    command:option("--recipe", "precision: card or reference", "card")
    command:option("--chunk", "rows of a prefill step, 1 to 16", tostring(CHUNK))
    command:flag("--tokens", "print token ids instead of text")
end

local function open(options, capacity)
    local families = choice.catalog()
    local shown <close> = progress.new()
    local start = lathe.now_us()
    return session.open({
        folder = options.model, target = place.open(options.device, families),
        formats = fault.expect(recipe.find(options.recipe)), capacity = capacity,
        tell = function(done, count, bytes)
            local seconds = (lathe.now_us() - start) / 1e6
            shown:show(("weights %d of %d, %.2f GB/s"):format(
                done, count, bytes / seconds / 1e9))
        end,
    })
end

-- Prints tokens as they come: whole characters, or ids.
local function printer(options, tok)
    if options.tokens then
        return { push = function(_, id) io.stdout:write(id, " ") end,
            finish = function() io.stdout:write("\n") end }
    end
    local stream = tok:stream()
    return {
        push = function(_, id)
            io.stdout:write((stream:push(id)))
            io.stdout:flush()
        end,
        finish = function() io.stdout:write(stream:finish() or "", "\n") end,
    }
end

local function report(s, began, first, prompt, generated)
    local seconds = (lathe.now_us() - first) / 1e6
    io.stderr:write(("%d prompt and %d generated tokens, first token after %.3f s, %.1f tok/s on "
        .. "%s\n"):format(prompt, generated, (first - began) / 1e6,
        generated > 1 and (generated - 1) / seconds or 0, s.target.info.model))
end

function run.run(options)
    local count = choice.number("-n", options.count, 1)
    local chunk = choice.number("--chunk", options.chunk, 1)
    if chunk < 1 or chunk > CHUNK then fault.usage("--chunk: 1 to 16 rows can be run at once") end
    local tok = tokenizer.open(options.model .. "/tokenizer.json")
    local ids = tok:encode(options.prompt)
    if #ids == 0 then ids = { tok:find("<|endoftext|>") or 0 } end
    local capacity = choice.number("--context", options.context, 1) or #ids + count
    local began = lathe.now_us()
    local s = open(options, capacity)
    local out = printer(options, tok)
    if not options.tokens then io.stdout:write(options.prompt) end
    local p, first, generated = s:prefill(ids, chunk), nil, 0
    for _ = 1, count do
        local id = s:best(p)
        first = first or lathe.now_us()
        generated = generated + 1
        out:push(id)
        if tok:is_special(id) or s.length >= s.capacity then break end
        p = s:step({ id })
    end
    out:finish()
    report(s, began, first, #ids, generated)
    return 0
end

return run
