-- lathe cache: where it is, what is in it, is it whole; make it smaller, empty it.
local fault = require("lua.fault")
local lathe = require("lathe")
local report = require("lua.report")

local cache = { summary = "the cache of compiled kernels" }

local ACTIONS <const> = { "path", "list", "verify", "gc", "clear" }
local MIB <const> = 1 << 20
local MINUTE <const>, HOUR <const>, DAY <const> = 60, 3600, 86400  -- seconds

function cache.declare(command)
    command:argument("action", "path, list, verify (read every entry whole), gc (down to "
        .. "LATHE_CACHE_LIMIT) or clear"):choices(ACTIONS)
end

local function age(seconds)
    if seconds < 2 * MINUTE then return ("%ds"):format(seconds // 1 | 0) end
    if seconds < 2 * HOUR then return ("%dmin"):format(seconds // MINUTE | 0) end
    if seconds < 2 * DAY then return ("%dh"):format(seconds // HOUR | 0) end
    return ("%dd"):format(seconds // DAY | 0)
end

local run = {}

function run.path(options, store)
    local path, writable = store:folder()
    if path == "" then
        fault.usage("cache: there is no folder that it may use (set LATHE_CACHE_DIR to one of "
            .. "yours)")
    end
    if options.json then return report.json({ path = path, writable = writable }) end
    print(path)
end

local function total(items)
    local bytes = 0
    for _, item in ipairs(items) do bytes = bytes + item.bytes end
    return bytes
end

function run.list(options, store)
    local items = fault.reach(store:list(false))
    for _, item in ipairs(items) do item.whole, item.why = nil, nil end
    report.print(options, { { "name", "entry" }, { "bytes", "bytes" },
        { "age_seconds", "last used", format = age } }, items)
    if not options.json then print(("%d entries, %d bytes"):format(#items, total(items))) end
end

function run.verify(options, store)
    local items = fault.reach(store:list(true))
    local damaged = {}
    for _, item in ipairs(items) do
        if not item.whole then damaged[#damaged + 1] = item end
    end
    local columns = { { "name", "damaged entry" }, { "why", "what is wrong" } }
    report.print(options, columns, damaged, { entries = #items, damaged = #damaged })
    if not options.json then
        print(("%d entries, %d damaged (they are replaced when they are needed)"):format(
            #items, #damaged))
    end
    return #damaged > 0 and 1 or 0
end

function run.gc(options, store)
    local limit = math.tointeger(tonumber(lathe.setting("cache_limit"))) * MIB
    local removed, bytes = fault.reach(store:gc(limit))
    if options.json then return report.json({ removed = removed, bytes = bytes }) end
    print(("removed %d entries, %d bytes"):format(removed, bytes))
end

function run.clear(options, store)
    local removed = fault.reach(store:clear())
    local kept = #fault.reach(store:list(false))
    if options.json then return report.json({ removed = removed, kept = kept }) end
    print(("removed %d entries%s"):format(removed, kept > 0 and (", %d stay (in use by another "
        .. "process, or folders that are not empty)"):format(kept) or ""))
end

function cache.run(options)
    return run[options.action](options, fault.reach(lathe.store()))
end

return cache
