-- Finds the fastest right variants of families at shapes. Each kept variant is a candidate: proved
-- right and timed briefly in a worker process, recorded at once; the fastest few are then timed
-- whole, in alternation. What has a record under its text, or its machine code, is not measured
-- again.
local arch = require("gen.arch")
local candidates = require("lua.tune.candidates")
local fault = require("lua.fault")
local finals = require("lua.tune.finals")
local lathe = require("lathe")
local records = require("lua.records")
local remote = require("lua.tune.remote")
local shape = require("gen.shape")
local trial = require("lua.tune.trial")

local tune = {}

-- ---- compiling ahead ----

-- Lets the builder compile what is open of a job. The CPU device's candidates are compiled when
-- they are loaded.
local function build_ahead(self, job)
    if not job then return end
    candidates.prepare(self, job)
    if self.target.is_cpu then return end
    local words = {}
    for _, c in ipairs(job.candidates) do
        if candidates.is_open(self, job, c) then words[#words + 1] = c.knobs end
    end
    if #words == 0 then return end
    self.builder:say("build", job.family.name, shape.text(job.family, job.shape), self.info.arch,
        self.info.sms, table.unpack(words))
    job.is_building = true
end

-- Waits for the builder's answers about a job; false where the budget ends first.
local function collect(self, job)
    if not job.is_building then return true end
    local by_knobs = {}
    for _, c in ipairs(job.candidates) do by_knobs[c.knobs] = c end
    while true do
        local words, kind, why = self.builder:hear(math.max(0, trial.left(self)))
        if kind == "late" then return false end
        if not words then fault.device("tune: the compiling process: " .. why) end
        if words[1] == "done" then return true end
        local c = by_knobs[words[2]]
        if not c then fault.device(words[2]) end
        if words[1] == "built" then candidates.built(self, job, c, words[3]) end
        if words[1] == "failed" then
            candidates.write(self, job, c, { status = "compile-failed", why = words[3], pass = 1 })
        end
    end
end

-- ---- one shape ----

local function duration(seconds)
    if seconds < 120 then return ("%.0f s"):format(seconds) end
    return ("%.0f min"):format(seconds / 60)
end

local function show(self, job, i)
    local share <const> = (job.number - 1 + (i - 1) / #job.candidates) / self.count
    local passed <const> = (lathe.now_us() - self.from_us) / 1e6
    local rest = share > 0 and math.min(trial.left(self), passed / share * (1 - share))
    self.shown:show(("shape %d of %d, candidate %d of %d%s%s: %s %s"):format(job.number,
        self.count, i, #job.candidates, rest and (", %s left"):format(duration(rest)) or "",
        job.best and (", best %.4g us"):format(job.best) or "", job.family.name,
        shape.text(job.family, job.shape)))
end

-- Measures what is open, in order. False where the budget ends first, with a sentence where the
-- shape cannot be tuned.
local function first_pass(self, job)
    for i, c in ipairs(job.candidates) do
        if candidates.is_open(self, job, c) then
            show(self, job, i)
            local fields, why = trial.measure(self, job, c)
            if not fields then return false, why end
            fields.pass = 1
            candidates.write(self, job, c, fields)
            job.measured = job.measured + 1
        end
    end
    return true
end

local function run_job(self, job, next_job)
    candidates.prepare(self, job)
    local done, why = collect(self, job), nil
    if done then
        build_ahead(self, next_job)
        done, why = first_pass(self, job)
    end
    if done then done, why = finals.run(self, job) end
    job.is_done, job.failed = done, why
end

-- ---- all of it ----

local TUNER <const> = { __index = {}, __close = function(self) self:free() end }
local tuner = TUNER.__index

-- Opens the device, in a worker, and its records. options: device, seed, budget (seconds or nil),
-- again, shown (a progress). Close it with <close>.
function tune.open(options, families)
    local self = setmetatable({
        seed = options.seed, again = options.again, shown = options.shown,
        limit = math.tointeger(tonumber(lathe.setting("tune_seconds"))),
        from_us = lathe.now_us(), worker = remote.new(options.device), builder = remote.new(),
        fresh = {}, sentences = {}, has_written = false,
    }, TUNER)
    self.until_us = options.budget and self.from_us + 1e6 * options.budget
    local info, why = self.worker:open(trial.PLACING * self.limit)
    if not info then fault.device(why == "" and "tune: the device does not open" or why) end
    self.info = info
    self.target = {
        families = families, arch = info.arch, dev = arch.device(info.arch, info.sms),
        is_cpu = info.name == "cpu",
    }
    if not self.target.is_cpu and lathe.setting("jit") == "off" then
        fault.usage("tune: LATHE_JIT=off forbids to compile candidates (unset it)")
    end
    self.file = fault.reach(lathe.records(info.key))
    fault.reach(self.file:check())
    self.known = records.load(info.key)
    return self
end

function tuner:free()
    self.worker:stop()
    self.builder:stop()
    if self.file then self.file:free() end
end

-- Tunes jobs, { family, shape } each, and fills them: measured, known, rejected, vanished, is_done;
-- failed: a sentence where the shape cannot be tuned. Jobs behind the end of the budget have no
-- candidates.
function tuner:run(jobs)
    self.count = #jobs
    build_ahead(self, jobs[1])
    for i, job in ipairs(jobs) do
        if trial.left(self) <= 0 then return end
        job.number = i
        run_job(self, job, jobs[i + 1])
    end
end

-- How many of a job's candidates are still to be measured; nil where they were not looked at.
function tuner:open_count(job)
    if not job.candidates then return nil end
    local count = 0
    for _, c in ipairs(job.candidates) do
        if candidates.is_open(self, job, c) then count = count + 1 end
    end
    return count
end

return tune
