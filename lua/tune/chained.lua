-- The regime `chain`: variants that were fast alone, timed where a model's step has them, behind
-- their producers (lua/chain.lua). They were proved right, so they run in this process, as the step
-- does.
local ask = require("lua.plan.ask")
local chain = require("lua.chain")
local choice = require("lua.choice")
local fault = require("lua.fault")
local jobs = require("lua.tune.jobs")
local lathe = require("lathe")
local pick = require("lua.plan.pick")
local plan = require("lua.plan.plan")
local progress = require("lua.progress")
local records = require("lua.records")
local scope = require("lua.scope")
local stepbench = require("lua.stepbench")

local chained = {}

local RIVAL <const> = 1.15  -- times the best alone: 1.10 of it was the fastest there by a fifth
local ROUNDS <const> = 2   -- in alternation

-- The variants of a step's kernel that are compared: of all classes, with the texts that their
-- records have.
local function rivals(target, kernel)
    local list = {}
    for _, each in ipairs(target.records:rivals(kernel.family, kernel.shape, target.dev, nil,
        RIVAL)) do
        local other = choice.kernel(kernel.family, kernel.shape, each.variant, target.arch,
            target.dev)
        each.kernel = other
        if records.digest(other) == each.text then list[#list + 1] = each end
    end
    return list
end

-- A step's launches, those of `numbers` with another variant of their kernel: the same buffers, and
-- scratch of its own.
local function with(s, p, numbers, kernel, loaded)
    local launches = table.move(p.plan.launches, 1, #p.plan.launches, 1, {})
    for _, number in ipairs(numbers) do
        local one, args, by_name = launches[number], {}, {}
        for j, each in ipairs(p.plan.steps[number].kernel.params) do
            by_name[each.name] = one.args[j]
        end
        for j, each in ipairs(kernel.params) do
            args[j] = each.scratch and plan.scratch(s.target, kernel, each, s.scratch)
                or by_name[each.name]
        end
        launches[number] = { kernel = loaded, launch = kernel.launch, args = args,
            programmatic = one.programmatic }
    end
    return stepbench.listed(s, launches)
end

-- Times the rivals in turn: us, and spread in % of their time alone. False where the kernel begins
-- the step and has no producer.
local function time_rivals(s, p, numbers, list)
    local mine <close> = scope.new()
    local function time(launches) return (stepbench.time_list(s, launches)) end
    for _, each in ipairs(list) do
        local loaded = mine:add((fault.reach(s.target.device:load(each.kernel))))
        each.launches = with(s, p, numbers, each.kernel, loaded)
    end
    for _ = 1, ROUNDS do
        for _, each in ipairs(list) do
            table.insert(each, chain.us(each.launches, numbers, time))
        end
    end
    for _, each in ipairs(list) do
        if not each[1] then return false end
        each.chain = math.min(table.unpack(each))
        each.spread = 100 * (math.max(table.unpack(each)) - each.chain) / each.us
    end
    return true
end

local function write(self, kernel, each)
    local record = records.key(self.key, kernel.family, kernel.shape, records.CHAIN)
    record.class, record.knobs, record.text = each.class, each.knobs, each.text
    record.status, record.us, record.spread, record.pass = "ok", each.chain, each.spread, 2
    record.floor = each.floor
    local line = records.line(record)
    fault.reach(self.file:append(line))
    self.known:add(records.parse(line), "own")
end

-- A kernel of a step as a row: its rivals, the fastest alone and in the chain.
local function run_group(self, p, group)
    local kernel, known = group.kernel, self.known
    local list = rivals(self.session.target, kernel)
    local row = { family = kernel.family.name, shape = choice.words(kernel.family, kernel.shape),
        measured = 0, known = 0 }
    for _, each in ipairs(list) do
        each.chain = not self.again and pick.chain_us(known, kernel.family, kernel.shape, each)
        row.known = row.known + (each.chain and 1 or 0)
    end
    if #list < 2 then return nil end
    if row.known < #list then
        if not time_rivals(self.session, p, group.numbers, list) then return nil end
        for _, each in ipairs(list) do write(self, kernel, each) end
        row.known, row.measured = 0, #list
    end
    local first = list[1]
    for _, each in ipairs(list) do
        if each.chain < first.chain then first = each end
    end
    row.alone, row.alone_us, row.alone_chain = list[1].knobs, list[1].us, list[1].chain
    row.best, row.us, row.chain = first.knobs, first.us, first.chain
    return row
end

-- Compares the kernels of a model's steps, { rows = .., file, session, is_done = all of them were
-- reached }. options: model or shape_name, recipe, context, ranks, rank, rows, device, again;
-- until_us: where the budget ends, or nil.
function chained.run(options, until_us)
    local shown <close> = progress.new()
    local counts, model = jobs.rows(options), ask.model(options, ask.found(options))
    local s = stepbench.open(options, model.found, model.formats, model.context, shown)
    local self = { session = s, key = s.target.info.key, known = s.target.records,
        again = options.again, file = fault.reach(lathe.records(s.target.info.key)) }
    fault.reach(self.file:check())
    local all = { rows = {}, file = self.file, session = s, is_done = true }
    for _, rows in ipairs(counts) do
        s.length = s.capacity - rows
        local p = stepbench.program(s, rows)
        for _, group in ipairs(stepbench.groups(p)) do
            if until_us and lathe.now_us() >= until_us then
                all.is_done = false
                return all
            end
            shown:show(("%s, %d rows"):format(group.kernel.name, rows))
            all.rows[#all.rows + 1] = run_group(self, p, group)
        end
    end
    return all
end

return chained
