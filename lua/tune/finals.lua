-- The fastest few of a job's candidates, timed whole and in alternation: what decides.
local candidates = require("lua.tune.candidates")
local trial = require("lua.tune.trial")

local finals = {}

local BEST <const> = 3     -- that are timed again; a brief timing orders what is this near
local RIVAL <const> = 1.15  -- times the best: then the best of a class and template is, too
local ROUNDS <const> = 2

-- The fastest few, and the fastest of each pair of class and template that is near them, the
-- fastest first.
local function finalists(self, job)
    local right, list, kinds = {}, {}, {}
    for i, c in ipairs(job.candidates) do
        local record = candidates.recorded(self, job, c)
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
        local kind = each.c.class .. " " .. each.c.template
        local first = not kinds[kind]
        kinds[kind] = true
        is_done = is_done or each.is_final
        local wanted = i <= BEST and each.us <= trial.HOPELESS * right[1].us
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
            if not each.failed then fields, why = trial.ask(self, job, "time", each.c) end
            if not each.failed and not fields then return false, why end
            if fields and not fields.us then
                each.failed = true
                candidates.write(self, job, each.c, fields)
            elseif fields then
                table.insert(each, fields.us)
            end
        end
    end
    return true
end

-- The fastest is written first: whatever happens then, it is among those that count.
function finals.run(self, job)
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
        candidates.write(self, job, each.c,
            { status = "ok", us = each.us, spread = each.spread, pass = 2 })
    end
    return true
end

return finals
