-- The tiny model from outside and inside: `lathe run` and `lathe eval` on tests/tiny on the CPU
-- device. What takes minutes is in tests/long/model.sh.
local golden = require("tests.lua.golden")

local SCRATCH <const> = assert(io.popen("mktemp -d")):read("l")
local START <const>, STEPS <const> = 96, 24  -- golden tokens: read, then written
local ROWS <const> = 19  -- chunks of 16 and of 3 both leave a rest

local function write(path, text)
    local file <close> = assert(io.open(path, "wb"))
    assert(file:write(text))
end

local function read(path)
    local file <close> = assert(io.open(path, "rb"))
    return file:read("a")
end

-- stdout, stderr and exit code of a command, whose ./lathe runs on the CPU device.
local function shell(command)
    local pipe = assert(io.popen(("LATHE_DEVICE=cpu LATHE_CACHE_DIR=%s/cache %s 2>%s/err"):format(
        SCRATCH, command, SCRATCH)))
    local out = pipe:read("a")
    local _, kind, code = pipe:close()
    return out, read(SCRATCH .. "/err"), kind == "signal" and 128 + code or code or 0
end

local function lathe(words) return shell("./lathe " .. words) end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- A folder like tests/tiny, with other files in it.
local function model_with(files)
    local folder = SCRATCH .. "/model"
    os.execute(("rm -rf %s; mkdir %s; ln -s $PWD/tests/tiny/* %s"):format(folder, folder, folder))
    for name, text in pairs(files) do
        os.remove(folder .. "/" .. name)
        write(folder .. "/" .. name, text)
    end
    return folder
end

-- The file of tests/tiny's weights with one tensor's first number (bf16) made NaN.
local function broken_weights(tensor)
    local bytes = read("tests/tiny/model.safetensors")
    local size = string.unpack("<I8", bytes)
    local entry = bytes:sub(9, 8 + size):match(
        '"' .. tensor:gsub("%p", "%%%0") .. '":%s*{.-"data_offsets":%s*%[(%d+)')
    local at = 8 + size + math.tointeger(tonumber(entry))
    return bytes:sub(1, at) .. "\xc0\x7f" .. bytes:sub(at + 3)
end

local function refused(words, part)
    local out, err, code = lathe(words)
    assert.equal(2, code, words .. ": " .. err)
    assert.equal("", out)
    assert.truthy(err:find(part, 1, true), err)
end

setup(function()
    assert(os.execute(("mkdir -p %s/tree/lua && cp tests/lua/inside_model.lua %s/tree/lua/cli.lua")
        :format(SCRATCH, SCRATCH)))
end)
teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("the tiny model", function()
    it("writes the golden greedy text in the reference recipe", function()
        local values = golden.values()
        local prompt = values:tensor("prompt").data
        local text = quoted(string.char(table.unpack(prompt, 1, START)))
        local out, err, code = lathe(("run --model tests/tiny --recipe reference --tokens -n %d "
            .. "--prompt %s"):format(STEPS, text))
        assert.equal(0, code, err)
        local want = table.concat(values:tensor("greedy_tokens").data, " ", 1, STEPS)
        assert.equal(want .. " \n", out)
        assert.truthy(err:match(("%d prompt and %d generated tokens, first token after %%d+%%.%%d+ "
            .. "s, [%%d.]+ tok/s on CPU device, %%d+ kernels compiled, 0 cached\n$"):format(START,
            STEPS)), err)
    end)

    for _, recipe in ipairs({ "reference", "card" }) do
        it("gives the same bits in chunks of 1, 3 and 16, recipe " .. recipe, function()
            local out, err = shell(("LATHE_ROOT=%s/tree ./lathe bits %s %d 1 3 16"):format(
                SCRATCH, recipe, ROWS))
            local single, three, sixteen, finite = out:match("^(.-)\n(.-)\n(.-)\n(.-)\n$")
            assert.truthy(finite, err)
            assert.equal(ROWS, select(2, single:gsub("%x+", "")))
            assert.equal(single, three)
            assert.equal(single, sixteen)
            assert.equal("all finite", finite)
        end)
    end
end)

