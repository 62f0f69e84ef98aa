-- The keys of a table in a fixed order: strings and numbers, sorted by their text.
-- The only loops over a hash in gen/: their order never reaches a caller.
local order = {}

local function by_text(a, b) return tostring(a) < tostring(b) end

function order.keys(t)
    local keys, are_texts = {}, true
    for key in next, t do
        keys[#keys + 1] = key
        are_texts = are_texts and type(key) == "string"
    end
    table.sort(keys, not are_texts and by_text or nil)
    return keys
end

-- A copy of t; what it has in common with `more` is as there.
function order.merged(t, more)
    local copy = {}
    for key, value in next, t do copy[key] = value end
    for key, value in next, more do copy[key] = value end
    return copy
end

return order
