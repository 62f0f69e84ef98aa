-- Weights on the device: what a checkpoint's format and shards may not change, what arrives in
-- pieces, other shapes than the tiny model's, and what is said where it goes wrong. The modules
-- live in ./lathe: LATHE_ROOT is a folder with a lua/cli.lua of the test's own.
local bad = require("tests.lua.bad_checkpoint")

local SCRATCH <const> = assert(io.popen("mktemp -d")):read("l")
local TOOL <const> = "lua5.4 tests/tools/random_checkpoint.lua "
local OTHER <const> = " hidden=384 layers=4 experts=6 num_experts_per_tok=3 vocab_size=300 "
    .. "linear_num_heads=3 linear_head_dim=32 num_attention_heads=6 q_lora_rank=96 "
    .. "kv_lora_rank=128 qk_nope_head_dim=32 v_head_dim=32 index_n_heads=8 index_head_dim=32 "
    .. "first_k_dense_replace=1 index_topk=64 intermediate_size=336 "
    .. "moe_intermediate_size=80 shard=1000000 "

-- What a test's script finds, and then the script.
local PRELUDE <const> = [[
local ask = require("lua.plan.ask")
local checkpoint = require("lua.model.checkpoint")
local choice = require("lua.choice")
local glm5_next = require("lua.model.glm5_next")
local lathe = require("lathe")
local loader = require("lua.plan.loader")
local place = require("lua.place")
local rank = require("lua.rank")
local recipe = require("lua.model.recipe")
local session = require("lua.session")
local weights = require("lua.plan.weights")
local target = place.open("cpu", choice.catalog())
local function nothing() end
local function found_in(folder) return rank.take({}, ask.checkpoint(folder)) end
local function none() return { kernels = {}, loaded = {} } end

local function said(f, ...)
    local fine, what = pcall(f, ...)
    return fine and "nothing" or type(what) == "table" and what.text or "a bug: " .. tostring(what)
end

-- Prints the logits of each row, for steps of so many tokens.
local function print_logits(folder, name, steps)
    local s <const> = session.open({ found = found_in(folder), target = target, capacity = 16,
        formats = recipe.find(name), tell = nothing })
    for _, rows in ipairs(steps) do
        local tokens, width = {}, s.found.config.vocab
        for i = 1, rows do tokens[i] = 40 + 3 * (s.length + i) end
        local logits <close> = s:read(s:step(tokens), "/logits", "f32", rows * width)
        for row = 0, rows - 1 do
            local list = {}
            for i = 1, width do list[i] = ("%a"):format(logits:at(row * width + i - 1)) end
            print(table.concat(list, " "))
        end
    end
end
]]

