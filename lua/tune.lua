-- Finds the fastest right variants of families at shapes. Each kept variant is a candidate: proved
-- right and timed briefly in a worker process, recorded at once; the fastest few are then timed
-- whole, in alternation. What has a record under its text is not measured again.
local arch = require("gen.arch")
local choice = require("lua.choice")
local fault = require("lua.fault")
local floor = require("lua.floor")
local lathe = require("lathe")
local records = require("lua.records")
local remote = require("lua.tune.remote")
local shape = require("gen.shape")
local variant = require("gen.variant")

local tune = {}

local PLACING <const> = 20    -- times a candidate's limit: drawing inputs, packing, the reference
local HOPELESS <const> = 1.5  -- times the best so far: such a one is not timed further
local NEAR <const> = 1.03     -- times the floor: no other of the class can be much better
local BEST <const> = 3        -- that are timed again; a brief timing orders what is this near
local RIVAL <const> = 1.1     -- times the best: then the best of another class is timed again too
local ROUNDS <const> = 2
local FOREVER <const> = 86400 -- seconds

-- Seconds of the budget that are left.
local function left(self)
    return self.until_us and (self.until_us - lathe.now_us()) / 1e6 or FOREVER
end

-- ---- candidates ----

local function candidate(self, job, v)
    local kernel = choice.kernel(job.family, job.shape, v, self.target.arch, self.target.dev)
    local l = kernel.launch
    return {
        knobs = variant.text(job.family, v), class = kernel.class, name = kernel.name,
        text = records.digest(kernel), floor = floor.us(self.info.key, kernel.work),
        launch = ("%s %d %d"):format(table.concat(l.grid, ","), l.block, l.shared),
    }
end

-- What is recorded of a candidate and still counts.
local function recorded(self, job, c)
    local record = self.known:find(job.family, job.shape, c.knobs, c.text)
    return record and (not self.again or self.fresh[record]) and record or nil
end

local function is_near_floor(record)
    return record.us and record.floor and record.us <= NEAR * record.floor
end

-- Notes what a record says of its shape: the best so far, and classes that are near the floor.
local function note(job, record)
    if not records.is_right(record) then return end
    job.best = math.min(job.best or math.huge, record.us)
    if is_near_floor(record) then job.near[record.class] = true end
end

-- Fills job: its candidates in order, how many of them are known.
local function prepare(self, job)
    if job.candidates then return end
    job.candidates, job.near, job.codes = {}, {}, {}
    job.known, job.measured, job.rejected = 0, 0, 0
    for i, v in ipairs(variant.kept(job.family, job.shape, self.target.dev)) do
        local c = candidate(self, job, v)
        local record = recorded(self, job, c)
        job.candidates[i] = c
        if record then
            job.known = job.known + 1
            note(job, record)
        end
    end
    job.vanished = self.known:vanished(job.family, job.shape, self.target.dev)
end

-- Has it to be measured?
local function is_open(self, job, c) return not recorded(self, job, c) and not job.near[c.class] end

-- ---- records ----

local function write(self, job, c, fields)
    local record = records.key(self.info.key, job.family, job.shape)
    record.class, record.knobs, record.text = c.class, c.knobs, c.text
    record.floor, record.seed = c.floor, self.seed
    for field, value in pairs(fields) do record[field] = value end
    local line = records.line(record)
    fault.reach(self.file:append(line))
    record = records.parse(line)
    self.known:add(record, "own")
    self.fresh[record] = true
    self.written = self.written + 1
    note(job, record)
    if not records.is_right(record) then
        job.rejected = job.rejected + 1
        self.sentences[#self.sentences + 1] = ("kernel %s: %s: %s"):format(
            c.name, record.status, record.why)
    end
    lathe.debug(3, ("tune %s: %s %s"):format(c.name, record.status,
        record.us and ("%.4g us"):format(record.us) or record.why))
end

-- ---- compiling ahead ----

