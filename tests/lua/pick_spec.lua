-- Which variants plans choose: from pins, records of the shape, records of a near one, or none.
-- `lathe plan` of the tiny model for an H200, with records that the test writes.
local cjson = require("cjson")

local SCRATCH <const> = assert(io.popen("mktemp -d")):read("l")
local FAMILY <const>, SHAPE <const> = "w8a8_gemv", "m1_n256_k512"
local SITE <const> = "L03.attn.y"

-- Stdout, stderr and exit code of a command; nothing is shipped but what the folder `tree` has.
local function lathe(words, cache)
    local errors = SCRATCH .. "/stderr"
    local line = "env LATHE_CACHE_DIR=%s/%s LATHE_ROOT=%s/tree ./lathe %s 2>%s"
    local pipe = assert(io.popen(line:format(SCRATCH, cache or "none", SCRATCH, words, errors)))
    local out = pipe:read("a")
    local _, _, code = pipe:close()
    local file <close> = assert(io.open(errors))
    return out, file:read("a"), code or 0
end

local function write(path, text)
    assert(os.execute(("mkdir -p %s"):format(path:match("^(.*)/"))))
    local file <close> = assert(io.open(path, "w"))
    assert(file:write(text))
end

-- A sealed line, as cache/record.c checks it.
local function line(record)
    local words = { "record=1", "device=nvidia-h200",
        ("family=%s@1"):format(record.family or FAMILY),
        "shape=" .. record[1], "layout=" .. (record.family and "rows" or "e4m3_tile16"),
        "class=x", "regime=" .. (record.regime or "alone"),
        "knobs=" .. record[2], "status=" .. (record[4] or "ok"), ("us=%g"):format(record[3]),
        "spread=0.1", "pass=2", "text=" .. (record.text or ("0"):rep(16)), "seed=1" }
    local text = table.concat(words, "\t")
    local pipe = assert(io.popen(("printf '%%s' '%s' | sha256sum"):format(text)))
    local sum = pipe:read(8)
    pipe:close()
    return ("%s\tsum=%s\n"):format(text, sum)
end

local function records(cache, list)
    local lines = {}
    for i, record in ipairs(list) do lines[i] = line(record) end
    write(("%s/%s/tuned/nvidia-h200.tuned"):format(SCRATCH, cache), table.concat(lines))
end

-- A step, of SITE where no other is named: its kernel's variant and where that comes from.
local function chosen(cache, words, site)
    local out, errors, code = lathe("plan --model tests/tiny --arch sm_90a --json "
        .. (words or ""), cache)
    assert.equal(0, code, errors)
    for _, row in ipairs(cjson.decode(out).rows) do
        if row.step == (site or SITE) then
            return row.kernel:match("__(%w+)$"), row.origin, row.class
        end
    end
end

write(SCRATCH .. "/tree/cache/tuned/nvidia-h200.tuned", "")

