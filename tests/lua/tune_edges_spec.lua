-- Where tuning ends early, has nothing to find, or meets records that are damaged, on the CPU
-- device: what is said, and what is left.

local SCRATCH <const> = assert(io.popen("mktemp -d")):read("l")
local QUANT <const> = "w8a8_act_quant M=3 K=704"

local function read(path)
    local file <close> = assert(io.open(path, "rb"))
    return file:read("a")
end

local function write(path, text)
    os.execute(("mkdir -p -m 755 '%s'"):format(path:match("^(.*)/")))
    local file <close> = assert(io.open(path, "wb"))
    assert(file:write(text))
end

local function tuned(cache, device)
    return ("%s/%s/tuned/%s.tuned"):format(SCRATCH, cache, device or "cpu")
end

-- Stdout, stderr and exit code of `lathe words` with a cache of its own.
local function lathe(cache, words, more)
    local errors = SCRATCH .. "/stderr"
    local pipe = assert(io.popen(("env LATHE_CACHE_DIR=%s/%s LATHE_DEVICE=cpu LATHE_TUNE_SECONDS=2 "
        .. "%s ./lathe %s 2>%s"):format(SCRATCH, cache, more or "", words, errors)))
    local out = pipe:read("a")
    local code = select(3, pipe:close())
    return out, read(errors), code or 0
end

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("a file of records", function()
    it("that is none is said: nothing is tuned, and a plan is made without it", function()
        write(tuned("folder") .. "/x", "")
        local sentence <const> = ("lathe: records '%s' (mend that or set LATHE_CACHE_DIR): ")
            :format(tuned("folder"))
        local _, errors, code = lathe("folder", "tune " .. QUANT)
        assert.same({ 3, sentence .. "Is a directory\n" }, { code, errors })
        _, errors, code = lathe("folder", "plan --model tests/tiny")
        assert.same({ 0, sentence .. "not a regular file: none of them is used\n" },
            { code, errors })
    end)
end)
