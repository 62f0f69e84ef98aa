-- lathe bench: how long kernels take on cold weights, beside the floor.
local ask = require("lua.plan.ask")
local case = require("lua.case")
local check = require("lua.check")
local choice = require("lua.choice")
local cold = require("lua.cold")
local fault = require("lua.fault")
local floor = require("lua.floor")
local output = require("lua.output")
local page = require("lua.page")
local place = require("lua.place")
local progress = require("lua.progress")
local report = require("lua.report")
local stepbench = require("lua.stepbench")

local bench = { summary = "time a kernel on cold weights: us, GB/s, share of the floor" }

function bench.declare(command)
    command:argument("family", "as `lathe families` lists them; default: all"):args("?")
    command:argument("words", "the shape, such as M=2 N=4096 K=11264; default: the model's")
        :args("*")
    ask.declare_variants(command)
    command:option("--seed", "of the inputs; default: 1")
    command:flag("--wait", "with a shape: wait for a line on stdin when the reference is computed, "
        .. "before the device is opened")
    stepbench.declare(command)
end

local function time(target, copies, kernel)
    local loaded <close>, built = fault.reach(target.device:load(kernel))
    local run <close> = check.ready(copies[1], kernel, loaded)
    local result = check.run(run, check.plays(target, 0, false))
    if result.failed then return { kernel = kernel.name, failed = result.failed } end
    local timing = fault.reach(cold.time(run, copies))
    local least = floor.us(target.info.key, kernel.work)
    return {
        kernel = kernel.name, class = kernel.class, us = timing.us, spread = 100 * timing.spread,
        bytes = kernel.work.bytes, gbps = kernel.work.bytes / timing.us / 1e3, floor = least,
        share = least and 100 * least / timing.us, registers = built.registers,
    }
end

local KERNEL_OPTIONS <const> = { "knobs", "all", "planned", "seed", "wait" }
local MODEL_OPTIONS <const> = { "contexts", "recipe", "ranks", "rank", "pins", "html" }

local function check_options(options, is_model)
    ask.check_variants(options, "bench")
    ask.check_model(options, "bench")
    if is_model and options.family then
        fault.usage("bench: a model's step has its own kernels (give no family)")
    end
    for _, name in ipairs(is_model and KERNEL_OPTIONS or MODEL_OPTIONS) do
        if options[name] then
            fault.usage(("bench: --%s is for %s"):format(name,
                is_model and "a family's kernels" or "--model and --model-shape"))
        end
    end
    if options.wait and #options.words == 0 then
        fault.usage("bench: --wait prepares one shape (give its sizes)")
    end
end

