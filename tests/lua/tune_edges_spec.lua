-- Where tuning ends early, has nothing to find, or meets records that are damaged, on the CPU
-- device: what is said, and what is left.
local cjson = require("cjson")
local tune_kit = require("tests.lua.tune_kit")

local read <const>, kit <const> = tune_kit.read, tune_kit.new()
local lathe <const>, SCRATCH <const> = kit.lathe, kit.scratch
local QUANT <const> = "w8a8_act_quant M=3 K=704"

local function write(path, text)
    os.execute(("mkdir -p -m 755 '%s'"):format(path:match("^(.*)/")))
    tune_kit.write(path, text)
end

local function tuned(cache, device)
    return ("%s/%s/tuned/%s.tuned"):format(SCRATCH, cache, device or "cpu")
end

-- A record of a cache with what is replaced in it.
local function resealed(cache, pattern, by)
    return tune_kit.sealed(read(tuned(cache)):match("[^\n]*"), pattern, by)
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

    it("that is damaged is said once by whatever reads it", function()
        for _, device in ipairs({ "cpu", "nvidia-h200" }) do
            write(tuned("damaged", device), "what is this\n\0\xff\n")
        end
        local function said(words, device)
            local _, errors, code = lathe("damaged", words)
            assert.same({ 0, ("lathe: records: 2 lines of %s are torn, foreign or another device's "
                .. "and are skipped\n"):format(device) }, { code, errors }, words)
        end
        said("plan --model tests/tiny", "cpu")
        said("plan --model tests/tiny --arch sm_90a", "nvidia-h200")
        said("bench rms_norm --planned", "cpu")
        said("build --arch sm_90a rms_norm M=1 K=256 --planned", "nvidia-h200")
        said("why rms_norm__m1_k256__w1 --arch sm_90a", "nvidia-h200")
        said("tune --model tests/tiny --rows 1 --regime chain --budget 0", "cpu")
    end)

    it("of another device is said, and none of its lines is used", function()
        lathe("own", "tune " .. QUANT)
        local lines = select(2, read(tuned("own")):gsub("\n", ""))
        write(tuned("copied", "nvidia-h200"), read(tuned("own")))
        local _, errors = lathe("copied", "plan --model tests/tiny --arch sm_90a")
        assert.equal(("lathe: records: %d lines of nvidia-h200 are torn, foreign or another "
            .. "device's and are skipped\n"):format(lines), errors)
    end)
end)

describe("lathe tune that ends early", function()
    it("does not promise that --again goes on", function()
        for words, rest in pairs({
            ["rms_norm"] = "goes on with the rest",
            ["rms_norm --again"] = "begins anew, without --again it goes on with what has no "
                .. "record",
            ["--model tests/tiny --rows 1 --regime chain"] = "goes on with the rest",
            ["--model tests/tiny --rows 1 --regime chain --again"] = "begins anew, without --again "
                .. "it goes on with what has no record",
        }) do
            local out = lathe("early", ("tune %s --budget 0"):format(words))
            assert.equal("the same command " .. rest, out:match("; ([^\n]*)\nrecords "), words)
        end
    end)

    it("has no counts of shapes that were not looked at", function()
        local rows = cjson.decode((lathe("early", "--json tune rms_norm --budget 0"))).rows
        for _, key in ipairs({ "measured", "known", "rejected", "open" }) do
            assert.truthy(rows[1][key], key)
            for i = 2, #rows do assert.equal(nil, rows[i][key], key) end
        end
        assert.truthy(#rows > 1)
    end)

    it("keeps nothing, and says nothing of it, where the first record cannot be written", function()
        local path <const> = "lua/cold.lua"
        local text, count = read(path):gsub("    local device = run%.",
            ("    os.execute('mkdir -p %s')\n%%0"):format(tuned("full")))
        assert.equal(1, count)
        local root <const> = SCRATCH .. "/other"
        write(root .. "/" .. path, text)
        local _, errors, code = lathe("full", "tune " .. QUANT, "LATHE_ROOT=" .. root)
        assert.equal(3, code)
        assert.equal(("lathe: records '%s' (mend that or set LATHE_CACHE_DIR): Is a directory\n")
            :format(tuned("full")), errors)
    end)
end)

describe("lathe tune --merge", function()
    local function merge(lines)
        write(SCRATCH .. "/lines", lines)
        return lathe("merged", "tune --merge " .. SCRATCH .. "/lines")
    end

    it("ignores a device that cannot name a file, and says so", function()
        lathe("source", "tune " .. QUANT)
        local lines = {}
        for i, device in ipairs({ "CPU", "../../x", "", ("x"):rep(200), "a b", "x1" }) do
            lines[i] = resealed("source", "device=cpu", "device=" .. device)
        end
        local out, errors, code = merge(table.concat(lines))
        assert.same({ 0, "added 1 records, 0 were known (x1)\n" }, { code, out })
        assert.equal("lathe: merge: 5 lines are torn or foreign, ignored\n", errors)
    end)

    it("writes no device's records before it has those of all", function()
        write(tuned("merged", "x3") .. "/x", "")
        local out, errors, code = merge(resealed("source", "device=cpu", "device=x2")
            .. resealed("source", "device=cpu", "device=x3"))
        assert.same({ 3, "" }, { code, out })
        assert.truthy(errors:find("/merged/tuned/x3.tuned' (mend that or set LATHE_CACHE_DIR): Is",
            1, true), errors)
        assert.equal("", read(tuned("merged", "x2")))
    end)
end)
