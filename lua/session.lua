-- A model that is loaded: one sequence, its states, and a program for each number of rows.
local aids = require("lua.aids")
local compile = require("lua.plan.compile")
local fault = require("lua.fault")
local glm5_next = require("lua.model.glm5_next")
local lathe = require("lathe")
local memory = require("lua.plan.memory")
local plan = require("lua.plan.plan")
local rehearsal = require("lua.plan.rehearsal")
local weights = require("lua.plan.weights")

local session = {}

local function alloc(s, bytes, fill)
    local buffer = fault.reach(s.target.device:alloc(bytes))
    if fill then fault.reach(buffer:fill(fill)) end
    return buffer
end

local function write_ints(buffer, list)
    local a <close> = fault.reach(lathe.array("i32", #list))
    for i, x in ipairs(list) do a:set(i - 1, x) end
    fault.reach(buffer:write(a))
end

local function identity(count)
    local list = {}
    for i = 1, count do list[i] = i - 1 end
    return list
end

local function fill_list(count, value)
    local list = {}
    for i = 1, count do list[i] = value end
    return list
end

-- Loads the kernels of a plan and, with them, those that make weights: the two by name. One that is
-- both is the plan's.
local function load_kernels(s, made_plan, making)
    local all, is_listed, others = plan.kernels({ made_plan }), {}, {}
    for _, kernel in ipairs(all) do is_listed[kernel.name] = true end
    for _, kernel in ipairs(making) do
        if not is_listed[kernel.name] then
            all[#all + 1], others[#others + 1] = kernel, kernel.name
        end
    end
    local loaded, for_making = compile.load(s.target, all), {}
    for _, name in ipairs(others) do for_making[name], loaded[name] = loaded[name], nil end
    return loaded, for_making
end

-- What every program of the session shares, whatever its rows. Returns the plan's kernels, loaded.
local function share(s, circuit, made_plan)
    s.made, s.states, s.scratch = {}, {}, {}
    local making, by_key = rehearsal.kernels(s.target, s.found, circuit.weights)
    local loaded, for_making = load_kernels(s, made_plan, making)
    local made = weights.make(s.target, s.found, circuit.weights,
        { kernels = by_key, loaded = for_making }, s.tell)
    for weight, arrays in pairs(made) do s.made[weight.key] = arrays end
    for _, state in ipairs(circuit.states) do
        s.states[state.key] = alloc(s, memory.state_bytes(state), state.fill)
    end
    s.state_list = circuit.states
    s.block_table = alloc(s, 4 * circuit.n.pages)
    write_ints(s.block_table, identity(circuit.n.pages))
    s.slot = alloc(s, 4, 0)
    s.routed_scale = alloc(s, 4)
    local a <close> = fault.reach(lathe.array("f32", 1))
    a:set(0, s.found.config.routed_scale)
    fault.reach(s.routed_scale:write(a))
    return loaded
end

-- What LATHE_DEBUG=1 and 2 say about a program.
local function tell_program(p, start)
    local kernels = plan.kernels({ p.plan })
    for _, kernel in ipairs(kernels) do
        lathe.debug(1, ("plan of %d rows: kernel %s"):format(p.rows, kernel.name))
    end
    lathe.debug(2, ("plan of %d rows: %d launches of %d kernels, made in %.0f ms"):format(
        p.rows, #p.plan.steps, #kernels, (lathe.now_us() - start) / 1000))
end

-- Refuses a plan that the device has no room for, before anything is allocated. A model that holds
-- some of its experts (imagined.lua) takes less than its plan says.
local function check_room(s, made)
    if s.found.is_partial then return end
    local target, need = s.target, select(2, memory.rows(made))
    local bytes = target.is_cpu and lathe.memory() or target.info.memory
    if bytes > 0 and need > memory.room(bytes, target.is_cpu) then
        fault.usage(("%s: takes %.1f GB with room for %d tokens, %s has %.1f GB (`lathe plan` "
            .. "shows what takes them; more --ranks or fewer tokens take less)"):format(
            s.found.folder, need / 1e9, s.capacity, target.info.model, bytes / 1e9))
    end
end

-- A program of `rows` rows of the sequence. target: the session's, or one like it.
function session:program(rows, target)
    local start <const> = lathe.now_us()
    local circuit = glm5_next.circuit(self.found, self.formats, rows, self.capacity)
    local p, loaded = { rows = rows, plan = plan.make(target, circuit) }, nil
    if not self.made then
        check_room(self, p.plan)
        loaded = share(self, circuit, p.plan)
    end
    p.tokens, p.positions = alloc(self, 4 * rows), alloc(self, 4 * rows)
    p.slots, p.snaps = alloc(self, 4 * rows, 0), alloc(self, 4 * rows)
    write_ints(p.snaps, fill_list(rows, -1))
    p.run = plan.program(target, p.plan, {
        shared = {
            ["/tokens"] = p.tokens, ["/positions"] = p.positions, ["/slots"] = p.slots,
            ["/snaps"] = p.snaps, ["/slot"] = self.slot, ["/block_table"] = self.block_table,
            ["/routed_scale"] = self.routed_scale,
        },
        made = self.made, states = self.states, scratch = self.scratch, loaded = loaded,
    })
    tell_program(p, start)
    return p
end

-- The session's own program of so many rows.
local function program(s, rows)
    s.programs[rows] = s.programs[rows] or s:program(rows, s.target)
    return s.programs[rows]
end

-- options: found (a checkpoint without a fault, as a rank has it: rank.take), target (place.open),
-- formats (a recipe), capacity in tokens, tell (progress).
function session.open(options)
    local s = setmetatable({
        found = options.found, target = options.target, formats = options.formats,
        capacity = options.capacity, tell = options.tell, programs = {}, length = 0,
        watchers = {},
    }, { __index = session })
    program(s, 1)
    return s
end

-- Forgets the sequence.
function session:reset()
    self.length = 0
    for _, state in ipairs(self.state_list) do
        fault.reach(self.states[state.key]:fill(state.fill or 0xff))
    end
end

-- Reads the logits of a step into p.logits. One that is not finite ends the run: its fault names
-- the operator that made the first one, found by running the step again.
local function read_logits(self, p)
    local count <const> = p.rows * self.found.config.head_rows
    p.logits = p.logits or fault.reach(lathe.array("f32", count))
    local place = p.plan.places["/logits"]
    fault.reach(place.buffer:read(p.logits, place.offset))
    local wrong = lathe.nonfinite(p.logits)
    if wrong > 0 then
        fault.check(("logits: %d of %d are not finite at tokens %d to %d: %s"):format(wrong,
            count, self.length, self.length + p.rows - 1,
            aids.blame(p) or "no operator makes one when the step is run again"))
    end
end

-- Runs a program on tokens behind what was there, without reading anything or going on. Where
-- somebody watches, launch by launch: self.watchers are functions of the program, a launch's number
-- and what it wrote (aids.lua).
function session:run(p, tokens)
    local positions = {}
    for i = 1, #tokens do positions[i] = self.length + i - 1 end
    write_ints(p.tokens, tokens)
    write_ints(p.positions, positions)
    if #self.watchers == 0 then fault.reach(p.run:run()) else aids.walk(p, self.watchers) end
end

-- Runs tokens (at most 16) behind what was there. Returns the program, whose values can be read:
-- p.logits are those of each row.
function session:step(tokens)
    local rows = #tokens
    if self.length + rows > self.capacity then
        fault.usage(("the sequence is full: it has room for %d tokens"):format(self.capacity))
    end
    local p = program(self, rows)
    self:run(p, tokens)
    read_logits(self, p)
    self.length = self.length + rows
    return p
end

-- Value `name` of a program as an array: "/logits", "/best", ..; the array is the caller's.
function session:read(p, name, ctype, count)
    local array = fault.reach(lathe.array(ctype, count))
    local place = p.plan.places[name]
    fault.reach(place.buffer:read(array, place.offset))
    return array
end

-- The token of the number that a kernel gave the last of some rows: its place among the logits.
function session:token(array, rows)
    return self.found.first_row + math.tointeger(array:at(rows - 1))
end

-- The most likely token behind the last row of a program, of those that this rank has logits of.
function session:best(p)
    local a <close> = self:read(p, "/best", "i32", p.rows)
    return self:token(a, p.rows)
end

-- Runs a list of tokens in chunks; the rest token by token. Returns the last program.
function session:prefill(tokens, chunk)
    local p, at = nil, 1
    while at <= #tokens do
        local rows = #tokens - at + 1 >= chunk and chunk or 1
        p = self:step({ table.unpack(tokens, at, at + rows - 1) })
        at = at + rows
    end
    return p
end

return session
