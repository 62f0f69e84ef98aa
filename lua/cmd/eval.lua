-- lathe eval: how well a model foresees a text, in nats per token and as perplexity.
local choice = require("lua.choice")
local fault = require("lua.fault")
local input = require("lua.input")
local lathe = require("lathe")
local loading = require("lua.loading")
local progress = require("lua.progress")
local report = require("lua.report")
local tokenizer = require("lua.tokenizer")

local eval = { summary = "nats per token and perplexity of a text" }

local CHUNK <const> = 16    -- rows of a step
local WINDOW <const> = 512  -- predictions that begin with an empty state

function eval.declare(command)
    loading.declare(command)
    command:option("--file", "a text")
    command:option("--ids", "instead: token ids, each line a text of its own")
end

-- The texts of a file of ids: a list for each line that has some.
local function read_ids(path)
    local texts = {}
    for line in (input.read("--ids", path) .. "\n"):gmatch("(.-)\r?\n") do
        local ids = {}
        for word in line:gmatch("%S+") do ids[#ids + 1] = choice.number("--ids", word, 0) end
        if #ids > 0 then texts[#texts + 1] = ids end
    end
    return texts
end

local function read_texts(options)
    if (options.file == nil) == (options.ids == nil) then
        fault.usage("eval: --file or --ids is needed, one of them")
    end
    if options.ids then return read_ids(options.ids) end
    local tok = loading.tokenizer(options)
    return { tokenizer.encode(tok, "--file", input.read("--file", options.file)) }
end

-- The windows of texts: { ids, from, count }: count predictions, the first one from ids[from].
local function windows_of(texts)
    local list, predictions = {}, 0
    for _, ids in ipairs(texts) do
        for from = 1, #ids - 1, WINDOW do
            local count = math.min(WINDOW, #ids - from)
            list[#list + 1] = { ids = ids, from = from, count = count }
            predictions = predictions + count
        end
    end
    if predictions == 0 then fault.usage("eval: a text of two tokens or more is needed") end
    return list, predictions
end

-- The sum of -log p over a window's predictions, and how many these are: tokens that the rank has
-- logits of. tell(count) is called with what is done.
local function run_window(s, w, tell)
    local width <const>, first_row <const> = s.found.config.head_rows, s.found.first_row
    local nats, counted, at = 0.0, 0, 0
    s:reset()
    while at < w.count do
        local rows = w.count - at >= CHUNK and CHUNK or 1
        local first = w.from + at
        local p = s:step({ table.unpack(w.ids, first, first + rows - 1) })
        for row = 0, rows - 1 do
            local token = w.ids[first + row + 1] - first_row
            if token >= 0 and token < width then
                nats, counted = nats + lathe.nll(p.logits, row, width, token), counted + 1
            end
        end
        at = at + rows
        tell(at)
    end
    return nats, counted
end

-- What is known of some predictions; nothing of none.
local function mean(nats, count) return count > 0 and nats / count or nil end

local function print_result(options, r)
    if options.json then return report.json(r) end
    print(("%.5f nats per token, perplexity %.4f: %d predictions in %d windows, recipe %s"):format(
        r.nats, r.perplexity, r.predictions, #r.windows, r.recipe))
    io.stderr:write(("%.1f s, %.1f tok/s on %s, %s\n"):format(r.seconds,
        r.read / r.seconds, r.device, r.kernels))
end

local function none_counted(s)
    local first = s.found.first_row
    return ("eval: no token of the text is one of rank %d, %d to %d (another --rank has some)")
        :format(s.found.rank, first, first + s.found.config.head_rows - 1)
end

-- Runs the windows: the sum of -log p, how many predictions it is of, and each window's own.
local function run_windows(s, list, predictions)
    local shown <close> = progress.new()
    local nats, counted, done, windows = 0.0, 0, 0, {}
    for i, w in ipairs(list) do
        local own, count = run_window(s, w, function(at)
            shown:show(("window %d of %d, token %d of %d, %.4f nats per token so far"):format(
                i, #list, done + at, predictions, mean(nats, counted) or 0))
        end)
        nats, counted, done = nats + own, counted + count, done + w.count
        windows[i] = { predictions = count, nats = mean(own, count) }
    end
    return nats, counted, windows
end

function eval.run(options)
    lathe.open_ahead()
    local texts = read_texts(options)
    local list, predictions = windows_of(texts)
    local s = loading.open(options, function(config)
        for _, ids in ipairs(texts) do loading.check_ids("eval", ids, config.vocab) end
        return WINDOW
    end)
    local start = lathe.now_us()
    local nats, counted, windows = run_windows(s, list, predictions)
    if counted == 0 then fault.usage(none_counted(s)) end
    print_result(options, {
        nats = nats / counted, perplexity = math.exp(nats / counted), predictions = counted,
        read = predictions, windows = windows, recipe = options.recipe, rank = s.found.rank,
        ranks = s.found.ranks, device = s.target.info.model,
        seconds = (lathe.now_us() - start) / 1e6, kernels = loading.kernels(s),
    })
    return 0
end

return eval
