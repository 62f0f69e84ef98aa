-- The text of a file that a user named.
local fault = require("lua.fault")

local input = {}

-- subject: what the sentence begins with where it cannot be read.
function input.read(subject, path)
    local file <close>, why = io.open(path, "rb")
    local text = file and file:read("a")
    if not text then fault.usage(("%s: %s"):format(subject, why or path .. " cannot be read")) end
    return text
end

return input
