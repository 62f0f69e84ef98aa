-- What a compiled kernel is found again by: each thing that may differ between two builds, one by
-- one, and whether the second one takes the first one's entry.
local SCRATCH <const> = assert(io.popen("mktemp -d")):read("l")
local TREE <const> = assert(io.popen("pwd")):read("l")
local CACHE <const> = SCRATCH .. "/cache"
local FAMILY <const> = "families/w8a8_act_quant.lua"
local TEMPLATE <const> = "templates/w8a8_act_quant.cut"

local function sh(line) assert(os.execute(line), line) end

local function read(path)
    local file <close> = assert(io.open(path, "rb"))
    return file:read("a")
end

-- Where the kernel's image comes from: "cache", "compiler", ..
local function origin(before, words)
    local line = ("%s LATHE_DEVICE=cpu %s/lathe build w8a8_act_quant M=1 K=64 %s --json 2>&1")
    local pipe = assert(io.popen(line:format(before, TREE, words or "--arch sm_90a")))
    local said = pipe:read("a")
    if said:find("there is no compiler", 1, true) then pending("no NVRTC here") end
    return said:match('"origin":"(.-)"') or said
end

-- A checkout in another folder, with this file changed.
local function checkout(path, from, to)
    local root = SCRATCH .. "/another checkout"
    sh(("rm -rf '%s' && mkdir '%s' && cp -r gen lua families templates '%s'"):format(
        root, root, root))
    if path then
        local text, count = read(path):gsub(from:gsub("%p", "%%%0"), (to:gsub("%%", "%%%%")), 1)
        assert.equal(1, count, path)
        local file <close> = assert(io.open(root .. "/" .. path, "wb"))
        file:write(text)
    end
    return ("env LATHE_CACHE_DIR=%s LATHE_ROOT='%s'"):format(CACHE, root)
end

local HERE <const> = "env LATHE_CACHE_DIR=" .. CACHE .. " "

-- What differs from the first build; how to say that; whether its entry is found.
local CASES <const> = {
    { "nothing", function() return HERE end, true },
    { "the checkout's folder", function() return checkout() end, true },
    { "the working folder, and the files inside the program",
        function() return "cd / && " .. HERE end, true },
    { "the locale", function()
        os.execute(("localedef -i tr_TR -f UTF-8 %s/tr_TR.UTF-8 >/dev/null 2>&1"):format(SCRATCH))
        return ("%s LOCPATH=%s LC_ALL=tr_TR.UTF-8"):format(HERE, SCRATCH)
    end, true },
    { "user name, home, time zone and umask", function()
        return "umask 077; " .. HERE .. "HOME=/nowhere USER=another TZ=Asia/Tokyo"
    end, true },
    { "settings that no image depends on", function()
        return HERE .. "LATHE_JOBS=1 LATHE_SPILL=error LATHE_CPU_ORDER=3 LATHE_CACHE_LIMIT=7"
    end, true },
    { "the place of the cache", function()
        sh(("cp -r %s %s/copy"):format(CACHE, SCRATCH))
        return ("env LATHE_CACHE_DIR=%s/copy"):format(SCRATCH)
    end, true },
    { "the time of the entry", function()
        sh(("touch -d 2001-01-01 %s/w8a8_act_quant__*"):format(CACHE))
        return HERE
    end, true },
    { "the place of the same compiler", function()
        local library = assert(io.popen("ldconfig -p | awk '/libnvrtc.so/ { print $NF; exit }'"))
        local path = library:read("l")
        if not path then pending("NVRTC is not among the system's libraries") end
        sh(("ln -s %s %s/libnvrtc.so"):format(path, SCRATCH))
        return ("%s LATHE_NVRTC=%s/libnvrtc.so"):format(HERE, SCRATCH)
    end, true },
    { "a comment of the family", function()
        return checkout(FAMILY, "return family(", "-- a remark\nreturn family(")
    end, true },
    { "a Lua line of the template that changes no text", function()
        return checkout(TEMPLATE, "\n", "\n@ -- a remark\n")
    end, true },
    { "a character of the template's text", function()
        return checkout(TEMPLATE, "{\n", "{ \n")
    end, false },
    { "a library of templates that it uses", function()
        return checkout("templates/lib/e4m3_codes.cut", "(amax, 448.0f)", "(amax, 449.0f)")
    end, false },
    { "a comment of the prelude", function()
        return checkout("templates/prelude/cuda.h", "\n", "\n// a remark\n")
    end, false },
    { "an option of the compiler", function()
        return ("%s LATHE_DUMP=%s/dump"):format(HERE, SCRATCH)
    end, false },
    { "the arch", function() return HERE end, false, "--arch sm_121a" },
}

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("a kernel that is built again where what differs is", function()
    local first

    for _, case in ipairs(CASES) do
        local what, set_up, found, words = table.unpack(case, 1, 4)
        it(what .. (found and ": takes the entry" or ": is compiled"), function()
            first = first or origin(HERE)
            assert.equal("compiler", first)
            assert.equal(found and "cache" or "compiler", origin(set_up(), words))
        end)
    end

    it("the compiler, of which there is none: takes the entry, and says so", function()
        assert.equal("compiler", first or origin(HERE))
        assert.equal("older compiler", origin(HERE .. "LATHE_NVRTC=/nowhere LATHE_DEBUG=0"))
    end)
end)

-- mhc_pre is a text in which NVRTC joins loads by where its own memory lies.
describe("a text that is compiled in five empty caches", function()
    it("becomes the same machine code, where a process may hold its addresses still", function()
        if not os.execute("setarch -R true 2>/dev/null") then pending("setarch -R is refused") end
        local line <const> = ("env LATHE_CACHE_DIR=%s/fresh%d ./lathe build mhc_pre M=2 H=200 "
            .. "--arch sm_90a --sms 132 --json 2>&1")
        local first
        for i = 1, 5 do
            local said <const> = assert(io.popen(line:format(SCRATCH, i))):read("a")
            if said:find("there is no compiler", 1, true) then pending("no NVRTC here") end
            local code <const> = assert(said:match('"code":"(%x+)"'), said)
            first = first or code
            assert.equal(first, code)
        end
    end)
end)
