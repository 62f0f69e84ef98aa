-- Where the values of a plan lie, and what a plan needs of a device's memory.
local ctype = require("gen.ctype")

local memory = {}

local ALIGN <const> = 256  -- bytes between the starts of an arena's values: what an allocation has
local RESERVE <const> = 1 << 30  -- bytes of a GPU for the driver, kernels, graphs and staging

local function aligned(bytes) return (bytes + ALIGN - 1) // ALIGN * ALIGN end

-- "/logits": it is read when the step has ended.
local function is_kept(value) return value:sub(1, 1) == "/" end

-- The values that steps write, in the order of their first use: { name, bytes, first, last }.
-- One that no step writes comes from outside.
local function lives_of(steps)
    local lives, order = {}, {}
    for i, step in ipairs(steps) do
        for _, p in ipairs(step.kernel.params) do
            local value = step.args[p.name]
            if type(value) == "string" and (lives[value] or p.out) then
                if not lives[value] then
                    lives[value] = { name = value, bytes = 0, first = i }
                    order[#order + 1] = lives[value]
                end
                local life = lives[value]
                life.bytes, life.last = math.max(life.bytes, p.bytes), i
                if is_kept(value) then life.last = #steps end
            end
        end
    end
    return order
end

-- Puts a life at the lowest offset that is free. live: in the order of their offsets.
local function fit(live, life)
    local offset, at = 0, #live + 1
    for i, other in ipairs(live) do
        if offset + life.bytes <= other.offset then at = i break end
        offset = aligned(other.offset + other.bytes)
    end
    life.offset = offset
    table.insert(live, at, life)
end

local function without_ended(live, step)
    local left = {}
    for _, life in ipairs(live) do
        if life.last >= step then left[#left + 1] = life end
    end
    return left
end

-- One buffer for all: values whose lives do not meet share its bytes.
local function arena(lives)
    local live, one = {}, { bytes = 0 }
    for _, life in ipairs(lives) do
        live = without_ended(live, life.first)
        fit(live, life)
        life.home, one.bytes = one, math.max(one.bytes, life.offset + life.bytes)
    end
    return { one }
end

-- A buffer a value: on the CPU device, which guards and checks buffers, not parts of them, and
-- where each launch shall find its own inputs when the step has ended.
local function apart(lives)
    local homes = {}
    for i, life in ipairs(lives) do
        homes[i] = { bytes = life.bytes }
        life.home, life.offset = homes[i], 0
    end
    return homes
end

-- Places by value, { bytes, offset, home }, and the homes: { bytes }, buffers to allocate.
function memory.place(steps, is_apart)
    local lives, places = lives_of(steps), {}
    local homes = is_apart and apart(lives) or arena(lives)
    for i, home in ipairs(homes) do home.number = i end
    for _, life in ipairs(lives) do places[life.name] = life end
    return places, homes
end

function memory.state_bytes(state)
    local bytes = ctype.find(state.ctype).bytes
    for _, extent in ipairs(state.extents) do bytes = bytes * extent end
    return bytes
end

-- What scratch is shared by: all steps that run a kernel.
function memory.scratch_key(kernel, p) return kernel.name .. " " .. p.name end

-- What a parameter is: one of KINDS; a weight's format; and a key, which two have in common that
-- mean the same bytes.
function memory.kind_of(plan, step, p)
    local value = step.args[p.name]
    if p.scratch then return "scratch", nil, memory.scratch_key(step.kernel, p) end
    if type(value) == "string" then
        return plan.places[value] and "activations" or "inputs", nil, value
    end
    if value.is == "state" then return "states", nil, value.key end
    return "weights", value.weight.format, value.weight.key .. " " .. value.name
end

local function add(rows, kind, what, bytes)
    local key = kind .. " " .. (what or "")
    if not rows[key] then
        rows[key] = { kind = kind, format = what, bytes = 0 }
        rows[#rows + 1] = rows[key]
    end
    rows[key].bytes = rows[key].bytes + bytes
end

local KINDS <const> = { "weights", "states", "activations", "scratch", "inputs" }

local function in_order(rows)
    local rank = {}
    for i, kind in ipairs(KINDS) do rank[kind] = i end
    table.sort(rows, function(a, b)
        if a.kind ~= b.kind then return rank[a.kind] < rank[b.kind] end
        return (a.format or "") < (b.format or "")
    end)
    local list = {}
    for i, row in ipairs(rows) do list[i] = row end
    return list
end

-- { kind, format = of weights, bytes } in order, and their sum. What steps share counts once.
function memory.rows(plan)
    local rows, seen, total = {}, {}, 0
    for _, home in ipairs(plan.homes) do add(rows, "activations", nil, home.bytes) end
    for _, step in ipairs(plan.steps) do
        for _, p in ipairs(step.kernel.params) do
            local kind, what, key = memory.kind_of(plan, step, p)
            if kind ~= "activations" and not seen[key] then
                seen[key] = true
                add(rows, kind, what, p.bytes)
            end
        end
    end
    for _, row in ipairs(rows) do total = total + row.bytes end
    return in_order(rows), total
end

-- Bytes that a plan may take of a device that has so many.
function memory.room(bytes, is_cpu) return is_cpu and bytes or bytes - RESERVE end

-- The largest number of tokens, a multiple of `unit` or `most`, for which fits(tokens) is true; 0
-- where it never is. More tokens never fit better.
function memory.largest(unit, most, fits)
    if fits(most) then return most end
    local low, high = 0, (most + unit - 1) // unit  -- fits, does not
    while high - low > 1 do
        local middle = (low + high) // 2
        if fits(middle * unit) then low = middle else high = middle end
    end
    return low * unit
end

return memory
