-- Plans from the outside: `lathe plan --model DIR` on the tiny model and on headers of full shapes.
local cjson = require("cjson")
local full = require("tests.lua.full_checkpoint")

local SCRATCH <const> = assert(io.popen("mktemp -d")):read("l")
local TINY <const> = "tests/tiny"

-- Stdout, stderr and exit code of a command under these variables.
local function lathe(words, variables)
    local errors = SCRATCH .. "/stderr"
    local pipe = assert(io.popen(("env LATHE_CACHE_DIR=%s/cache %s ./lathe %s 2>%s"):format(
        SCRATCH, variables or "", words, errors)))
    local out = pipe:read("a")
    local _, _, code = pipe:close()
    local file <close> = assert(io.open(errors))
    return out, file:read("a"), code or 0
end

local function plan(words, variables)
    local out, errors, code = lathe("plan --dry --json " .. words, variables)
    assert.equal(0, code, errors)
    return cjson.decode(out)
end

local function refused(words, sentence)
    local _, errors, code = lathe(words)
    assert.equal(2, code, errors)
    assert.equal("lathe: " .. sentence .. "\n", errors)
end

local function sections(all)
    local words = {}
    for i, each in ipairs(all.sections) do words[i] = ("%s %d"):format(each.section, each.steps) end
    return table.concat(words, ", ")
end

local function bytes_of(all, kind)
    local sum = 0
    for _, row in ipairs(all.memory) do sum = sum + (row.kind == kind and row.bytes or 0) end
    return sum
end

-- Calls f(name, place) for what each step reads and writes.
local function each_place(all, f)
    for i, row in ipairs(all.rows) do
        for _, list in ipairs({ row.reads, row.writes }) do
            for _, place in ipairs(list) do f(i, place) end
        end
    end
end

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("the tiny model's decode plan", function()
    local tiny = plan("--model " .. TINY)

    it("has the steps of each section", function()
        assert.equal(115, tiny.steps)
        assert.equal("HEAD 3, MHC 16, KDA_FRONT 6, KDA_RECUR 6, KDA_BACK 6, MLP_DENSE 3, "
            .. "MOE_SHARED 14, MOE_ROUTER 7, MOE_EXPERTS 14, MOE_COMBINE 7, "
            .. "DSA_PROJ 14, DSA_INDEXER 6, DSA_SELECT 8, DSA_ATTEND 2, MHC_POST 2, NORM 1",
            sections(tiny))
        assert.equal("embed.mhc_expand", tiny.rows[1].step)
        assert.equal("head.argmax.f32", tiny.rows[115].step)
    end)

    it("sums its steps' bytes and floors", function()
        local bytes, us = 0, 0
        for _, row in ipairs(tiny.rows) do
            bytes, us = bytes + row.bytes, us + row.floor_us
            assert.near(1.4 + row.bytes / 4.55e6, row.floor_us, 1e-6)
        end
        assert.equal(bytes, tiny.bytes)
        assert.near(us, tiny.floor_us, 1e-6)
    end)

    it("puts no two values that live at once on the same bytes", function()
        local lives = {}
        each_place(tiny, function(step, place)
            if place.kind ~= "activations" then return end
            local life = lives[place.value] or { first = step, from = place.offset, to = 0 }
            lives[place.value], life.last = life, place.value:find("^/") and 169 or step
            life.to = math.max(life.to, place.offset + place.bytes)
            assert.equal(0, place.offset % 256)
            assert.equal(life.from, place.offset)
        end)
        for name, a in pairs(lives) do
            for other, b in pairs(lives) do
                local meet = a.first <= b.last and b.first <= a.last and a.from < b.to
                    and b.from < a.to
                assert.falsy(name ~= other and meet, name .. " and " .. other)
            end
        end
    end)

    it("counts every kind of memory once", function()
        local kinds = { "weights", "states", "activations", "scratch", "inputs" }
        local sum = 0
        for _, kind in ipairs(kinds) do sum = sum + bytes_of(tiny, kind) end
        assert.equal(sum, tiny.memory_bytes)
        assert.truthy(bytes_of(tiny, "weights") > 6.5e6 and bytes_of(tiny, "weights") < 13e6)
        local seen, states = {}, 0
        each_place(tiny, function(_, place)
            if place.kind == "states" and not seen[place.value] then
                seen[place.value], states = true, states + place.bytes
            end
        end)
        assert.equal(states, bytes_of(tiny, "states"))
    end)

    it("has another buffer for each value on the CPU device", function()
        local all, owner = plan("--model " .. TINY .. " --arch cpu"), {}
        each_place(all, function(_, place)
            if place.kind ~= "activations" then return end
            owner[place.buffer] = owner[place.buffer] or place.value
            assert.equal(owner[place.buffer], place.value)
        end)
    end)

    it("says with which instruction an arch without the block-scaled mma multiplies FP4", function()
        for arch, class in pairs({ sm_90a = "mma.bf16", sm_121a = "mma.nvf4", cpu = "mma.bf16" }) do
            local count = 0
            for _, row in ipairs(plan(("--model %s --arch %s"):format(TINY, arch)).rows) do
                if row.kernel:find("^w4a4_gemv") or row.kernel:find("^w4a4_moe") then
                    assert.equal(class, row.class:match("^[^_]*"), row.kernel)
                    count = count + 1
                end
            end
            assert.equal(16, count)
        end
    end)

    it("has the class of a weight's product in all modes", function()
        local classes = {}
        for _, row in ipairs(tiny.rows) do classes[row.step] = row.class end
        for _, rows in ipairs({ 3, 16 }) do
            local words = ("--model %s --mode prefill --rows %d"):format(TINY, rows)
            for _, row in ipairs(plan(words).rows) do
                assert.equal(classes[row.step], row.class, row.step)
            end
        end
    end)
end)

