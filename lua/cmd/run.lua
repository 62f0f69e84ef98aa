-- lathe run: text from a model, streaming.
local aids = require("lua.aids")
local choice = require("lua.choice")
local fault = require("lua.fault")
local lathe = require("lathe")
local loading = require("lua.loading")
local output = require("lua.output")
local sampler = require("lua.sampler")
local tokenizer = require("lua.tokenizer")

local run = { summary = "generate text with a model" }

local CHUNK <const> = 16  -- rows of a prefill step

function run.declare(command)
    loading.declare(command)
    command:option("--prompt", "what the text begins with"):default("")
    command:option("-n --count", "tokens to generate", "128")
    command:option("--context", "tokens that there is room for; default: prompt and text")
    sampler.declare(command)
    command:option("--chunk", "rows of a prefill step, 1 to 16", tostring(CHUNK))
    command:flag("--tokens", "print token ids instead of text")
    command:option("--dump", "show what a site wrote for the prompt's last token: layer3.mlp")
    command:option("--hashes", "write a line a launch to this file: hashes of what it wrote")
end

-- Prints tokens as they come: whole characters, or ids.
local function printer(options, tok)
    if options.tokens then
        return {
            push = function(_, id) io.stdout:write(id, " ") end,
            finish = function() io.stdout:write("\n") end,
        }
    end
    local stream = tok:stream()
    return {
        push = function(_, id)
            io.stdout:write((fault.reach(stream:push(id))))
            io.stdout:flush()
        end,
        finish = function() io.stdout:write(stream:finish() or "", "\n") end,
    }
end

-- The last line: what was done, how fast, on what.
local function report(text)
    local seconds = text.first and (text.last - text.first) / 1e6 or 0
    local speed = seconds > 0 and (text.count - 1) / seconds or 0
    local first = text.first and ("first token after %.3f s"):format(
        (text.first - text.began) / 1e6) or "no token"
    io.stderr:write(("%d prompt and %d generated tokens, %s, %.1f tok/s on %s, %s\n"):format(
        text.prompt, text.count, first, speed, text.session.target.info.model,
        loading.kernels(text.session)))
end

-- However it ends, Ctrl-C included, what was written is a whole line, the hashes are those of all
-- that ran, and the report is the last.
local TEXT <const> = {
    __close = function(text, wrong)
        text.out:finish()
        io.stdout:flush()
        if text.hashes then text.hashes:keep() end
        if not wrong or wrong == "interrupted" then report(text) end
    end,
}

-- The prompt's ids; a model needs one at least.
local function encode(options, tok, config)
    local ids = tokenizer.encode(tok, "--prompt", options.prompt)
    if #ids == 0 then ids[1] = config.bos[1] or tok:find("<|endoftext|>") or 0 end
    loading.check_ids("run", ids, config.vocab)
    return ids
end

-- The tokens that there is to be room for, of a prompt of so many and a model's positions.
local function room_of(options, words, positions)
    local room = options.room
    if not room then
        if options.most <= positions - words then return words + options.most end
        fault.usage(("-n: %d tokens behind %d of the prompt are asked for, the model has %d "
            .. "positions"):format(options.most, words, positions))
    end
    if room > positions then
        fault.usage(("--context: %d tokens are asked for, the model has %d positions"):format(
            room, positions))
    end
    if words > room then
        fault.usage(("--context: the prompt has %d tokens, there is room for %d"):format(
            words, room))
    end
    return room
end

local function watch(options, s, hashes)
    local lines
    if hashes then s.watchers[1] = aids.hashes(hashes) end
    if options.dump then
        s.watchers[#s.watchers + 1], lines = aids.dump(options.dump, s.programs[1])
    end
    return function()  -- the prompt has been read
        if not lines then return end
        table.remove(s.watchers)
        io.stderr:write(table.concat(lines(), "\n"), "\n")
    end
end

local function echo(options)
    if not options.tokens then io.stdout:write(options.prompt) end
    io.stdout:flush()
end

local function generate(options, text, ids, ended)
    local s, endings = text.session, text.endings
    local draw = sampler.new(s, sampler.wanted(options))
    local p = s:prefill(ids, options.rows)
    ended()
    if options.dump then echo(options) end  -- behind its table
    while true do
        local id = draw:pick(p)
        text.last = lathe.now_us()
        text.first = text.first or text.last
        text.count = text.count + 1
        if not endings[id] or options.tokens then text.out:push(id) end
        if endings[id] or text.count == options.most or s.length >= s.capacity then return end
        p = s:step({ id })
    end
end

local function read_numbers(options)
    options.most = choice.number("-n", options.count, 1)
    options.rows = choice.number("--chunk", options.chunk, 1)
    if options.rows > CHUNK then fault.usage("--chunk: 1 to 16 rows can be run at once") end
    options.room = choice.number("--context", options.context, 1)
    sampler.wanted(options)
end

function run.run(options)
    local began = lathe.now_us()
    read_numbers(options)
    local hashes <close> = options.hashes and output.open("--hashes", options.hashes)
    lathe.open_ahead()
    local tok = loading.tokenizer(options)
    local ids
    local s = loading.open(options, function(config)
        ids = encode(options, tok, config)
        return room_of(options, #ids, config.positions)
    end)
    local ended = watch(options, s, hashes)
    local text <close> = setmetatable({
        session = s, out = printer(options, tok), hashes = hashes, began = began, prompt = #ids,
        count = 0, endings = loading.endings(s),
    }, TEXT)
    if not options.dump then echo(options) end
    generate(options, text, ids, ended)
    return 0
end

return run