-- A family that keeps a second class at every shape, and a second variant of the first one.
do
    local path <const>, keep <const> = "families/w8a8_gemv.lua", "tile.ceil(s.K, CHUNK), dev) "
    local file <close> = assert(io.open(path))
    local source = file:read("a")
    local from, to = source:find(keep, 1, true)
    write(SCRATCH .. "/tree/" .. path, source:sub(1, to) .. "or v.cyclic == 0 and (v.split == 2 "
        .. "and v.parts == 4 and v.unroll == 2 and v.occupancy == 24 or v.split == 4 "
        .. "and v.parts == 1 and v.unroll == 3 and v.occupancy == 32) " .. source:sub(from + #keep))
end

local default = chosen("none")

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("a plan's choice", function()
    it("is the first kept variant where nothing is known", function()
        local knobs, origin = chosen("none")
        assert.equal(default, knobs)
        assert.equal("default", origin.from)
    end)

    it("is the fastest record of the class with the least sum over the rows", function()
        records("sum", {
            { SHAPE, "s4p1c0u2o32", 3 }, { SHAPE, "s2p4c0u2o24", 2 },
            { "m16_n256_k512", "s4p1c0u2o24", 4 }, { "m16_n256_k512", "s2p4c0u2o24", 30 },
        })
        local knobs, origin, class = chosen("sum")
        assert.equal("s4p1c0u2o32", knobs)
        assert.same({ "exact", 3 }, { origin.from, origin.us })
        assert.equal("mma.f16_1x4", class)
    end)

    it("weighs a step of many rows by what it takes a row", function()
        records("rows", {
            { SHAPE, "s4p1c0u2o32", 3 }, { SHAPE, "s2p4c0u2o24", 2 },
            { "m16_n256_k512", "s4p1c0u2o24", 4 }, { "m16_n256_k512", "s2p4c0u2o24", 12 },
        })
        local _, _, class = chosen("rows")
        assert.equal("mma.f16_4x2", class)
    end)

    it("counts what another class adds in the chain more than the fastest alone", function()
        local one, other = { SHAPE, "s4p1c0u2o32", 3 }, { SHAPE, "s2p4c0u2o24", 2.9 }
        local function class_of(...)
            records("both", { one, other, ... })
            return (select(3, chosen("both")))
        end
        local function chain(of, us, text)
            return { SHAPE, of[2], us, regime = "chain", text = text }
        end
        assert.equal("mma.f16_4x2", class_of())
        assert.equal("mma.f16_1x4", class_of(chain(one, 2), chain(other, 2.2)))
        assert.equal("mma.f16_4x2", class_of(chain(one, 2.2), chain(other, 2)))
        assert.equal("mma.f16_4x2", class_of(chain(one, 2)))  -- not compared with anything
        local slower = { SHAPE, "s4p1c0u3o32", 3.2 }  -- of one's class, alone
        records("both",
            { one, other, slower, chain(one, 2.4), chain(other, 2.2), chain(slower, 2) })
        assert.equal("mma.f16_1x4", (select(3, chosen("both"))))
        assert.equal("mma.f16_4x2", class_of(chain(one, 2), chain(other, 2.2, ("1"):rep(16))))
    end)

    it("gives every number of rows the same class", function()
        local _, _, one = chosen("sum")
        local _, origin, sixteen = chosen("sum", "--mode prefill --rows 16")
        assert.same({ "exact", 4 }, { origin.from, origin.us })
        assert.equal(one, sixteen)
    end)

    it("is the fastest in the chain where the fastest alone was timed there", function()
        local function record(knobs, us, regime, text)
            return { "m1_n64", knobs, us, family = "swiglu_clamp", regime = regime, text = text }
        end
        local function choose(...)
            records("chain", { record("w4", 3), record("w2", 3.1), ... })
            local knobs, origin = chosen("chain", "--recipe reference", "L01.ffn.s_a.swiglu")
            assert.equal("exact", origin.from)
            return { knobs, origin.us, origin.chain }
        end
        local one, other = record("w4", 2, "chain"), record("w2", 1.5, "chain")
        assert.same({ "w4", 3, 1.4 }, choose(other, record("w4", 1.4, "chain")))
        assert.same({ "w4", 3 }, choose(other))
        assert.same({ "w4", 3, 2 }, choose(one, record("w2", 1.5, "chain", "1111111111111111")))
        assert.same({ "w4", 3 }, choose(other, record("w4", 2, "chain", "1111111111111111")))
        assert.same({ "w4", 3, 2 }, choose(one, record("w8", 1, "chain")))
        assert.same({ "w2", 3.1, 1.5 }, choose(one, other))
        local text = lathe("plan --model tests/tiny --arch sm_90a --recipe reference", "chain")
        assert.truthy(text:find(" 3.1 us, chain 1.5 ", 1, true), text)
        text = lathe("why swiglu_clamp__m1_n64__w2 --arch sm_90a", "chain")
        assert.truthy(text:find("nvidia-h200: ok, 3.1 us, 1.5 in the chain (with older text)", 1,
            true), text)
    end)

    it("is never what was wrong", function()
        records("wrong", { { SHAPE, "s2p4c0u2o24", 1, "wrong" }, { SHAPE, default, 5 } })
        assert.equal(default, (chosen("wrong")))
    end)

    it("is a near shape's record, not a far one's", function()
        records("near", { { "m1_n512_k512", "s2p4c0u2o24", 2 } })
        local knobs, origin = chosen("near")
        assert.equal("s2p4c0u2o24", knobs)
        assert.same({ "nearest", "m1_n512_k512" }, { origin.from, origin.shape })
        records("far", { { "m1_n4096_k11264", "s2p4c0u2o24", 2 } })
        knobs, origin = chosen("far")
        assert.equal(default, knobs)
        assert.equal("default", origin.from)
    end)

    it("is what a user pinned, whatever was recorded", function()
        local path = SCRATCH .. "/pins.lua"
        write(path, ('return { ["%s %s"] = "s2p4c0u2o24" }'):format(FAMILY, SHAPE))
        local knobs, origin = chosen("sum", "--pins " .. path)
        assert.equal("s2p4c0u2o24", knobs)
        assert.equal("pinned", origin.from)
    end)

    it("is not hindered by a pin of other rows, which the plan does not have", function()
        local path = SCRATCH .. "/other_rows.lua"
        write(path, ('return { ["%s m16_n256_k512"] = "s2p4c0u2o24" }'):format(FAMILY))
        assert.equal((chosen("sum")), (chosen("sum", "--pins " .. path)))
    end)
end)

describe("the choices of all ranks", function()
    -- Columns of an expert of the tiny model on rank 0 of 3, and on the others.
    local FIRST <const>, OTHERS <const> = "m1_n32", "m1_n16"
    local function choices(cache, rank, words)
        local out, errors, code = lathe(("plan --model tests/tiny --arch sm_90a --json --ranks 3 "
            .. "--recipe reference --rank %d %s"):format(rank, words or ""), cache)
        assert.equal(0, code, errors)
        return cjson.decode(out).choices
    end
    local function record(s, knobs, us) return { s, knobs, us, family = "swiglu_clamp" } end
    local LINES <const> = {
        record(FIRST, "w4", 3), record(FIRST, "w2", 3), record(OTHERS, "w2", 2),
    }

    it("do not depend on the order of records, of equal times either", function()
        records("one", LINES)
        local backwards = {}
        for i, each in ipairs(LINES) do backwards[#LINES + 1 - i] = each end
        records("two", backwards)
        assert.equal(choices("one", 0), choices("two", 2))
    end)

    it("differ on all ranks where a record makes one of them choose otherwise", function()
        for i, more in ipairs({ record(FIRST, "w8", 1), record(OTHERS, "w8", 1) }) do
            records("more" .. i, { more, table.unpack(LINES) })
            for rank = 0, 2, 2 do
                assert.not_equal(choices("one", rank), choices("more" .. i, rank))
            end
        end
    end)

    it("do not depend on records that choose nothing", function()
        records("idle", { record(FIRST, "w8", 9), table.unpack(LINES) })
        assert.equal(choices("one", 0), choices("idle", 0))
    end)

    it("differ where a variant is pinned", function()
        local path = SCRATCH .. "/ranks.lua"
        write(path, ('return { ["swiglu_clamp %s"] = "w8" }'):format(OTHERS))
        assert.not_equal(choices("one", 0), choices("one", 0, "--pins " .. path))
    end)
end)

describe("a file of pins", function()
    local path <const> = SCRATCH .. "/bad.lua"

    local function refused(text, sentence)
        write(path, text)
        local _, errors, code = lathe("plan --model tests/tiny --arch sm_90a --pins " .. path)
        assert.equal(2, code, errors)
        assert.truthy(errors:find(sentence, 1, true), errors)
    end

    it("that is a folder cannot be read", function()
        local _, errors, code = lathe("plan --model tests/tiny --arch sm_90a --pins " .. SCRATCH)
        assert.equal(2, code, errors)
        assert.equal(("lathe: --pins: %s cannot be read\n"):format(SCRATCH), errors)
    end)

    it("is refused with what is wrong in it", function()
        refused("return 1", "a table of pins must be returned")
        refused("return {", "bad.lua:1: ")
        refused("os.exit(0)", "attempt to index a nil value (global 'os')")
        refused('return { ["swiglu_clamp"] = "w4" }', "'swiglu_clamp' is not a family and a shape")
        refused('return { ["swiglu_clmap m1_n64"] = "w4" }', "did you mean 'swiglu_clamp'?")
        refused('return { ["swiglu_clamp m1"] = "w4" }', "'swiglu_clamp m1': ")
        refused('return { ["swiglu_clamp n64_m1"] = "w4" }', "bad.lua: 'swiglu_clamp n64_m1': no "
            .. "shape is written so (write m1_n64)")
        refused('return { ["swiglu_clamp m01_n64"] = "w4" }', "(write m1_n64)")
        refused('return { ["w8a8_gemv m17_n64_k64"] = "s1p1c0u2o32" }',
            "'w8a8_gemv m17_n64_k64' is not served: more than 16 rows")
        refused('return { ["swiglu_clamp m0_n64"] = "w4" }', "m0_n64' is not served: ")
        refused('return { ["swiglu_clamp m1_n64"] = "w3" }', "knob 'warps' takes 4 2 8")
        refused('return { [1] = "w3" }', 'a pin is ["FAMILY SHAPE"] = "KNOBS"')
    end)

    it("that is a folder is refused", function()
        local _, errors, code = lathe("plan --model tests/tiny --arch sm_90a --pins " .. SCRATCH)
        assert.equal(2, code, errors)
        assert.equal(("lathe: --pins: %s cannot be read\n"):format(SCRATCH), errors)
    end)

    it("that names a variant which is not kept is refused at the site", function()
        refused(('return { ["%s %s"] = "s16p1c0u4o32" }'):format(FAMILY, SHAPE),
            ("lathe: %s: %s %s does not keep s16p1c0u4o32, its pin of --pins (`lathe families %s "
                .. "M=1 N=256 K=512 --arch sm_90a --sms 132` lists what it keeps)\n"):format(SITE,
                FAMILY, SHAPE, FAMILY))
    end)
end)

describe("the records that ship", function()
    local function check_all_exact(words)
        local plan = "env LATHE_CACHE_DIR=%s/none ./lathe plan %s --json"
        local pipe <close> = assert(io.popen(plan:format(SCRATCH, words)))
        for _, row in ipairs(cjson.decode(pipe:read("a")).rows) do
            assert.equal("exact", row.origin.from, row.kernel)
        end
    end

    it("have each shape of the tiny model's step on the CPU device", function()
        check_all_exact("--model tests/tiny --arch cpu")
    end)

    it("have each shape of the full model's steps on an H200, alone and as a rank", function()
        check_all_exact("--model-shape glm-5.3-flash --arch sm_90a")
        check_all_exact("--model-shape glm-5.3-flash --arch sm_90a --mode prefill --rows 16")
        check_all_exact("--model-shape glm-5.3-flash --arch sm_90a --ranks 3 --rank 2")
    end)
end)
