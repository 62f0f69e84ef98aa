-- archs.lua FILE..: the words of `lathe build` for the family FILEs, one a line: the first sample
-- on each architecture that keeps a variant of it, the model's shapes on an H200 and a GB10.
package.path = "./?.lua;" .. package.path
local arch = require("gen.arch")
local catalog = require("gen.catalog")
local variant = require("gen.variant")

local CARDS <const> = { { "sm_90a", 132 }, { "sm_121a", 48 } }

local function read(path)
    local f <close> = io.open(path, "rb")
    return f and f:read("a")
end

local function put(family, s, archs, sms)
    local words = { family.name }
    for _, size in ipairs(family.shape) do words[#words + 1] = size .. "=" .. s[size] end
    print(("%s --sms %d --arch %s"):format(table.concat(words, " "), sms, archs))
end

local files = {}
for i = 1, #arg do files[i] = arg[i]:match("([^/]+)$") end
for _, family in ipairs(catalog.load(read, files).list) do
    local kept, first = {}, family.check.samples[1]
    for _, name in ipairs(arch.names) do
        local is_kept = name ~= "cpu" and variant.default(family, first, arch.device(name, 1))
        if is_kept then kept[#kept + 1] = name end
    end
    put(family, first, table.concat(kept, ","), 1)
    for _, s in ipairs(family.check.real or {}) do
        for _, card in ipairs(CARDS) do
            if variant.default(family, s, arch.device(card[1], card[2])) then
                put(family, s, card[1], card[2])
            end
        end
    end
end
