-- The architectures that text is generated for, and what of each a description may ask about.
-- A name is NVRTC's --gpu-architecture; `cpu` is the text of sm_90a with the CPU prelude, and
-- `cpu/NAME` that of another, for the CPU device to play.
local arch = {}

-- name, folder of templates, tensor-core model (90: e4m3 mma is emulated by f16 mma), bytes of
-- shared memory a block may use (static and dynamic), threads a multiprocessor holds, blocks a
-- cluster may have, nvf4 mma
local ARCHS <const> = {
    { "sm_90a",  "sm90",  90,  232448, 2048, 16, false },
    { "sm_100a", "sm100", 90,  232448, 2048, 16, false },
    { "sm_100f", "sm100", 90,  232448, 2048, 16, false },
    { "sm_120a", "sm120", 120, 101376, 1536, 8,  true },
    { "sm_120f", "sm120", 120, 101376, 1536, 8,  true },
    { "sm_121a", "sm120", 120, 101376, 1536, 8,  true },
    { "sm_121f", "sm120", 120, 101376, 1536, 8,  true },
}

arch.names = {}  -- in the table's order, `cpu` last
local by_name = {}

local function add(name, row, prelude)
    by_name[name] = {
        name = name,
        text = row[1],  -- the arch whose text this is
        prelude = prelude,
        folder = row[2],
        model = row[3],
        shared = row[4],
        threads_per_sm = row[5],
        cluster = row[6],
        nvf4 = row[7],
    }
end
for i, row in ipairs(ARCHS) do
    arch.names[i] = row[1]
    add(row[1], row, "cuda")
    add("cpu/" .. row[1], row, "cpu")
end
arch.names[#arch.names + 1] = "cpu"
add("cpu", ARCHS[1], "cpu")

-- { name, text, prelude, folder, model, shared, threads_per_sm, cluster, nvf4 }, or nil and a
-- sentence.
function arch.find(name)
    local found = by_name[name]
    if found then return found end
    return nil, ("unknown arch '%s' (known: %s)"):format(
        tostring(name), table.concat(arch.names, " "))
end

-- As find; an unknown name is an error at the caller's line.
function arch.get(name)
    local found, why = arch.find(name)
    if not found then error(why, 2) end
    return found
end

-- The name of an arch's text as the CPU device plays it.
function arch.on_cpu(name) return name == "cpu" and name or "cpu/" .. name end

-- The `dev` of keep, launch and templates: a device of this arch with so many multiprocessors.
function arch.device(name, sms)
    local found, why = arch.find(name)
    if not found then error(why, 2) end
    return {
        arch = found.text,
        sms = sms,
        shared = found.shared,
        threads_per_sm = found.threads_per_sm,
        cluster = found.cluster,
        nvf4 = found.nvf4,
    }
end

return arch
