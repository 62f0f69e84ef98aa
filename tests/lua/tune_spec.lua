-- `lathe tune` from the outside, on the CPU device: planted faults are rejected, recorded and never
-- win; kills lose nothing; what is known is not measured again.
local cjson = require("cjson")
local tune_kit = require("tests.lua.tune_kit")

local read, write, changed = tune_kit.read, tune_kit.write, tune_kit.changed
local kit <const> = tune_kit.new()
local lathe, tune, other_root = kit.lathe, kit.tune, kit.other_root
local records_of, settings = kit.records_of, kit.settings
local SCRATCH <const> = kit.scratch
local FAMILY <const> = "w8a8_act_quant"
local SHAPE <const> = "M=3 K=704"

-- "f0w8 ok": the first record of each variant.
local function first_pass(cache)
    local seen = {}
    for _, record in ipairs(records_of(cache)) do
        if record.pass == "1" then
            assert(not seen[record.knobs], record.knobs .. " is recorded twice")
            seen[record.knobs] = record
        end
    end
    return seen
end

local LUA <const>, CUT <const> = "families/w8a8_act_quant.lua", "templates/w8a8_act_quant.cut"
local LIB <const>, ROW <const> = "templates/lib/e4m3_codes.cut", "templates/lib/e4m3_row.cut"

-- The family with a knob whose values plant faults; 7 ends the process that times it.
local function faulty_root()
    local template = changed(CUT, "    lt_pdl_wait();", [[
    float endless = 0.0f;
    if (FAULT == 1) for (;;) endless += 1.0f;
    if (FAULT == 2) sx[M] = 0.0f;
    if (FAULT == 4) return;
@ if v.fault == 5 then
    this does not compile
@ end
    lt_pdl_wait();]])
    local lib = changed(LIB, "(amax, 448.0f)", "((FAULT == 3 ? 1.003f : 1.0f) * amax, 448.0f)")
    local row = changed(ROW, "*sx = scale",
        "*sx = FAULT == 6 && blockIdx.x == M - 1 ? 2.0f * scale : scale")
    return other_root("faulty", {
        [LUA] = changed(LUA, [[{ { "warps", 8, 16, 4, 32 } }]],
            [[{ { "fault", 1, 2, 3, 4, 5, 0, 6, 7 }, { "warps", 32 } }]]),
        [CUT] = template, [LIB] = lib, [ROW] = row,
        ["lua/cold.lua"] = changed("lua/cold.lua", "    local device = run.",
            "    if run.kernel.variant.fault == 7 then os.execute('kill -SEGV $PPID') end\n"
            .. "    local device = run."),
    })
