local arch = require("gen.arch")
local emit = require("gen.emit")
local fixtures = require("tests.lua.fixtures")
local variant = require("gen.variant")

local SMALL <const> = { M = 2, N = 96, K = 1552 }
local MOE <const> = { E = 3, N = 22, K = 704 }

local function golden(name)
    return fixtures.read("golden/" .. name .. ".cu")
end

describe("emit", function()
    it("writes the text that the golden files hold", function()
        for _, variant_text in ipairs({ "c1w4s1u1", "c2w4s2u1" }) do
            local kernel = fixtures.kernel("w8a8_rows", SMALL, variant_text)
            assert.equal(golden(kernel.name), kernel.text)
        end
        assert.equal(golden("moe_up__e3_n22_k704__p2m0"),
            fixtures.kernel("moe.up", MOE, "p2m0").text)
    end)

    it("puts the prelude in front, and #line only into source", function()
        local k = fixtures.kernel("w8a8_rows", SMALL, "c2w4s2u1")
        assert.equal("/* cuda.h */\n#define TWO(a) \\\n    a\n/* exact.h */\n", k.prelude)
        assert.equal(k.prelude .. k.text, k.plain)
        assert.equal(k.plain, (k.source:gsub("#line[^\n]*\n", "")))
        assert.matches("^#line 1 \"templates/prelude/cuda.h\"\n", k.source)
        assert.matches("\n#line 1 \"templates/lib/e4m3_dot.cut\"\n", k.source)
    end)

    it("puts those files of the prelude in front whose names the text has", function()
        local CLUSTER <const>, WGMMA <const> = "/* cluster.h */\n", "/* wgmma.h */\n"
        local RESIDENT <const> = "/* resident.h */\n"
        local function more(text, arch_name)
            local k = fixtures.kernel("w8a8_rows", SMALL, "c2w4s2u1", arch_name,
                fixtures.read_with({
                    ["templates/w8a8_rows.cut"] = text,
                    ["templates/prelude/cluster.h"] = CLUSTER,
                    ["templates/prelude/wgmma.h"] = WGMMA,
                    ["templates/prelude/resident.h"] = RESIDENT,
                }))
            assert.equal(k.prelude .. k.text, k.plain)
            return k.prelude:match("/%* exact%.h %*/\n(.*)") or k.prelude
        end
        assert.equal("", more("lt_mma(); lt_cluster();"))
        assert.equal(CLUSTER, more("if (CLUSTER > 1) lt_cluster_wait();"))
        assert.equal(WGMMA, more("lt_wgmma_start();"))
        assert.equal(CLUSTER .. WGMMA, more("lt_wgmma_start(); lt_cluster_wait();"))
        assert.equal("/* cpu.h */\n", more("lt_wgmma_start(); lt_cluster_wait();", "cpu"))
        assert.equal(RESIDENT, more("lt_resident_at_most(1, 1);"))
        assert.equal("/* cpu.h */\n" .. RESIDENT, more("lt_resident_at_most(1, 1);", "cpu"))
    end)

    it("gives each source line the file and line that it came from", function()
        local k = fixtures.kernel("w8a8_rows", SMALL, "c1w4s1u1")
        local file, number, checked = nil, 0, 0
        for text in k.source:gmatch("(.-)\n") do
            local line, path = text:match("^#line (%d+) \"(.*)\"$")
            if line then
                file, number = path, tonumber(line) - 1
            elseif file ~= "generated" and not text:find("w8a8_rows__", 1, true)
                and not text:find("enum { M", 1, true) then
                assert.equal(text, fixtures.line(file, number))
                checked = checked + 1
            end
            number = number + 1
        end
        assert.is_true(checked > 25)
    end)

    it("gives the CPU device the text of sm_90a behind its own prelude", function()
        local cpu = fixtures.kernel("w8a8_rows", SMALL, "c2w4s2u1", "cpu")
        assert.equal(fixtures.kernel("w8a8_rows", SMALL, "c2w4s2u1").text, cpu.text)
        assert.equal("/* cpu.h */\n", cpu.prelude)
        assert.equal(90, cpu.model)
        assert.equal("cpu", cpu.arch)
    end)

    it("takes an arch's own template where there is one", function()
        assert.matches("// the text of sm_12x",
            fixtures.kernel("moe.up", MOE, "p2m1", "sm_121a").text, 1, true)
        assert.is_nil(fixtures.kernel("moe.up", MOE, "p2m0").text:find("sm_12x", 1, true))
    end)

    it("describes parameters, launch, class and work", function()
        local k = fixtures.kernel("moe.up", MOE, "p2m0")
        assert.same({
            { name = "u", ctype = "f32", extents = { 3, 22 }, bytes = 264, out = true,
                scratch = false },
            { name = "x", ctype = "f32", extents = { 3, 704 }, bytes = 8448, out = false,
                scratch = false },
            { name = "w", ctype = "e2m1x2", extents = { 3, 22, 352 }, bytes = 23232, out = false,
                scratch = false, layout = "rows" },
            { name = "partial", ctype = "f32", extents = { 2, 3, 22 }, bytes = 528, out = false,
                scratch = true },
            { name = "arrived", ctype = "u32", extents = { 1 }, bytes = 4, out = false,
                scratch = true },
        }, k.params)
        assert.same({ grid = { 22, 2, 1 }, block = 128, shared = 2048 }, k.launch)
        assert.equal("dot_2", k.class)
        assert.same({ bytes = 3 * 22 * 352, flops = 2 * 3 * 22 * 704 }, k.work)
    end)

    it("refuses a shape that is not served and a variant that is not kept", function()
        local failure = fixtures.failure
        assert.equal("family w8a8_rows: m17_n96_k1552 is not served: more than 16 rows: a GEMM's"
            .. " work", failure(fixtures.kernel, "w8a8_rows", { M = 17, N = 96, K = 1552 },
            "c1w4s1u1"))
        assert.equal("family w8a8_rows: variant c4w16s1u1 is not kept for m2_n96_k1552",
            failure(fixtures.kernel, "w8a8_rows", SMALL, "c4w16s1u1"))
        assert.equal("family w8a8_rows: size K is missing",
            failure(fixtures.kernel, "w8a8_rows", { M = 1, N = 1 }, "c1w4s1u1"))
        assert.matches("unknown arch 'sm_90'",
            failure(fixtures.kernel, "w8a8_rows", SMALL, "c1w4s1u1", "sm_90"))
    end)

    it("says where it looked for a template, a prelude and a lib", function()
        local function without(path)
            return fixtures.failure(fixtures.kernel, "w8a8_rows", SMALL, "c1w4s1u1", "sm_90a",
                fixtures.read_with({ [path] = false }))
        end
        assert.equal("families/w8a8_rows.lua: family w8a8_rows: template: there is none (looked"
            .. " for templates/sm90/w8a8_rows.cut and templates/w8a8_rows.cut)",
            without("templates/w8a8_rows.cut"))
        assert.equal("prelude templates/prelude/exact.h: not found",
            without("templates/prelude/exact.h"))
        assert.equal("templates/w8a8_rows.cut:5: no lib 'e4m3_dot' (templates/lib/e4m3_dot.cut)",
            without("templates/lib/e4m3_dot.cut"))
    end)

    it("holds shared memory against the arch", function()
        local family = fixtures.family("moe.up")
        family.launch = function() return { grid = 1, block = 128, shared = 101377 } end
        local job = { family = family, shape = MOE, variant = { parts = 1, mma = 0 },
            arch = "sm_90a", read = fixtures.read }
        assert.equal(101377, emit.kernel(job).launch.shared)
        family.launch = function() return { grid = 1, block = 128, shared = 101376 } end
        job.arch = "sm_121a"
        assert.equal(101376, emit.kernel(job).launch.shared)
        family.launch = function() return { grid = 1, block = 128, shared = 101377 } end
        assert.matches("launch: shared is 101377 bytes, sm_121a has 101376 a block$",
            fixtures.failure(emit.kernel, job))
    end)

    it("asks keep and launch about the device of the job", function()
        local family = fixtures.family("w8a8_rows")
        local job = { family = family, shape = SMALL, arch = "sm_90a", read = fixtures.read,
            variant = variant.parse(family, "c2w4s1u1"), dev = arch.device("sm_90a", 132) }
        assert.matches("variant c2w4s1u1 is not kept", fixtures.failure(emit.kernel, job))
        job.dev = nil
        assert.equal(12, emit.kernel(job).launch.grid[1])
    end)
end)
