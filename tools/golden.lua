-- golden.lua OUT KIND FILE..: writes the generated texts of the family FILEs without the preludes:
-- OUT/<family>/<shape>__<variant>.cu, or <shape>__<variant>.<arch>.cu where architectures differ.
-- KIND few: for each sample shape the first and the last kept variant, which is what tests/golden
-- holds; all: every kept variant.
package.path = "./?.lua;" .. package.path
local arch = require("gen.arch")
local catalog = require("gen.catalog")
local emit = require("gen.emit")
local name = require("gen.name")
local variant = require("gen.variant")

local out <const>, kind <const> = arg[1], arg[2]
local ARCHS <const> = { "sm_90a", "sm_121a" } -- one of each kind

local function read(path)
    local f <close> = io.open(path, "rb")
    return f and f:read("a")
end

local function write(path, text)
    local f <close> = assert(io.open(path, "wb"))
    assert(f:write(text))
end

local function chosen(family, s, dev)
    local kept = variant.kept(family, s, dev)
    if kind == "all" or #kept < 2 then return kept end
    return { kept[1], kept[#kept] }
end

-- Kernels' names in order, and name -> list of { arch, text }.
local function render(family, s)
    local names, texts = {}, {}
    for _, arch_name in ipairs(ARCHS) do
        for _, v in ipairs(chosen(family, s, arch.device(arch_name, 1))) do
            local kernel = emit.kernel({
                family = family, shape = s, variant = v, arch = arch_name, read = read,
            })
            if not texts[kernel.name] then
                names[#names + 1], texts[kernel.name] = kernel.name, {}
            end
            table.insert(texts[kernel.name], { arch_name, kernel.text })
        end
    end
    return names, texts
end

local function agree(list)
    for _, each in ipairs(list) do
        if each[2] ~= list[1][2] then return false end
    end
    return true
end

local count = 0
local function save(folder, kernel_name, list)
    local file = folder .. "/" .. kernel_name:match("^.-__(.*)$")
    if agree(list) then list = { { false, list[1][2] } } end
    for _, each in ipairs(list) do
        write(file .. (each[1] and "." .. each[1] or "") .. ".cu", each[2])
        count = count + 1
    end
end

local files = {}
for i = 3, #arg do files[#files + 1] = arg[i]:match("([^/]+)$") end
for _, family in ipairs(catalog.load(read, files).list) do
    local folder = out .. "/" .. name.symbol(family.name)
    assert(os.execute("mkdir -p '" .. folder .. "'"))
    for _, s in ipairs(family.check.samples) do
        local names, texts = render(family, s)
        for _, each in ipairs(names) do save(folder, each, texts[each]) end
    end
end
print(count .. " texts")
