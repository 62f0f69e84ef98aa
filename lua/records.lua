-- What tuning found: records as lines of text, and a device's set of them, the shipped ones and the
-- user's, with questions to it. A set is a value that someone holds.
local lathe = require("lathe")
local fault = require("lua.fault")
local name = require("gen.name")
local shape = require("gen.shape")
local variant = require("gen.variant")

local records = {}

-- Regimes: the kernel repeated by itself, as cold.lua has its inputs; what it adds to its producers
-- in a model's step (chain.lua).
records.ALONE, records.CHAIN = "alone", "chain"

local FORMAT <const> = "1"
local FIELDS <const> = {  -- in the order of a line
    "device",  -- key: nvidia-h200
    "family",  -- with its rev: w8a8_gemv@1
    "shape",   -- m1_n4096_k11264
    "layout",  -- of its weights: e4m3_tile16; rows where it has none
    "class", "regime",
    "knobs",   -- s8p1c1u2o32
    "status",
    "us", "spread",  -- of a launch; percent between two measurements
    "floor",   -- us
    "pass",    -- 1: timed briefly; 2: timed again beside the other fast ones
    "text",    -- 16 digits of the SHA-256 of prelude and text
    "code",    -- the same of machine code and launch, where a compiler made an image
    "seed",
    "same",    -- knobs of another variant with the same code, which was measured
    "why",     -- a sentence, of what is not right
}
-- How far a shape may be whose records stand for another's: a factor of four in one size, or of two
-- in two. What was best for small products is bad for large ones.
local NEAR <const> = math.log(4) + 1e-9
local ROOM <const> = { PAGES = true, BLOCKS = true }  -- sizes of a cache, which cost no time
local NUMBERS <const> = { us = true, spread = true, floor = true, pass = true, seed = true }
local RIGHT <const> = { ok = true, dropped = true }  -- proved right and timed

-- ---- lines ----

local function field_text(value)
    if math.type(value) == "float" then return ("%.4g"):format(value) end
    return (tostring(value):gsub("%c", " "))
end

