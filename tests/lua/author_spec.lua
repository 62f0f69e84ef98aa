-- An author's mistakes in a family, from the outside: each is said in one sentence, with file and
-- line; and what `lathe families` says of what is right.
local outside = require("tests.lua.outside")

local own <const> = outside.new()
local lathe <const>, refused <const>, other_root <const> = own.lathe, own.refused, own.other_root
local QUANT <const> = "families/w8a8_act_quant.lua"

-- A family in its place that is right.
local RIGHT <const> = [[
local family = require("gen.family")
return family("w8a8_act_quant", {
    rev = 1,
    maths = "q[m,k] = x[m,k]",
    shape = { "M", "K" },
    serves = function() return true end,
    args = {
        { "q", "e4m3", { "M", "K" }, out = true },
        { "sx", "f32", { "M" }, out = true },
        { "x", "bf16", { "M", "K" } },
    },
    knobs = { { "warps", 8 } },
    class = function() return "exact" end,
    keep = function() return true end,
    launch = function(s, v) return { grid = s.M, block = 32 * v.warps } end,
    work = function(s) return { bytes = s.M * s.K, flops = 0 } end,
    check = {
        bits = true,
        samples = { { M = 1, K = 22 } },
    },
})
]]

-- What an author may write instead of a line of it, and what is said then by `lathe check` or
-- `lathe WORDS`; LINE is that line's number.
local AUTHORS <const> = {
    { [[keep = function() return true end]],
        [[keep = function(s) return 1 + require("gen.tile").ceil(s.Q, 2) end]],
        ":LINE: gen/tile.lua:" },
    { [[class = function() return "exact" end]], [[class = function() error({ code = 7 }) end]],
        ":LINE: an error without a sentence" },
    { [[rev = 1,]], [[rev = require("gen.nothing"),]], ":LINE: gen/nothing.lua: no such file" },
    { [[rev = 1,]], [[rev = = 1,]], ":LINE: unexpected symbol near '='", "families" },
    { [[rev = 1,]], [[rev = (function() while true do end end)(),]],
        ":LINE: it does not end (300 million steps)", "families" },
    { [[rev = 1,]], [[rev = (function(x) while true do x = x .. x end end)("x"),]],
        ":LINE: out of memory: 67108889 bytes at once", "families" },
    { [[bits = true,]], [[bits = true, draw = { x = "gaussian" },]],
        ": family w8a8_act_quant: check: draw of 'x': draw 'gaussian': no such distribution" },
    { [[bits = true,]], [[bits = true, draw = { x = function() return "a" end },]],
        ": family w8a8_act_quant: check: draw of 'x': element 0 must be a number, got the" },
    { [[bits = true,]], [[bits = true, draw = { x = function(_, _, any) return any(0) end },]],
        ": family w8a8_act_quant: check: draw of 'x': random takes an integer of 1 or more" },
}

-- The same, where the program's reference does not know what it is called with.
local OTHERS <const> = {
    { '{ "x",', '{ "c", "bf16", { 1 } }, { "x",' }, { '"M", "K" },', '"K", "M" },' },
    { '{ "M" }, out', '{ "K" }, out' }, { "bits = true", "relative = 0" },
}

local function line_of(text, part)
    return select(2, text:sub(1, text:find(part, 1, true)):gsub("\n", "\n")) + 1
end

local function instead(part, other)
    local from, to = RIGHT:find(part, 1, true)
    return RIGHT:sub(1, from - 1) .. other .. RIGHT:sub(to + 1)
end

teardown(function() os.execute("rm -rf " .. own.scratch) end)

describe("an author", function()
    for _, case in ipairs(AUTHORS) do
        it(("of `%s` gets one sentence with file and line"):format(case[2]), function()
            local root = other_root({ [QUANT] = instead(case[1], case[2]) })
            local said = case[3]:gsub("LINE", tostring(line_of(RIGHT, case[1])))
            refused(case[4] or "check w8a8_act_quant M=3 K=704", QUANT .. said,
                root .. (case[4] and " LATHE_DEBUG=1" or ""))
        end)
    end

    it("who gives no reason why a shape is not served is said to give none", function()
        local silent = instead("serves = function() return true end",
            "serves = function(s) return s.M < 3 end")
        refused("check w8a8_act_quant M=3 K=704",
            "m3_k704 is not served: its family gives no reason", other_root({ [QUANT] = silent }))
    end)

    for _, case in ipairs(OTHERS) do
        it(("gets no reference that was built for others, with `%s`"):format(case[2]), function()
            refused("check w8a8_act_quant M=3 K=704", "family w8a8_act_quant: its sizes and args "
                .. "are not those", other_root({ [QUANT] = instead(case[1], case[2]) }))
        end)
    end

    it("sees a state told from an output, and every measure, in `lathe families`", function()
        local state = instead([[{ "x", "bf16", { "M", "K" } },]],
            [[{ "x", "bf16", { "M", "K" }, inout = true },]])
        assert.truthy(lathe("families w8a8_act_quant", other_root({ [QUANT] = state })):match(
            "x +bf16 +M x K +inout"))
        local measures = instead("bits = true,", "ulp = 1, relative = 0.5,")
        assert.truthy(lathe("families w8a8_act_quant", other_root({ [QUANT] = measures })):find(
            "check      1 ulp, 0.5 relative", 1, true))
    end)
end)