-- Lets the builder compile what is open of a job. The CPU device's candidates are compiled when
-- they are loaded.
local function build_ahead(self, job)
    if not job then return end
    prepare(self, job)
    if self.target.is_cpu then return end
    local words = {}
    for _, c in ipairs(job.candidates) do
        if is_open(self, job, c) then words[#words + 1] = c.knobs end
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
        local words, kind, why = self.builder:hear(math.max(0, left(self)))
        if kind == "late" then return false end
        if not words then fault.device("tune: the compiling process: " .. why) end
        if words[1] == "done" then return true end
        local c = by_knobs[words[2]]
        if not c then fault.device(words[2]) end
        if words[1] == "built" then c.code = words[3] .. " " .. c.launch end
        if words[1] == "failed" then
            write(self, job, c, { status = "compile-failed", why = words[3], pass = 1 })
        end
    end
end

-- ---- one candidate ----

-- What a worker's answer, or its absence, means: fields of a record.
local function judge(self, words, kind, how)
    if kind == "late" then
        local text = "no answer within %d s (LATHE_TUNE_SECONDS)"
        return { status = "hang", why = text:format(self.limit) }
    end
    if not words then return { status = "crash", why = how } end
    if words[1] == "ok" then
        return { status = "ok", us = tonumber(words[2]), spread = tonumber(words[3]) }
    end
    if words[1] == "failed" or not self.target.is_cpu and words[1] == "device-error" then
        self.worker:stop()  -- it has ended, or its device is lost
    end
    return { status = words[1] == "failed" and "device-error" or words[1], why = words[2] }
end

-- Asks the worker for a candidate: fields of a record; nil where the budget ends first, with a
-- sentence where the shape cannot be placed.
local function ask(self, job, request, c)
    local seconds <const> = left(self)
    if seconds <= 0 then return nil end
    local placed, why = self.worker:place(math.min(PLACING * self.limit, seconds),
        job.family.name, shape.text(job.family, job.shape), self.seed)
    if not placed then
        if left(self) <= 0 then return nil end
        return nil, why == "" and "its inputs are not ready in time (LATHE_TUNE_SECONDS)" or why
    end
    local limit <const> = math.min(self.limit, math.max(0, left(self)))
    local words, kind, how = self.worker:ask(limit, request, c.knobs, c.text)
    if kind == "late" and limit < self.limit then return nil end
    return judge(self, words, kind, how)
end

-- As ask; a candidate whose code another one has, which was measured, is that one again.
local function measure(self, job, c)
    local twin = c.code and job.codes[c.code]
    if twin then
        return { status = twin.status, us = twin.us, spread = twin.spread, why = twin.why,
            same = twin.knobs }
    end
    local fields, why = ask(self, job, "try", c)
    if not fields then return nil, why end
    if fields.us and job.best and fields.us > HOPELESS * job.best then fields.status = "dropped" end
    if c.code then
        job.codes[c.code] = { knobs = c.knobs, status = fields.status, us = fields.us,
            spread = fields.spread, why = fields.why }
    end
    return fields
end

-- ---- one shape ----

local function duration(seconds)
    if seconds < 120 then return ("%.0f s"):format(seconds) end
    return ("%.0f min"):format(seconds / 60)
end

local function show(self, job, i)
    local share <const> = (job.number - 1 + (i - 1) / #job.candidates) / self.count
    local passed <const> = (lathe.now_us() - self.from_us) / 1e6
    local rest = share > 0 and math.min(left(self), passed / share * (1 - share))
    self.shown:show(("%s %s (%d of %d): candidate %d of %d%s%s"):format(job.family.name,
        shape.text(job.family, job.shape), job.number, self.count, i, #job.candidates,
        job.best and (", best %.4g us"):format(job.best) or "",
        rest and (", %s left"):format(duration(rest)) or ""))
end

-- Measures what is open, in order. False where the budget ends first, with a sentence where the
-- shape cannot be tuned.
local function first_pass(self, job)
    for i, c in ipairs(job.candidates) do
        if is_open(self, job, c) then
            show(self, job, i)
            local fields, why = measure(self, job, c)
            if not fields then return false, why end
            fields.pass = 1
            write(self, job, c, fields)
            job.measured = job.measured + 1
        end
    end
    return true
end

-- The fastest few, and the fastest of each class that is near them, the fastest first.
local function finalists(self, job)
    local right, list, classes = {}, {}, {}
    for i, c in ipairs(job.candidates) do
        local record = recorded(self, job, c)
        if record and record.status == "ok" and not record.same then
            right[#right + 1] = { c = c, us = record.us, place = i, is_final = record.pass == 2 }
        end
    end
    table.sort(right, function(a, b)
        if a.us ~= b.us then return a.us < b.us end
        return a.place < b.place
    end)
    local is_done = false
    for i, each in ipairs(right) do
        local first = not classes[each.c.class]
        classes[each.c.class] = true
        is_done = is_done or each.is_final
        local wanted = i <= BEST and each.us <= HOPELESS * right[1].us
            or first and each.us <= RIVAL * right[1].us
        if wanted then list[#list + 1] = each end
    end
    return is_done and job.measured == 0 and {} or list
end

-- Times them whole, one after the other, in rounds. One that fails now is recorded so.
local function run_rounds(self, job, list)
    for _ = 1, ROUNDS do
        for _, each in ipairs(list) do
            local fields, why = nil, nil
            if not each.failed then fields, why = ask(self, job, "time", each.c) end
            if not each.failed and not fields then return false, why end
            if fields and not fields.us then
                each.failed = true
                write(self, job, each.c, fields)
            elseif fields then
                table.insert(each, fields.us)
            end
        end
    end
    return true
end

-- The fastest is written first: whatever happens then, it is among those that count.
local function second_pass(self, job)
    local list, right = finalists(self, job), {}
    local done, why = run_rounds(self, job, list)
    if not done then return false, why end
    for _, each in ipairs(list) do
        if not each.failed then
            each.us = math.min(table.unpack(each))
            each.spread = 100 * (math.max(table.unpack(each)) - each.us) / each.us
            right[#right + 1] = each
        end
    end
    table.sort(right, function(a, b) return a.us < b.us end)
    for _, each in ipairs(right) do
        write(self, job, each.c, { status = "ok", us = each.us, spread = each.spread, pass = 2 })
    end
    return true
end

local function run_job(self, job, next_job)
    prepare(self, job)
    local done, why = collect(self, job), nil
    build_ahead(self, next_job)
    if done then done, why = first_pass(self, job) end
    if done then done, why = second_pass(self, job) end
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
        fresh = {}, sentences = {}, written = 0,
    }, TUNER)
    self.until_us = options.budget and self.from_us + 1e6 * options.budget
    local info, why = self.worker:open(PLACING * self.limit)
    if not info then fault.device(why == "" and "tune: the device does not open" or why) end
    self.info = info
    self.target = {
        families = families, arch = info.arch, dev = arch.device(info.arch, info.sms),
        is_cpu = info.name == "cpu",
    }
    self.known = records.load(info.key)
    self.file = fault.reach(lathe.records(info.key))
    fault.reach(self.file:check())
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
        if left(self) <= 0 then return end
        job.number = i
        run_job(self, job, jobs[i + 1])
    end
end

-- How many of a job's candidates are still to be measured.
function tuner:open_count(job)
    local count = 0
    for _, c in ipairs(job.candidates or {}) do
        if is_open(self, job, c) then count = count + 1 end
    end
    return count
end

return tune
