-- What the fixture says against what lathe makes of it. Runs where there is a module `lathe`: in
-- tests/cpu/tokenizer_file.c. Each function returns how many cases it saw and raises on the first
-- that differs.
local cjson = require("cjson")
local tokenizer = require("lua.tokenizer")

local check = {}

local CASES <const> = "tests/tokenizer/cases.json"

local function read(path)
    local file <close> = assert(io.open(path, "rb"))
    return file:read("a")
end

local function cases() return cjson.decode(read(CASES)) end

local function as_strings(merges)
    local list = {}
    for i, pair in ipairs(merges) do list[i] = table.concat(pair, " ") end
    return list
end

-- The tokenizer of a variant: its file with the parts that it replaces.
local function open(variant)
    local file = cjson.decode(read(variant.file))
    for name, part in pairs(variant.parts) do file[name] = part end
    for name, value in pairs(variant.model) do
        if name == "merges" then value = as_strings(file.model.merges) end
        file.model[name] = value
    end
    return (tokenizer.parse(cjson.encode(file)))
end

local function as_text(ids)
    local list = {}
    for i, id in ipairs(ids) do list[i] = ("%d"):format(id) end
    return table.concat(list, " ")
end

-- Numbers of JSON are floats: -> integers
local function whole(list)
    local ids = {}
    for i, id in ipairs(list) do ids[i] = assert(math.tointeger(id)) end
    return ids
end

local function same(got, want, what, text)
    if got == want then return end
    error(("%s of %q:\n  got  %s\n  want %s"):format(what, text, got, want), 0)
end

local function digest(ids)
    local h = 0
    for _, id in ipairs(ids) do h = (h * 1000003 + id) & 0xffffffff end
    return ("%d ids, hash %d"):format(#ids, h)
end

-- Every text in every variant gives the ids of the independent implementation.
function check.encode()
    local fixture, count = cases(), 0
    for _, variant in ipairs(fixture.variants) do
        local t <close> = open(variant)
        for i, text in ipairs(fixture.texts) do
            local want = variant.ids[i]
            if want ~= cjson.null then
                same(as_text(assert(t:encode(text))), as_text(want), variant.name, text)
                count = count + 1
            end
        end
        for i, want in ipairs(variant.long or {}) do
            local text, times = fixture.long[i][1], math.tointeger(fixture.long[i][2])
            same(digest(assert(t:encode(text:rep(times)))), ("%d ids, hash %d"):format(
                math.tointeger(want[1]), math.tointeger(want[2])), variant.name, text .. "...")
            count = count + 1
        end
    end
    return count
end

-- The bytes of a text's ids are the text, where nothing was dropped or put in.
function check.bytes()
    local fixture, count = cases(), 0
    local t <close> = open(fixture.variants[1])
    local ascii <close> = open(fixture.variants[#fixture.variants])
    for _, text in ipairs(fixture.texts) do
        same(ascii:bytes(ascii:encode(text)), text, "bytes", text)
        count = count + 1
        if not text:find("<mask>", 1, true) and not text:find("<sep>", 1, true) then
            same(t:bytes(t:encode(text)), text, "bytes", text)
        end
    end
    return count
end

-- A stream gives the text of the independent implementation, in portions of whole characters.
local function check_streams(t, list)
    for _, case in ipairs(list) do
        local stream <close> = t:stream()
        local portions = {}
        for i, id in ipairs(whole(case[1])) do
            portions[i] = assert(stream:push(id))
            assert(utf8.len(portions[i]), "a portion is not UTF-8")
        end
        portions[#portions + 1] = stream:finish()
        same(table.concat(portions), case[2], "text", as_text(case[1]))
    end
    return #list
end

function check.decode()
    local fixture = cases()
    local t <close> = open(fixture.variants[1])
    local tiny <close> = open(fixture.variants[#fixture.variants])
    return check_streams(t, fixture.decode) + check_streams(tiny, fixture.tiny_decode)
end

return check
