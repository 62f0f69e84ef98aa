-- Runs busted's tests under lua5.4: lua5.4 tests/lua/run.lua FILE|FOLDER..
-- Debian's `busted` starts whatever `lua` is, often 5.1. Prints what failed and, at the end, the
-- counts; exits 1 where something failed or nothing ran.
package.path = "./?.lua;" .. package.path

local busted = require("busted.core")()
require("busted")(busted)
require("busted.languages.en")

local counts = { success = 0, failure = 0, error = 0, pending = 0 }

local function full_name(element)
    local names = {}
    while element and element.name do
        table.insert(names, 1, element.name)
        element = busted.context.parent(element)
    end
    return table.concat(names, ": ")
end

local function show(element, message, trace)
    print(("%s\n    %s"):format(full_name(element), tostring(message):gsub("\n", "\n    ")))
    if trace and trace.traceback and type(message) ~= "string" then print(trace.traceback) end
end

busted.subscribe({ "test", "end" }, function(_, _, status)
    counts[status] = counts[status] + 1
    return nil, true
end)
for _, kind in ipairs({ "failure", "error" }) do
    busted.subscribe({ kind }, function(element, _, message, trace)
        if element.descriptor ~= "it" then counts.error = counts.error + 1 end  -- no test ends
        show(element, message, trace)
        return nil, true
    end)
end

require("busted.modules.test_file_loader")(busted, { "lua" })(arg, { "_spec%.lua$" }, {
    excludes = {}, recursive = false,
})
require("busted.execute")(busted)(1, {})

local failed = counts.failure + counts.error
print(("%d successes / %d failures / %d errors / %d pending"):format(
    counts.success, counts.failure, counts.error, counts.pending))
print(("%d passed, %d failed"):format(counts.success, failed))
os.exit(failed == 0 and counts.success > 0, true)
