-- lathe build: kernels into the cache without a device, several compilers at once; and what the
-- images say about themselves. A family's for a shape, or all of a model's plan.
local ask = require("lua.plan.ask")
local choice = require("lua.choice")
local fault = require("lua.fault")
local lathe = require("lathe")
local plan = require("lua.plan.plan")
local progress = require("lua.progress")
local records = require("lua.records")
local rehearsal = require("lua.plan.rehearsal")
local report = require("lua.report")

local build = { summary = "compile into the cache without a device" }

function build.declare(command)
    command:argument("family", "as `lathe families` lists them; or --model"):args("?")
    command:argument("words", "the shape, such as M=2 N=4096 K=11264"):args("*")
    command:option("--arch", "A[,B]: sm_90a, sm_121a and so on; default: the GPU's")
    ask.declare_variants(command)
    command:option("--sms", "multiprocessors to choose variants for")
    ask.declare_model(command, "instead of a family: the kernels of this checkpoint's plans")
    ask.declare(command)
end

local function archs_of(options)
    if not options.arch then
        local info = select(2, choice.device(options.device))
        if info.arch == "cpu" then
            fault.usage("build: no GPU here whose arch could be meant (say --arch sm_90a)")
        end
        return { info.arch }
    end
    local names = choice.archs(options.arch)
    for _, name in ipairs(names) do
        if name == "cpu" then
            fault.usage("build: the CPU device's code is not kept (it compiles in a millisecond)")
        end
    end
    return names
end

-- What a run of a model needs: for its weights, and for the plans of decode and prefill, or the one
-- that --mode names.
local function kernels_of_model(options)
    local sms, kernels = choice.number("--sms", options.sms, 1), {}
    local model, modes = ask.model(options, ask.found(options, false)), ask.modes(options)
    for _, arch_name in ipairs(archs_of(options)) do
        local target, plans = ask.know(ask.target(arch_name, sms), options), {}
        for i, mode in ipairs(modes) do plans[i] = ask.plan(target, model, mode.rows) end
        local list = rehearsal.kernels(target, model.found, plans[1].weights)
        table.move(list, 1, #list, #kernels + 1, kernels)
        list = plan.kernels(plans)
        table.move(list, 1, #list, #kernels + 1, kernels)
    end
    return kernels
end

local function kernels_of_family(options)
    local family = choice.family(choice.catalog(), options.family)
    local s = choice.shape(family, options.words)
    local sms, kernels = choice.number("--sms", options.sms, 1), {}
    for _, arch_name in ipairs(archs_of(options)) do
        local target = ask.target(arch_name, sms)
        for _, v in ipairs(ask.variants(target, family, s, options)) do
            kernels[#kernels + 1] = choice.kernel(family, s, v, arch_name, target.dev)
        end
    end
    return kernels
end

-- The parameters as a program that launches the kernel needs them.
local function params_of(kernel)
    local list = {}
    for i, p in ipairs(kernel.params) do
        local kind = p.scratch and "scratch" or p.inout and "inout" or p.out and "out" or "in"
        list[i] = { name = p.name, ctype = p.ctype, extents = p.extents, bytes = p.bytes,
            kind = kind, layout = p.layout }
    end
    return list
end

local function rows_of(kernels, reports)
    local rows = {}
    for i, kernel in ipairs(kernels) do
        local row = reports[i]
        row.kernel, row.arch, row.class = kernel.name, kernel.arch, kernel.class
        row.shared = row.shared_bytes + kernel.launch.shared
        row.launch, row.params, row.work = kernel.launch, params_of(kernel), kernel.work
        row.text = records.digest(kernel)
        row.code = row.code and records.code(row.code, records.launch(kernel))
        rows[i] = row
    end
    return rows
end

local function origin_cell(origin, row) return row.failed and "FAILED" or origin end

-- Each sentence once: without a compiler every kernel fails in the same way.
local function print_failures(rows)
    local failed, said = 0, {}
    for _, row in ipairs(rows) do
        if row.failed then
            failed = failed + 1
            if not said[row.failed] then
                said[row.failed] = true
                io.stderr:write("lathe: ", row.failed, "\n")
            end
        end
    end
    return failed
end

-- Refuses words that do not go together.
local function check_words(options)
    ask.check_variants(options, "build")
    ask.check_model(options, "build")
    local of_model = options.model or options.shape_name
    if not options.family and not of_model then
        fault.usage("build: what? (give a family and its shape, or --model)")
    end
    local others = of_model and { "family", "all", "knobs", "planned" }
        or { "mode", "rows", "recipe", "context", "ranks", "rank", "pins" }
    for _, name in ipairs(others) do
        if options[name] then
            fault.usage(of_model and "build: --model chooses families and variants by itself"
                or ("build: --%s is a word of --model"):format(name))
        end
    end
end

function build.run(options)
    check_words(options)
    fault.expect(lathe.prepare())
    local kernels = ((options.model or options.shape_name) and kernels_of_model
        or kernels_of_family)(options)
    local reports
    do
        local shown <close> = progress.new()
        reports = fault.reach(lathe.build(kernels, function(done, count)
            shown:show(("build %d of %d"):format(done, count))
        end))
    end
    local rows = rows_of(kernels, reports)
    report.print(options, {
        { "kernel", "kernel" }, { "arch", "arch" }, { "registers", "registers" },
        { "spills", "spills" }, { "shared", "shared" }, { "image_bytes", "bytes" },
        { "compile_ms", "ms", format = report.number },
        { "origin", "from", format = origin_cell },
    }, rows)
    return print_failures(rows) > 0 and 1 or 0
end

return build
