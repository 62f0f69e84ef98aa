-- What is to be tuned: families and shapes, each once.
local ask = require("lua.plan.ask")
local choice = require("lua.choice")
local fault = require("lua.fault")
local pick = require("lua.plan.pick")
local shape = require("gen.shape")

local jobs = {}

local ROWS <const> = "1,2,4,8,16"

-- The numbers of rows that are asked for, as "1,2,4".
function jobs.rows(options)
    local list = {}
    for word in ((options.rows or ROWS) .. ","):gmatch("(.-),") do
        local rows = choice.number("--rows", word, 1)
        if rows > pick.MOST_ROWS then
            fault.usage(("--rows: %d rows are asked for, a step has up to %d"):format(
                rows, pick.MOST_ROWS))
        end
        list[#list + 1] = rows
    end
    return list
end

-- Adds a family's shape once.
local function add(list, family, s)
    local text = family.name .. " " .. shape.text(family, s)
    if list[text] then return end
    list[text] = true
    list[#list + 1] = { family = family, shape = s }
end

-- The steps of a model's plans for each number of rows; what runs once, at load, is in none.
local function of_model(options, target)
    local model, list = ask.model(options, ask.found(options)), {}
    for _, rows in ipairs(jobs.rows(options)) do
        for _, step in ipairs(ask.plan(target, model, rows).steps) do
            add(list, step.kernel.family, step.kernel.shape)
        end
    end
    return list
end

local function of_family(options, families)
    local family, list = choice.family(families, options.family), {}
    if #options.words > 0 then
        add(list, family, choice.shape(family, options.words))
        return list
    end
    for _, s in ipairs(family.check.real or {}) do add(list, family, s) end
    if #list == 0 then
        fault.usage(("tune: %s lists no shape of the model (give one: `lathe families %s`)"):format(
            family.name, family.name))
    end
    return list
end

-- options: family and words, or model or shape_name, rows, recipe, context, ranks and rank.
-- target: as plan.try has it.
function jobs.of(options, target)
    if options.model or options.shape_name then return of_model(options, target) end
    return of_family(options, target.families)
end

return jobs
