-- What tests of records run inside ./lathe, in place of its command line (LATHE_ROOT names a folder
-- where this file is lua/cli.lua): questions to a set of records, an answer a line.
local arch = require("gen.arch")
local catalog = require("gen.catalog")
local choice = require("lua.choice")
local records = require("lua.records")
local shape = require("gen.shape")

local DEV <const> = arch.device("cpu", 1)

-- A record of w8a8_gemv; fields: M, knobs, status, us, pass, rev, layout.
local function record(family, known, fields)
    local s = { M = fields.M or 1, N = 32, K = 4096 }
    local r = records.key("x", family, s)
    r.class, r.knobs, r.text = "any", fields.knobs, fields.text or "0123456789abcdef"
    r.status, r.us, r.pass = fields.status or "ok", fields.us, fields.pass or 1
    r.family = fields.rev and ("%s@%d"):format(family.name, fields.rev) or r.family
    r.layout = fields.layout or r.layout
    known:add(assert(records.parse(records.line(r))), "own")
end

local function say(best)
    if not best then return print("nothing") end
    print(best.knobs, best.us, best.from, best.shape, best.class)
end

local steps = {}

function steps.one_of_two_passes(add, ask)
    add({ knobs = "s4p1c0u2o32", us = 5.0 })
    ask(1)
    add({ knobs = "s4p1c0u4o24", us = 4.0 })
    ask(1)
    add({ knobs = "s4p1c0u2o32", us = 4.5, pass = 2 })
    ask(1)
    add({ knobs = "s4p1c0u4o24", us = 4.25, pass = 2 })
    ask(1)
end

function steps.what_is_not_right(add, ask)
    add({ knobs = "s4p1c0u2o32", us = 5.0 })
    add({ knobs = "s4p1c0u4o24", status = "hang" })
    add({ knobs = "s16p1c0u2o32", us = 9.0, status = "dropped" })
    ask(1)
    add({ knobs = "s4p1c0u2o32", status = "wrong", text = "ffff456789abcdef" })
    ask(1)
end

function steps.what_is_of_another_kind(add, ask)
    add({ knobs = "s4p1c0u2o32", us = 1.0, rev = 7 })
    add({ knobs = "s4p1c0u2o32", us = 1.0, layout = "rows" })
    add({ knobs = "s3p1c0u2o32", us = 1.0 })
    add({ knobs = "s4p1c0u2", us = 1.0 })
    add({ knobs = "s4p4c0u4o24", us = 1.0 })
    ask(1)
end

function steps.nearest(add, ask)
    add({ knobs = "s4p1c0u4o24", us = 2.0, M = 2 })
    add({ knobs = "s4p1c0u2o32", us = 1.0, M = 2 })
    add({ knobs = "s16p1c0u2o32", us = 7.0, M = 2 })
    add({ knobs = "s4p1c0u2o24", us = 3.0, M = 16 })
    ask(1)
    ask(12)
    ask(4)
    add({ knobs = "s4p1c0u4o24", us = 9.0, M = 4 })
    ask(4)
    ask(1, "mma.f16_1x16")
    ask(1, "mma.f16_2x16")
end

local function classes(family, known)
    local s = { M = 1, N = 32, K = 4096 }
    record(family, known, { knobs = "s4p1c0u2o32", us = 5.0 })
    record(family, known, { knobs = "s4p1c0u4o24", us = 4.0 })
    record(family, known, { knobs = "s16p1c0u2o32", us = 9.0, status = "dropped" })
    record(family, known, { knobs = "s8p1c0u2o32", status = "wrong" })
    local by_class, order = known:classes(family, s, DEV)
    for _, class in ipairs(order) do print(class, by_class[class].knobs, by_class[class].us) end
    local count = 0
    for _ in pairs(by_class) do count = count + 1 end
    print(count, known:vanished(family, s, DEV))
end

-- Asks for shapes whose caches have other room than the recorded ones, and for one that keeps more.
local function room(known)
    local function add(name, s, knobs, us)
        local r = records.key("x", assert(catalog.find(choice.catalog(), name)), s)
        r.class, r.knobs, r.text, r.status = "any", knobs, ("0"):rep(16), "ok"
        r.us, r.pass = us, 1
        known:add(assert(records.parse(records.line(r))), "own")
    end
    local function ask(name, s)
        say(known:best(assert(catalog.find(choice.catalog(), name)), s, DEV))
    end
    local function keys(pages) return { M = 1, D = 64, RING = 16, SLOTS = 1, PAGES = pages,
        BLOCKS = pages } end
    add("dsa_pool_keys", keys(64), "one", 2.0)
    add("dsa_pool_keys", keys(2048), "one", 3.0)
    ask("dsa_pool_keys", keys(128))
    ask("dsa_pool_keys", keys(8192))
    add("dsa_topk", { M = 1, K = 16, POOLS = 1024 }, "p1w8", 2.0)
    ask("dsa_topk", { M = 1, K = 16, POOLS = 32768 })
end

-- Which values of a number a line may have.
local function numbers(family)
    for _, case in ipairs({ { "us", "4.5", "7", "0", "-1", "1e999", "-1e999", "nan", "soon" },
        { "spread", "0", "1e999", "x" }, { "floor", "2.5", "-1e999" }, { "pass", "2", "1e999" } })
    do
        local said = { case[1] }
        for i = 2, #case do
            for _, regime in ipairs({ records.ALONE, records.CHAIN }) do
                local r = records.key("x", family, { M = 1, N = 32, K = 4096 }, regime)
                r.knobs, r.text, r.status, r.us = "s4p1c0u2o32", ("0"):rep(16), "ok", 1.0
                r[case[1]] = case[i]
                local read = records.parse(records.line(r))
                if read then said[#said + 1] = regime .. ":" .. case[i] end
            end
        end
        print(table.concat(said, " "))
    end
end

return function(words)
    local family = assert(catalog.find(choice.catalog(), "w8a8_gemv"))
    local known = records.new("x")
    if words[1] == "classes" then return classes(family, known) or 0 end
    if words[1] == "numbers" then return numbers(family) or 0 end
    if words[1] == "room" then return room(known) or 0 end
    steps[words[1]](function(fields) record(family, known, fields) end, function(M, class)
        local s = { M = M, N = 32, K = 4096 }
        assert(shape.fault(family.shape, s) == nil)
        say(known:best(family, s, DEV, class))
    end)
    return 0
end
