-- The command line from the outside: ./lathe in a process of its own, with a cache of its own.
local cjson = require("cjson")
local outside = require("tests.lua.outside")

local read <const>, write <const>, changed <const> = outside.read, outside.write, outside.changed
local own <const> = outside.new()
local lathe <const>, refused <const>, other_root <const> = own.lathe, own.refused, own.other_root
local SCRATCH <const> = own.scratch
local GEMV <const> = "w8a8_gemv M=1 N=64 K=64"
local LONG <const> = "w8a8_gemv M=1 N=48 K=4096"  -- which has several variants

local WRONG <const> = {
    -- command lines
    { "", "command line: a command is required" },
    { "gne", "command line: unknown command 'gne' (did you mean 'gen'?)" },
    { "gen", "gen: missing argument 'family'" },
    { "gen " .. GEMV .. " --frob", "gen: unknown option '--frob'" },
    { "gen " .. GEMV .. " --arhc x", "gen: unknown option '--arhc' (did you mean '--arch'?)" },
    { "run --model tests/tiny --seed -12",
        "run: unknown option '-1' (a value that begins with - is written --option=-1; numbers" },
    { "run --model tests/tiny --seed=-1", "--seed: '-1' is not a number of 0 or more" },
    { "gen " .. GEMV .. " --arch", "gen: option '--arch' requires an argument" },
    { "config extra", "config: too many arguments" },
    { "cache", "cache: missing argument 'action'" },
    { "cache tidy", "cache: argument 'action' must be one of" },
    { "--json=1 config", "option '--json' does not take arguments" },
    -- devices
    { "--device gpu config", "--device: 'gpu' is no device (give cuda:0" },
    { "check --device cuda: " .. GEMV, "--device: 'cuda:' is no device" },
    -- families and shapes
    { "gen w8a8_gem M=1", "unknown family 'w8a8_gem' (did you mean 'w8a8_gemv'?)" },
    { "check nothing_like_it", "unknown family 'nothing_like_it' (`lathe families` lists them)" },
    { "families w8a8 M=1", "unknown family 'w8a8'" },
    { "gen w8a8_gemv", "w8a8_gemv: size M is missing (`lathe families w8a8_gemv`" },
    { "gen w8a8_gemv M=1 N=64", "w8a8_gemv: size K is missing" },
    { "gen w8a8_gemv M=1 N=64 K=64 L=1", "w8a8_gemv: unknown size 'L' (the sizes are M N K)" },
    { "gen w8a8_gemv M=1 N=64 K=64 K=64", "w8a8_gemv: size K is given twice" },
    { "gen w8a8_gemv M=1 N=64 K=6e4", "'K=6e4' is not a size and its value" },
    { "gen w8a8_gemv M=1 N=64 K=64.0", "'K=64.0' is not a size and its value" },
    { "gen w8a8_gemv M=1 N=64 K=-64", "'K=-64' is not a size and its value" },
    { "gen w8a8_gemv M=1 N=64 64", "'64' is not a size and its value" },
    { "gen w8a8_gemv M=1 N=64 K=99999999999", "'K=99999999999' is not a size and its value" },
    { "gen w8a8_gemv M=17 N=64 K=64", "w8a8_gemv: m17_n64_k64 is not served: more than 16 rows" },
    { "check w4a16_gemv M=1 N=64 K=22", "is not served: K is not a whole number of NVFP4 groups" },
    { "gen w8a8_gemv M=0 N=64 K=64", "w8a8_gemv: m0_n64_k64 is not served: extent 1 of 'y' must" },
    { "check w8a8_gemv M=1 N=64 K=0", "w8a8_gemv: m1_n64_k0 is not served: extent 2 of 'x' must" },
    { "check w8a8_gemv M=1 N=2147483647 K=2147483647",
        "w8a8_gemv: m1_n2147483647_k2147483647 takes 9223372" },
    -- knobs and archs
    { "gen " .. GEMV .. " --knobs x=1", "--knobs: w8a8_gemv: unknown knob 'x' (the knobs are" },
    { "gen " .. GEMV .. " --knobs cyclic=7", "w8a8_gemv: knob 'cyclic' takes 1 0, got" },
    { "gen " .. GEMV .. " --knobs split", "--knobs: w8a8_gemv: 'split' is not a knob and its" },
    { "gen " .. GEMV .. " --knobs split=4,unroll=4", "does not keep s4" },
    { "gen " .. GEMV .. " --knobs unroll=99999999999999999999", "got the string '9999999" },
    { "gen " .. GEMV .. " --knobs s1p1", "--knobs: w8a8_gemv: variant 's1p1' has no cyclic at ''" },
    { "gen " .. GEMV .. " --arch cpu/sm_121a", "arch 'cpu/sm_121a': no such name" },
    { "check " .. GEMV .. " --arch cpu/sm_121a", "arch 'cpu/sm_121a': no such name" },
    { "gen " .. GEMV .. " --sms 0", "--sms: '0' is not a number of 1 or more" },
    { "gen " .. GEMV .. " --arch sm_90", "arch 'sm_90': no such name (did you mean 'sm_90a'?)" },
    { "gen " .. GEMV .. " --arch volta", "arch 'volta': no such name (known: sm_90a" },
    { "gen " .. GEMV .. " --sms many", "--sms: 'many' is not a number" },
    { "build " .. GEMV, "build: no GPU here whose arch could be meant (say --arch sm_90a)" },
    { "build " .. GEMV .. " --arch cpu", "build: the CPU device's code is not kept" },
    { "build " .. GEMV .. " --arch sm_90a,", "arch '': no such name" },
    { "build " .. GEMV .. " --arch sm_90a --all --knobs split=4", "--all and --knobs ask for" },
    { "build " .. GEMV .. " --arch sm_90a --all --planned", "build: --all and --planned ask for" },
    -- check
    { "check --in f", "check: --knobs, --in and --out need a family and a shape" },
    { "check " .. GEMV .. " --in f --all", "--in and --out are for one kernel" },
    { "check " .. GEMV .. " --all --knobs split=4", "--all and --knobs ask for different" },
    { "check " .. GEMV .. " --bits --arch sm_121a", "check: --bits compares what the GPU runs" },
    { "check " .. GEMV .. " --real", "check: --real adds the model's shapes" },
    { "check " .. GEMV .. " --seed x", "--seed: 'x' is not a number" },
    { "check " .. GEMV .. " --in /dev/null", "--in: /dev/null: is not a file" },
    { "check " .. GEMV .. " --in nowhere", "--in: nowhere: cannot be opened: No such file" },
    { "check " .. GEMV .. " --out /dev/null/x", "--out: /dev/null/x: cannot be made" },
    -- why
    { "why w8a8_gemv", "'w8a8_gemv' is not a kernel's name (<family>__<shape>__<variant>)" },
    { "why w9__m1__x1", "kernel w9__m1__x1: unknown family 'w9'" },
    { "why w8a8_gemv__m1_n64__m1", "size K is missing" },
    { "why w8a8_gemv__m17_n64_k64__s1p1c0u2o32", "is not served: more than 16 rows" },
    { "why w8a8_gemv__m1_n64_k64__s16p1c0u4o32", "is not kept for cpu with 1 multi" },
}

