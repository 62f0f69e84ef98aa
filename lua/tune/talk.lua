-- What the tuner and its workers say to each other: a line of words, separated by tabs.
local talk = {}

function talk.join(...)
    local words = {}
    for i, word in ipairs({ ... }) do words[i] = tostring(word):gsub("%c", " ") end
    return table.concat(words, "\t")
end

function talk.split(line)
    local words = {}
    for word in (line .. "\t"):gmatch("(.-)\t") do words[#words + 1] = word end
    return words
end

return talk