describe("a plan's digest", function()
    local words = "--model " .. TINY
    local digest = plan(words).digest

    it("is the same in another process, folder and language", function()
        assert.equal(64, #digest)
        local copy = SCRATCH .. "/other folder"
        os.execute(("mkdir '%s' && cp %s/* '%s'"):format(copy, TINY, copy))
        local there = plan(("--model '%s'"):format(copy), "LANG=de_DE.UTF-8 LC_ALL=C.UTF-8")
        assert.equal(digest, there.digest)
    end)

    it("is another for another recipe, arch, mode, number of rows and context", function()
        local seen = { [digest] = words }
        for _, more in ipairs({
            "--recipe reference", "--arch sm_120a", "--arch cpu", "--mode prefill --rows 1",
            "--mode prefill --rows 3", "--mode prefill", "--context 64",
        }) do
            local other = plan(words .. " " .. more).digest
            assert.equal(nil, seen[other], more)
            seen[other] = more
        end
    end)
end)

describe("a model by name", function()
    it("has a plan without files, of any rank", function()
        local all = plan("--model-shape glm-5.3-flash --ranks 3 --rank 0")
        assert.equal(624, all.steps)
        local gigabytes = bytes_of(all, "weights") / 1e9
        assert.truthy(gigabytes > 62.8 and gigabytes < 63.0, gigabytes)  -- model.md 8.4: 62.91
    end)

    it("is one model, and no checkpoint", function()
        refused("plan", "plan: whose? (give --model DIR or --model-shape NAME)")
        refused("plan --model " .. TINY .. " --model-shape glm-5.3-flash",
            "plan: --model and --model-shape ask for different models (give one of them)")
        refused("plan --check --model-shape glm-5.3-flash",
            "plan: --check looks at a checkpoint, and --model-shape has none")
    end)
end)

describe("headers of full shapes", function()
    it("are planned in less than 5 s, with the largest context that fits", function()
        full.write(SCRATCH, { num_hidden_layers = 5, n_routed_experts = 16 })
        local pipe = assert(io.popen("date +%s%N"))
        local start = tonumber(pipe:read("a"))
        pipe:close()
        local all = plan("--model " .. SCRATCH)
        pipe = assert(io.popen("date +%s%N"))
        assert.truthy(tonumber(pipe:read("a")) - start < 5e9)
        pipe:close()
        assert.equal(64, all.steps)
        assert.equal(524288, all.largest_context)  -- dsa_topk has no more pools
        assert.truthy(all.bytes > 2.3e9 and all.bytes < 2.4e9)
    end)

    it("that do not fit say so", function()
        full.write(SCRATCH, { num_hidden_layers = 45, n_routed_experts = 40 })
        local fits = plan("--model " .. SCRATCH)
        assert.truthy(fits.memory_bytes < fits.device_bytes)
        local less = plan("--model " .. SCRATCH .. " --arch sm_120a")
        local much = ("--model %s --arch sm_120a --context %d"):format(SCRATCH,
            math.tointeger(less.largest_context) + 64)
        assert.truthy(less.largest_context > 0 and less.largest_context < 524288)
        assert.truthy(plan(much).memory_bytes > less.device_bytes - (1 << 30))
    end)
end)

describe("lathe plan refuses", function()
    it("what it does not serve, in one sentence", function()
        local model = "plan --dry --model " .. TINY
        refused(model .. " --mode verify", "--mode: 'verify' is not served (known: decode prefill)")
        refused(model .. " --rows 2", "--rows: 2 rows are asked for, but decode runs 1 row")
        refused(model .. " --mode prefill --rows 17",
            "--rows: 17 rows are asked for, but prefill runs 1 to 16 rows of one sequence")
        refused(model .. " --rows x", "--rows: 'x' is not a number of 1 or more")
        refused(model .. " --recipe cart",
            "--recipe: recipe 'cart': no such name (known: card, reference)")
        refused(model .. " --context 5000",
            "--context: 5000 tokens are asked for, the model has 4096 positions")
        refused(model .. " --check",
            "plan: --check knows no --dry (it looks at the checkpoint alone)")
    end)
end)

describe("lathe build --model", function()
    it("names each kernel that it may not compile", function()
        local out, errors, code = lathe("build --json --arch sm_90a --mode decode --model " .. TINY,
            "LATHE_JIT=off")
        assert.equal(1, code)
        local names = {}
        for _, row in ipairs(cjson.decode(out).rows) do names[row.kernel] = true end
        for _, row in ipairs(plan("--model " .. TINY).rows) do
            assert.truthy(names[row.kernel], row.kernel)
            assert.truthy(errors:find(("kernel %s: it is not in the cache"):format(row.kernel), 1,
                true), row.kernel)
        end
        assert.truthy(errors:find("kernel pack_nvfp4_tile16__", 1, true))  -- of the weights
    end)

    it("refuses words that do not go together", function()
        refused("build", "build: what? (give a family and its shape, or --model)")
        refused("build w8a8_gemv --model " .. TINY,
            "build: --model chooses families and variants by itself")
        refused("build w8a8_gemv --rows 2", "build: --rows is a word of --model")
    end)
end)