local SETTINGS <const> = {
    { "LATHE_DEVICE=tpu", "LATHE_DEVICE: 'tpu' is no device" },
    { "LATHE_JIT=maybe", "LATHE_JIT: 'maybe' is neither off nor on" },
    { "LATHE_DEBUG=9", "LATHE_DEBUG: '9' is not a number from 0 to 5" },
    { "LATHE_CPU_ORDER=-1", "LATHE_CPU_ORDER: '-1' is not a number" },
    { "LATHE_CACHE_LIMIT=1,5", "LATHE_CACHE_LIMIT: '1,5' is not a number" },
    { "LATHE_SPILL=fatal", "LATHE_SPILL: 'fatal' is neither warn nor error" },
    { "LATHE_ROOT=/nowhere", "LATHE_ROOT: '/nowhere' is not a folder" },
    { "LATHE_JITT=off", "LATHE_JITT: no such setting" },
}

-- Can this machine compile for a GPU? Where it cannot, a test is counted as skipped.
local function needs_compiler()
    local _, err, code = lathe("build w8a8_act_quant M=1 K=64 --arch sm_90a")
    if err:find("no compiler", 1, true) then pending("no NVRTC here") end
    assert.equal(0, code, err)
end

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("the command line", function()
    for _, case in ipairs(WRONG) do
        it(("refuses `lathe %s` in one sentence"):format(case[1]), function()
            refused(case[1], case[2])
        end)
    end

    for _, case in ipairs(SETTINGS) do
        it(("refuses the setting %s in one sentence"):format(case[1]), function()
            refused("config", case[2], case[1])
        end)
    end

    it("shows help for every command and ends with 0", function()
        for _, command in ipairs({ "families", "gen", "build", "check", "bench", "tune", "why",
            "cache", "config" }) do
            local out, err, code = lathe(command .. " --help")
            assert.equal(0, code)
            assert.equal("", err)
            assert.truthy(out:find("Usage: lathe " .. command, 1, true))
        end
    end)

    it("says where each setting comes from", function()
        local out = lathe("config", "LATHE_DEBUG=0")
        assert.truthy(out:match("LATHE_DEBUG +0 +environment"))
        assert.truthy(out:match("LATHE_JIT +on +default"))
        assert.truthy(lathe("config --json"):match('"env":"LATHE_JOBS"'))
    end)

    it("says that a device was chosen by a flag", function()
        assert.truthy(lathe("--device cpu config", "LATHE_DEVICE=cuda:0"):match(
            "LATHE_DEVICE +cpu +flag"))
    end)

    it("refuses a LATHE_DUMP that cannot be obeyed before anything runs", function()
        refused("check " .. GEMV, "LATHE_DUMP: '/dev/null' is no folder", "LATHE_DUMP=/dev/null")
        refused("build " .. GEMV .. " --arch sm_90a", "LATHE_DUMP: '/dev/null/x' cannot be made",
            "LATHE_DUMP=/dev/null/x")
    end)

    it("says that a device error ended the run with 3", function()
        refused("check --device cuda:0 " .. GEMV, "cuda", "LD_LIBRARY_PATH=", 3)
        refused("check --bits", "there is no GPU here", nil, 3)
    end)

    it("writes nothing outside of the cache's folder", function()
        local script = [[set -e; mkdir -p @/apart/home @/apart/tmp @/apart/here
            root=$PWD; cd @/apart/here
            export HOME=@/apart/home TMPDIR=@/apart/tmp LATHE_ROOT=$root LATHE_DEVICE=cpu
            export LATHE_CACHE_DIR=@/apart/cache
            unset XDG_CACHE_HOME
            "$root/lathe" check rms_norm M=1 K=64
            LATHE_CPU_CHECK=on "$root/lathe" check rms_norm M=1 K=64
            "$root/lathe" tune rms_norm M=1 K=64
            "$root/lathe" build rms_norm M=1 K=64 --arch sm_90a || [ $? = 3 ]  # no compiler
            "$root/lathe" run --model "$root/tests/tiny" --prompt A -n 1
            cd ..; find . -type f | grep -v '^./cache/' | sed 's/^/left: /'
            find ./cache -name '*.tuned' | sed 's/^/kept: /']]
        local pipe = assert(io.popen("bash -c '" .. script:gsub("'", "'\\''"):gsub("@", SCRATCH)
            .. "' 2>&1"))
        local said = pipe:read("a")
        assert.truthy(said:find("kept: ./cache/tuned/cpu.tuned", 1, true), said)
        assert.falsy(said:find("left: ", 1, true), said)
    end)

    it("says that stdout cannot be written", function()
        for _, words in ipairs({ "families", "--version", "--help", "gen --help" }) do
            local _, err, code = lathe(words .. " >/dev/full")
            assert.equal(3, code, words)
            assert.truthy(err:find("stdout: cannot be written", 1, true))
        end
    end)

    it("says that the file of --out cannot be written", function()
        refused("check " .. GEMV .. " --out /dev/full",
            "--out: /dev/full: cannot be written: No space left on device", nil, 3)
    end)
end)

