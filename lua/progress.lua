-- One line on stderr that says how far a command is, where a person watches; gone when it ends.
local lathe = require("lathe")

local progress = {}

local GAP_US <const> = 100000  -- between two lines: the eye reads no faster
local WIDTH <const> = 100

-- Shows text(), at most ten times a second.
function progress:show(text)
    local now = lathe.now_us()
    if not self.watched or now - self.last < GAP_US then return end
    self.last, self.shown = now, true
    io.stderr:write("\r\27[K", text:sub(1, WIDTH))
    io.stderr:flush()
end

function progress:clear()
    if self.shown then io.stderr:write("\r\27[K") end
    self.shown = false
end

function progress.new()
    return setmetatable({ watched = lathe.is_watched(), last = 0, shown = false },
        { __index = progress, __close = progress.clear })
end

return progress
