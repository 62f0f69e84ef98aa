-- What tests/long/large.sh runs inside ./lathe, in place of its command line: kernels whose arrays
-- have more elements than an int counts. The last block, slot or expert of such an array must give
-- the bits that the only one of a small array gives.
local choice = require("lua.choice")
local ctype = require("gen.ctype")
local fault = require("lua.fault")
local lathe = require("lathe")
local place = require("lua.place")
local variant = require("gen.variant")

local SEED <const> = 1
local BLOCKS <const> = 131200  -- of 64 tokens of 512 bytes: more than 2^32
local KDA <const> = { M = 1, TOKENS = 1, HEADS = 64, D = 128, N = 16384, K = 64, STRIDE = 24768 }

-- Family; sizes of the small array; the size that grows, and to what; the argument that says where;
-- other integers.
local CASES <const> = {
    { "w4a4_moe.gate_up", { M = 1, TOPK = 1, N = 4096, K = 4096 }, "EXPERTS", 520, "ids" },
    { "w4a16_moe.down", { M = 1, TOPK = 1, N = 4096, K = 4096 }, "EXPERTS", 520, "ids" },
    { "bf16_moe.gate_up", { M = 1, TOPK = 1, N = 4096, K = 4096 }, "EXPERTS", 130, "ids" },
    { "mla_decode", { M = 1, HEADS = 8, D = 512, QK = 256, WIDTH = 64, SLOTS = 1, PAGES = 1 },
        "BLOCKS", BLOCKS, "block_table", { positions = 63, ids = 5 } },
    { "mla_latent_write", { M = 1, D = 512, STRIDE = 512, OFFSET = 0, SLOTS = 1, PAGES = 1 },
        "BLOCKS", BLOCKS, "block_table", { positions = 63 } },
    { "dsa_index_store", { M = 1, D = 128, STRIDE = 256, OFFSET = 0, GATE = 128, RING = 16 },
        "SLOTS", (1 << 19) + 1, "slots", { positions = 63 } },
    { "dsa_pool_keys", { M = 1, D = 128, RING = 4, SLOTS = 1, PAGES = 1 }, "BLOCKS",
        (1 << 19) + 1, "block_table", { positions = 63 } },
    { "dsa_scores", { M = 1, TOKENS = 1, HEADS = 8, D = 128, POOLS = 16, SLOTS = 1, PAGES = 1 },
        "BLOCKS", (1 << 19) + 1, "block_table", { positions = 63 } },
    { "kda_decode.bf16", KDA, "SLOTS", (1 << 11) + 1, "slots", { snaps = -1 } },
}
local DRAW <const> = { bf16 = "normal", f16 = "normal", f32 = "normal", e4m3 = "bytes",
    e2m1x2 = "bytes" }

local target <const> = place.open("cpu", choice.catalog())

local function elements(p) return p.bytes // ctype.find(p.ctype).bytes end

-- What is at the end of an argument: the same in an array of any size.
local function values_of(case, p, count, last)
    local a = fault.reach(lathe.array(p.ctype, count))
    if p.ctype == "i32" then
        local other = case[6] and case[6][p.name] or 0
        for i = 0, count - 1 do a:set(i, p.name == case[5] and last or other) end
    else
        fault.reach(a:draw(p.name == "ws" and "scales" or DRAW[p.ctype], SEED, p.name))
    end
    return a
end

local function kernel_of(case, count)
    local family, s = target.families.by_name[case[1]], { [case[3]] = count }
    for size, n in pairs(case[2]) do s[size] = n end
    local v = variant.kept(family, s, target.dev)[1]
    return choice.kernel(family, s, v, target.arch, target.dev)
end

-- Runs a kernel whose arguments end with those of `small`; what the outputs end with, by name.
local function run(case, kernel, small, count)
    local list, got = {}, {}
    local loaded <close> = fault.reach(target.device:load(kernel))
    for i, p in ipairs(kernel.params) do
        list[i] = fault.reach(target.device:alloc(p.bytes))
        if p.scratch then
            fault.reach(list[i]:fill(0))
        elseif p.inout or not p.out then
            local a <close> = values_of(case, p, elements(small.params[i]), count - 1)
            fault.reach(list[i]:write(a, p.bytes - small.params[i].bytes))
        end
    end
    fault.reach(target.device:launch(loaded, kernel.launch, list))
    for i, p in ipairs(kernel.params) do
        if p.out then
            local a = fault.reach(lathe.array(p.ctype, elements(small.params[i])))
            fault.reach(list[i]:read(a, p.bytes - small.params[i].bytes))
            got[p.name] = a
        end
        list[i]:free()
    end
    return got
end

local function bytes_of(kernel)
    local sum = 0
    for _, p in ipairs(kernel.params) do sum = sum + p.bytes end
    return sum
end

-- Is this much memory free, and as much again for others?
local function has_room(bytes)
    local file <close> = io.open("/proc/meminfo")
    local free = file and file:read("a"):match("MemAvailable: *(%d+) kB")
    return free and bytes < tonumber(free) * 1024 / 2
end

local function try(case)
    local small, large = kernel_of(case, 1), kernel_of(case, case[4])
    if not has_room(bytes_of(large)) then
        print(("%s: skipped: %.1f GB are not free"):format(large.name, bytes_of(large) / 1e9))
        return true
    end
    local want, got, differ = run(case, small, small, 1), run(case, large, small, case[4]), 0
    for name, a in pairs(want) do
        differ = differ + lathe.compare_bits(got[name], a).failures
    end
    print(("%s: %.1f GB, %d differ"):format(large.name, bytes_of(large) / 1e9, differ))
    return differ == 0
end

return function()
    local fine = true
    for _, case in ipairs(CASES) do fine = try(case) and fine end
    return fine and 0 or 1
end
