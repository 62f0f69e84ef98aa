-- `lathe bench` of a model's step, on the CPU device, and models that are known by name.
local cjson = require("cjson")

local SCRATCH <const> = assert(io.popen("mktemp -d")):read("l")
local TINY <const> = "tests/tiny"
local LAUNCHES <const> = 115  -- of a step of the tiny model

-- Stdout, stderr and exit code of a command.
local function lathe(words, variables)
    local errors = SCRATCH .. "/stderr"
    local line = "env LATHE_DEVICE=cpu LATHE_CACHE_DIR=%s/cache %s ./lathe %s 2>%s"
    local pipe = assert(io.popen(line:format(SCRATCH, variables or "", words, errors)))
    local out = pipe:read("a")
    local _, _, code = pipe:close()
    local file <close> = assert(io.open(errors))
    return out, file:read("a"), code or 0
end

local function refused(words, sentence)
    local _, errors, code = lathe(words)
    assert.equal(2, code, errors)
    assert.equal("lathe: " .. sentence .. "\n", errors)
end

-- What a script prints inside ./lathe, in place of its command line.
local function inside(script)
    local folder = SCRATCH .. "/tree/lua"
    assert(os.execute("mkdir -p " .. folder))
    local file = assert(io.open(folder .. "/cli.lua", "w"))
    file:write("return function(argv)\n", script, "\nreturn 0 end\n")
    file:close()
    local out, errors, code = lathe("", "LATHE_ROOT=" .. SCRATCH .. "/tree")
    assert.equal(0, code, errors)
    return out