-- A record as a line.
function records.line(record)
    local words = { "record=" .. FORMAT }
    for _, field in ipairs(FIELDS) do
        local value = record[field]
        if value ~= nil then words[#words + 1] = ("%s=%s"):format(field, field_text(value)) end
    end
    return table.concat(words, "\t")
end

-- Are its numbers such as tuning writes? What a kernel adds in the chain may be less than nothing.
local function has_numbers(record)
    for field in pairs(NUMBERS) do
        local value = record[field]
        if value ~= nil and (not math.type(value) or value - value ~= 0) then return false end
    end
    if not RIGHT[record.status] then return true end
    return record.us and (record.us > 0 or record.regime == records.CHAIN)
end

-- The record of a line; nil for one of another format. A field that it does not know is kept.
function records.parse(line)
    local record = {}
    for field, value in line:gmatch("(%l+)=([^\t]*)") do
        record[field] = NUMBERS[field] and tonumber(value) or value
    end
    local whole = record.record == FORMAT and record.device and record.family and record.shape
        and record.knobs and record.status and record.regime and record.layout and record.text
    if not whole or not has_numbers(record) then return nil end
    record.line = line
    return record
end

function records.is_right(record) return RIGHT[record.status] == true end

-- What fixes a kernel's text, short.
function records.digest(kernel) return lathe.sha256(kernel.plain):sub(1, 16) end

-- How a kernel is launched, and the bytes of its scratch, as text.
function records.launch(kernel)
    local l, scratch = kernel.launch, 0
    for _, p in ipairs(kernel.params) do scratch = scratch + (p.scratch and p.bytes or 0) end
    return ("%s %d %d %d %d"):format(table.concat(l.grid, ","), l.block, l.shared, l.cluster or 1,
        scratch)
end

-- What fixes a kernel's time, short: its machine code, as lathe.build reports it, and launch.
function records.code(machine, launch) return lathe.sha256(machine .. " " .. launch):sub(1, 16) end

-- The record as one of another text.
function records.with_text(record, text)
    local other = {}
    for _, field in ipairs(FIELDS) do other[field] = record[field] end
    other.text = text
    return other
end

-- "e4m3_tile16": the layouts of a family's weights.
function records.layout(family)
    local list, seen = {}, {}
    for _, row in ipairs(family.args) do
        if row.layout and not seen[row.layout] then
            seen[row.layout], list[#list + 1] = true, row.layout
        end
    end
    return #list > 0 and table.concat(list, "+") or "rows"
end

-- ---- a set ----

local function family_key(record)
    return ("%s %s %s"):format(record.family, record.layout, record.regime)
end

local function key_of(family, regime)
    return ("%s@%d %s %s"):format(family.name, family.rev, records.layout(family), regime)
end

local set = {}

-- Adds a record, which wins over those before it. source: "shipped" or "own".
function set:add(record, source)
    record.source = source
    local key = family_key(record)
    local shapes = self.families[key] or {}
    local found = shapes[record.shape] or { knobs = {}, latest = {}, exact = {}, coded = {} }
    self.families[key], shapes[record.shape] = shapes, found
    if not found.latest[record.knobs] then found.knobs[#found.knobs + 1] = record.knobs end
    found.latest[record.knobs] = record
    found.exact[record.knobs .. " " .. record.text] = record
    if record.code then found.coded[record.knobs .. " " .. record.code] = record end
end

-- What is recorded of a family at a shape, in a regime: where nothing is said, alone.
local function at_shape(self, family, text, regime)
    local shapes = self.families[key_of(family, regime or records.ALONE)]
    return shapes and shapes[text]
end

-- The record of this very text, or nil.
function set:find(family, s, knobs, text, regime)
    local found = at_shape(self, family, shape.text(family, s), regime)
    return found and found.exact[knobs .. " " .. text]
end

-- The last record of a variant with this machine code and launch, whatever its text was, or nil.
function set:coded(family, s, knobs, code)
    local found = at_shape(self, family, shape.text(family, s))
    return found and found.coded[knobs .. " " .. code]
end

-- The last record of a variant, whatever its text was, or nil.
function set:latest(family, s, knobs, regime)
    local found = at_shape(self, family, shape.text(family, s), regime)
    return found and found.latest[knobs]
end

-- The variant of a record if the family keeps it for s, and its class there.
local function kept(record, family, s, dev)
    local v = variant.parse(family, record.knobs)
    if not v or not family.keep(s, v, dev) then return nil end
    return v, family.class(s, v)
end

-- Does a record count before the best so far? Of equal times the first by name: the order of lines
-- chooses nothing.
local function comes_before(pass, record, best)
    if pass ~= best.pass then return pass > best.pass end
    if record.us ~= best.us then return record.us < best.us end
    return record.knobs < best.knobs
end

-- A record that may run s, if it is faster than `best` or that is nil; else `best`. One that was
-- timed beside others counts before those that were timed briefly.
local function faster(best, record, family, s, dev, class)
    if not RIGHT[record.status] then return best end
    local v, own = kept(record, family, s, dev)
    local pass = record.pass or 1
    if not v or class and own ~= class then return best end
    if best and not comes_before(pass, record, best) then return best end
    return { variant = v, knobs = record.knobs, class = own, us = record.us, pass = pass,
        floor = record.floor, text = record.text, shape = record.shape, source = record.source }
end

-- The fastest right one of a shape's records that may run s.
local function fastest(found, family, s, dev, class)
    local best
    for _, knobs in ipairs(found.knobs) do
        best = faster(best, found.latest[knobs], family, s, dev, class)
    end
    return best
end

-- How far two shapes are apart, the sum over sizes of |log(a / b)|: those that time depends on, and
-- the room of caches.
local function distance(family, a, b)
    local far, room = 0.0, 0.0
    for _, size in ipairs(family.shape) do
        local each = math.abs(math.log((a[size] + 1) / (b[size] + 1)))
        if ROOM[size] then room = room + each else far = far + each end
    end
    return far, room
end

-- The other shapes of a family's records, nearest first.
local function others(self, family, s)
    local list, own = {}, shape.text(family, s)
    for text, found in pairs(self.families[key_of(family, records.ALONE)] or {}) do
        local other = text ~= own and shape.parse(family, text)
        if other then
            local far, room = distance(family, s, other)
            list[#list + 1] = { text = text, found = found, far = far, room = room }
        end
    end
    table.sort(list, function(a, b)
        if a.far ~= b.far then return a.far < b.far end
        if a.room ~= b.room then return a.room < b.room end
        return a.text < b.text
    end)
    return list
end

-- The fastest variant for shape s on dev, of one class or of any: { variant, knobs, class, us,
-- pass, floor, text, shape, source, from = "exact" }. Without a record of s that of the nearest
-- shape that is near enough, from = "nearest", whose us is that shape's. nil where none is known.
function set:best(family, s, dev, class)
    local found = at_shape(self, family, shape.text(family, s))
    local best = found and fastest(found, family, s, dev, class)
    if best then
        best.from = "exact"
        return best
    end
    for _, other in ipairs(others(self, family, s)) do
        if other.far > NEAR then return nil end
        best = fastest(other.found, family, s, dev, class)
        if best then
            best.from = "nearest"
            return best
        end
    end
end

-- The right variants of a class that were timed twice alone at exactly this shape and took no more
-- than `most` times the best of them, the fastest first.
function set:rivals(family, s, dev, class, most)
    local list, found = {}, at_shape(self, family, shape.text(family, s))
    for _, knobs in ipairs(found and found.knobs or {}) do
        local each = faster(nil, found.latest[knobs], family, s, dev, class)
        if each and each.pass == 2 then list[#list + 1] = each end
    end
    table.sort(list, function(a, b) return comes_before(2, a, b) end)
    while #list > 0 and list[#list].us > most * list[1].us do list[#list] = nil end
    return list
end

-- The best of each class at exactly this shape, by class, and the classes in alphabetical order.
function set:classes(family, s, dev)
    local by_class, order = {}, {}
    local found = at_shape(self, family, shape.text(family, s))
    for _, knobs in ipairs(found and found.knobs or {}) do
        local record = found.latest[knobs]
        local _, class = kept(record, family, s, dev)
        local best = class and faster(by_class[class], record, family, s, dev)
        if best and not by_class[class] then order[#order + 1] = class end
        if best then by_class[class] = best end
    end
    table.sort(order)
    return by_class, order
end

-- How many variants of s have a record and are kept no more.
function set:vanished(family, s, dev)
    local count = 0
    local found = at_shape(self, family, shape.text(family, s))
    for _, knobs in ipairs(found and found.knobs or {}) do
        if not kept(found.latest[knobs], family, s, dev) then count = count + 1 end
    end
    return count
end

-- Adds the records of the set's device; how many lines are none.
local function add_lines(self, lines, bad, source)
    for _, line in ipairs(lines) do
        local record = records.parse(line)
        if record and record.device == self.device then
            self:add(record, source)
        else
            bad = bad + 1
        end
    end
    return bad
end

-- An empty set.
function records.new(device)
    return setmetatable({ device = device, families = {} }, { __index = set })
end

-- What is known of a device, by its key: the shipped records, then the user's, which win. Says how
-- many lines are torn, foreign or another device's.
function records.load(device)
    local self, skipped = records.new(device), 0
    local shipped = lathe.read(("cache/tuned/%s.tuned"):format(device))
    if shipped then
        local lines, bad = fault.reach(lathe.unseal(shipped))
        skipped = add_lines(self, lines, bad, "shipped")
    end
    local file <close> = fault.reach(lathe.records(device))
    local lines, bad = fault.reach(file:read())
    skipped = skipped + add_lines(self, lines, bad, "own")
    if skipped > 0 then
        lathe.debug(0, ("records: %d lines of %s are torn, foreign or another device's and are "
            .. "skipped"):format(skipped, device))
    end
    return self
end

-- The words of the tuning key of a family at a shape, as fields of a record.
function records.key(device, family, s, regime)
    local tuning, text = name.tuning(family, s):match("^(%S+) (%S*)$")
    return { device = device, family = tuning, shape = text, layout = records.layout(family),
        regime = regime or records.ALONE }
end

return records
