-- Checks families at shapes: every kept variant of each, or one. Counts what was compared, keeps
-- what failed and what was refused.
local case = require("lua.case")
local check = require("lua.check")
local choice = require("lua.choice")
local fault = require("lua.fault")
local lathe = require("lathe")
local place = require("lua.place")
local progress = require("lua.progress")
local report = require("lua.report")
local variant = require("gen.variant")

local sweep = {}

-- The shapes that families list, the model's too where `real` says so.
function sweep.jobs(families, real)
    local jobs = {}
    for _, family in ipairs(families) do
        for _, listed in ipairs(check.listed(family, real)) do
            jobs[#jobs + 1] = { family = family, shape = listed.shape, real = listed.real }
        end
    end
    return jobs
end

function sweep.outcome()
    return { rows = {}, failures = {}, families = {},
        counts = { families = 0, shapes = 0, variants = 0, launches = 0, compared = 0, failed = 0,
            refusals = {} } }
end

-- Counts a job once it is known to be served.
function sweep.count_job(outcome, job)
    local counts = outcome.counts
    counts.shapes = counts.shapes + 1
    if not outcome.families[job.family.name] then counts.families = counts.families + 1 end
    outcome.families[job.family.name] = true
end

-- A sentence from below may have the kernel in front already.
local function blame(title, sentence)
    local name = title:gsub("^kernel ", "")
    if sentence:sub(1, #title) == title then return sentence end
    return sentence:sub(1, #name) == name and "kernel " .. sentence or title .. ": " .. sentence
end

function sweep.count_result(outcome, title, result)
    local counts = outcome.counts
    counts.launches = counts.launches + result.launches
    counts.compared = counts.compared + result.compared
    if not result.failed then return end
    counts.failed = counts.failed + 1
    outcome.failures[#outcome.failures + 1] = blame(title, result.failed)
end

-- The variants of a job; none and a refusal where the family has none here.
function sweep.variants(outcome, job, dev, options)
    local served, why = job.family.serves(job.shape)
    local list = {}
    if served and options.all then
        list = variant.kept(job.family, job.shape, dev)
    elseif served then
        list = { options.knobs and choice.variant(job.family, job.shape, dev, options.knobs)
            or variant.default(job.family, job.shape, dev) }
    end
    if #list == 0 then
        local refusals = outcome.counts.refusals
        refusals[#refusals + 1] = check.title(job.family, job.shape) .. ": "
            .. (why or choice.no_variant(job.family, job.shape, dev))
    end
    return list
end

local function emit_all(outcome, target, jobs, options)
    for _, job in ipairs(jobs) do
        job.kernels = {}
        for i, v in ipairs(sweep.variants(outcome, job, target.dev, options)) do
            job.kernels[i] = choice.kernel(job.family, job.shape, v, target.arch, target.dev)
        end
    end
end

-- Fills the cache with several compilers at once; what does not compile is told when it is loaded.
function sweep.build(target, jobs, shown)
    local kernels = {}
    for _, job in ipairs(jobs) do
        table.move(job.kernels, 1, #job.kernels, #kernels + 1, kernels)
    end
    if target.is_cpu or #kernels < 2 then return end
    fault.reach(lathe.build(kernels, function(done, count)
        shown:show(("compiling %d of %d"):format(done, count))
    end))
end

local function lines_of(text) return select(2, text:gsub("\n", "\n")) end

-- The microseconds of a launch: a GPU's median over replays, the CPU device's only one.
local function launch_us(run, result)
    if result.failed then return nil end
    return run.placed.target.is_cpu and result.us or check.time(run).us
end

-- Loads a kernel and runs it on the placed cases: with drawn inputs in every order, with integers
-- in one. Returns the sum of the results, with text_lines, compile_ms and us.
local function check_kernel(target, job, placed, kernel, options)
    local sum = check.nothing()
    local loaded <close>, built = target.device:load(kernel)
    sum.text_lines = lines_of(kernel.text)
    if not loaded then
        if not target.device:sync() then fault.device(built) end  -- the device is lost
        sum.failed = built
        return sum
    end
    sum.compile_ms, sum.registers = built.compile_ms, built.registers
    local some = job.real and target.is_cpu
    local blocks = some and check.blocks(kernel, options.seed) or nil
    for i, each in ipairs(placed) do
        local run <close> = check.ready(each, kernel, loaded, blocks)
        local whole = options.all and i == 1 and not job.real
        local result = check.run(run, check.plays(target, options.seed, whole))
        check.add(sum, result)
        if i == 1 and not options.all then sum.us = launch_us(run, result) end
        if i == 1 and options.output and not result.failed then
            options.output:write_tensors(each.case:rows(run.got))
            options.output:keep()
        end
    end
    return sum
end

local function input_file(options, job)
    if not options.input then return nil end
    local file, why = lathe.tensors(options.input)
    if not file then fault.usage("--in: " .. why) end
    case.check_names(job.family, file, options.input)
    return file
end

-- Cases on the device: drawn inputs, and small integers where every variant is looked at.
local function cases_of(target, job, options)
    local kinds = options.all and job.family.check.exact and { false, true } or { false }
    local cases = setmetatable({}, { __close = function(list)
        for _, placed in ipairs(list) do
            placed.case:free()
            placed:free()
        end
    end })
    for i, integers in ipairs(kinds) do
        local c = case.new({ family = job.family, shape = job.shape, seed = options.seed,
            integers = integers, file = input_file(options, job), path = options.input })
        cases[i] = place.new(target, c, integers or check.is_left())
    end
    return cases
end

local function kernel_row(kernel, sum)
    return { kernel = kernel.name, class = kernel.class, text_lines = sum.text_lines,
        compile_ms = sum.compile_ms, us = sum.us, ulp = sum.ulp, part_of_limit = sum.part,
        compared = sum.compared, failed = sum.failed }
end

local function shape_row(job, sum)
    return { family = job.family.name, shape = choice.words(job.family, job.shape),
        real = job.real or false, variants = #job.kernels, launches = sum.launches,
        compared = sum.compared, ulp = sum.ulp, part_of_limit = sum.part,
        failed = sum.failed_kernels }
end

local function run_job(outcome, target, job, options, shown)
    local placed <close> = cases_of(target, job, options)
    local all = check.nothing()
    all.failed_kernels = 0
    for i, kernel in ipairs(job.kernels) do
        shown:show(("%s: %d of %d"):format(check.title(job.family, job.shape), i, #job.kernels))
        local sum = check_kernel(target, job, placed, kernel, options)
        sweep.count_result(outcome, "kernel " .. kernel.name, sum)
        outcome.counts.variants = outcome.counts.variants + 1
        if sum.failed then all.failed_kernels = all.failed_kernels + 1 end
        check.add(all, sum)
        if not options.all then outcome.rows[#outcome.rows + 1] = kernel_row(kernel, sum) end
    end
    if options.all then outcome.rows[#outcome.rows + 1] = shape_row(job, all) end
end

-- More than one unit is right where sums cancel or the family allows it: then it is said how near.
local function error_cell(ulp, row)
    if row.failed and row.failed ~= 0 then return "FAILED" end
    if ulp == 0 then return "0" end
    local text = report.number(ulp) .. " ulp"
    if ulp <= 1 then return text end
    return ("%s (%s of what is allowed)"):format(text, report.number(row.part_of_limit))
end

local KERNEL_COLUMNS <const> = {
    { "kernel", "kernel" }, { "text_lines", "lines" },
    { "compile_ms", "compile ms", format = report.number },
    { "us", "run us", format = report.number },
    { "ulp", "error", format = error_cell },
}
local SHAPE_COLUMNS <const> = {
    { "family", "family" }, { "shape", "shape" }, { "variants", "variants" },
    { "launches", "launches" }, { "compared", "compared" },
    { "ulp", "worst error", format = error_cell }, { "failed", "failed" },
}

-- Columns and outcome of all jobs on target. options: all, knobs, seed, input (a path), output
-- (output.open).
function sweep.run(options, target, jobs)
    local outcome = sweep.outcome()
    local shown <close> = progress.new()
    emit_all(outcome, target, jobs, options)
    sweep.build(target, jobs, shown)
    for _, job in ipairs(jobs) do
        if #job.kernels > 0 then
            sweep.count_job(outcome, job)
            run_job(outcome, target, job, options, shown)
        end
        job.kernels = nil
    end
    return options.all and SHAPE_COLUMNS or KERNEL_COLUMNS, outcome
end

return sweep
