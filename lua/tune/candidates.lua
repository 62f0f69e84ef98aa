-- The candidates of a job, a family at a shape, and what is recorded of them.
local choice = require("lua.choice")
local fault = require("lua.fault")
local floor = require("lua.floor")
local lathe = require("lathe")
local records = require("lua.records")
local variant = require("gen.variant")

local candidates = {}

local NEAR <const> = 1.03  -- times the floor: no other of the class can be much better

local function candidate(self, job, v)
    local kernel = choice.kernel(job.family, job.shape, v, self.target.arch, self.target.dev)
    return {
        knobs = variant.text(job.family, v), class = kernel.class, template = kernel.template,
        name = kernel.name,
        text = records.digest(kernel), floor = floor.us(self.info.key, kernel.work),
        launch = records.launch(kernel),
    }
end

-- What is recorded of a candidate and still counts.
function candidates.recorded(self, job, c)
    local record = self.known:find(job.family, job.shape, c.knobs, c.text)
    return record and (not self.again or self.fresh[record]) and record or nil
end

local function is_near_floor(record)
    return record.us and record.floor and record.us <= NEAR * record.floor
end

-- Notes what a record says of its shape: the best so far, and classes that are near the floor; a
-- candidate that is not right counts as rejected, and sentences get one that says why.
local function note(job, c, record, sentences)
    if not records.is_right(record) then
        job.rejected = job.rejected + 1
        sentences[#sentences + 1] = ("kernel %s: %s: %s"):format(c.name, record.status, record.why)
        return
    end
    job.best = math.min(job.best or math.huge, record.us)
    if is_near_floor(record) then job.near[record.class] = true end
end

-- The same for what need not be measured.
local function note_known(job, c, record)
    job.known = job.known + 1
    note(job, c, record, job.reasons)
end

-- Fills job: its candidates in order, how many of them are known and rejected, the reasons of those
-- that were recorded before.
function candidates.prepare(self, job)
    if job.candidates then return end
    job.candidates, job.near, job.codes, job.reasons = {}, {}, {}, {}
    job.known, job.measured, job.rejected = 0, 0, 0
    for i, v in ipairs(variant.kept(job.family, job.shape, self.target.dev)) do
        local c = candidate(self, job, v)
        local record = candidates.recorded(self, job, c)
        job.candidates[i] = c
        if record then note_known(job, c, record) end
    end
    job.vanished = self.known:vanished(job.family, job.shape, self.target.dev)
end

-- Has it to be measured?
function candidates.is_open(self, job, c)
    return not job.near[c.class] and not candidates.recorded(self, job, c)
end

-- A record on the disk, as it is read again.
local function append(self, record)
    local line, before = records.line(record), self.has_written
    self.has_written = true  -- before: an interrupt behind the append finds it so
    local done, why = self.file:append(line)
    self.has_written = before or done ~= nil
    fault.reach(done, why)
    record = records.parse(line)
    self.known:add(record, "own")
    return record
end

-- A candidate was compiled to `machine`. Where a record of another text has the same, nothing has
-- changed: it holds for this text too, in both regimes.
function candidates.built(self, job, c, machine)
    c.code = records.code(machine, c.launch)
    local old = not self.again and self.known:coded(job.family, job.shape, c.knobs, c.code)
    if not old or old.text == c.text then return end
    local behind = self.known:find(job.family, job.shape, c.knobs, old.text, records.CHAIN)
    if behind then append(self, records.with_text(behind, c.text)) end
    note_known(job, c, append(self, records.with_text(old, c.text)))
end

-- Records fields of a candidate, on the disk when this returns.
function candidates.write(self, job, c, fields)
    local record = records.key(self.info.key, job.family, job.shape)
    record.class, record.knobs, record.text, record.code = c.class, c.knobs, c.text, c.code
    record.floor, record.seed = c.floor, self.seed
    for field, value in pairs(fields) do record[field] = value end
    record = append(self, record)
    self.fresh[record] = true
    note(job, c, record, self.sentences)
    lathe.debug(3, ("tune %s: %s %s"):format(c.name, record.status,
        record.us and ("%.4g us"):format(record.us) or record.why))
end

return candidates
