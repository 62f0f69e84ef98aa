-- Which variant an operator of a plan gets: one that a user pinned, the fastest that was recorded,
-- or the first that is kept. One class of bits serves all numbers of rows of a weight's site.
local choice = require("lua.choice")
local records = require("lua.records")
local shape = require("gen.shape")
local variant = require("gen.variant")

local pick = {}

pick.MOST_ROWS = 16  -- of a step: what the families of a decode step serve

local WEIGHED <const> = { 1, 2, 4, 8, 16 }  -- rows whose times a row are summed to choose a class

-- The shape s, which has `of` rows, with `to` rows.
local function with_rows(family, s, of, to)
    local copy = {}
    for _, size in ipairs(family.shape) do copy[size] = s[size] end
    if copy.M then copy.M = copy.M // of * to end
    if copy.TOKENS then copy.TOKENS = to end
    return copy
end

-- The first kept variant of a class, or nil. (Rows do not change a variant's class.)
local function first_kept(family, s, class, dev)
    for _, v in variant.each(family) do
        if family.keep(s, v, dev) and family.class(s, v) == class then return v end
    end
end

-- Has a class a kept variant for each number of rows that the family serves? What is kept for one
-- number of them is asked first for the next; latest: one of the class, or nil.
local function serves_all(family, s, rows, class, dev, latest)
    for count = 1, pick.MOST_ROWS do
        local other = with_rows(family, s, rows, count)
        if family.serves(other) and not (latest and family.keep(other, latest, dev)) then
            latest = first_kept(family, other, class, dev)
            if not latest then return false end
        end
    end
    return true
end

-- What a variant, as known:best gives it, takes in the chain, under the text that it has alone; nil
-- where it was not timed there.
function pick.chain_us(known, family, s, each)
    local record = known:latest(family, s, each.knobs, records.CHAIN)
    return record and record.text == each.text and record.us or nil
end

-- Of the variants of its class with such a time: the fastest there, and that time; nil where
-- `best`, the fastest alone, has none.
local function fastest_in_chain(known, family, s, dev, best)
    local us = pick.chain_us(known, family, s, best)
    if not us then return nil end
    for _, each in ipairs(known:rivals(family, s, dev, best.class, math.huge)) do
        local other = pick.chain_us(known, family, s, each)
        if other and other < us then best, us = each, other end
    end
    return best, us
end

-- ---- the class ----

-- The first class that serves all, in the order of one row's variants.
local function first_class(family, s, rows, dev)
    local one, asked = with_rows(family, s, rows, 1), {}
    for _, v in variant.each(family) do
        local class = family.keep(one, v, dev) and family.class(one, v)
        if class and not asked[class] then
            asked[class] = true
            if serves_all(family, s, rows, class, dev, v) then return class end
        end
    end
end

-- What the best of each class takes at a shape. Where the fastest alone was timed in the chain, so
-- does each other class that was: as long as the fastest, and what its best one adds there more
-- than that of the fastest's class.
local function times_of(known, family, s, dev, by_class, classes)
    local times, first = {}, nil
    for _, class in ipairs(classes) do
        local each = by_class[class]
        times[class] = each.us
        if not first or each.us < first.us then first = each end
    end
    local least = first and select(2, fastest_in_chain(known, family, s, dev, first))
    for _, class in ipairs(least and classes or {}) do
        local _, chain = fastest_in_chain(known, family, s, dev, by_class[class])
        if chain then times[class] = first.us + chain - least end
    end
    return times
end

-- The recorded times a row of each class, summed over those numbers of rows that have a record, and
-- a variant of it that is kept; and how many such numbers there are.
local function recorded_times(known, family, s, rows, dev)
    local times, order, counts = {}, {}, 0
    for _, count in ipairs(WEIGHED) do
        local other = with_rows(family, s, rows, count)
        local by_class, classes = {}, {}
        if family.serves(other) then by_class, classes = known:classes(family, other, dev) end
        counts = counts + (#classes > 0 and 1 or 0)
        local us = times_of(known, family, other, dev, by_class, classes)
        for _, class in ipairs(classes) do
            if not times[class] then
                local kept = by_class[class].variant
                times[class], order[#order + 1] = { sum = 0.0, counts = 0, kept = kept }, class
            end
            local own = times[class]
            own.sum, own.counts = own.sum + us[class] / count, own.counts + 1
        end
    end
    return times, order, counts
end

-- The class with the least such sum, of those that have a record for each such number of rows and
-- serve all; nil where there is none.
local function fastest_class(known, family, s, rows, dev)
    local times, order, counts = recorded_times(known, family, s, rows, dev)
    local best
    for _, class in ipairs(order) do
        local own = times[class]
        if own.counts == counts and (not best or own.sum < times[best].sum)
            and serves_all(family, s, rows, class, dev, own.kept) then
            best = class
        end
    end
    return best
end

-- The class of the fastest variant at the nearest shape that has records, if it serves all.
local function nearest_class(known, family, s, rows, dev)
    local best = known:best(family, with_rows(family, s, rows, 1), dev)
    if best and serves_all(family, s, rows, best.class, dev, best.variant) then
        return best.class
    end
end

local function class_of(known, family, s, rows, dev)
    return known and (fastest_class(known, family, s, rows, dev)
        or nearest_class(known, family, s, rows, dev)) or first_class(family, s, rows, dev)
end

-- ---- pins ----

-- "w8a8_gemv m1_n4096_k11264": what a pin is for.
function pick.pin_key(family, s) return family.name .. " " .. shape.text(family, s) end

local function pinned(pins, family, s, dev)
    local knobs = pins and pins[pick.pin_key(family, s)]
    if not knobs then return nil end
    local v <const> = variant.parse(family, knobs)  -- which pins.read has checked
    if family.keep(s, v, dev) then return v end
    return nil, ("does not keep %s, its pin of --pins (`lathe families %s %s --arch %s --sms %d` "
        .. "lists what it keeps)"):format(knobs, family.name, choice.words(family, s), dev.arch,
        dev.sms)
end

-- ---- the variant ----

-- The fastest of a class alone; where it was timed in the chain too, the fastest there, whose time
-- there is `chain`.
local function fastest(known, family, s, dev, class)
    local best = known:best(family, s, dev, class)
    if not best or best.from ~= "exact" then return best end
    local there, us = fastest_in_chain(known, family, s, dev, best)
    if not there then return best end
    there.from, there.chain = "exact", us
    return there
end

-- target: dev; records (records.load) or nil; pins: knobs by pick.pin_key, or nil. rows: those that
-- s has. The variant and where it comes from: { from = "pinned", "exact", "nearest" or "default",
-- us = as recorded, chain = the same in the chain, shape = it was recorded at }; nil where no class
-- serves every number of rows; nil and a sentence where a pin is wrong.
function pick.variant(target, family, s, rows)
    local v, why = pinned(target.pins, family, s, target.dev)
    if v or why then return v, v and { from = "pinned" } or why end
    local class = class_of(target.records, family, s, rows, target.dev)
    if not class then return nil end
    local best = target.records and fastest(target.records, family, s, target.dev, class)
    if best then
        return best.variant,
            { from = best.from, us = best.us, chain = best.chain, shape = best.shape }
    end
    v = first_kept(family, s, class, target.dev)
    return v, v and { from = "default" }
end

return pick
