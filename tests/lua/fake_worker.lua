-- A worker of `lathe tune` that plays an H200 (LATHE_ROOT names a folder where this file is
-- lua/tune/worker.lua): its times follow from the knobs. What it is asked goes to the file LOG.
local talk = require("lua.tune.talk")

local US <const> = {  -- of w8a8_gemv M=1 N=4096 K=32768, whose floor is 30.9
    s16p1c1u2o32 = 31.3,  -- near the floor: the rest of its class is left out
    s16p1c0u2o32 = 33.0,
    s8p1c0u2o32 = 80.0,   -- hopeless
}

local requests = {}

local function answer(...)
    io.write(talk.join(...), "\n")
    io.flush()
end

function requests.open()
    return "device", "cuda:0", "NVIDIA H200", "nvidia-h200", "sm_90a", "", 132
end

function requests.place(_, shape_text)
    if shape_text == "m1_n2304_k4096" then return "failed", "cuda:0: out of memory" end
    return "placed"
end

-- Two variants that differ in `unroll` alone have the same code, but for those that NEW names.
function requests.build(_, _, _, _, ...)
    for _, knobs in ipairs({ ... }) do
        if knobs == "s8p1c1u4o24" then
            answer("failed", knobs, "kernel x: out of registers")
        else
            local code = knobs:gsub("u%d", "")
            local is_new = knobs:find(os.getenv("NEW") or "none", 1, true)
            answer("built", knobs, code .. (is_new and " anew" or ""))
        end
    end
    return "done"
end

function requests.try(knobs)
    if knobs == "s8p1c1u2o32" then return "device-error", "an illegal address" end
    return "ok", US[knobs] or 34.0, 0.5
end

function requests.time(knobs) return "ok", (US[knobs] or 34.0) - 0.1, 0.1 end

return function()
    for line in io.lines() do
        local words = talk.split(line)
        local log <close> = assert(io.open(os.getenv("LOG"), "a"))
        log:write(table.concat(words, " ", 1, math.min(#words, 3)), "\n")
        log:flush()
        local said = table.pack(requests[words[1]](table.unpack(words, 2)))
        answer(table.unpack(said))
        if said[1] == "device-error" or said[1] == "failed" then return 0 end
    end
    return 0
end
