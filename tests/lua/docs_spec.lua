-- The docs against what they speak of.
local function read(path)
    local f <close> = assert(io.open(path))
    return f:read("a")
end

describe("docs/pitfalls.md", function()
    it("names C tests that exist", function()
        local count = 0
        local pipe <close> = assert(io.popen("cat tests/cpu/*.c"))
        local tests = pipe:read("a")
        for name in read("docs/pitfalls.md"):gmatch("`([a-z0-9_]+)`") do
            if name:find("_", 1, true) then
                count = count + 1
                assert(tests:find(("void %s(void **state)"):format(name), 1, true), name)
            end
        end
        assert.truthy(count > 40)
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
