-- lathe tune: the fastest right variants of shapes, measured and recorded; record files joined.
local ask = require("lua.plan.ask")
local chained = require("lua.tune.chained")
local choice = require("lua.choice")
local fault = require("lua.fault")
local jobs = require("lua.tune.jobs")
local lathe = require("lathe")
local merge = require("lua.tune.merge")
local progress = require("lua.progress")
local rank = require("lua.rank")
local records = require("lua.records")
local report = require("lua.report")
local shape = require("gen.shape")
local tune = require("lua.tune")
local variant = require("gen.variant")

local command = { summary = "find the fastest right variant of a shape, and record it" }

local UNITS <const> = { [""] = 1, s = 1, m = 60, min = 60, h = 3600 }  -- seconds

function command.declare(parser)
    parser:argument("family", "as `lathe families` lists them; or --model"):args("?")
    parser:argument("words", "the shape, such as M=2 N=4096 K=11264; default: the model's")
        :args("*")
    ask.declare_model(parser, "instead of a family: the shapes of this checkpoint's plans")
    parser:option("--rows", "with a model: rows of a step; default 1,2,4,8,16")
    parser:option("--recipe", "with a model: card (default) or reference")
    parser:option("--context", "with a model: tokens that there is room for")
    parser:option("--regime", "with a model: alone (default), or chain: those that were fast alone,"
        .. " behind their producers")
    rank.declare(parser)
    parser:option("--budget", "ends after 60s, 10m or 2h; what is measured stays")
    parser:flag("--again", "measure also what is recorded")
    parser:option("--seed", "of the inputs", "1")
    parser:option("--merge", "instead of tuning: add the records of these files"):args("+")
end

local function seconds_of(text)
    if not text then return nil end
    local digits, unit = text:match("^(%d+)(%l*)$")
    if not digits or not UNITS[unit] or #digits > 6 then
        fault.usage(("--budget: '%s' is no time (write 60s, 10m or 2h)"):format(text))
    end
    return UNITS[unit] * math.tointeger(tonumber(digits))
end

local MODEL <const> = { "rows", "recipe", "context", "regime", "ranks", "rank" }
local TUNING <const> = {
    "family", "model", "shape_name", "rows", "recipe", "context", "regime", "ranks", "rank",
    "budget", "again",
}
local REGIMES <const> = { [records.ALONE] = true, [records.CHAIN] = true }

-- Refuses words that do not go together.
local function check_words(options)
    for _, name in ipairs(options.merge and TUNING or {}) do
        if options[name] then fault.usage("tune: --merge adds files and tunes nothing") end
    end
    if options.merge then return end
    local of_model = options.model or options.shape_name
    if options.family and of_model then
        fault.usage("tune: --model chooses families and shapes by itself")
    end
    ask.check_model(options, "tune")
    if not options.family and not of_model then
        fault.usage("tune: what? (give a family, or --model, or --merge)")
    end
    if options.regime and not REGIMES[options.regime] then
        fault.usage(("--regime: '%s' is not known (known: alone chain)"):format(options.regime))
    end
    for _, name in ipairs(of_model and {} or MODEL) do
        if options[name] then fault.usage(("tune: --%s is a word of --model"):format(name)) end
    end
end

local function say(sentence, ...) io.stderr:write("lathe: ", sentence:format(...), "\n") end

-- ---- merge ----

