-- The keys of a table in a fixed order: strings and numbers, sorted by their text.
-- The only loop over a hash in gen/: its order never reaches a caller.
local order = {}

function order.keys(t)
    local keys = {}
    for key in next, t do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    return keys
end

return order
