-- A worker process from the outside: started when it is needed, asked with a limit, started again
-- where it crashed, hung or lost its device.
local fault = require("lua.fault")
local lathe = require("lathe")
local talk = require("lua.tune.talk")

local remote = {}

-- device_name: what open() opens, nil for the default one.
function remote.new(device_name)
    return setmetatable({ device_name = device_name }, { __index = remote, __close = remote.stop })
end

function remote:stop()
    if self.process then self.process:free() end
    self.process, self.info = nil, nil
end

-- The words of its next answer within `seconds`; or nil, "late" or "gone", and of the last how it
-- ended. Then it is no more.
function remote:hear(seconds)
    local until_us <const> = lathe.now_us() + 1e6 * seconds
    local line, kind, why = self.process:receive(seconds)
    while kind == "again" do
        line, kind, why = self.process:receive(math.max(0, (until_us - lathe.now_us()) / 1e6))
    end
    if line then return talk.split(line) end
    self:stop()
    return nil, kind, why
end

function remote:say(...)
    if not self.process then self.process = fault.reach(lathe.worker("--tune-worker")) end
    fault.reach(self.process:send(talk.join(...)))
end

function remote:ask(seconds, ...)
    self:say(...)
    return self:hear(seconds)
end

-- As ask, of a request that is answered with the word `wanted`; nil and a sentence where it is not,
-- the empty one where time was over.
local function demand(self, seconds, wanted, ...)
    local words, kind, why = self:ask(seconds, ...)
    if words and words[1] == wanted then return words end
    self:stop()
    if kind == "late" then return nil, "" end
    return nil, words and words[2] or "worker: " .. (why or words[1])
end

-- Opens the device, where it is not open: { name, model, key, arch, driver, sms }; or as demand.
function remote:open(seconds)
    if self.info then return self.info end
    local words, why = demand(self, seconds, "device", "open", self.device_name or "")
    if not words then return nil, why end
    self.info = { name = words[2], model = words[3], key = words[4], arch = words[5],
        driver = words[6], sms = math.tointeger(tonumber(words[7])) }
    self.at = nil
    return self.info
end

-- Puts the inputs of a shape on the device, where they are not there: true, or as demand.
function remote:place(seconds, family_name, shape_text, seed)
    local info, why = self:open(seconds)
    if not info then return nil, why end
    local at = talk.join(family_name, shape_text, seed)
    if self.at == at then return true end
    self.at = nil
    local words
    words, why = demand(self, seconds, "placed", "place", family_name, shape_text, seed)
    if not words then return nil, why end
    self.at = at
    return true
end

return remote
