-- Joins files of records into the user's. What is here wins over what comes.
local catalog = require("gen.catalog")
local fault = require("lua.fault")
local input = require("lua.input")
local lathe = require("lathe")
local records = require("lua.records")
local scope = require("lua.scope")
local shape = require("gen.shape")
local variant = require("gen.variant")

local merge = {}

-- Can the record still be meant: has its family this rev and layout, and such a shape and variant?
local function is_known(families, record)
    local name, rev = record.family:match("^(.*)@(%d+)$")
    local family = name and catalog.find(families, name)
    return family and tonumber(rev) == family.rev and record.layout == records.layout(family)
        and shape.parse(family, record.shape) ~= nil and variant.parse(family, record.knobs) ~= nil
end

-- What a line is about: a later one about the same takes its place.
local function subject(record)
    return table.concat({ record.family, record.shape, record.layout, record.regime, record.knobs,
        record.text }, " ")
end

-- Adds a record to its device's list.
local function add(lists, record)
    local list = lists[record.device]
    if not list then
        list = { device = record.device }
        lists[record.device], lists[#lists + 1] = list, list
    end
    list[#list + 1] = record
end

-- Sorts the records of a file by device, each list in order; counts.vanished, counts.bad.
local function sort_out(path, families, lists, counts)
    local lines, bad = fault.reach(lathe.unseal(input.read("--merge", path)))
    counts.bad = counts.bad + bad
    for _, line in ipairs(lines) do
        local record = records.parse(line)
        if not record or not lathe.is_record_name(record.device) then
            counts.bad = counts.bad + 1
        elseif not is_known(families, record) then
            counts.vanished = counts.vanished + 1
        else
            add(lists, record)
        end
    end
end

-- Lines of which each subject has the last one; a line of another format is kept as it is.
local function last_ones(lines)
    local last, kept = {}, {}
    for i, line in ipairs(lines) do
        local record = records.parse(line)
        last[record and subject(record) or line] = i
    end
    for i, line in ipairs(lines) do
        local record = records.parse(line)
        if last[record and subject(record) or line] == i then kept[#kept + 1] = line end
    end
    return kept, last
end

local function join(list, counts)
    local own, bad = fault.reach(list.file:read())
    local kept, known = last_ones(own)
    local all = {}
    for _, record in ipairs(list) do
        if known[subject(record)] then
            counts.known = counts.known + 1
        else
            all[#all + 1] = record.line
        end
    end
    all = last_ones(all)
    counts.added, counts.dropped = counts.added + #all, counts.dropped + bad
    if #all == 0 then return end
    fault.reach(list.file:replace(table.move(kept, 1, #kept, #all + 1, all)))
end

-- Reads the files and writes the user's records of each device that they speak of, of none before
-- all are held. Counts: added, known (here already), vanished (the families have no such variant),
-- bad (torn or foreign), dropped (such lines of the user's file), devices.
function merge.run(paths, families)
    local lists, files <close> = {}, scope.new()
    local counts = { added = 0, known = 0, vanished = 0, bad = 0, dropped = 0, devices = {} }
    for _, path in ipairs(paths) do sort_out(path, families, lists, counts) end
    table.sort(lists, function(a, b) return a.device < b.device end)  -- all hold in one order
    for _, list in ipairs(lists) do
        list.file = files:add(fault.reach(lathe.records(list.device)))
        fault.reach(list.file:hold())
    end
    for i, list in ipairs(lists) do
        join(list, counts)
        counts.devices[i] = list.device
    end
    return counts
end

return merge
