-- Parts of messages: how a wrong value is named, and which legal word a wrong one was meant to be.
-- Words only: nothing here decides what is legal.
local message = {}

local FAR <const> = 2  -- letters that a slip of the hand changes at most

-- "the float 4.0", "the string 'x'", "a table", "nil"
function message.describe(x)
    local kind = math.type(x) or type(x)
    if kind == "nil" then return "nil" end
    if kind == "string" then return ("the string '%s'"):format(x) end
    if kind == "table" or kind == "function" then return "a " .. kind end
    return ("the %s %s"):format(kind, tostring(x))
end

-- Letters to insert, drop or change on the way from a to b.
local function distance(a, b)
    local row = {}
    for j = 0, #b do row[j] = j end
    for i = 1, #a do
        local diagonal = row[0]
        row[0] = i
        for j = 1, #b do
            local change = diagonal + (a:byte(i) == b:byte(j) and 0 or 1)
            diagonal = row[j]
            row[j] = math.min(change, row[j] + 1, row[j - 1] + 1)
        end
    end
    return row[#b]
end

-- " (did you mean 'knobs'?)", or "" where no legal word is near.
function message.did_you_mean(word, legal)
    local best, least = nil, FAR + 1
    for _, candidate in ipairs(legal) do
        local far = distance(word, candidate)
        if far < least and far < #word then best, least = candidate, far end
    end
    return best and (" (did you mean '%s'?)"):format(best) or ""
end

return message
