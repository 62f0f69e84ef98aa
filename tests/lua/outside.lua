-- ./lathe from the outside, in a process of its own: what the tests of commands share.
local assert = require("luassert")

local outside = {}

function outside.read(path)
    local file <close> = io.open(path, "rb")
    return file and file:read("a")
end

function outside.write(path, text)
    local file <close> = assert(io.open(path, "wb"))
    assert(file:write(text))
end

-- The text of a file in which one place reads otherwise.
function outside.changed(path, from, to)
    local text, count = outside.read(path):gsub(from:gsub("%p", "%%%0"), (to:gsub("%%", "%%%%")))
    assert(count == 1, path .. " holds no single " .. from)
    return text
end

-- Runs with a scratch folder of their own, which the caller removes, and a cache in it.
function outside.new()
    local own = { scratch = assert(io.popen("mktemp -d")):read("l") }

    -- Output, what stderr said, exit code of `lathe words`. env: "NAME=value ..." in front.
    function own.lathe(words, env)
        local errors = own.scratch .. "/stderr"
        local pipe = assert(io.popen(("env LATHE_CACHE_DIR=%s/cache LATHE_DEVICE=cpu %s ./lathe %s "
            .. "2>%s"):format(own.scratch, env or "", words, errors)))
        local out = pipe:read("a")
        local _, kind, code = pipe:close()
        return out, outside.read(errors), kind == "signal" and 128 + code or code or 0
    end

    -- One sentence on stderr that says `part`, nothing on stdout, exit code 2 (or `wanted`).
    function own.refused(words, part, env, wanted)
        local out, err, code = own.lathe(words, env)
        local what = ("lathe %s: '%s' with code %s"):format(words, err, code)
        assert.equal(wanted or 2, code, what)
        assert.equal("", out, what)
        assert.truthy(err:match("^lathe: [^\n]+\n$"), what)
        assert.falsy(err:find("traceback", 1, true), what)
        assert.truthy(err:find(part, 1, true), what .. " does not say " .. part)
    end

    -- A checkout in which some files differ: what is not in it comes from the program. name: of its
    -- folder, which is made anew.
    function own.other_root(files, name)
        local root = own.scratch .. "/" .. (name or "root")
        os.execute("rm -rf " .. root)
        for path, text in pairs(files) do
            os.execute(("mkdir -p '%s/%s'"):format(root, path:match("^(.*)/")))
            outside.write(root .. "/" .. path, text)
        end
        return "LATHE_ROOT=" .. root
    end

    return own
end

return outside
