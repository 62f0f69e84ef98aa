-- What a user is told when a command cannot do what was asked: one sentence and an exit code.
-- Raised as a table, which the border prints; any other error is a sentence of gen/ or a bug.
local fault = {}

local CHECK <const>, USAGE <const>, DEVICE <const> = 1, 2, 3

local function raise(code, sentence) error({ code = code, text = sentence }, 0) end

function fault.check(sentence) raise(CHECK, sentence) end    -- what was computed is not right
function fault.usage(sentence) raise(USAGE, sentence) end    -- a wrong command line or input
function fault.device(sentence) raise(DEVICE, sentence) end  -- a device, a disk or memory fails

-- The values of a call that returns nil and a sentence when the user asked for what is not there.
function fault.expect(value, ...)
    if not value then fault.usage((...)) end
    return value, ...
end

-- The same for a call that fails when the machine does.
function fault.reach(value, ...)
    if not value then fault.device((...)) end
    return value, ...
end

return fault
