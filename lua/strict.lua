-- A global that was never set is an error when it is read, and a new one when it is set: a slip of
-- the hand stops at its line. require("lua.strict") once in every process.
local function refuse(_, key)
    error(("unknown global '%s'"):format(tostring(key)), 2)
end

local meta = getmetatable(_G) or {}
meta.__index = refuse
meta.__newindex = refuse
setmetatable(_G, meta)

return true
