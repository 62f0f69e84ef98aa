-- One candidate in a worker process: what its answer, or the absence of one, says of it.
local lathe = require("lathe")
local shape = require("gen.shape")

local trial = {}

local FOREVER <const> = 86400  -- seconds

trial.PLACING = 20    -- times a candidate's limit: drawing inputs, packing, the reference
trial.HOPELESS = 1.5  -- times the best so far: such a one is not timed further

-- Seconds of the budget that are left.
function trial.left(self)
    return self.until_us and (self.until_us - lathe.now_us()) / 1e6 or FOREVER
end

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
function trial.ask(self, job, request, c)
    local seconds <const> = trial.left(self)
    if seconds <= 0 then return nil end
    local placed, why = self.worker:place(math.min(trial.PLACING * self.limit, seconds),
        job.family.name, shape.text(job.family, job.shape), self.seed)
    if not placed then
        if trial.left(self) <= 0 then return nil end
        return nil, why == "" and "its inputs are not ready in time (LATHE_TUNE_SECONDS)" or why
    end
    local limit <const> = math.min(self.limit, math.max(0, trial.left(self)))
    local words, kind, how = self.worker:ask(limit, request, c.knobs, c.text)
    if kind == "late" and limit < self.limit then return nil end
    return judge(self, words, kind, how)
end

-- As ask; a candidate whose code another one has, which was measured, is that one again.
function trial.measure(self, job, c)
    local twin = c.code and job.codes[c.code]
    if twin then
        return { status = twin.status, us = twin.us, spread = twin.spread, why = twin.why,
            same = twin.knobs }
    end
    local fields, why = trial.ask(self, job, "try", c)
    if not fields then return nil, why end
    if fields.us and job.best and fields.us > trial.HOPELESS * job.best then
        fields.status = "dropped"
    end
    if c.code then
        job.codes[c.code] = { knobs = c.knobs, status = fields.status, us = fields.us,
            spread = fields.spread, why = fields.why }
    end
    return fields
end

return trial