-- The lines that a script prints.
local function lines_of(script, ...)
    os.execute("mkdir -p " .. SCRATCH .. "/lua")
    bad.save(SCRATCH .. "/lua/cli.lua", PRELUDE .. "return function(argv)\n" .. script
        .. "\nreturn 0 end")
    local pipe <close> = assert(io.popen(("LATHE_ROOT=%s ./lathe %s 2>&1"):format(SCRATCH,
        table.concat({ ... }, " "))))
    local lines = {}
    for line in pipe:lines() do lines[#lines + 1] = line end
    return lines
end

local function logits(folder, name, steps)
    return lines_of(('print_logits(argv[1], "%s", { %s })'):format(name, steps), folder)
end

local function folder_of(name)
    local folder = SCRATCH .. "/" .. name
    os.execute("rm -rf " .. folder .. " && mkdir " .. folder)
    return folder
end

-- Root mean square of the difference of rows of logits as a part of the wanted ones'.
local function error_of(got, want)
    local off, all = 0.0, 0.0
    for row = 1, #want do
        local other = got[row]:gmatch("%S+")
        for word in want[row]:gmatch("%S+") do
            local x = tonumber(word)
            off, all = off + (tonumber(other()) - x) ^ 2, all + x ^ 2
        end
    end
    return (off / all) ^ 0.5
end

local function is_finite(lines, rows)
    assert.equal(rows, #lines, lines[1])
    for _, line in ipairs(lines) do
        assert.truthy(line:find("^%-?0x"), line:sub(1, 200))
        assert.falsy(line:find("n", 1, true), "a logit is not finite")
    end
end

local function written(name, model)
    local folder = folder_of(name)
    bad.write(folder, model)
    return folder
end

-- ---- tensors with other bytes ----

-- Every gate gets 16 times the global scale, and groups that have a 16th of theirs: E4M3 codes
-- whose exponent is 4 less, which all of these have room for.
local function rescale_gates(tensors)
    local count = 0
    for name, tensor in pairs(tensors) do
        local stem = name:match("^(.*gate_proj%.)weight_scale$")
        if stem then
            local scale_2 = tensors[stem .. "weight_scale_2"]
            tensor.data = tensor.data:gsub(".", function(c) return string.char(c:byte() - 32) end)
            scale_2.data = string.pack("<f", 16 * string.unpack("<f", scale_2.data))
            count = count + 1
        end
    end
    return count
end

local function each_f32(tensors, f)
    for _, tensor in pairs(tensors) do
        if tensor.dtype == "F32" and tensor.shape[1] then
            tensor.data = tensor.data:gsub("....", function(word)
                return string.pack("<f", f((string.unpack("<f", word))))
            end)
        end
    end
end

local function truncated(x)  -- to bf16
    return (string.unpack("<f", "\0\0" .. string.pack("<f", x):sub(3)))
end

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("weights", function()
    it("give the same reference logits from NVFP4 and decoded, in BF16 and three shards", function()
        local decoded = folder_of("decoded")
        bad.write_shards(decoded, bad.dequantise(bad.tiny(), ""), 3)
        local want = logits(bad.TINY, "reference", "5, 1")
        is_finite(want, 6)
        assert.same(want, logits(decoded, "reference", "5, 1"))
    end)

    it("in BF16 are quantised for the card, whose inputs have scales of their own", function()
        local stored, decoded = folder_of("stored"), folder_of("decoded")
        bad.write(stored, bad.small())
        bad.write(decoded, bad.dequantise(bad.small(), ""))
        local got = logits(decoded, "card", "5, 1")
        is_finite(got, 6)
        assert.same(got, logits(decoded, "card", "1, 1, 1, 1, 1, 1"))
        local off = error_of(got, logits(stored, "card", "5, 1"))
        assert.is_true(off > 0 and off < 0.1, ("%.4f"):format(off))
    end)

    it("keep the global scale of each part: gate and up may have different ones", function()
        local model = bad.small()
        local folder = written("same", model)
        local card, reference = logits(folder, "card", "5"), logits(folder, "reference", "5")
        is_finite(card, 5)
        assert.equal(5, rescale_gates(model.tensors))  -- four experts', the dense layer's
        folder = written("rescaled", model)
        assert.same(card, logits(folder, "card", "5"))
        assert.same(reference, logits(folder, "reference", "5"))
    end)

    it("in F32 stay F32, and the model is another one where they are narrowed", function()
        local model = bad.small()
        each_f32(model.tensors, function(x) return truncated(x) * (1 + 0x1p-12) end)
        local folder = written("wide", model)
        local said = lines_of([[
            local s <const> = session.open({ found = found_in(argv[1]), target = target,
                capacity = 16, formats = recipe.find("card"), tell = nothing })
            local circuit <const> = glm5_next.circuit(s.found, s.formats, 1, 16)
            for _, weight in ipairs(circuit.weights) do
                local part = weight.parts[1]
                if weight.kind == "plain" and part.format == "f32" then
                    assert(weight.format == "f32" and #weight.parts == 1, part.name)
                    local n = 1
                    for _, extent in ipairs(part.shape) do n = n * extent end
                    local got, want = lathe.array("f32", n), lathe.array("f32", n)
                    s.made[weight.key].data:read(got)
                    s.found.weights:load(part.name, 0, want)
                    print(("%s %d differ"):format(part.site,
                        lathe.compare_bits(got, want).failures))
                end
            end
        ]], folder)
        table.sort(said)
        assert.same({
            "hc_attn.base 0 differ", "hc_attn.base 0 differ", "hc_attn.scale 0 differ",
            "hc_attn.scale 0 differ", "hc_ffn.base 0 differ", "hc_ffn.base 0 differ",
            "hc_ffn.scale 0 differ", "hc_ffn.scale 0 differ", "kda.a_log 0 differ",
            "kda.dt_bias 0 differ", "router.bias 0 differ",
        }, said)
        local wide = logits(folder, "reference", "5")
        is_finite(wide, 5)
        each_f32(model.tensors, truncated)
        local narrow = logits(written("narrow", model), "reference", "5")
        is_finite(narrow, 5)
        assert.truthy(error_of(narrow, wide) > 0)
    end)

    it("may have other shapes: decoded, or quantised", function()
        for _, pair in ipairs({ { "nvfp4", "reference" }, { "bf16", "card" } }) do
            local format, name = table.unpack(pair)
            local folder = folder_of("random")
            assert(os.execute(TOOL .. folder .. OTHER .. "format=" .. format .. " > /dev/null"))
            is_finite(logits(folder, name, "2"), 2)
        end
    end)

    it("arrive whole where they are larger than a piece, and no piece is larger", function()
        local folder = folder_of("random")
        assert(os.execute(TOOL .. folder .. OTHER:gsub("vocab_size=300", "vocab_size=25000")
            .. " > /dev/null"))
        assert.same({ "19200000 0 differ, 16777216 at most" }, lines_of([[
            local found = assert(checkpoint.open(argv[1]))
            local part, last, most = found.model.embed, 0, 0
            local weight = { kind = "plain", format = "bf16", parts = { part } }
            local made = weights.make(target, found, { weight }, none(), function(_, _, bytes)
                last, most = bytes, math.max(most, bytes - last)
            end)
            local n = part.shape[1] * part.shape[2]
            local got, want = lathe.array("bf16", n), lathe.array("bf16", n)
            made[weight].data:read(got)
            found.weights:load(part.name, 0, want)
            print(("%d %d differ, %d at most"):format(last,
                lathe.compare_bits(got, want).failures, most))
        ]], folder))
    end)

    it("leave nothing in the host's memory of what has passed through it", function()
        local folder = folder_of("random")
        assert(os.execute(TOOL .. folder .. OTHER:gsub("vocab_size=300", "vocab_size=25000")
            .. " > /dev/null"))
        local said = lines_of([[
            local function resident()  -- KiB that belong to no file
                for line in io.lines("/proc/self/status") do
                    local n = line:match("^RssAnon:%s*(%d+) kB")
                    if n then return math.tointeger(tonumber(n)) end
                end
            end
            local found = assert(checkpoint.open(argv[1]))
            local weight = { kind = "plain", format = "bf16", parts = { found.model.embed } }
            local first
            for _ = 1, 20 do
                local made = weights.make(target, found, { weight }, none(), nothing)
                made[weight].data:free()
                first = first or resident()
            end
            print((resident() - first) // 1024)
        ]], folder)
        assert.truthy(tonumber(said[1]) < 32, said[1])  -- MiB, where 366 have passed
    end)

    it("are widened number by number where the kernel takes F32", function()
        assert.same({ "81920 0 differ" }, lines_of([[
            local found = assert(checkpoint.open(argv[1]))
            local part = found.model.embed
            local weight = { kind = "plain", format = "f32", parts = { part } }
            local made = weights.make(target, found, { weight }, none(), nothing)
            local n, differ = part.shape[1] * part.shape[2], 0
            local got, want = lathe.array("f32", n), lathe.array("bf16", n)
            made[weight].data:read(got)
            found.weights:load(part.name, 0, want)
            for i = 0, n - 1 do if got:at(i) ~= want:at(i) then differ = differ + 1 end end
            print(("%d %d differ"):format(n, differ))
        ]], bad.TINY))
    end)

    it("that a device has no room for are refused before anything is allocated", function()
        assert.same({ bad.TINY .. ": takes 0.0 GB with room for 16 tokens, a small GPU has 1.1 GB "
            .. "(`lathe plan` shows what takes them; more --ranks or fewer tokens take less)" },
            lines_of([[
                local small = setmetatable({
                    is_cpu = false, info = { memory = (1 << 30) + 4096, model = "a small GPU" },
                    device = { alloc = function() error("it was allocated") end },
                }, { __index = target })
                print(said(session.open, { found = found_in(argv[1]), target = small,
                    capacity = 16, formats = recipe.find("card"), tell = nothing }))
            ]], bad.TINY))
    end)

    it("that cannot be made are named with the reason", function()
        assert.same({
            "weight 'w': out of memory",
            "weight 'w': nvfp4_dequant n4_k8 is not served: K is not a whole number of NVFP4 "
                .. "groups of 16",
            "tensor 's': is nan (a finite number of at least 1.17549e-38 is needed)",
            "tensor 's': is 0 (a finite number of at least 1.17549e-38 is needed)",
        }, lines_of([[
            local value = 0 / 0
            local found = { weights = { number = function() return math.abs(value) end } }
            local device = { alloc = function() return nil, "out of memory" end }
            local p = loader.new({ device = device, families = target.families,
                dev = target.dev, arch = target.arch }, found, none(), nothing)
            p:enter("weight 'w'")
            print(said(p.alloc, p, 16))
            print(said(p.apply, p, "nvfp4_dequant", { N = 4, K = 8 }, {}))
            local part = { scales = { input_scale = "s" } }
            print((said(p.number, p, part, "input_scale"):gsub("%-nan", "nan")))
            value = 0
            print(said(p.number, p, part, "input_scale"))
        ]]))
    end)

    it("leave no kernel and no buffer behind, though a launch fails", function()
        assert.same({ "weight 'w': the launch failed", "2 allocated, 2 freed; 1 loaded, 1 freed" },
            lines_of([[
            local count = { alloc = 0, load = 0, buffers = 0, kernels = 0 }
            local function thing(what)
                return { fill = function() return true end, free = function()
                    count[what] = count[what] + 1
                end }
            end
            local device = {
                alloc = function() count.alloc = count.alloc + 1 return thing("buffers") end,
                load = function()
                    count.load = count.load + 1
                    return thing("kernels"), { origin = "compiler" }
                end,
                launch = function() return nil, "the launch failed" end,
            }
            print(said(function()
                local p <close> = loader.new({ device = device, families = target.families,
                    dev = target.dev, arch = target.arch }, {}, none(), nothing)
                p:enter("weight 'w'")
                p:apply("nvfp4_amax", { N = 4, K = 16 }, {})
            end))
            print(("%d allocated, %d freed; %d loaded, %d freed"):format(count.alloc,
                count.buffers, count.load, count.kernels))
        ]]))
    end)
end)

describe("the tool for random checkpoints", function()
    it("refuses a word that it does not know", function()
        local pipe <close> = assert(io.popen(TOOL .. SCRATCH .. " heads=3 2>&1"))
        assert.truthy(pipe:read("a"):find("'heads=3': no FIELD=NUMBER", 1, true))
    end)
end)
