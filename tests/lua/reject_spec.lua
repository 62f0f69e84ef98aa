-- tests/reject: descriptions and templates that must be refused, each with the message that an
-- author gets. A file is cut at its "-- case: sentence" lines; "-- expect: message" follows,
-- in which FILE is the name that the case is loaded under. A case keeps its line numbers.
local catalog = require("gen.catalog")
local emit = require("gen.emit")
local fixtures = require("tests.lua.fixtures")
local variant = require("gen.variant")

-- Stands on the first line of each case of a .lua file.
local PREAMBLE <const> = ([[
local family = require("gen.family")
local function base()
    return {
        rev = 1, maths = "y[m] = x[m]", shape = { "M", "K" },
        serves = function(s)
            if s.K % 32 ~= 0 then return nil, "K is not a multiple of 32" end
            return true
        end,
        args = { { "y", "f32", { "M" }, out = true }, { "x", "f32", { "M" } } },
        knobs = { { "warps", 1, 2 } },
        class = function() return "copy" end,
        keep = function() return true end,
        launch = function() return { grid = 1, block = 32 } end,
        work = function(s) return { bytes = 8 * s.M, flops = 0 } end,
        check = { ulp = 1, samples = { { M = 2, K = 64 } } },
    }
end
]]):gsub("\n%s*", " ")

local KERNEL <const> = "LT_KERNEL(32 * WARPS) $(name)($(params())) {}\n"
local LIBS <const> = {
    ["templates/x.cut"] = KERNEL,
    ["templates/lib/bad.cut"] = "\n$(v.cols)\n",
}

-- { name, expect, text } for each case of a file; the lines in front of a case are empty in text.
local function cases_of(path, loaded_as)
    local cases, number = {}, 0
    for line in io.lines(path) do
        number = number + 1
        local name, expect = line:match("%-%- case: (.*)$"), line:match("%-%- expect: (.*)$")
        local case = cases[#cases]
        if name then
            cases[#cases + 1] = { name = name, text = ("\n"):rep(number) }
        elseif expect then
            case.expect, case.text = expect:gsub("FILE", loaded_as), case.text .. "\n"
        elseif case then
            case.text = case.text .. line .. "\n"
        end
    end
    return cases
end

-- Loads the case as families/x.lua and makes a kernel of its first family.
local function describe_and_emit(text)
    local c = catalog.load(function() return PREAMBLE .. text end, { "x.lua" })
    local family = c.list[1]
    emit.kernel({
        family = family, shape = family.check.samples[1], variant = variant.all(family)[1],
        arch = "sm_90a", read = fixtures.read_with(LIBS),
    })
end

-- Makes a kernel whose template is the case.
local function render(text)
    local source = PREAMBLE .. "return family(\"x\", base())"
    local family = catalog.load(function() return source end, { "x.lua" }).list[1]
    local function read(path)
        if path == "templates/x.cut" then return text end
        return fixtures.read_with(LIBS)(path)
    end
    emit.kernel({
        family = family, shape = { M = 2, K = 64 }, variant = { warps = 2 },
        arch = "sm_90a", read = read,
    })
end

local function check_file(path, loaded_as, run)
    describe(path, function()
        for _, case in ipairs(cases_of(path, loaded_as)) do
            it(case.name, function()
                assert.equal(case.expect, fixtures.failure(run, case.text))
            end)
        end
    end)
end

check_file("tests/reject/family.lua", "families/x.lua", describe_and_emit)
check_file("tests/reject/launch.lua", "families/x.lua", describe_and_emit)
check_file("tests/reject/template.cut", "templates/x.cut", render)

describe("the base of the rejected cases", function()
    it("is accepted, so that each case is refused for its own mistake", function()
        describe_and_emit("return family(\"x\", base())")
        render("LT_KERNEL(32 * WARPS) $(name)($(params())) {}")
    end)
end)
