-- golden.lua OUT KIND FILE..: writes the generated texts of the family FILEs without the preludes:
-- OUT/<family>/<shape>__<variant>.cu, or <shape>__<variant>.<arch>.cu where architectures differ.
-- KIND few: the default variant of the first sample and the last one of the last, which is what
-- tests/golden holds; all: every kept variant of every sample. Prints the words of `lathe build`
-- for each, with the architectures that keep it, and their number.
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

-- The variants of sample i that are written.
local function chosen(family, i, dev)
    local samples = family.check.samples
    local kept = variant.kept(family, samples[i], dev)
    if kind == "all" then return kept end
    local list = {}
    if i == 1 then list[1] = kept[1] end
    if i == #samples and kept[#kept] ~= list[1] then list[#list + 1] = kept[#kept] end
    return list
end

-- Kernels' names in order, and name -> list of { arch, text }.
local function render(family, i)
    local names, texts = {}, {}
    for _, arch_name in ipairs(ARCHS) do
        for _, v in ipairs(chosen(family, i, arch.device(arch_name, 1))) do
            local kernel = emit.kernel({
                family = family, shape = family.check.samples[i], variant = v,
                arch = arch_name, read = read,
            })
            if not texts[kernel.name] then
                names[#names + 1], texts[kernel.name] = kernel.name, {}
            end
            table.insert(texts[kernel.name], { arch_name, kernel.text, kernel })
        end
    end
    return names, texts
end

-- The words of `lathe build` for a kernel.
local function words_of(list)
    local kernel, words, knobs, archs = list[1][3], {}, {}, {}
    words[1] = kernel.family.name
    for _, size in ipairs(kernel.family.shape) do
        words[#words + 1] = size .. "=" .. kernel.shape[size]
    end
    for i, knob in ipairs(kernel.family.knobs) do
        knobs[i] = knob[1] .. "=" .. kernel.variant[knob[1]]
    end
    for i, each in ipairs(list) do archs[i] = each[1] end
    local options = " --sms 1 --arch " .. table.concat(archs, ",")
    if #knobs > 0 then options = options .. " --knobs " .. table.concat(knobs, ",") end
    return table.concat(words, " ") .. options
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
    print(words_of(list))
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
    for i in ipairs(family.check.samples) do
        local names, texts = render(family, i)
        for _, each in ipairs(names) do save(folder, each, texts[each]) end
    end
end
print(count .. " texts")
