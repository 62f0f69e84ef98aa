-- `lathe cache` where its folder is odd: there is none to use, or something in it stays.
local own <const> = require("tests.lua.outside").new()
local SCRATCH <const> = own.scratch

-- Stderr with the output behind it, exit code of `lathe words`.
local function lathe(words, settings)
    local out, errors, code = own.lathe(words, settings)
    return errors .. out, code
end

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("lathe cache", function()
    it("has no path where none is named and where that is not to be trusted", function()
        assert(os.execute(("mkdir -m 777 %s/others"):format(SCRATCH)))
        for _, settings in ipairs({ ("LATHE_CACHE_DIR=%s/others"):format(SCRATCH),
            "LATHE_CACHE_DIR= XDG_CACHE_HOME= HOME=" }) do
            for _, words in ipairs({ "cache path", "cache path --json" }) do
                local said, code = lathe(words, settings)
                assert.equal(2, code, said)
                assert.truthy(said:match("^lathe: cache[^\n]*\nlathe: cache: there is no folder "
                    .. "that it may use %(set LATHE_CACHE_DIR to one of yours%)\n$"), said)
            end
        end
    end)

    it("counts entries alone, and says what stays", function()
        local settings = ("LATHE_CACHE_DIR=%s/stays"):format(SCRATCH)
        assert(os.execute(("mkdir -p %s/stays && echo x >%s/stays/nvrtc.note"):format(SCRATCH,
            SCRATCH)))
        assert.equal("removed 0 entries\n", (lathe("cache clear", settings)))
        assert(os.execute(("mkdir -p %s/stays/k.0123456789abcdef/full"):format(SCRATCH)))
        assert.equal("removed 0 entries, 1 stay (in use by another process, or folders that are not"
            .. " empty)\n", (lathe("cache clear", settings)))
        assert.equal('{"kept":1,"removed":0}\n', (lathe("cache clear --json", settings)))
    end)
end)