describe("lathe run", function()
    it("draws the same text for the same seed, and writes hashes and values", function()
        local words = "run --model tests/tiny --prompt ROMEO: -n 4 --temperature 1.5 --top-k 50 "
            .. "--top-p 0.95 --seed 11"
        local out, err, code = lathe(words)
        assert.equal(0, code, err)
        local again, values = lathe(("%s --hashes %s/a --dump layer3.mlp"):format(words, SCRATCH))
        assert.equal(out, again)
        assert.truthy(values:match("\nL03%.ffn%.moe_router +weights +f32 +4 +[%d.]+ +[%d.]+ "))
        assert.falsy(values:find("\nL03.attn", 1, true))
        lathe(("%s --hashes %s/b"):format(words, SCRATCH))
        local hashes = read(SCRATCH .. "/a")
        assert.equal(hashes, read(SCRATCH .. "/b"))
        assert.truthy(hashes:match("^1 embed%.mhc_expand mhc_expand__m1_vocab320_h256 "
            .. "streams=%x+\n"))
        assert.truthy(hashes:match("\n9 head%.argmax%.f32 argmax_f32__m1_vocab320 best=%x+ "
            .. "top=%x+\n$"))
    end)

    it("stops at a token of generation_config.json, which it does not write", function()
        local endings = '{"eos_token_id": [256, 58, 44]}'  -- a colon, a comma
        local folder = model_with({ ["generation_config.json"] = endings })
        local out, err, code = lathe("run --model " .. folder .. " --prompt 'First Citi' -n 60")
        assert.equal(0, code, err)
        assert.falsy(out:sub(11):find("[:,]"), out)
        assert.truthy(tonumber(err:match("and (%d+) generated")) < 60, err)
    end)

    it("refuses a folder in place of generation_config.json", function()
        local folder = model_with({})
        os.remove(folder .. "/generation_config.json")
        os.execute(("mkdir %s/generation_config.json"):format(folder))
        refused("run --model " .. folder .. " --prompt a", "generation_config.json: " .. folder
            .. "/generation_config.json cannot be read")
    end)

    it("never writes half a character", function()
        local out = lathe("run --model tests/tiny --prompt 'é' -n 12 --temperature 100000")
        assert.truthy(utf8.len(out), out)
    end)

    it("writes a mark for a token that the tokenizer does not have", function()
        local file, count = read("tests/tiny/tokenizer.json"):gsub('"\u{120}":%s*32,', "")
        assert.equal(1, count)
        local folder = model_with({ ["tokenizer.json"] = file })
        local words = "run --prompt ROMEO: -n 4 --model "
        local out, err, code = lathe(words .. folder)
        assert.equal(0, code, err)
        assert.equal(lathe(words .. "tests/tiny"):gsub("I ", "I\u{fffd}"), out)
    end)

    it("stops at logits that are no numbers and names the operator that made the first", function()
        local name = "model.language_model.layers.2.self_attn.o_proj.weight"
        local folder = model_with({ ["model.safetensors"] = broken_weights(name) })
        local _, err, code = lathe(("run --model %s --recipe reference --prompt a --hashes %s/h")
            :format(folder, SCRATCH))
        assert.equal(1, code, err)
        assert.equal(125, select(2, read(SCRATCH .. "/h"):gsub("\n", "")))  -- what ran is kept
        assert.truthy(err:match("^lathe: logits: 320 of 320 are not finite at tokens 0 to 0: the "
            .. "first operator that makes one is L02%.attn%.y, %d+ values of 'y' %(kernel "), err)
    end)

    it("ends at Ctrl-C with a whole line and the report", function()
        local script = [[set -m  # or SIGINT is ignored
            ./lathe run --model tests/tiny --prompt A -n 1000 >DIR/out 2>DIR/said &
            pid=$!
            for _ in $(seq 300); do [ "$(stat -c %s DIR/out)" -gt 2 ] && break; sleep 0.1; done
            kill -INT $pid; wait $pid; echo $?]]
        local code = shell("bash -c " .. quoted((script:gsub("DIR", SCRATCH))))
        local err = read(SCRATCH .. "/said")
        assert.equal("130\n", code, err)
        assert.truthy(read(SCRATCH .. "/out"):match("^A[^\n].*\n$"))
        assert.truthy(err:match("^1 prompt and %d+ generated tokens, [^\n]+\n$"), err)
    end)

    it("ends with 3 where its hashes cannot be written", function()
        local _, err, code = lathe("run --model tests/tiny --prompt a --hashes /dev/full")
        assert.equal(3, code)
        assert.equal("lathe: --hashes: /dev/full: cannot be written: No space left on device\n",
            err)
    end)

    it("refuses what it cannot do in one sentence", function()
        local start = "run --model tests/tiny --prompt a "
        refused(start .. "--top-k 5", "--top-k: says how to draw, and --temperature 0 does not")
        refused(start .. "--temperature x", "--temperature: 'x' is not a number from 0 to")
        refused(start .. "--temperature 1 --top-p 2", "--top-p: '2' is not a number from 0 to 1")
        refused(start .. "--chunk 17", "--chunk: 1 to 16 rows")
        refused(start .. "--dump layer9.mlp", "--dump: 'layer9.mlp' is no site (as layer3.mlp")
        refused(start .. "--recipe best", "recipe 'best': no such name")
        refused("run --model tests/tiny --prompt 'a\xff'",
            "--prompt: text: is not UTF-8 at byte 1")
        refused(start .. "-n 9223372036854775807", "-n: 9223372036854775807 tokens behind 1 of the "
            .. "prompt are asked for, the model has 4096 positions")
        refused(start .. "-n 4096", "-n: 4096 tokens behind 1 of the prompt are asked for")
        refused(start .. "--context 4097",
            "--context: 4097 tokens are asked for, the model has 4096 positions")
        refused("run --model tests/tiny --prompt abc --context 2",
            "--context: the prompt has 3 tokens, there is room for 2")
        local file, count = read("tests/tiny/tokenizer.json"):gsub('"id": 257,', '"id": 5000,')
        assert.equal(1, count)
        refused("run --prompt 'a<|reserved_0|>' --model "
            .. model_with({ ["tokenizer.json"] = file }),
            "run: 5000 is no token of the model (it has 320)")
        refused("run --model /nowhere --hashes /nowhere/h",
            "--hashes: /nowhere/h: cannot be made: No such file or directory")
    end)
end)