local function run_merge(options)
    local counts = merge.run(options.merge, choice.catalog())
    if counts.vanished > 0 then
        say("merge: %d records of variants that no family has now are ignored", counts.vanished)
    end
    if counts.bad > 0 then say("merge: %d lines are torn or foreign, ignored", counts.bad) end
    if counts.dropped > 0 then
        say("merge: %d torn or foreign lines of the own records are left out", counts.dropped)
    end
    if options.json then return report.json(counts) end
    print(("added %d records, %d were known (%s)"):format(counts.added, counts.known,
        #counts.devices > 0 and table.concat(counts.devices, ", ") or "of no device"))
end

-- ---- tune ----

-- A job as a row: what was found and how much was looked at, which is empty behind the end of the
-- budget.
local function row_of(tuner, job)
    local family, s = job.family, job.shape
    local best = tuner.known:best(family, s, tuner.target.dev)
    if best and best.from ~= "exact" then best = nil end
    local default = variant.default(family, s, tuner.target.dev)
    local first = job.candidates and job.candidates[1]
    local own = first and tuner.known:find(family, s, first.knobs, first.text)
    return {
        family = family.name, shape = choice.words(family, s), best = best and best.knobs,
        class = best and best.class, us = best and best.us, floor = best and best.floor,
        share = best and best.floor and 100 * best.floor / best.us,
        default = default and variant.text(family, default), default_us = own and own.us,
        measured = job.measured, known = job.known, rejected = job.rejected,
        open = tuner:open_count(job), done = job.is_done or false, failed = job.failed,
    }
end

local COLUMNS <const> = {
    { "family", "family" }, { "shape", "shape" }, { "best", "best" }, { "class", "class" },
    { "us", "us", format = report.number }, { "floor", "floor us", format = report.number },
    { "share", "% of floor", format = report.number }, { "default", "default" },
    { "default_us", "us", format = report.number },
    { "measured", "measured" }, { "known", "known" }, { "rejected", "rejected" },
}

local function say_notes(tuner, list, rows)
    for _, sentence in ipairs(tuner.sentences) do say("%s", sentence) end
    for i, job in ipairs(list) do
        local title = job.family.name .. " " .. shape.text(job.family, job.shape)
        if job.failed then say("%s: cannot be tuned: %s", title, job.failed) end
        if rows[i].done and not rows[i].best then
            for _, sentence in ipairs(job.reasons) do say("%s", sentence) end
            say("%s: no variant is right (--again measures them anew)", title)
        end
        if (job.vanished or 0) > 0 then
            say("%s: %d records of variants that the family keeps no more are ignored", title,
                job.vanished)
        end
    end
end

-- What the same command does where this one ends early: --again knows no record, its own neither.
local function way_on(options)
    if not options.again then return "the same command goes on with the rest" end
    return "the same command begins anew, without --again it goes on with what has no record"
end

local function print_totals(tuner, rows, options)
    local sum = { measured = 0, known = 0, rejected = 0, open = 0, done = 0 }
    for _, row in ipairs(rows) do
        for _, key in ipairs({ "measured", "known", "rejected", "open" }) do
            sum[key] = sum[key] + (row[key] or 0)
        end
        sum.done = sum.done + (row.done and 1 or 0)
    end
    local rest = sum.measured == 0 and "; nothing was left to measure" or ""
    if sum.done < #rows then rest = "; " .. way_on(options) end
    print(("%d of %d shapes: %d candidates measured, %d known, %d rejected%s"):format(sum.done,
        #rows, sum.measured, sum.known, sum.rejected, rest))
    print("records " .. tuner.file:path())
end

-- Says so where the command ends in the middle, by Ctrl-C or a fault.
local function watch(tuner, options)
    return setmetatable({}, {
        __close = function(_, why)
            if not why or not tuner.has_written then return end
            tuner.shown:clear()
            say("tune: ended early; what was measured is kept (%s)", way_on(options))
        end,
    })
end

local function exit_code(rows)
    for _, row in ipairs(rows) do
        if row.failed or row.done and not row.best then return 1 end
    end
    return 0
end

local function run_tune(options)
    local families, shown <close> = choice.catalog(), progress.new()
    local tuner <close> = tune.open({
        device = options.device, seed = choice.number("--seed", options.seed, 0),
        budget = seconds_of(options.budget), again = options.again, shown = shown,
    }, families)
    local list, rows = jobs.of(options, tuner.target), {}
    local _ <close> = watch(tuner, options)
    tuner:run(list)
    shown:clear()
    for i, job in ipairs(list) do rows[i] = row_of(tuner, job) end
    say_notes(tuner, list, rows)
    report.print(options, COLUMNS, rows, { device = tuner.info.model, driver = tuner.info.driver,
        seed = tuner.seed, records = tuner.file:path() })
    if not options.json then print_totals(tuner, rows, options) end
    return exit_code(rows)
end

-- ---- the chain ----

local CHAIN <const> = {
    { "family", "family" }, { "shape", "shape" }, { "alone", "best alone" },
    { "alone_us", "us", format = report.number }, { "alone_chain", "chain us",
        format = report.number },
    { "best", "best in the chain" }, { "us", "us", format = report.number },
    { "chain", "chain us", format = report.number },
    { "measured", "measured" }, { "known", "known" },
}

local function run_chain(options)
    local budget <const> = seconds_of(options.budget)
    local all = chained.run(options, budget and lathe.now_us() + 1e6 * budget)
    local info, changed = all.session.target.info, 0
    report.print(options, CHAIN, all.rows, { device = info.model, driver = info.driver,
        done = all.is_done, records = all.file:path() })
    if options.json then return 0 end
    for _, row in ipairs(all.rows) do changed = changed + (row.best ~= row.alone and 1 or 0) end
    print(("%d kernels have rivals, of %d another one is the fastest in the chain%s"):format(
        #all.rows, changed, all.is_done and "" or "; " .. way_on(options)))
    print("records " .. all.file:path())
    return 0
end

function command.run(options)
    check_words(options)
    fault.expect(lathe.prepare())
    if options.merge then return run_merge(options) end
    return (options.regime == records.CHAIN and run_chain or run_tune)(options)
end

return command
