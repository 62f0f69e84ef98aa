-- Readers of texts for tests/fuzz/fuzz.c, by name: each takes a text or refuses it with a sentence.
require("lua.strict")
local catalog = require("gen.catalog")
local cli = require("lua.cli")
local config = require("lua.model.config")
local emit = require("gen.emit")
local fault = require("lua.fault")
local files = require("lua.model.files")
local lathe = require("lathe")
local records = require("lua.records")
local tokenizer = require("lua.tokenizer")
local variant = require("gen.variant")

local fuzz = {}

local FAMILY <const> = [[
local family = require("gen.family")
return family("x", {
    rev = 1, maths = "y[m] = x[m]", shape = { "M", "K" }, serves = function() return true end,
    args = { { "y", "f32", { "M" }, out = true }, { "x", "f32", { "M" } } },
    knobs = { { "warps", 1, 2 } }, class = function() return "copy" end,
    keep = function() return true end, launch = function() return { grid = 1, block = 32 } end,
    work = function(s) return { bytes = 8 * s.M, flops = 0 } end,
    check = { ulp = 1, samples = { { M = 2, K = 64 } } },
})
]]

local function read_with(template)
    return function(path)
        if path == "templates/x.cut" then return template end
        return lathe.read(path)
    end
end

local function emit_of(source, template)
    local family = catalog.load(function() return source end, { "x.lua" }).list[1]
    emit.kernel({
        family = family, shape = family.check.samples[1], variant = variant.all(family)[1],
        arch = "sm_90a", read = read_with(template),
    })
end

function fuzz.config(text) config.read(text) end

local FOLDER <const> = assert(io.popen("mktemp -d")):read("l")

-- A folder with this index and no shard.
function fuzz.index(text)
    local file <close> = assert(io.open(FOLDER .. "/model.safetensors.index.json", "wb"))
    file:write(text)
    file:flush()
    local found = { folder = FOLDER, faults = {} }
    function found:fault(_, sentence, ...)
        table.insert(self.faults, sentence:format(...))
    end
    function found.note(_, sentence, ...) return sentence:format(...) end
    files.map(found, { "model-1.safetensors" })
    if found.weights then found.weights:free() end
end

function fuzz.tokenizer(text)
    local t = tokenizer.parse(text)
    t:encode("a\u{e9} 12\nthe  end")
    t:free()
end

function fuzz.record(text)
    for line in text:gmatch("[^\n]+") do
        local record = records.parse(line)
        if record then records.line(record) end
    end
end

function fuzz.family(text) emit_of(text, "LT_KERNEL(32) $(name)($(params())) {}\n") end

function fuzz.template(text) emit_of(FAMILY, text) end

-- Commands that only print.
local ALLOWED <const> = { gen = true, families = true, config = true }

rawset(os, "exit", function() fault.usage("end") end)  -- of --help and --version

function fuzz.words(text)
    local words = {}
    for word in text:gmatch("[^\n%z]+") do words[#words + 1] = word end
    if ALLOWED[words[1]] then cli(words) end
end

return fuzz
