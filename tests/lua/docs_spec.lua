-- The docs against what they speak of.
local function read(path)
    local f <close> = assert(io.open(path))
    return f:read("a")
end

local CASES <const> = 60

-- The rows of docs/pitfalls.md in order: { case, text = the last cell, now = that without what is
-- to come }.
local function pitfalls()
    local rows = {}
    for case, text in read("docs/pitfalls.md"):gmatch("\n| (A%d%d) |[^\n|]*|([^\n]*)|") do
        local from = text:find("*To come:*", 1, true) or #text + 1
        rows[#rows + 1] = { case = case, text = text, now = text:sub(1, from - 1) }
    end
    return rows
end

-- Calls see(file, name) for each test that a text names: behind `file.c:` names of functions in
-- `..`, behind `a_spec:` or the path of a Lua file sentences in *..*.
local function each_test(text, see)
    local marked = text
    for _, file in ipairs({ "[%w_]+%.c", "[%w_]+_spec", "[%w_/]+%.lua" }) do
        marked = marked:gsub("(" .. file .. "):", "\1%1\2")
    end
    for file, rest in marked:gmatch("\1([^\2]*)\2([^\1]*)") do
        for name in rest:gmatch(file:find("%.c$") and "`([%l%d]+_[%l%d_]+)`" or "%*([^*]+)%*") do
            see(file, name)
        end
    end
end

-- Is it a test of the file? In a sentence "…" stands for what the test itself puts there.
local function is_test(file, name)
    if file:find("%.c$") then
        return read("tests/cpu/" .. file):find(name .. "(void **state)", 1, true)
    end
    local pattern = name:gsub("%p", "%%%0"):gsub("…", '[^"\n]*')
    if file:find("_spec$") then
        return read(("tests/lua/%s.lua"):format(file)):find('"' .. pattern .. '"')
    end
    return read(file):find(pattern)
end

describe("docs/pitfalls.md", function()
    it("has a row for each case, in order", function()
        local rows = pitfalls()
        for i = 1, CASES do
            assert.equal(("A%02d"):format(i), rows[i] and rows[i].case)
        end
        assert.equal(CASES, #rows)
    end)

    it("names for each case a test, or why it cannot arise, or what it waits for", function()
        for _, row in ipairs(pitfalls()) do
            local count = 0
            each_test(row.now, function() count = count + 1 end)
            assert(count > 0 or row.now:find("tests/long/", 1, true)
                or row.now:find("cannot arise:", 1, true) or row.now ~= row.text, row.case)
        end
    end)

    it("names tests and files that exist", function()
        local count = 0
        for _, row in ipairs(pitfalls()) do
            each_test(row.now, function(file, name)
                count = count + 1
                assert(is_test(file, name), ("%s: %s: %s"):format(row.case, file, name))
            end)
            for path in row.text:gmatch("tests/[%w_/.]*%w") do
                local file <close> = io.open(path)
                assert(file, ("%s: %s"):format(row.case, path))
            end
        end
        assert.truthy(count > 100)
    end)
end)

describe("docs/testing.md", function()
    it("names C tests that exist, in the file that has them", function()
        local count = 0
        for file, name in read("docs/testing.md"):gmatch("([a-z_]+%.c): `([a-z0-9_]+)`") do
            count = count + 1
            local tests = read("tests/cpu/" .. file)
            assert(tests:find(("void %s(void **state)"):format(name), 1, true), name)
        end
        assert.truthy(count >= 5)
    end)
end)

describe("README.md and docs", function()
    it("link to files that exist", function()
        for _, path in ipairs({ "README.md", "docs/family.md", "docs/tour.md", "docs/cache.md" }) do
            local folder = path:match("^(.*/)") or ""
            for target in read(path):gmatch("%]%(([%w_./]+%.md)%)") do
                local file <close> = io.open(folder .. target)
                assert(file, path .. ": " .. target)
            end
        end
    end)
end)