-- Families and shapes that are asked for; without words a family's shapes of the model.
local function jobs_of(options, families)
    local family = options.family and choice.family(families, options.family)
    if #options.words > 0 then
        return { { family = family, shape = choice.shape(family, options.words) } }
    end
    local jobs = {}
    for _, each in ipairs(family and { family } or families.list) do
        for _, s in ipairs(each.check.real or {}) do
            jobs[#jobs + 1] = { family = each, shape = s }
        end
    end
    return jobs
end

local function case_of(job, seed)
    return case.new({ family = job.family, shape = job.shape, seed = seed })
end

-- Appends a row for each variant of a job. made: its case, if there is one already.
local function run_job(target, job, options, seed, rows, made)
    local list, origin = ask.variants(target, job.family, job.shape, options)
    local c <close> = made or case_of(job, seed)
    local copies <close> = cold.copies(target, c)
    for _, v in ipairs(list) do
        local kernel = choice.kernel(job.family, job.shape, v, target.arch, target.dev)
        rows[#rows + 1] = time(target, copies, kernel)
        rows[#rows].chosen = origin and origin.from
    end
end

local function bench_kernels(options)
    local families = choice.catalog()
    local seed = choice.number("--seed", options.seed, 0) or 1
    local jobs = jobs_of(options, families)
    local made = options.wait and case_of(jobs[1], seed) or nil
    if made and not io.read() then fault.usage("bench: --wait: stdin ended without a line") end
    local target = place.open(options.device, families)
    local rows, failed <const>, shown <close> = {}, {}, progress.new()
    for i, job in ipairs(jobs) do
        shown:show(("%s: %d of %d"):format(check.title(job.family, job.shape), i, #jobs))
        run_job(target, job, options, seed, rows, made)
    end
    for _, row in ipairs(rows) do
        if row.failed then failed[#failed + 1] = ("%s: %s"):format(row.kernel, row.failed) end
    end
    report.print(options, {
        { "kernel", "kernel" }, { "us", "us", format = report.number },
        { "spread", "+-%", format = report.number }, { "bytes", "bytes" },
        { "gbps", "GB/s", format = report.number }, { "floor", "floor us", format = report.number },
        { "share", "% of floor", format = report.number },
        options.planned and { "chosen", "chosen" } or nil,
    }, rows, { device = target.info.model, driver = target.info.driver, seed = seed })
    for _, sentence in ipairs(failed) do io.stderr:write("lathe: ", sentence, "\n") end
    return #failed > 0 and 1 or 0
end

local STEPS <const> = {
    { "context", "context" }, { "ms", "ms a token", format = report.number },
    { "spread", "+-%", format = report.number }, { "rate", "tok/s", format = report.number },
    { "launches", "launches" }, { "bytes", "bytes" },
    { "floor_ms", "floor ms", format = report.number },
    { "share", "% of byte floor", format = report.number },
}
local KERNELS <const> = {
    { "kernel", "kernel" }, { "section", "section" }, { "launches", "launches" },
    { "us", "us", format = report.number }, { "spread", "+-%", format = report.number },
    { "chain", "chain us", format = report.number },
    { "total", "us a step", format = report.number },
    { "share", "% of sum", format = report.number }, { "bytes", "bytes" },
    { "gbps", "GB/s", format = report.number }, { "floor", "floor us", format = report.number },
    { "floor_share", "% of floor", format = report.number },
}

-- "NVIDIA H200, driver 580.65"; the CPU device has no driver.
local function machine(about)
    return about.driver == "" and about.device
        or ("%s, driver %s"):format(about.device, about.driver)
end

local function write_page(file, about, r)
    local title = ("%s, rank %d of %d"):format(about.model, about.rank, about.ranks)
    local lines = {
        machine(about) .. ", lathe bench",
        ("The kernels alone take %.3f ms together, at %d tokens."):format(r.sum_us / 1e3,
            r.steps[1].context),
    }
    file:write(page.text({ title = title, lines = lines, key = r.session.target.info.key },
        r.launches, { STEPS, r.steps }, { KERNELS, r.kernels }))
    file:keep()
end

local function bench_model(options)
    local file <close> = options.html and output.open("--html", options.html)
    local r = stepbench.run(options)
    local info, found = r.session.target.info, r.session.found
    local about = {
        model = found.folder, rank = found.rank, ranks = found.ranks, device = info.model,
        driver = info.driver, load_seconds = r.load_seconds, sum_us = r.sum_us,
    }
    if file then write_page(file, about, r) end
    if options.json then
        about.steps, about.kernels = r.steps, r.kernels
        return report.json(about)
    end
    print(("%s, rank %d of %d, on %s; loaded in %.1f s"):format(about.model, about.rank,
        about.ranks, machine(about), about.load_seconds))
    report.print(options, STEPS, r.steps)
    print(("\nkernels alone, at %d tokens: %.3f ms a step"):format(r.steps[1].context,
        r.sum_us / 1e3))
    report.print(options, KERNELS, r.kernels)
end

function bench.run(options)
    local is_model = options.model ~= nil or options.shape_name ~= nil
    check_options(options, is_model)
    if not is_model then return bench_kernels(options) end
    bench_model(options)
    return 0
end

return bench
