-- lathe bench: how long kernels take on cold inputs, beside the floor.
local case = require("lua.case")
local check = require("lua.check")
local choice = require("lua.choice")
local cold = require("lua.cold")
local fault = require("lua.fault")
local floor = require("lua.floor")
local place = require("lua.place")
local progress = require("lua.progress")
local report = require("lua.report")
local variant = require("gen.variant")

local bench = { summary = "time a kernel on cold inputs: us, GB/s, share of the floor" }

function bench.declare(command)
    command:argument("family", "as `lathe families` lists them; default: all"):args("?")
    command:argument("words", "the shape, such as M=2 N=4096 K=11264; default: the model's")
        :args("*")
    command:option("--knobs", "k=v,..: instead of the default variant's values")
    command:flag("--all", "every kept variant")
    command:option("--seed", "of the inputs", "1")
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

local function check_options(options)
    if options.all and options.knobs then
        fault.usage("bench: --all and --knobs ask for different variants (give one of them)")
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

-- Appends a row for each variant of a job.
local function run_job(target, job, options, seed, rows)
    local list = options.all and variant.kept(job.family, job.shape, target.dev)
        or { choice.variant(job.family, job.shape, target.dev, options.knobs) }
    local c <close> = case.new({ family = job.family, shape = job.shape, seed = seed })
    local copies <close> = cold.copies(target, c)
    for _, v in ipairs(list) do
        local kernel = choice.kernel(job.family, job.shape, v, target.arch, target.dev)
        rows[#rows + 1] = time(target, copies, kernel)
    end
end

function bench.run(options)
    check_options(options)
    local families = choice.catalog()
    local seed = choice.number("--seed", options.seed, 0)
    local jobs = jobs_of(options, families)
    local target = place.open(options.device, families)
    local rows, failed <const>, shown <close> = {}, {}, progress.new()
    for i, job in ipairs(jobs) do
        shown:show(("%s: %d of %d"):format(check.title(job.family, job.shape), i, #jobs))
        run_job(target, job, options, seed, rows)
    end
    for _, row in ipairs(rows) do
        if row.failed then failed[#failed + 1] = ("%s: %s"):format(row.kernel, row.failed) end
    end
    report.print(options, {
        { "kernel", "kernel" }, { "us", "us", format = report.number },
        { "spread", "+-%", format = report.number }, { "bytes", "bytes" },
        { "gbps", "GB/s", format = report.number }, { "floor", "floor us", format = report.number },
        { "share", "% of floor", format = report.number },
    }, rows, { device = target.info.model, driver = target.info.driver, seed = seed })
    for _, sentence in ipairs(failed) do io.stderr:write("lathe: ", sentence, "\n") end
    return #failed > 0 and 1 or 0
end

return bench