end

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("lathe tune with planted faults", function()
    local root = faulty_root()
    local row, errors, code = tune("faults", FAMILY .. " " .. SHAPE, root)
    local seen = first_pass("faults")

    local function rejected(knobs, status, why)
        it(("records f%s as %s and says why"):format(knobs:match("%d+"), status), function()
            local record = assert(seen[knobs], knobs)
            assert.equal(status, record.status)
            assert.truthy(record.why:find(why, 1, true), record.why)
            assert.equal(nil, record.us)
            local sentence = ("kernel w8a8_act_quant__m3_k704__%s: %s: "):format(knobs, status)
            assert.truthy(errors:find(sentence, 1, true), errors)
        end)
    end

    rejected("f1w32", "hang", "no answer within 2 s")
    rejected("f2w32", "device-error", "writes behind 'sx'")
    rejected("f3w32", "wrong", "elements differ")
    rejected("f4w32", "wrong", "2112 of 2112 elements differ")
    rejected("f5w32", "compile-failed", "templates/w8a8_act_quant.cut:")
    rejected("f6w32", "wrong", "sx[2] is")
    rejected("f7w32", "crash", "ended by SIGSEGV")

    it("measures the right one between them, which wins", function()
        assert.equal("ok", seen.f0w32.status)
        assert.truthy(tonumber(seen.f0w32.us) > 0)
        assert.equal("f0w32", row.best)
        assert.equal(8, row.measured)
        assert.equal(7, row.rejected)
        assert.equal(0, code)
    end)

    it("writes what the issue of a record is, in order", function()
        local _, lines = records_of("faults")
        assert.truthy(lines[6]:match("^record=1\tdevice=cpu\tfamily=w8a8_act_quant@1\tshape=m3_k704"
            .. "\tlayout=rows\tclass=exact\tregime=alone\tknobs=f0w32\tstatus=ok\tus=[%d.e+]+\t"
            .. "spread=[%d.e+-]+\tpass=1\ttext=%x+\tseed=1\tsum=%x+$"), lines[6])
    end)

    it("measures none of them again, the rejected ones neither", function()
        local before = #records_of("faults")
        local again, said = tune("faults", FAMILY .. " " .. SHAPE, root)
        assert.equal("", said)
        assert.equal(0, again.measured)
        assert.equal(8, again.known)
        assert.equal("f0w32", again.best)
        assert.equal(before, #records_of("faults"))
        local out = lathe("faults", "tune " .. FAMILY .. " " .. SHAPE, root)
        assert.truthy(out:find("0 candidates measured, 8 known, 7 rejected; nothing was left to "
            .. "measure", 1, true), out)
    end)

    it("ends with 1 where no variant is right, and says so, again too", function()
        local bad = other_root("bad", { [LIB] = changed(LIB, "(amax, 448.0f)", "(amax, 447.0f)") })
        for _, measured in ipairs({ 4, 0 }) do
            local none, said, status = tune("bad", FAMILY .. " " .. SHAPE, bad)
            assert.same({ 1, nil, measured, 4 - measured, 4 },
                { status, none.best, none.measured, none.known, none.rejected })
            local wrong, last = said:match("^(.*\n)lathe: ([^\n]*)\n$")
            assert.equal(4, select(2, wrong:gsub("__w%d+: wrong: [^\n]+ differ", "")), said)
            assert.equal("w8a8_act_quant m3_k704: no variant is right (--again measures them anew)",
                last)
        end
    end)
end)

describe("lathe tune", function()
    local GEMV <const> = "w8a8_gemv M=1 N=16 K=8192"

    it("measures only what has another text since, or all --again", function()
        local first = tune("edit", FAMILY .. " " .. SHAPE)
        assert.equal(4, first.measured)
        local root = other_root("edited", { [LIB] = changed(LIB, "for (int i = 0; i < WARPS; i++)",
            "for (int i = WARPS == 4 ? 0 : 0; i < WARPS; i++)") })
        assert.equal(4, tune("edit", FAMILY .. " " .. SHAPE, root).measured)
        assert.equal(0, tune("edit", FAMILY .. " " .. SHAPE).measured)
        assert.equal(4, tune("edit", FAMILY .. " " .. SHAPE .. " --again").measured)
        assert.equal(0, tune("edit", FAMILY .. " " .. SHAPE).measured)
    end)

    it("loses nothing to ten kills and ends as one that was left alone", function()
        local whole = tune("whole", GEMV)
        local script = SCRATCH .. "/kill.sh"
        write(script, ([[
            for i in $(seq 10); do
                %s ./lathe tune %s >/dev/null 2>&1 &
                sleep 0.$((RANDOM %% 3))$((RANDOM %% 10))
                kill -KILL $!
                wait $!
                cat %s/killed/tuned/cpu.tuned | grep -c sum=
            done 2>/dev/null
        ]]):format(settings("killed"), GEMV, SCRATCH))
        local counts, last = {}, 0
        for count in assert(io.popen("bash " .. script)):lines() do
            counts[#counts + 1] = tonumber(count) or 0
            assert.truthy(counts[#counts] >= last, "a record was lost")
            last = counts[#counts]
        end
        assert.equal(10, #counts)
        local rest, errors = tune("killed", GEMV)
        assert.equal("", errors)
        local one, other = first_pass("whole"), first_pass("killed")
        for knobs in pairs(one) do assert.truthy(other[knobs], knobs) end
        for knobs in pairs(other) do assert.truthy(one[knobs], knobs) end
        assert.equal(whole.measured, rest.measured + rest.known)
        assert.equal(0, rest.rejected)
        assert.truthy(rest.done and rest.best)
    end)

    it("keeps what was measured at Ctrl-C, says so, and ends by the signal", function()
        local script = SCRATCH .. "/interrupt.sh"
        local watched = other_root("watched", { ["lua/progress.lua"] = changed("lua/progress.lua",
            "lathe.is_watched()", "true") })
        write(script, ([[
            set -m
            %s ./lathe tune %s 2>&1 >/dev/null &
            for _ in $(seq 2000); do
                [ -s %s/stopped/tuned/cpu.tuned ] && break
                sleep 0.01
            done
            kill -INT $!
            wait $!
            echo $?
        ]]):format(settings("stopped", watched), GEMV, SCRATCH))
        local said = assert(io.popen("bash " .. script .. " 2>/dev/null")):read("a")
        local line, rest_of_it = said:match("^.*\r\27%[K([^\r]+)\r\27%[K(.*)$")
        assert.truthy(line and line:match("^shape 1 of 1, candidate %d+ of %d+.*: w8a8_gemv "
            .. "m1_n16_k8192$"), said)
        assert.equal("lathe: tune: ended early; what was measured is kept (the same command goes "
            .. "on with the rest)\n130\n", rest_of_it)
        local kept = #records_of("stopped")
        local rest = tune("stopped", GEMV)
        assert.equal(kept, rest.known)
        assert.truthy(kept > 0 and rest.measured > 0)
    end)

    it("ends when the budget does, and goes on with the rest", function()
        local from = os.time()
        local root = other_root("slow", { ["lua/cold.lua"] = changed("lua/cold.lua",
            "    local device = run.", "    os.execute('sleep 0.4')\n    local device = run.") })
        local out, _, code = lathe("budget", ("tune %s --budget 1s"):format(GEMV), root)
        assert.truthy(os.time() - from <= 3)
        assert.equal(0, code)
        assert.truthy(out:find("0 of 1 shapes: [12] candidates measured, 0 known, 0 rejected; the "
            .. "same command goes on with the rest"), out)
        local measured = #records_of("budget")
        assert.truthy(measured == 1 or measured == 2)
        local rest = tune("budget", GEMV)
        assert.equal(measured, rest.known)
        assert.truthy(rest.done)
    end)

    it("ignores records of a variant that the family keeps no more, and says so", function()
        tune("vanished", FAMILY .. " " .. SHAPE)
        local root = other_root("fewer", { [LUA] = changed(LUA, [["warps", 8, 16, 4, 32]],
            [["warps", 8, 32]]) })
        local row, errors = tune("vanished", FAMILY .. " " .. SHAPE, root)
        assert.equal("lathe: w8a8_act_quant m3_k704: 2 records of variants that the family keeps "
            .. "no more are ignored\n", errors)
        assert.equal(2, row.known)
        assert.truthy(row.best == "w8" or row.best == "w32")
    end)

    it("skips torn and foreign lines, says how many, and loses no other", function()
        tune("torn", FAMILY .. " " .. SHAPE)
        local path = SCRATCH .. "/torn/tuned/cpu.tuned"
        local text = read(path)
        write(path, "what is this\n" .. text:gsub("\n", "\r\n") .. "record=1\tdevi")
        local row, errors = tune("torn", FAMILY .. " " .. SHAPE)
        assert.equal("lathe: records: 2 lines of cpu are torn, foreign or another device's and are "
            .. "skipped\n", errors)
        assert.equal(4, row.known)
    end)

    it("takes shipped records as known, and its own before them", function()
        tune("ship", FAMILY .. " " .. SHAPE)
        local text = read(SCRATCH .. "/ship/tuned/cpu.tuned")
        local root = other_root("shipped", { [tune_kit.SHIPPED] = text })
        local row = tune("shipped_to", FAMILY .. " " .. SHAPE, root)
        assert.equal(4, row.known)
        assert.equal(0, row.measured)
        assert.equal(0, #records_of("shipped_to"))
    end)

    it("records what `bench --planned` then takes, as a plan does", function()
        local default = tune("planned", FAMILY .. " " .. SHAPE).default
        local list, lines = records_of("planned")
        for i, record in ipairs(list) do
            if record.knobs ~= default then
                write(SCRATCH .. "/planned/tuned/cpu.tuned", lines[i] .. "\n")
                local out = lathe("planned", ("--json bench %s %s --planned"):format(FAMILY, SHAPE))
                local row = cjson.decode(out).rows[1]
                assert.same({ "w8a8_act_quant__m3_k704__" .. record.knobs, "exact" },
                    { row.kernel, row.chosen })
            end
        end
    end)

    it("records what `why` then says: no key, for nothing is kept", function()
        tune("why", FAMILY .. " " .. SHAPE)
        for _, more in ipairs({ "", " --device cpu", " --arch cpu" }) do
            local out = lathe("why", "why w8a8_act_quant__m3_k704__w8" .. more)
            assert.truthy(out:match("^kernel   w8a8_act_quant__m3_k704__w8 for cpu, class exact\n"
                .. "variant  the default: [^\n]+\nmeasured cpu: ok, [^\n]+\n$"), out)
        end
    end)

    it("tunes the shapes of a model's plans, each once, and none that only loads", function()
        local words = "--model tests/tiny --rows 1 --budget 3s"
        local _, _, code, all = tune("model", words)
        assert.equal(0, code)
        local seen = {}
        for _, row in ipairs(all.rows) do
            local title = row.family .. " " .. row.shape
            assert(not seen[title], title)
            assert(not title:find("^pack_") and not title:find("dequant"), title)
            seen[title] = true
        end
        assert.truthy(#all.rows > 30)
        assert.truthy(seen["rms_norm M=1 K=256"])
    end)

    it("times in the chain, once, what was fast alone, of all classes", function()
        local CHAIN <const> = "--model tests/tiny --rows 1 --regime chain"
        local root = other_root("rivals", {  -- however the emulator's times fall out
            ["lua/tune/chained.lua"] = changed("lua/tune/chained.lua", "RIVAL <const> = 1.15",
                "RIVAL <const> = 100"),
            ["lua/tune/trial.lua"] = changed("lua/tune/trial.lua", "trial.HOPELESS = 1.5",
                "trial.HOPELESS = 100"),
        })
        tune("chain", "mhc_post M=1 H=256", root)
        local alone = #records_of("chain")
        local row, errors, code, all = tune("chain", CHAIN, root)
        assert.equal("", errors)
        assert.equal(0, code)
        assert.same({ 1, true, "mhc_post", 2, 0 },
            { #all.rows, all.done, row.family, row.measured, row.known })
        local list, texts = records_of("chain"), {}
        assert.equal(alone + 2, #list)
        for _, record in ipairs(list) do
            texts[record.knobs] = texts[record.knobs] or record.text
            assert.equal(texts[record.knobs], record.text)
        end
        for i = alone + 1, alone + 2 do
            local record = list[i]
            assert.same({ "chain", "mhc_post@1", "m1_h256", "ok", "2" },
                { record.regime, record.family, record.shape, record.status, record.pass })
            assert.truthy(tonumber(record.us) and tonumber(record.spread))
        end
        assert.truthy(row.chain <= row.alone_chain)
        row = tune("chain", CHAIN, root)
        assert.same({ 0, 2, alone + 2 }, { row.measured, row.known, #records_of("chain") })
        assert.equal(2, tune("chain", CHAIN .. " --again", root).measured)
        local out = lathe("chain", "tune " .. CHAIN, root)
        assert.truthy(out:match("\n1 kernels have rivals, of [01] another one is the fastest in "
            .. "the chain\nrecords "), out)

        tune("classes", "w8a8_gemv M=1 N=384 K=256", root)
        local seen = {}
        tune("classes", CHAIN, root)
        for _, record in ipairs(records_of("classes")) do
            if record.regime == "chain" then seen[record.class] = true end
        end
        assert.same({ ["mma.f16_1x1"] = true, ["mma.f16_1x2"] = true }, seen)
    end)

    it("compares nothing in the chain whose text is another one now", function()
        local root = other_root("rivals", { ["templates/mhc_post.cut"] = changed(
            "templates/mhc_post.cut", "lt_pdl_wait();", "lt_pdl_wait();  // here") })
        local _, _, _, all = tune("chain", "--model tests/tiny --rows 1 --regime chain", root)
        assert.equal(0, #all.rows)
    end)

    it("gives each candidate the state as it was, though the one before has changed it", function()
        local row, errors = tune("state", "mhc_post M=2 H=256")
        assert.equal("", errors)
        assert.equal(0, row.rejected)
        assert.truthy(row.measured > 1)
    end)

    it("cannot record in a folder that cannot be written, and says so first", function()
        write(SCRATCH .. "/file", "")
        local _, errors, code = lathe("file/x", "tune " .. FAMILY .. " " .. SHAPE)
        assert.equal(3, code)
        assert.truthy(errors:match("^lathe: records '[^']+/file/x/tuned/cpu.tuned' [^\n]+\n$"))
    end)

    it("refuses words that do not go together", function()
        local function refused(words, sentence, more)
            local _, errors, code = lathe("words", "tune " .. words, more)
            assert.equal(2, code)
            assert.equal("lathe: " .. sentence .. "\n", errors)
        end
        refused("", "tune: what? (give a family, or --model, or --merge)")
        refused(FAMILY .. " --model tests/tiny", "tune: --model chooses families and shapes by "
            .. "itself")
        refused(FAMILY .. " --rows 2", "tune: --rows is a word of --model")
        refused(FAMILY .. " --regime chain", "tune: --regime is a word of --model")
        refused("--model tests/tiny --regime row", "--regime: 'row' is not known (known: alone "
            .. "chain)")
        refused("--model tests/tiny --rows 17",
            "--rows: 17 rows are asked for, a step has up to 16")
        refused(FAMILY .. " --merge x", "tune: --merge adds files and tunes nothing")
        refused(FAMILY .. " --budget 5d", "--budget: '5d' is no time (write 60s, 10m or 2h)")
        local root = other_root("unreal", { [LUA] = changed(LUA,
            "real = { { M = 1, K = 11264 }, { M = 1, K = 32768 } },", "") })
        refused(FAMILY, "tune: w8a8_act_quant lists no shape of the model (give one: `lathe "
            .. "families w8a8_act_quant`)", root)
    end)
end)

describe("lathe tune --merge", function()
    local function merge(cache, files, more)
        local out, errors, code = lathe(cache, "tune --merge " .. files, more)
        assert.equal(0, code, errors)
        return out, errors
    end
    local path = SCRATCH .. "/merged_from/tuned/cpu.tuned"

    it("adds what is not known, once, and what is here wins", function()
        tune("merged_from", FAMILY .. " " .. SHAPE)
        tune("merged_from", FAMILY .. " M=1 K=22")
        tune("merged", FAMILY .. " " .. SHAPE)
        local own = select(2, records_of("merged"))
        local out = merge("merged", path)
        assert.truthy(out:match("^added 4 records, %d+ were known %(cpu%)\n$"), out)
        local after, seen = select(2, records_of("merged")), {}
        for _, line in ipairs(after) do seen[line] = true end
        local rest = tune("merged", FAMILY .. " M=1 K=22")
        assert.equal(0, rest.measured)
        assert.equal(0, tune("merged", FAMILY .. " " .. SHAPE).measured)
        local last = {}
        for _, line in ipairs(own) do last[line:match("\tknobs=(%w+)")] = line end
        for _, line in pairs(last) do assert.truthy(seen[line], line) end
        assert.truthy(merge("merged", path):match("^added 0 records, "))
        assert.same(after, select(2, records_of("merged")))
    end)

    it("sorts by device, ignores and says what no family has, and what is no record", function()
        local text = read(path):gsub("\tsum=%x+", "")
        local script = SCRATCH .. "/seal.lua"
        write(script, [[
            local lathe = require("lathe")
            return function(words)
                local file <close> = lathe.records(words[1])
                for line in io.lines(words[2]) do assert(file:append(line)) end
                return 0
            end
        ]])
        local root = other_root("sealing", { ["lua/cli.lua"] = read(script) })
        local lines = {}
        for line in text:gmatch("[^\n]+") do
            if line:find("knobs=w8\t", 1, true) and line:find("pass=1", 1, true) then
                lines[#lines + 1] = line:gsub("device=cpu", "device=nvidia-x1")
                lines[#lines + 1] = line:gsub("knobs=w8", "knobs=w7")
                lines[#lines + 1] = line:gsub("@1", "@2")
                lines[#lines + 1] = line:gsub("family=w8a8", "family=w9a9")
            end
        end
        write(SCRATCH .. "/lines", table.concat(lines, "\n") .. "\n")
        lathe("sealed", ("mixed %s/lines"):format(SCRATCH), root)
        local mixed = SCRATCH .. "/sealed/tuned/mixed.tuned"
        write(mixed, read(mixed) .. "garbage\n")
        local out, errors = merge("mixed", mixed)
        assert.equal("added 2 records, 0 were known (nvidia-x1)\n", out)
        assert.equal("lathe: merge: 6 records of variants that no family has now are ignored\n"
            .. "lathe: merge: 1 lines are torn or foreign, ignored\n", errors)
        assert.truthy(read(SCRATCH .. "/mixed/tuned/nvidia-x1.tuned"))
        assert.equal(nil, read(SCRATCH .. "/mixed/tuned/cpu.tuned"))
    end)

    it("names a file that is not there", function()
        local _, errors, code = lathe("merged", "tune --merge /nowhere")
        assert.equal(2, code)
        assert.equal("lathe: --merge: /nowhere: No such file or directory\n", errors)
    end)
end)
