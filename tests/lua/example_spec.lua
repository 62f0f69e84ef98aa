-- The example of docs/family.md and docs/template.md: what a reader types in works as it stands.
local fixtures = require("tests.lua.fixtures")

local FILES <const> = {
    { "families/w8a8_rows.lua",     "docs/family.md" },
    { "families/w8a8_rows.c",       "docs/family.md" },
    { "templates/w8a8_rows.cut",    "docs/template.md" },
    { "templates/lib/e4m3_dot.cut", "docs/template.md" },
}

-- Links the program with the example's reference instead of all others; $X: the example's folder.
local LINK <const> = [[
unset MAKEFLAGS; here=$PWD
words() { make -s --no-print-directory --eval="words:;@echo '$1'" words; }
(cd $X && LUA_PATH="$here/?.lua;;" lua5.4 $here/tools/reference.lua . families/w8a8_rows.lua) &&
gcc -pie -Werror -I$X $(words '$(FLAGS) $(filter-out $(REFERENCE),$(OBJ))') $X/reference.c \
    $X/families/w8a8_rows.c -o $X/lathe $(words '$(LIBS)')
]]

local X <const> = assert(io.popen("mktemp -d")):read("l")

local function read(path)
    local file <close> = assert(io.open(path))
    return file:read("a")
end

-- What stands in the page behind the first mention of the file.
local function block(path, page)
    local text = read(page)
    return text:match("\n```%l*\n(.-)```", assert(text:find("`" .. path .. "`", 1, true), path))
end

-- What the shell's words print, and their exit code.
local function sh(words)
    local pipe = assert(io.popen(("X=%s; { %s\n} 2>&1"):format(X, words)))
    local said = pipe:read("a")
    local _, _, code = pipe:close()
    return said, code or 0
end

-- The example's `lathe words`.
local function lathe(words)
    return sh("LATHE_ROOT=$X LATHE_CACHE_DIR=$X/cache LATHE_DEVICE=cpu $X/lathe " .. words)
end

local function fine(said, code)
    assert.equal(0, code, said)
    return said
end

setup(function()
    fine(sh("mkdir -p $X/families $X/templates/lib"))
    for _, file in ipairs(FILES) do
        local f <close> = assert(io.open(X .. "/" .. file[1], "w"))
        assert(f:write(block(file[1], file[2])))
    end
    fine(sh(LINK))
end)

teardown(function() sh("rm -rf $X") end)

describe("the example of docs/family.md", function()
    it("is what the tests of gen/ work on", function()
        for _, file in ipairs(FILES) do
            assert.equal(fixtures.read(file[1]), block(file[1], file[2]))
        end
    end)

    it("has a text on each arch, as the page asks for it", function()
        for _, arch in ipairs({ "sm_90a", "sm_100a", "sm_121a" }) do
            assert.matches("\nw8a8_rows__m2_n96_k1552__c1w4s1u1(",
                fine(lathe("gen w8a8_rows M=2 N=96 K=1552 --arch " .. arch)), 1, true)
        end
    end)

    it("keeps a variant of every sample on a usual device", function()
        local said = fine(lathe("families w8a8_rows"))
        assert.equal(3, select(2, said:gsub("\n  M=%d+ N=%d+ K=%d+ +samples +1 ", "")), said)
    end)

    it("agrees with its reference", function()
        assert.matches("3 launches, 768 elements compared, 0 refused, 0 failed",
            fine(lathe("check w8a8_rows")), 1, true)
        assert.matches("0 refused, 0 failed",
            fine(lathe("check w8a8_rows M=1 N=64 K=1552 --all")), 1, true)
    end)

    it("compiles for a GPU", function()
        local said, code = lathe("build w8a8_rows M=2 N=96 K=1552 --arch sm_90a")
        if said:find("no compiler", 1, true) then pending("no NVRTC here") end
        fine(said, code)
    end)

    it("is refused with the file of its `keep` where that keeps nothing", function()
        fine(sh("sed -i '/is_safe(v) then/d' $X/families/w8a8_rows.lua"))
        assert.equal("lathe: w8a8_rows: m2_n96_k1552 has no variant for sm_90a with 132"
            .. " multiprocessors (`keep` in families/w8a8_rows.lua must keep one)\n",
            (lathe("gen w8a8_rows M=2 N=96 K=1552 --arch sm_90a")))
    end)
end)
