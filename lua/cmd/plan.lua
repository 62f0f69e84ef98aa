-- lathe plan: the launches of a step of a model, their buffers and floors; or, with --check, what a
-- checkpoint holds and whether it is whole, for which no device is needed.
local ask = require("lua.plan.ask")
local checkpoint = require("lua.model.checkpoint")
local choice = require("lua.choice")
local digest = require("lua.plan.digest")
local fault = require("lua.fault")
local render = require("lua.plan.render")
local report = require("lua.report")

local plan = { summary = "the launches of a model's step; what a checkpoint holds" }

local SHOWN <const> = 20  -- sentences of a kind; --json has them all

function plan.declare(command)
    ask.declare_model(command, "folder of the checkpoint: config.json and safetensors")
    ask.declare(command)
    command:option("--arch", "plan for its usual device: sm_90a and so on; default: the device's")
    command:option("--sms", "with --arch: multiprocessors of that device")
    command:flag("--dry", "ask no device and read no weight: headers are enough")
    command:flag("--check", "compare config, index, headers and tensors; 1 where one is wrong")
    command:flag("--scan", "with --check: read the scales too, of any size; else below 1 GB")
end

-- A row for each class and format, in the order of the model.
local function rows_of(parts)
    local rows, by_key = {}, {}
    for _, part in ipairs(parts) do
        local key = part.class .. "/" .. (part.format or "")
        local row = by_key[key]
        if part.format and not row then
            row = { class = part.class, format = part.format, count = 0, bytes = 0 }
            by_key[key] = row
            rows[#rows + 1] = row
        end
        if row then row.count, row.bytes = row.count + 1, row.bytes + part.bytes end
    end
    return rows
end

local function count_of(list, wanted)
    local n = 0
    for _, each in ipairs(list) do n = n + (each == wanted and 1 or 0) end
    return n
end

local function describe(found)
    local c = found.config
    return ("%s: glm5_next, %d layers (%d KDA, %d DSA; %d dense, %d MoE of %d experts)%s"):format(
        found.folder, c.layers, count_of(c.kinds, "kda"), count_of(c.kinds, "dsa"),
        count_of(c.ffns, "dense"), count_of(c.ffns, "moe"), c.experts,
        found.mtp and " and an MTP layer" or "")
end

local function totals(found)
    local t = { tensors = #(found.list or {}), bytes = found.bytes or 0, unused_tensors = 0 }
    for _, row in ipairs(found.unused) do
        t.unused_tensors = t.unused_tensors + row.count
    end
    return t
end

-- Calls tell for the first sentences of each kind, and says how many it left out.
local function tell_some(list, tell)
    local counts, order = {}, {}
    for _, each in ipairs(list) do
        if not counts[each.kind] then
            counts[each.kind] = 0
            order[#order + 1] = each.kind
        end
        counts[each.kind] = counts[each.kind] + 1
        if counts[each.kind] <= SHOWN then tell(each.text) end
    end
    for _, kind in ipairs(order) do
        if counts[kind] > SHOWN then
            tell(("%d more (%s): --json lists them"):format(counts[kind] - SHOWN, kind))
        end
    end
end

local function print_table(options, found, rows)
    print(describe(found))
    print()
    report.print(options, {
        { "class", "tensors" }, { "format", "format" }, { "count", "count" }, { "bytes", "bytes" },
    }, rows)
    local t = totals(found)
    print(("\n%d tensors in %d file%s, %d bytes; %d unused"):format(t.tensors, #found.files,
        #found.files == 1 and "" or "s", t.bytes, t.unused_tensors))
    for _, row in ipairs(found.unused) do
        print(("unused: %s (%d tensors, %d bytes)"):format(row.name, row.count, row.bytes))
    end
end

local function print_all(options, found)
    local rows = rows_of(found.parts or {})
    if options.json then
        local all = totals(found)
        all.rows, all.notes, all.faults, all.unused = rows, found.notes, found.faults, found.unused
        all.scanned = found.scanned or false
        report.json(all)
    else
        if found.parts then print_table(options, found, rows) end
        local notes = {}
        for i, text in ipairs(found.notes) do notes[i] = { kind = "notes", text = text } end
        tell_some(notes, function(text) print("note: " .. text) end)
        if #found.faults == 0 then print("no fault") end
    end
    tell_some(found.faults, function(text) io.stderr:write("lathe: ", text, "\n") end)
end

local function check(options)
    local found, why = checkpoint.open(options.model, options.scan)
    if not found then fault.usage(("plan: --model: %s"):format(why)) end
    local held <close> = found
    print_all(options, held)
    return #held.faults > 0 and 1 or 0
end

-- For whom: --arch, else the device, which --dry does not open.
local function target_of(options)
    local sms = choice.number("--sms", options.sms, 1)
    if sms and not options.arch then fault.usage("--sms: whose? (say --arch too)") end
    if options.arch then return ask.target(choice.arch(options.arch), sms) end
    if options.dry then return ask.target(options.device == "cpu" and "cpu" or "sm_90a") end
    return ask.device(options.device)
end

local function show(options)
    local mode, target = ask.mode(options), ask.know(target_of(options), options)
    local scan
    if options.dry then scan = false end
    local model, known = ask.model(options, ask.found(options, scan)), {}
    local made = ask.plan(target, model, mode.rows, known)
    render.print(options, render.table(made, {
        recipe = model.recipe, arch = target.arch, mode = mode.mode, rows_a_step = mode.rows,
        rank = model.found.rank, ranks = model.found.ranks, context = model.context,
        digest = digest.of(target, model, mode, made),
        choices = model.found.ranks > 1 and digest.of_ranks(target, model, mode.rows) or nil,
        largest_context = ask.largest_context(target, model, mode.rows, known),
        device = target.named, device_bytes = target.memory,
    }))
    return 0
end

function plan.run(options)
    local names = {
        "mode", "rows", "recipe", "context", "ranks", "rank", "pins", "arch", "sms", "dry",
    }
    for _, name in ipairs(names) do
        if options.check and options[name] then
            fault.usage(("plan: --check knows no --%s (it looks at the checkpoint alone)"):format(
                name))
        end
    end
    ask.check_model(options, "plan", true)
    if options.check and options.shape_name then
        fault.usage("plan: --check looks at a checkpoint, and --model-shape has none")
    end
    if options.scan and not options.check then fault.usage("plan: --scan is a word of --check") end
    return (options.check and check or show)(options)
end

return plan
