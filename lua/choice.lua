-- From the words of a command line to a family, a shape, an arch, a device and variants.
-- Every refusal is a fault whose sentence says what would have been right.
local arch = require("gen.arch")
local catalog = require("gen.catalog")
local emit = require("gen.emit")
local fault = require("lua.fault")
local lathe = require("lathe")
local message = require("gen.message")
local name = require("gen.name")
local param = require("gen.param")
local shape = require("gen.shape")
local variant = require("gen.variant")

local choice = {}

-- Multiprocessors of the usual device of an arch, where none is opened: H200, B200, RTX 5090, GB10.
local SMS <const> = {
    sm_90a = 132, sm_100a = 148, sm_100f = 148, sm_120a = 170, sm_120f = 170,
    sm_121a = 48, sm_121f = 48, cpu = 1,
}

-- Keys of their records.
local KEYS <const> = {
    sm_90a = "nvidia-h200", sm_100a = "nvidia-b200", sm_100f = "nvidia-b200",
    sm_120a = "nvidia-geforce-rtx-5090", sm_120f = "nvidia-geforce-rtx-5090",
    sm_121a = "nvidia-gb10", sm_121f = "nvidia-gb10", cpu = "cpu",
}

-- Whose text can be asked for: `cpu/NAME` is a name of our own.
local KNOWN <const> = {}
for _, each in ipairs(arch.names) do KNOWN[each] = true end

local texts <const> = {}  -- files of the project by path; false: there is none

-- A file of the project, or nil: what gen/ reads templates with. A process reads each once, so that
-- all its kernels are of one state of the files.
function choice.read(path)
    if texts[path] == nil then texts[path] = lathe.read(path) or false end
    return texts[path] or nil
end

-- A sentence with what to do, unless it says so already.
local function with_hint(sentence, hint)
    return sentence:sub(-1) == ")" and sentence or ("%s (%s)"):format(sentence, hint)
end

function choice.catalog()
    return catalog.load(choice.read, fault.expect(lathe.list("families")))
end

function choice.family(families, family_name)
    local family, why = catalog.find(families, family_name)
    if not family then fault.usage(with_hint(why, "`lathe families` lists them")) end
    return family
end

-- The shape of { "M=2", "N=4096" }, served or not.
function choice.sizes(family, words)
    local s, why = shape.from_words(family, words)
    if not s then
        why = why:gsub("^family [^:]*: ", "")
        local hint = ("`lathe families %s` shows its sizes"):format(family.name)
        fault.usage(("%s: %s"):format(family.name, with_hint(why, hint)))
    end
    return s
end

-- Does the family serve s? nil and the reason where it does not: no arg may be empty, or larger
-- than any memory.
function choice.served(family, s)
    local served, why = family.serves(s)
    if served then served, why = param.args(family, s) end
    if served then return true end
    return nil, why or "its family gives no reason"
end

-- The shape of such words, which the family must serve.
function choice.shape(family, words)
    local s = choice.sizes(family, words)
    local served, why = choice.served(family, s)
    if not served then
        fault.usage(("%s: %s is not served: %s"):format(family.name, shape.text(family, s), why))
    end
    return s
end

function choice.arch(arch_name)
    if not KNOWN[arch_name] then
        local tip = message.did_you_mean(arch_name, arch.names)
        fault.usage(with_hint(("arch '%s': no such name%s"):format(arch_name, tip),
            "known: " .. table.concat(arch.names, " ")))
    end
    return arch_name
end

-- The names of "sm_90a,sm_121a".
function choice.archs(text)
    local list = {}
    for each in (text .. ","):gmatch("(.-),") do list[#list + 1] = choice.arch(each) end
    return list
end

-- The number of an option, `least` or more, or nil where it was not given.
function choice.number(option, text, least)
    if text == nil then return nil end
    local n = text:match("^%d+$") and math.tointeger(tonumber(text))
    if not n or n < least then
        fault.usage(("%s: '%s' is not a number of %d or more"):format(option, text, least))
    end
    return n
end

-- The dev of gen/: the arch's usual device, or one with `sms` multiprocessors.
function choice.facts(arch_name, sms) return arch.device(arch_name, sms or SMS[arch_name]) end

-- Refuses a name that no device can have; subject: where it was given.
function choice.check_device(subject, device_name)
    if device_name ~= "cpu" and not device_name:match("^cuda:%d%d?%d?%d?$") then
        fault.usage(("%s: '%s' is no device (give cuda:0, cuda:1 and so on, or cpu)"):format(
            subject, device_name))
    end
end

-- A device that is open, its info and its dev of gen/. device_name: nil for the default one.
function choice.device(device_name)
    local device = fault.reach(lathe.device(device_name or ""))
    local info = device:info()
    return device, info, arch.device(info.arch, info.sms)
end

-- The key of an arch's usual device; nil where `sms` multiprocessors are another's.
function choice.key(arch_name, sms)
    return (not sms or sms == SMS[arch_name]) and KEYS[arch_name] or nil
end

-- Arch name, dev and the key of records for a text that no device runs: of --arch, else the GPU's,
-- else of sm_90a.
function choice.target(options)
    local sms = choice.number("--sms", options.sms, 1)
    if options.arch then
        local arch_name = choice.arch(options.arch)
        return arch_name, choice.facts(arch_name, sms), KEYS[arch_name]
    end
    local _, info, dev = choice.device(options.device)
    if info.arch == "cpu" then return "sm_90a", choice.facts("sm_90a", sms), KEYS.sm_90a end
    return info.arch, sms and choice.facts(info.arch, sms) or dev, info.key
end

-- The variant of --knobs: "warps=8,split=4" on top of the default one, or w8s4, which names have;
-- without --knobs the default.
function choice.variant(family, s, dev, words)
    local default = variant.default(family, s, dev)
    if not words then
        if not default then fault.usage(choice.no_variant(family, s, dev)) end
        return default
    end
    local v, why
    if words:match("^%l%d") then
        v, why = variant.parse(family, words)
    else
        v, why = variant.from_words(family, words, default)
    end
    if not v then
        why = why:gsub("^family [^:]*: ", "")
        local hint = ("`lathe families %s` shows its knobs"):format(family.name)
        fault.usage(("--knobs: %s: %s"):format(family.name, with_hint(why, hint)))
    end
    if not family.keep(s, v, dev) then
        fault.usage(("--knobs: %s %s does not keep %s (`lathe families %s %s` lists what it keeps)")
            :format(family.name, shape.text(family, s), variant.text(family, v), family.name,
                choice.words(family, s)))
    end
    return v
end

function choice.no_variant(family, s, dev)
    return ("%s: %s has no variant for %s with %d multiprocessors (`keep` in %s must keep one)")
        :format(family.name, shape.text(family, s), dev.arch, dev.sms, family.file)
end

-- "M=2 N=4096": a shape as a user writes it.
function choice.words(family, s)
    local words = {}
    for i, size in ipairs(family.shape) do words[i] = ("%s=%d"):format(size, s[size]) end
    return table.concat(words, " ")
end

function choice.kernel_name(family, s, v) return name.kernel(family, s, v) end

function choice.kernel(family, s, v, arch_name, dev)
    return emit.kernel({
        family = family, shape = s, variant = v, arch = arch_name, dev = dev, read = choice.read,
    })
end

return choice