describe("lathe gen", function()
    if os.execute("command -v nvcc >/dev/null") then
        it("prints what nvcc takes without a word", function()
            local command = ("./lathe gen w8a8_gemv M=2 N=4096 K=11264 --arch sm_90a >%s/x.cu && "
                .. "nvcc -arch=sm_90a -cubin -o %s/x.cubin %s/x.cu 2>&1"):gsub("%%s", SCRATCH)
            local pipe = io.popen(command)
            assert.equal("", pipe:read("a"))
            assert.truthy(pipe:close())
        end)
    end

    it("prints the same bytes in two processes, without #line, in any locale", function()
        local words = "gen w8a8_gemv M=2 N=4096 K=11264 --arch sm_90a"
        local first = lathe(words)
        assert.truthy(#first > 1000)
        assert.equal(first, (lathe(words)))
        assert.equal(first, (lathe(words, "LC_ALL=de_DE.UTF-8")))
        assert.falsy(first:find("#line", 1, true))
        assert.truthy(first:find("enum { M = 2, N = 4096, K = 11264,", 1, true))
    end)

    it("takes the values of --knobs", function()
        local out = lathe("gen " .. LONG .. " --arch cpu --knobs unroll=4,occupancy=24")
        assert.truthy(out:find("UNROLL = 4", 1, true))
        local knobs = out:match("variant (%w+),")
        assert.equal(out, (lathe("gen " .. LONG .. " --arch cpu --knobs " .. knobs)))
    end)

    it("tells a program what a kernel is with --json", function()
        local out = lathe("gen w8a8_act_quant M=1 K=64 --arch sm_90a --json")
        assert.truthy(out:find('"name":"w8a8_act_quant__m1_k64__w8"', 1, true))
        assert.truthy(out:find('"arch":"sm_90a"', 1, true))
    end)

    it("prints the same JSON in every process, its fields sorted", function()
        local out = lathe("gen rms_norm M=1 K=64 --arch sm_90a --json")
        local names = {}
        for name in out:gmatch('[{,]"([%a_]+)":') do names[#names + 1] = name end
        assert.equal("arch", names[1])
        assert.truthy(#names > 12)
        for words in out:gmatch("{([^{}]*)}") do
            local last = ""
            for name in words:gmatch('"([%a_]+)":') do
                assert.truthy(last < name, words)
                last = name
            end
        end
        assert.truthy(lathe("gen dsa_expand M=1 K=512 --json"):find('"variant":{}', 1, true))
        for _, words in ipairs({ "plan --model tests/tiny --dry", "families" }) do
            local text = lathe("--json " .. words)
            for _ = 1, 3 do assert.equal(text, (lathe("--json " .. words))) end
        end
    end)
end)

describe("lathe families", function()
    it("lists them, shows one whole, and what it has for a shape or why it has nothing", function()
        assert.truthy(lathe("families"):find("w4a16_gemv", 1, true))
        local whole = lathe("families w8a8_gemv")
        for _, part in ipairs({ "maths", "args, in order", "knobs, safe values first",
            "e4m3_tile16", "shapes that are checked" }) do
            assert.truthy(whole:find(part, 1, true), part)
        end
        assert.truthy(lathe("families " .. GEMV):find("default", 1, true))
        local refusal, _, code = lathe("families w8a8_gemv M=99 N=1 K=1")
        assert.truthy(lathe("families w8a8_gemv M=0 N=1 K=1"):find("does not serve m0_n1_k1", 1,
            true))
        assert.equal(0, code)
        assert.truthy(refusal:find("does not serve m99_n1_k1: more than 16 rows", 1, true))
    end)

end)

describe("lathe check", function()
    it("counts what it compared and ends with 0", function()
        local out, err, code = lathe("check w8a8_act_quant --all")
        assert.equal(0, code)
        assert.equal("", err)
        assert.truthy(out:match("1 families, 4 shapes, %d+ variants, %d+ launches, %d+ elements "
            .. "compared, 0 refused, 0 failed\n$"))
    end)

    it("says how near to the limit a sum that cancels is", function()
        assert.truthy(lathe("check w8a8_gemv M=16 N=256 K=4096"):match(
            "  [%d.]+ ulp %(0%.%d+ of what is allowed%)"))
    end)

    it("ends with 1 and names kernel and element when a text computes something else", function()
        local path = "templates/lib/e4m3_codes.cut"
        local root = other_root({ [path] = changed(path, "(amax, 448.0f)", "(amax, 447.0f)") })
        local out, err, code = lathe("check w8a8_act_quant M=3 K=704", root)
        assert.equal(1, code)
        assert.truthy(err:match("^lathe: kernel w8a8_act_quant__m3_k704__w8: [a-z]+%[[%d,]+%] is "))
        assert.truthy(err:find("elements differ", 1, true))
        assert.truthy(out:find("FAILED", 1, true))
        assert.truthy(out:find("1 failed", 1, true))
    end)

    it("finds a kernel that writes too little", function()
        local path = "templates/lib/e4m3_row.cut"
        local root = other_root({ [path] = changed(path, "if (threadIdx.x == 0) *sx",
            "if (threadIdx.x == 0 && blockIdx.x != 1) *sx") })
        local _, err, code = lathe("check w8a8_act_quant M=3 K=704", root)
        assert.equal(1, code)
        assert.truthy(err:find("sx[1] is nan", 1, true) or err:find("sx[1] is -nan", 1, true))
    end)

    it("finds a kernel that leaves out the -1 behind its ids", function()
        local path = "templates/dsa_expand.cut"
        local root = other_root({ [path] = changed(path, "    ids[(size_t)m",
            "    if (id >= 0) ids[(size_t)m") })
        local _, err, code = lathe("check dsa_expand M=1 K=16", root)
        assert.equal(1, code)
        assert.truthy(err:match("ids%[0,24%] is %-2%.1%d+e%+09, not %-1; 11 of 67 "), err)
    end)

    it("finds a kernel that writes before it may", function()
        local path = "templates/w8a8_act_quant.cut"
        local root = other_root({ [path] = changed(path, "    lt_pdl_wait();",
            "    if (threadIdx.x == 0) sx[blockIdx.x] = 1.0f;\n    lt_pdl_wait();") })
        local _, err, code = lathe("check w8a8_act_quant --all", root)
        assert.equal(1, code)
        assert.truthy(err:match("w8a8_act_quant%.cut:%d+: block %d+, thread 0: writes 'sx' before "
            .. "lt_pdl_wait"), err)
    end)

    it("finds what a template without its barrier reads, where each access is checked", function()
        local path = "templates/lib/e4m3_codes.cut"
        local root = other_root({ [path] = changed(path, "    __syncthreads();\n",
            "    lt_ballot(-1, 0);\n") })
        local _, err, code = lathe("check w8a8_act_quant M=3 K=704", root .. " LATHE_CPU_CHECK=on")
        assert.equal(1, code)
        assert.truthy(err:match("^lathe: kernel w8a8_act_quant__m3_k704__w8: templates/lib/"
            .. "e4m3_codes%.cut:%d+: block 0, thread %d+: "), err)
        assert.truthy(err:find("reads shared 'room' + ", 1, true), err)
        _, err, code = lathe("check w8a8_act_quant M=3 K=704", "LATHE_CPU_CHECK=on")
        assert.equal(0, code, err)
    end)

    it("ends a run of a model at the kernel that fails, with 3", function()
        local path = "templates/rms_norm.cut"
        local root = other_root({ [path] = changed(path, "    lt_pdl_launch();",
            "    if (threadIdx.x == 0) y[1 << 28] = y[0];\n    lt_pdl_launch();") })
        local out, err, code = lathe("run --model tests/tiny --prompt a -n 2 --tokens", root)
        assert.equal(3, code, err)
        assert.falsy(out:find("%d"), out)
        assert.truthy(err:match("^lathe: [^\n]*rms_norm[^\n]*\n$"), err)
    end)

    it("names the template's line when a kernel does not compile", function()
        local path = "templates/lib/e4m3_row.cut"
        local root = other_root({ [path] = changed(path, "const float scale = ",
            "const float scale = oops + ") })
        local _, err, code = lathe("check w8a8_act_quant M=3 K=704", root)
        assert.equal(1, code)
        assert.truthy(err:match(
            "^lathe: kernel w8a8_act_quant__m3_k704__w8: templates/lib/e4m3_row%.cut:%d+: "), err)
        assert.truthy(err:find("oops", 1, true))
    end)

    it("refuses a mistake in a template or family with its file and line", function()
        local path = "templates/w8a8_act_quant.cut"
        refused("check w8a8_act_quant M=3 K=704", path .. ":1: ",
            other_root({ [path] = "$(undefined_name)\n" }))
        path = "families/w8a8_act_quant.lua"
        refused("check w8a8_act_quant M=3 K=704", path .. ":",
            other_root({ [path] = changed(path, "rev = 1,", "revv = 1,") }))
    end)

    it("gives the same file for the same seed, another for another, the same from --in", function()
        local a, b, c, d = SCRATCH .. "/a", SCRATCH .. "/b", SCRATCH .. "/c", SCRATCH .. "/d"
        local words = "check w8a8_gemv M=2 N=22 K=64 "
        assert.equal(0, (select(3, lathe(words .. "--seed 7 --out " .. a))))
        lathe(words .. "--seed 7 --out " .. b, "LATHE_CPU_ORDER=5 LATHE_CPU_LAZY=on")
        lathe(words .. "--seed 8 --out " .. c)
        lathe(words .. "--seed 9 --in " .. a .. " --out " .. d)
        assert.equal(read(a), read(b))
        assert.not_equal(read(a), read(c))
        assert.equal(read(a), read(d))
    end)

    it("refuses a file of other shapes or names, and writes nothing then", function()
        local a, b = SCRATCH .. "/a2", SCRATCH .. "/b2"
        lathe("check w8a8_gemv M=2 N=22 K=64 --out " .. a)
        refused(("check w8a8_gemv M=2 N=22 K=65 --in %s --out %s"):format(a, b),
            "a2: tensor 'x': dimension 1 is 64, the kernel takes 65")
        refused(("check w8a8_act_quant M=2 K=64 --in %s --out %s"):format(a, b),
            "is no arg of w8a8_act_quant")
        local header = '{"x":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}}'
        write(a, ("<s8"):pack(header) .. "data")
        refused(("check w8a8_act_quant M=1 K=2 --in %s --out %s"):format(a, b),
            "a2: tensor 'x': is F16, the kernel takes BF16")
        assert.falsy(read(b))
        write(b, "\8\0\0\0\0\0\0\0{}")
        refused("check w8a8_gemv M=2 N=22 K=64 --in " .. b, "b2: says its header has 8 bytes")
        assert.falsy(io.popen("ls " .. SCRATCH):read("a"):find("%.part"))
    end)

    it("runs with the files inside the program, far from a checkout", function()
        local pipe = io.popen(("cp lathe %s/alone && cd %s && env -u LATHE_ROOT LATHE_DEVICE=cpu "
            .. "./alone check w8a8_act_quant M=1 K=64 2>&1"):format(SCRATCH, SCRATCH))
        assert.truthy(pipe:read("a"):find("0 refused, 0 failed", 1, true))
        assert.truthy(pipe:close())
    end)

    it("ends at Ctrl-C without a word, by the signal", function()
        local pipe = io.popen(("timeout --preserve-status -s INT 0.3 env LATHE_DEVICE=cpu ./lathe "
            .. "check --all 2>&1 >/dev/null; echo $?"))
        assert.equal("130\n", pipe:read("a"))
    end)
end)

describe("lathe build", function()
    it("leaves whole entries and nothing else when it is ended in the middle", function()
        needs_compiler()
        local script = SCRATCH .. "/end.sh"  -- set -m: else Ctrl-C is ignored from the start
        write(script, [[
            set -m
            export LATHE_CACHE_DIR=$2
            ./lathe build w8a8_gemv M=2 N=96 K=1552 --sms 1 --all --arch sm_90a 2>&1 &
            for _ in $(seq 200); do ls "$2" 2>/dev/null | grep -q 'lock$' && break; sleep 0.1; done
            ls "$2" | grep -c 'lock$' | sed 's/^[1-9].*/some/'
            kill -s $1 $!
            wait $!
            echo $?
            ls -A "$2" | grep -v '\.[0-9a-f]\{16\}$'
        ]])
        for signal, code in pairs({ INT = 130, TERM = 143, HUP = 129 }) do
            local pipe = io.popen(("bash %s %s %s/%s 2>/dev/null"):format(
                script, signal, SCRATCH, signal))
            assert.matches(("^some\n%d\ncompiler%%.%%x+%%.note\n$"):format(code), pipe:read("a"))
        end
    end)

    it("tells a program what it needs to launch a kernel", function()
        needs_compiler()
        local out = lathe("--json build moe_router M=2 N=37 TOPK=8 K=64 --arch sm_90a")
        local row = cjson.decode(out).rows[1]
        assert.same({ 3, 1, 1 }, row.launch.grid)
        local kinds = {}
        for i, p in ipairs(row.params) do kinds[i] = p.name .. " " .. p.kind end
        assert.same({ "ids out", "weights out", "x in", "w in", "bias in", "factor in",
            "sums scratch", "turns scratch" }, kinds)
        assert.same({ 37, 64, "bf16_tile16", 37 * 64 * 2 }, { row.params[4].extents[1],
            row.params[4].extents[2], row.params[4].layout, row.params[4].bytes })
    end)

    it("sixteen times together on an empty cache succeeds each time", function()
        needs_compiler()
        local pipe = io.popen(("for i in $(seq 16); do (env LATHE_CACHE_DIR=%s/sixteen/x ./lathe "
            .. "build w8a8_act_quant M=1 K=64 --arch sm_90a,sm_121a >/dev/null 2>&1; echo $?) & "
            .. "done; wait"):format(SCRATCH))
        assert.equal(("0\n"):rep(16), pipe:read("a"))
        local verified = lathe("cache verify", "LATHE_CACHE_DIR=" .. SCRATCH .. "/sixteen/x")
        assert.truthy(verified:find("2 entries, 0 damaged", 1, true))
    end)
end)

describe("lathe why", function()
    local KERNEL <const> = "w8a8_act_quant__m1_k64__w8"
    local env = ("LATHE_CACHE_DIR=%s/why "):format(SCRATCH)

    local function says(part, more)
        local out, err, code = lathe("why " .. KERNEL .. " --arch sm_90a", env .. (more or ""))
        assert.equal(0, code, err)
        assert.truthy(out:find(part, 1, true), out)
    end

    it("says once that the cache cannot be used", function()
        write(SCRATCH .. "/no_folder", "")
        local out, err = lathe("why " .. KERNEL .. " --arch sm_90a",
            ("LATHE_CACHE_DIR=%s/no_folder"):format(SCRATCH))
        assert.truthy(out:find("key      ", 1, true), out)
        assert.truthy(err:match("^lathe: cache '[^\n]+': not used, [^\n]+\n$"), err)
    end)

    it("explains the key of a kernel: new, built, and what changed since", function()
        needs_compiler()
        says("cached   no: it is compiled when it is next needed")
        says("nearest  no other entry of its family is there")
        lathe("build w8a8_act_quant M=1 K=64 --arch sm_90a", env)
        says("cached   yes: it is not compiled again")
        says("-brief-diag=true -lineinfo\n", ("LATHE_DUMP=%s/dump"):format(SCRATCH))
        local path = "templates/lib/e4m3_codes.cut"
        local root = other_root({ [path] = changed(path, "(amax, 448.0f)", "(amax, 449.0f)") })
        says("\n  - text:", root)
        says("(amax, 449.0f)", root)
        says("no, and there is no compiler here: the nearest entry is used",
            "LATHE_NVRTC=/nowhere")
    end)
end)

describe("lathe cache", function()
    it("says where it is, what is in it, and empties it", function()
        assert.equal(SCRATCH .. "/cache\n", (lathe("cache path")))
        assert.truthy(lathe("cache list"):find("entries, ", 1, true))
        assert.truthy(lathe("cache verify"):find(" 0 damaged", 1, true))
        assert.truthy(lathe("cache gc"):match("^removed %d+ entries, %d+ bytes\n$"))
        assert.truthy(lathe("cache clear"):match("^removed %d+ entries\n$"))
        assert.truthy(lathe("cache list --json"):find('{"rows":[]}', 1, true))
    end)
end)
