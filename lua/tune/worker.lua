-- The process in which candidates run: `lathe --tune-worker`, started by lua/tune/remote.lua. It
-- reads a request a line and answers each; whatever fails for another reason than the candidate
-- ends it, after an answer if it still can give one. Another one of it compiles ahead.
local arch = require("gen.arch")
local case = require("lua.case")
local catalog = require("gen.catalog")
local check = require("lua.check")
local choice = require("lua.choice")
local cold = require("lua.cold")
local fault = require("lua.fault")
local lathe = require("lathe")
local place = require("lua.place")
local records = require("lua.records")
local scope = require("lua.scope")
local shape = require("gen.shape")
local talk = require("lua.tune.talk")
local variant = require("gen.variant")

local ENDLESS <const> = "86400"  -- seconds: the tuner decides what hangs, not the CPU device

local requests = {}  -- by first word: (self, words..) -> words of the answer

local function answer(...)
    io.write(talk.join(...), "\n")
    io.flush()
end

-- open DEVICE
function requests.open(self, device_name)
    fault.expect(lathe.set("cpu_seconds", ENDLESS))
    self.target = place.open(device_name ~= "" and device_name or nil, self.families)
    local info = self.target.info
    return "device", info.name, info.model, info.key, info.arch, info.driver, info.sms
end

local function family_and_shape(self, family_name, shape_text)
    local family = fault.expect(catalog.find(self.families, family_name))
    return family, fault.expect(shape.parse(family, shape_text))
end

-- place FAMILY SHAPE SEED: draws inputs, twice, computes what is right, puts them on the device.
-- Where sums of small integers are exact the second ones are such.
function requests.place(self, family_name, shape_text, seed)
    self.placed:free()
    self.family, self.shape = family_and_shape(self, family_name, shape_text)
    local number, exact = math.tointeger(tonumber(seed)), self.family.check.exact
    local first = case.new({ family = self.family, shape = self.shape, seed = number })
    self.placed:add(first)
    self.copies = self.placed:add(cold.copies(self.target, first))
    local second = case.new({ family = self.family, shape = self.shape,
        seed = exact and number or number + 1, integers = exact })
    self.placed:add(second)
    self.other = self.placed:add(place.new(self.target, second))
    self.warm = self.target.is_cpu
    return "placed"
end

-- The kernel of knobs, which has this text.
local function kernel_of(self, knobs, text)
    local v = fault.expect(variant.parse(self.family, knobs))
    local kernel = choice.kernel(self.family, self.shape, v, self.target.arch, self.target.dev)
    if records.digest(kernel) ~= text then
        fault.usage(kernel.name .. ": its text has changed meanwhile (tune again)")
    end
    return kernel
end

-- Words that refuse a candidate that fails on these inputs; nil where it is right.
local function refusal(self, run)
    local result = check.run(run, check.plays(self.target, 0, false))
    if not result.failed then return nil end
    return { result.faulted and "device-error" or "wrong", result.failed }
end

local function refuse_other(self, kernel, loaded)
    local run <close> = check.ready(self.other, kernel, loaded)
    return refusal(self, run)
end

-- A launch that the timing spoilt, or a counter that it left, shows afterwards.
local function time(self, run, brief)
    if not self.warm then fault.reach(cold.time(run, self.copies, false)) end
    self.warm = true
    local timing, why = cold.time(run, self.copies, brief)
    if not timing then return { "device-error", why } end
    return refusal(self, run) or { "ok", timing.us, 100 * timing.spread }
end

-- try KNOBS TEXT: proves the candidate right and times it briefly -> ok US SPREAD, or its status
-- and why
function requests.try(self, knobs, text)
    local kernel = kernel_of(self, knobs, text)
    local loaded <close>, why = self.target.device:load(kernel)
    if not loaded then  -- a device that is lost says nothing about the candidate's text
        return self.target.device:sync() and "compile-failed" or "device-error", why
    end
    local refused = refuse_other(self, kernel, loaded)
    if refused then return table.unpack(refused) end
    local run <close> = check.ready(self.copies[1], kernel, loaded)
    return table.unpack(refusal(self, run) or time(self, run, true))
end

-- time KNOBS TEXT: one that was right, whole
function requests.time(self, knobs, text)
    local kernel = kernel_of(self, knobs, text)
    local loaded <close> = fault.reach(self.target.device:load(kernel))
    local run <close> = check.ready(self.copies[1], kernel, loaded)
    return table.unpack(time(self, run, false))
end

-- build FAMILY SHAPE ARCH SMS KNOBS..: fills the cache; an answer for each, then "done"
function requests.build(self, family_name, shape_text, arch_name, sms, ...)
    local family, s = family_and_shape(self, family_name, shape_text)
    local dev, list, kernels = arch.device(arch_name, math.tointeger(tonumber(sms))), { ... }, {}
    for i, knobs in ipairs(list) do
        local v = fault.expect(variant.parse(family, knobs))
        kernels[i] = choice.kernel(family, s, v, arch_name, dev)
    end
    local _, key_text = fault.reach(lathe.key(kernels[1]))
    if key_text:find("\ncompiler none\n", 1, true) then
        fault.device("tune: there is no compiler (`lathe build` says what is missing)")
    end
    for i, report in ipairs(fault.reach(lathe.build(kernels))) do
        if report.failed then
            answer("failed", list[i], report.failed)
        else
            answer("built", list[i], report.code)
        end
    end
    return "done"
end

local function serve(self)
    for line in io.lines() do
        local words = talk.split(line)
        local said = table.pack(requests[words[1]](self, table.unpack(words, 2)))
        answer(table.unpack(said))
        if said[1] == "device-error" and not self.target.is_cpu then return end  -- it is dead
    end
end

-- A whole life. Ends where the tuner has gone.
return function()
    local self = { families = choice.catalog(), placed = scope.new() }
    local ok, why = pcall(serve, self)
    if not ok then answer("failed", type(why) == "table" and why.text or tostring(why)) end
    return ok and 0 or 1
end