end

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("bench of a model's step", function()
    local path = SCRATCH .. "/page.html"
    local out, errors, code = lathe(("bench --model %s --contexts 96,32 --json --html %s"):format(
        TINY, path))
    assert.equal(0, code, errors)
    local all = cjson.decode(out)

    it("times the whole at each length", function()
        assert.same({ 32, 96 }, { all.steps[1].context, all.steps[2].context })
        for _, step in ipairs(all.steps) do
            assert.equal(LAUNCHES, step.launches)
            assert.is_true(step.ms > 0 and math.abs(step.rate * step.ms - 1000) < 1)
        end
        assert.is_true(all.steps[2].bytes > all.steps[1].bytes)
    end)

    it("times each kernel over all its launches", function()
        local launches, sum, share = 0, 0, 0
        for _, kernel in ipairs(all.kernels) do
            launches, sum = launches + kernel.launches, sum + kernel.total
            share = share + kernel.share
            assert.is_true(math.abs(kernel.us * kernel.launches - kernel.total) < 1e-6 * sum)
        end
        assert.equal(LAUNCHES, launches)
        assert.is_true(math.abs(sum - all.sum_us) < 1e-6 * sum and math.abs(share - 100) < 1e-6)
    end)

    it("times each kernel behind its producers too, but for the one that begins a step", function()
        local without = {}
        for _, kernel in ipairs(all.kernels) do
            if kernel.chain == nil then without[#without + 1] = kernel.kernel:match("^(.-)__") end
        end
        assert.same({ "mhc_expand" }, without)
    end)

    it("draws a page that needs no other file", function()
        local file <close> = assert(io.open(path))
        local text = file:read("a")
        assert.equal(LAUNCHES, select(2, text:gsub("<rect", "")))
        assert.equal(2, select(2, text:gsub("<svg", "")))
        assert.truthy(text:find("<p>CPU device, lathe bench</p>", 1, true))
        assert.truthy(text:find("<th>chain us</th>", 1, true))
        assert.is_nil(text:find("https?://") or text:find(" src=") or text:find("<link"))
    end)

    it("names no driver where there is none", function()
        local text, said, status = lathe("bench --contexts 32 --model " .. TINY)
        assert.equal(0, status, said)
        assert.truthy(text:find("^tests/tiny, rank 0 of 1, on CPU device; loaded in "), text)
    end)

    it("refuses what does not go together", function()
        refused("bench swiglu_clamp --model " .. TINY,
            "bench: a model's step has its own kernels (give no family)")
        refused("bench --seed 2 --model " .. TINY, "bench: --seed is for a family's kernels")
        refused("bench swiglu_clamp --contexts 32",
            "bench: --contexts is for --model and --model-shape")
        refused("bench --model " .. TINY .. " --contexts 0",
            "--contexts: '0' is not a number of 1 or more")
        refused("bench --model-shape glm-5.3-flahs", "model shape 'glm-5.3-flahs': no such name "
            .. "(did you mean 'glm-5.3-flash'?) (known: glm-5.3-flash)")
    end)

    it("refuses a page that cannot be made before it looks at the model", function()
        refused("bench --model /nowhere --html /nowhere/x",
            "--html: /nowhere/x: cannot be made: No such file or directory")
        refused("bench --model /nowhere --html ''", "--html: '' names no file")
    end)

    it("leaves a page as it was where the bench ends early", function()
        local _, _, status = lathe("bench --model /nowhere --html " .. path)
        assert.equal(2, status)
        local pipe <close> = assert(io.popen("ls " .. SCRATCH))
        assert.equal("cache\npage.html\nstderr\n", pipe:read("a"))
        local file <close> = assert(io.open(path))
        assert.truthy(file:read("a"):find("<svg", 1, true))
    end)
end)

describe("a page's roofline", function()
    it("has all kernels and the roof inside its axes, slow kernels apart", function()
        local drawn = inside([[
            local kernels = {}
            for i, each in ipairs({ { 226e6, 40 }, { 1e2, 900 }, { 1e2, 90000 }, { 0, 1 } }) do
                kernels[i] = { kernel = "k" .. i, section = "S", bytes = 1e6, flops = each[1],
                    us = each[2], gbps = 1 }
            end
            local launches = { { site = "L00.x", section = "S", kernel = "k1", us = 1 } }
            print(require("lua.page").text({ title = "", lines = {}, key = "nvidia-h200" },
                launches, { {}, {} }, { {}, kernels }))
        ]])
        local function within(x, y)
            assert.is_true(x >= 70 and x <= 940 and y >= 20 and y <= 380, x .. ", " .. y)
        end
        local heights, number <const> = {}, '([-%d.]+)"'
        for x, y in drawn:gmatch('<circle cx="' .. number .. ' cy="' .. number) do
            within(tonumber(x), tonumber(y))
            heights[#heights + 1] = tonumber(y)
        end
        assert.equal(3, #heights)
        assert.is_true(heights[1] < heights[2] and heights[2] < heights[3])
        local x1, y1, x2, y2 = drawn:match(('<line x1="N y1="N x2="N y2="N stroke="#222"')
            :gsub("N", (number:gsub("%%", "%%%%"))))
        within(tonumber(x1), tonumber(y1))
        within(tonumber(x2), tonumber(y2))
    end)
end)

describe("a bench that waits", function()
    local SHAPE <const> = "rms_norm M=1 K=64 --wait"

    it("goes on behind a line on stdin", function()
        local file <close> = assert(io.open(SCRATCH .. "/line", "w"))
        assert(file:write("\n"))
        file:flush()
        local out, errors, code = lathe(("bench %s --json < %s/line"):format(SHAPE, SCRATCH))
        assert.equal(0, code, errors)
        assert.equal("rms_norm__m1_k64__w1", cjson.decode(out).rows[1].kernel)
    end)

    it("has not opened the device before, and ends where no line comes", function()
        refused("bench " .. SHAPE .. " --device cuda:99 < /dev/null",
            "bench: --wait: stdin ended without a line")
        refused("bench rms_norm --wait", "bench: --wait prepares one shape (give its sizes)")
        refused("bench --wait --model " .. TINY, "bench: --wait is for a family's kernels")
    end)
end)

describe("a model by name", function()
    it("holds some experts, and its router never chooses another", function()
        assert.equal("192 191 288 0.1\n-10000.0 true\n", inside([[
            local lathe = require("lathe")
            local found = require("lua.model.imagined").open("glm-5.3-flash", 192)
            local layer, count = found.layers[3], 0
            for _ in pairs(layer["experts.gate"]) do count = count + 1 end
            local bias = lathe.array("f32", 288)
            local name = layer["router.bias"].name
            found.weights:gather(name, 0, 1152, 1152, bias)
            local most, least = 0, 0
            for e = 0, 191 do most = math.max(most, math.abs(bias:at(e))) end
            for e = 192, 287 do least = math.min(least, bias:at(e)) end
            print(count, #layer["experts.gate"], found.config.experts, most < 0.1 and 0.1 or most)
            print(least, found.is_partial)
        ]]):gsub("\t", " "))
    end)

    it("has the plan of a checkpoint of its shapes", function()
        assert.equal("624 12366274256\n", inside([[
            local choice = require("lua.choice")
            local plan = require("lua.plan.plan")
            local found = require("lua.model.imagined").open("glm-5.3-flash", math.huge)
            found = require("lua.rank").take({}, found)
            local circuit = require("lua.model.glm5_next").circuit(found,
                require("lua.model.recipe").find("card"), 1, 1024)
            local bytes = 0
            local made = plan.make(require("lua.plan.ask").target("sm_90a"), circuit)
            for _, step in ipairs(made.steps) do bytes = bytes + step.kernel.work.bytes end
            print(#made.steps, bytes)
        ]]):gsub("\t", " "))
    end)
end)

describe("a kernel's inputs", function()
    -- How many buffers each input has over its copies, as on a GPU: "copies 2, x 1, w 2".
    local function counts(family, words)
        return (inside(([[
            local case = require("lua.case")
            local choice = require("lua.choice")
            local cold = require("lua.cold")
            local place = require("lua.place")
            local target = place.open("cpu")
            target.is_cpu = false  -- it has no copies
            local family = choice.family(target.families, %q)
            local words = {}
            for word in (%q):gmatch("%%S+") do words[#words + 1] = word end
            local c <close> = case.new({ family = family, shape = choice.shape(family, words),
                seed = 1 })
            local copies <close> = cold.copies(target, c)
            local list = { "copies " .. #copies }
            for _, p in ipairs(c.args) do
                local seen, count = {}, 0
                for _, placed in ipairs(copies) do
                    local buffer = placed.buffers[p.name]
                    count = count + (buffer and not seen[buffer] and 1 or 0)
                    seen[buffer or 0] = true
                end
                if count > 0 then list[#list + 1] = p.name .. " " .. count end
            end
            print(table.concat(list, ", "))
        ]]):format(family, words)):gsub("\n", ""))
    end

    it("are cold where they are weights, and as the launch in front left them where not", function()
        assert.equal("copies 10, x 1, sx 1, w 10, sw 10", counts("w8a8_gemv", "M=2 N=4096 K=7168"))
        assert.equal("copies 1, ed 1, weights 1, shared 1",
            counts("moe_combine", "M=1 TOPK=8 H=4096"))
    end)

    it("are chosen anew where a launch reads a small part of them", function()
        assert.equal("copies 256, q 1, cache 8, ids 249, positions 249, slots 249, block_table 249",
            counts("mla_decode", "M=1 HEADS=4 D=512 QK=64 WIDTH=67 SLOTS=1 PAGES=1024 BLOCKS=1024"))
    end)
end)
