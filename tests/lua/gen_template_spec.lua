local fixtures = require("tests.lua.fixtures")
local template = require("gen.template")

local LIBS <const> = {
    ["templates/lib/reduce.cut"] = "@ use \"warp\"\nreduce $(2 + 2)\n",
    ["templates/lib/warp.cut"] = "warp\n@ use \"reduce\"\n",
    ["templates/lib/knob.cut"] = "\n$(v.cols)\n",
}

local function render(source, env)
    return template.render("templates/x.cut", source, env or {}, {
        read = function(path) return LIBS[path] end,
    })
end

local function text(source, env) return template.print(render(source, env), false) end

local function failure(source, env) return fixtures.failure(render, source, env) end

describe("template", function()
    it("copies what is neither a Lua line nor a hole", function()
        local plain = "a\n\n  $b @ $ (c) \\n \"q\" %d\n\t\\\n"
        assert.equal(plain, text(plain))
        assert.equal("a\n", text("a"))
        assert.equal("\n", text(""))
    end)

    it("fills holes with strings and integers, with nested parentheses", function()
        assert.equal("a1b-2c\n", text("a$(1)b$(-2)c"))
        assert.equal("f(3)(x)\n", text("f($((1 + (2))))$('(x)')"))
        assert.equal("7 7\n", text("$(n) $(v.n)", { n = 7, v = { n = 7 } }))
    end)

    it("takes a line whose first letter is @ as Lua", function()
        assert.equal("0:\n  1:\n", text("  @ for i = 0, 1 do\n$((' '):rep(2 * i))$(i):\n@ end\n"))
        assert.equal("b\n", text("@ if false then -- $(no hole)\na\n@ else\nb\n@ end"))
    end)

    it("pastes a lib once, in order of first use, and libs use libs", function()
        assert.equal("warp\nreduce 4\nx\ny\n",
            text("@ use \"reduce\"\nx\n@ use \"warp\"\n@ use \"reduce\"\ny\n"))
    end)

    it("shows a lib no knobs: its text is the same in every kernel", function()
        assert.equal("templates/lib/knob.cut:2: unknown name 'v'",
            failure("@ use \"knob\"", { v = { cols = 1 } }))
    end)

    it("names the template's line in every mistake", function()
        local cases = {
            { "$(8 / 2)", "templates/x.cut:1: a hole needs a string or an integer,"
                .. " got the float 4.0" },
            { "a\n$(undefined_name)", "templates/x.cut:2: unknown name 'undefined_name'" },
            { "@ for i = 1, 2 do\nx\n",
                "templates/x.cut:2: 'end' expected (to close 'for' at line 1) near <eof>" },
        }
        for _, case in ipairs(cases) do assert.equal(case[2], failure(case[1])) end
    end)

    it("seals the tables that it shows", function()
        local env = { v = template.sealed({ cols = 2 }, "v.") }
        assert.equal("templates/x.cut:2: unknown name 'v.colls'", failure("\n@ if v.colls then\n"
            .. "@ end", env))
        assert.equal("templates/x.cut:1: 'v.cols' cannot be set (a template's own names are"
            .. " local)", failure("@ v.cols = 3", env))
    end)

    it("keeps #line in step with template and libs", function()
        local out = template.print(render("a\n@ use \"reduce\"\nb\n@ -- gap\nc\nd\n"), true)
        assert.equal(table.concat({
            "#line 1 \"templates/x.cut\"", "a",
            "#line 1 \"templates/lib/warp.cut\"", "warp",
            "#line 2 \"templates/lib/reduce.cut\"", "reduce 4",
            "#line 3 \"templates/x.cut\"", "b",
            "#line 5 \"templates/x.cut\"", "c", "d", "",
        }, "\n"), out)
    end)

    it("gives each line of a hole with several lines the template's line", function()
        assert.equal("#line 1 \"templates/x.cut\"\na\n#line 1 \"templates/x.cut\"\nb\nc\n",
            template.print(render("$('a\\nb')\nc"), true))
    end)

    it("puts no #line into a macro that goes on", function()
        local out = template.print(render("#define A \\\n@ -- gap\n  b \\\n@\n  c\nd\n"), true)
        assert.equal("#line 1 \"templates/x.cut\"\n#define A \\\n  b \\\n  c\n"
            .. "#line 6 \"templates/x.cut\"\nd\n", out)
    end)

    it("loses nothing but #line lines without directives", function()
        local lines = render("a\n@ use \"reduce\"\nb\n")
        assert.equal(template.print(lines, false),
            (template.print(lines, true):gsub("#line[^\n]*\n", "")))
    end)
end)
