-- archs.lua FILE..: the words of `lathe build` for the samples of the family FILEs, one a line, on
-- each architecture that keeps a variant of them.
package.path = "./?.lua;" .. package.path
local arch = require("gen.arch")
local catalog = require("gen.catalog")
local variant = require("gen.variant")

local function read(path)
    local f <close> = io.open(path, "rb")
    return f and f:read("a")
end

local files = {}
for i = 1, #arg do files[i] = arg[i]:match("([^/]+)$") end
for _, family in ipairs(catalog.load(read, files).list) do
    for _, s in ipairs(family.check.samples) do
        local words, kept = { family.name }, {}
        for _, size in ipairs(family.shape) do words[#words + 1] = size .. "=" .. s[size] end
        for _, name in ipairs(arch.names) do
            local is_kept = name ~= "cpu" and variant.default(family, s, arch.device(name, 1))
            if is_kept then kept[#kept + 1] = name end
        end
        print(table.concat(words, " ") .. " --sms 1 --arch " .. table.concat(kept, ","))
    end
end
