-- A file that an option names. It appears whole or not at all (runtime/whole.c), and is opened
-- before the work begins, so that one that cannot be made is refused then.
local fault = require("lua.fault")
local lathe = require("lathe")

local output = {}

local OUTPUT <const> = { __index = output, __close = function(o) o:drop() end }

-- Close it with <close>: what was not kept is gone.
function output.open(option, path)
    local file, why = lathe.whole(path)
    if not file then fault.usage(("%s: %s"):format(option, why)) end
    return setmetatable({ option = option, file = file }, OUTPUT)
end

function output:drop()
    if self.file then self.file:free() end
    self.file = nil
end

local function check(self, ok, why)
    if ok then return end
    self:drop()
    fault.device(("%s: %s"):format(self.option, why))
end

function output:write(text) check(self, self.file:write(text)) end

-- rows: what lathe.write_tensors takes.
function output:write_tensors(rows) check(self, lathe.write_tensors(self.file, rows)) end

-- Now the file is there; not where a write has failed.
function output:keep()
    local file = self.file
    self.file = nil
    if file then check(self, file:keep()) end
end

return output