describe("lathe eval", function()
    it("gives the golden nats of the first tokens of a window, in text and in ids", function()
        local want = golden.values():tensor("eval_nll").data
        local ids = golden.values():tensor("eval_windows").data
        local sum = 0.0
        for i = 1, 20 do sum = sum + want[i] end
        write(SCRATCH .. "/ids", table.concat(ids, " ", 1, 21) .. "\n")
        write(SCRATCH .. "/text", string.char(table.unpack(ids, 1, 21)))
        local words = "--json eval --recipe reference --model tests/tiny "
        local out, err, code = lathe(words .. "--ids " .. SCRATCH .. "/ids")
        assert.equal(0, code, err)
        local nats = tonumber(out:match('"nats":([%d.]+)'))
        assert.truthy(math.abs(nats - sum / 20) < 0.02, nats .. " against " .. sum / 20)
        assert.truthy(out:find('"predictions":20', 1, true), out)
        local text = lathe(words .. "--file " .. SCRATCH .. "/text")
        assert.equal(nats, tonumber(text:match('"nats":([%d.]+)')))
    end)

    it("says, as run does, what the tokenizer's file asks for and is not done", function()
        local file, count = read("tests/tiny/tokenizer.json"):gsub('"post_processor": null',
            '"post_processor": {"type": "TemplateProcessing"}')
        assert.equal(1, count)
        write(SCRATCH .. "/two", "ab")
        local folder = model_with({ ["tokenizer.json"] = file })
        for _, words in ipairs({ "eval --file " .. SCRATCH .. "/two", "run --prompt a -n 1" }) do
            local _, err, code = lathe(words .. " --model " .. folder)
            assert.equal(0, code, err)
            assert.truthy(err:find("lathe: tokenizer.json: post_processor TemplateProcessing: is "
                .. "not applied, nothing is put around a text\n", 1, true), err)
        end
    end)

    it("refuses what is no text", function()
        write(SCRATCH .. "/one", "7\n320 1\n")
        refused("eval --model tests/tiny", "--file or --ids is needed")
        write(SCRATCH .. "/bad", "a\xffb")
        refused("eval --model tests/tiny --file " .. SCRATCH .. "/bad",
            "--file: text: is not UTF-8 at byte 1")
        refused("eval --model tests/tiny --file nowhere", "--file: nowhere: No such file")
        refused("eval --model tests/tiny --ids " .. SCRATCH .. "/one",
            "eval: 320 is no token of the model (it has 320)")
    end)
end)
