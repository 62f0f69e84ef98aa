-- A GPU against the CPU device: the same text on the same inputs must give the same bits. Variants
-- are those for one multiprocessor, so that both run the same ones.
local arch = require("gen.arch")
local case = require("lua.case")
local check = require("lua.check")
local choice = require("lua.choice")
local fault = require("lua.fault")
local lathe = require("lathe")
local place = require("lua.place")
local progress = require("lua.progress")
local sweep = require("lua.sweep")

local bits = {}

local CPU_ARCH <const> = "cpu"  -- the text that the CPU device runs

-- The GPU and the CPU device, both with the facts of one multiprocessor.
local function open_both(options, families)
    local gpu = place.open(options.device, families)
    if gpu.is_cpu then
        fault.device("check: --bits compares a GPU with the CPU device, and there is no GPU here")
    end
    if arch.get(gpu.arch).text ~= arch.get(CPU_ARCH).text then
        fault.device(("check: --bits: the CPU device plays %s, %s is %s"):format(
            arch.get(CPU_ARCH).text, gpu.info.name, gpu.arch))
    end
    local cpu = place.open("cpu", families)
    gpu.dev, cpu.dev = arch.device(gpu.arch, 1), arch.device(cpu.arch, 1)
    return gpu, cpu
end

-- What one device makes of a case; nil and a sentence.
local function outputs(placed, kernel, blocks, mine)
    local loaded <close>, built = placed.target.device:load(kernel)
    if not loaded then
        if not placed.target.device:sync() then fault.device(built) end  -- it is lost
        return nil, built
    end
    local run = check.ready(placed, kernel, loaded, blocks)
    mine[#mine + 1] = run
    return check.outputs(run)
end

local function compare(kernel, on_cpu, on_gpu, sampled)
    local result = check.nothing()
    result.launches = 2
    for _, p in ipairs(kernel.params) do
        if p.out then
            local d = lathe.compare_bits(on_cpu[p.name], on_gpu[p.name], sampled)
            check.note(result, p, d, "on the GPU")
        end
    end
    return result
end

local function failed(sentence)
    local result = check.nothing()
    result.failed = sentence
    return result
end

-- One variant on both devices.
local function run_variant(pair, job, v, options)
    local kernels = {}
    for i, placed in ipairs(pair) do
        kernels[i] = choice.kernel(job.family, job.shape, v, placed.target.arch, placed.target.dev)
    end
    local blocks = job.real and check.blocks(kernels[2], options.seed) or nil
    local runs <close> = setmetatable({}, { __close = function(list)
        for _, run in ipairs(list) do run:free() end
    end })
    local on_gpu, gpu_why = outputs(pair[1], kernels[1], nil, runs)
    if not on_gpu then return failed("GPU: " .. gpu_why) end
    local on_cpu, cpu_why = outputs(pair[2], kernels[2], blocks, runs)
    if not on_cpu then return failed("CPU device: " .. cpu_why) end
    return compare(kernels[2], on_cpu, on_gpu, blocks ~= nil)
end

local function run_job(outcome, gpu, cpu, job, options, shown)
    local all = { all = not options.knobs, knobs = options.knobs }
    local list = sweep.variants(outcome, job, cpu.dev, all)
    if #list == 0 then return end
    sweep.count_job(outcome, job)
    local c <close> = case.new({ family = job.family, shape = job.shape, seed = options.seed })
    local on_gpu <close> = place.new(gpu, c)
    local on_cpu <close> = place.new(cpu, c)
    local row = { family = job.family.name, shape = choice.words(job.family, job.shape),
        real = job.real or false, variants = #list, compared = 0, differ = 0, failed = 0 }
    for i, v in ipairs(list) do
        shown:show(("%s: %d of %d"):format(check.title(job.family, job.shape), i, #list))
        local result = run_variant({ on_gpu, on_cpu }, job, v, options)
        local name = choice.kernel_name(job.family, job.shape, v)
        sweep.count_result(outcome, "kernel " .. name, result)
        outcome.counts.variants = outcome.counts.variants + 1
        row.compared, row.differ = row.compared + result.compared, row.differ + result.failures
        if result.failed then row.failed = row.failed + 1 end
    end
    outcome.rows[#outcome.rows + 1] = row
end

local COLUMNS <const> = {
    { "family", "family" }, { "shape", "shape" },
    { "real", "blocks", format = function(real) return real and "some" or "all" end },
    { "variants", "variants" }, { "compared", "compared" }, { "differ", "elements that differ" },
    { "failed", "failed" },
}

-- The samples of each family whole, and the last of its real shapes on some blocks: that one is the
-- model's on one GPU.
function bits.jobs(families)
    local jobs = sweep.jobs(families, false)
    for _, family in ipairs(families) do
        local real = family.check.real or {}
        if #real > 0 then
            jobs[#jobs + 1] = { family = family, shape = real[#real], real = true }
        end
    end
    return jobs
end

local function build_gpu(gpu, jobs, options, shown)
    local built = {}
    for i, job in ipairs(jobs) do
        built[i] = { kernels = {} }
        local all = { all = not options.knobs, knobs = options.knobs }
        for j, v in ipairs(sweep.variants(sweep.outcome(), job, gpu.dev, all)) do
            built[i].kernels[j] = choice.kernel(job.family, job.shape, v, gpu.arch, gpu.dev)
        end
    end
    sweep.build(gpu, built, shown)
end

function bits.run(options, families, jobs)
    local gpu, cpu = open_both(options, families)
    local outcome = sweep.outcome()
    local shown <close> = progress.new()
    build_gpu(gpu, jobs, options, shown)
    for _, job in ipairs(jobs) do run_job(outcome, gpu, cpu, job, options, shown) end
    return COLUMNS, outcome
end

return bits
