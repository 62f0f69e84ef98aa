-- What the tests of `lathe tune` share: runs of it from outside, each with a cache of its own, and
-- what is in its records afterwards.
local cjson = require("cjson")
local outside = require("tests.lua.outside")

local kit = {
    read = outside.read, write = outside.write, changed = outside.changed,
    SHIPPED = "cache/tuned/cpu.tuned",
}

-- A record's line with its words replaced by pairs of pattern and text, sealed anew.
function kit.sealed(line, ...)
    line = line:gsub("\tsum=.*", "")
    for i = 1, select("#", ...), 2 do line = line:gsub(select(i, ...), (select(i + 1, ...))) end
    local pipe <close> = assert(io.popen(("printf '%%s' '%s' | sha256sum"):format(line)))
    return ("%s\tsum=%s\n"):format(line, pipe:read(8))
end

-- Runs with a scratch folder of their own, which the caller removes.
function kit.new()
    local run <const> = outside.new()
    local own = { scratch = run.scratch }

    local function words_of(cache, more)
        return ("LATHE_CACHE_DIR=%s/%s LATHE_TUNE_SECONDS=2 %s"):format(own.scratch, cache,
            more or "")
    end

    -- What stands in front of a program of the shell.
    function own.settings(cache, more)
        return "env LATHE_DEVICE=cpu " .. words_of(cache, more)
    end

    -- Stdout, stderr and exit code of `lathe words` with a cache of its own.
    function own.lathe(cache, words, more) return run.lathe(words, words_of(cache, more)) end

    -- The rows and all else that `lathe tune words --json` says.
    function own.tune(cache, words, more)
        local out, errors, code = own.lathe(cache, "--json tune " .. words, more)
        assert(out ~= "", errors)
        local all = cjson.decode(out)
        return all.rows[1], errors, code, all
    end

    -- The records of a cache as tables, in order, and the lines.
    function own.records_of(cache)
        local list, lines = {}, {}
        local text = kit.read(("%s/%s/tuned/cpu.tuned"):format(own.scratch, cache)) or ""
        for line in text:gmatch("[^\n]+") do
            local record = {}
            for field, value in line:gmatch("(%l+)=([^\t]*)") do record[field] = value end
            list[#list + 1], lines[#lines + 1] = record, line
        end
        return list, lines
    end

    -- A checkout in which some files differ, and nothing is shipped but what they say.
    function own.other_root(name, files)
        files[kit.SHIPPED] = files[kit.SHIPPED] or ""
        return run.other_root(files, name)
    end

    return own
end

return kit
