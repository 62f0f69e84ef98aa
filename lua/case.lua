-- A case: a family at a shape with inputs, drawn or read from a file, and the truth about its
-- outputs, computed by the family's C reference. All arrays are row-major, on the host.
local ctype = require("gen.ctype")
local fault = require("lua.fault")
local lathe = require("lathe")
local message = require("gen.message")
local param = require("gen.param")
local sample = require("gen.sample")
local scope = require("lua.scope")
local shape = require("gen.shape")

local case = {}

local DRAW <const> = {  -- where the family's check names no distribution
    e4m3 = "bytes", u8 = "bytes", i8 = "bytes", e2m1x2 = "bytes",
    bf16 = "normal", f16 = "normal", f32 = "normal",
    u16 = "zeros", i32 = "zeros", u32 = "zeros",
}
local INTEGERS <const> = {  -- the same for small integers, whose sums are exact
    e4m3 = "integers", e2m1x2 = "integers", bf16 = "integers", f16 = "integers", f32 = "integers",
}
local SCALES <const> = { scales = true, scale32 = true }
local FIXED <const> = { zeros = true, ones = true }  -- in both

local function distribution(family, p, integers)
    local asked = family.check.draw and family.check.draw[p.name]
    local draw = asked or DRAW[p.ctype]
    if not integers or type(draw) == "function" or FIXED[asked] then return draw end
    return SCALES[draw] and "counts" or INTEGERS[p.ctype] or draw
end

local function count(p)
    local n = 1
    for _, extent in ipairs(p.extents) do n = n * extent end
    return n
end

local function array(c, name, n) return c.mine:add(fault.reach(lathe.array(name, n))) end

-- Is the arg in the file? Then a holds it.
local function load_from(job, p, a)
    local found, why = job.file:load(p.name, a, ctype.find(p.ctype).file, p.extents)
    if found == nil then fault.usage(("--in: %s: %s"):format(job.path, why)) end
    return found
end

local function refuse_draw(family, p, sentence)
    fault.usage(("%s: family %s: check: draw of '%s': %s"):format(
        family.file, family.name, p.name, sentence))
end

-- random(n): an integer from 0 to n - 1, the same for the same seed and name.
local function generator(family, p, seed)
    local state = seed
    for i = 1, #p.name do state = state * 31 + p.name:byte(i) end
    return function(n)
        if math.type(n) ~= "integer" or n < 1 then
            refuse_draw(family, p, "random takes an integer of 1 or more, got "
                .. message.describe(n))
        end
        state = state * 6364136223846793005 + 1442695040888963407
        return (state >> 33) % n
    end
end

local function draw_each(c, p, a, draw, random)
    for i = 0, count(p) - 1 do
        local x = draw(c.shape, i, random)
        if type(x) ~= "number" then
            refuse_draw(c.family, p, ("element %d must be a number, got %s"):format(
                i, message.describe(x)))
        end
        a:set(i, x)
    end
end

-- An input, from the file or drawn.
local function fill(c, p, job)
    local a = array(c, p.ctype, count(p))
    if job.file and load_from(job, p, a) then return a end
    local draw = distribution(c.family, p, job.integers)
    if type(draw) == "function" then
        draw_each(c, p, a, draw, generator(c.family, p, job.seed))
        return a
    end
    local ok, why = a:draw(draw, job.seed, p.name)
    if not ok then refuse_draw(c.family, p, why) end
    return a
end

-- Outputs as the reference writes them: typed, or value and magnitude in double.
local function add_truth(c, p, pointers)
    local is_near = sample.measure(c.family, p.ctype) ~= "bits"
    local truth = array(c, is_near and "f64" or p.ctype, count(p))
    if p.inout then truth:copy(c.inputs[p.name]) end
    c.truth[p.name], pointers[#pointers + 1] = truth, truth
    if not is_near then return end
    c.magnitude[p.name] = array(c, "f64", count(p))
    c.magnitude[p.name]:zero()
    pointers[#pointers + 1] = c.magnitude[p.name]
end

-- Refuses what this machine cannot hold: the system would end the program in the middle. Inputs are
-- there twice, on the host and on the device; outputs also as value and magnitude.
local function check_memory(family, s, args)
    local bytes, most = 0.0, lathe.memory()
    for _, p in ipairs(args) do bytes = bytes + 2 * p.bytes + (p.out and 16 * count(p) or 0) end
    if most > 0 and bytes > most then
        fault.usage(("%s: %s takes %.0f GB, this machine has %.0f (choose a smaller shape)"):format(
            family.name, shape.text(family, s), bytes / 1e9, most / 1e9))
    end
end

local function prepare(c, job)
    local pointers, sizes = {}, {}
    for _, p in ipairs(c.args) do
        if p.inout or not p.out then c.inputs[p.name] = fill(c, p, job) end
        if p.out then
            add_truth(c, p, pointers)
        else
            pointers[#pointers + 1] = c.inputs[p.name]
        end
    end
    for i, size in ipairs(c.family.shape) do sizes[i] = c.shape[size] end
    fault.expect(lathe.reference(c.family.name, sample.signature(c.family), sizes, pointers))
end

-- job: family, shape, seed, integers (small ones in every input), file (tensors, or nil), its path.
-- Fields: args, inputs, truth, magnitude (by name), integers.
function case.new(job)
    local c = setmetatable({
        family = job.family, shape = job.shape, integers = job.integers,
        args = fault.expect(param.args(job.family, job.shape)), inputs = {}, truth = {},
        magnitude = {},
        mine = scope.new(),
    }, { __index = case, __close = case.free })
    check_memory(c.family, c.shape, c.args)
    prepare(c, job)
    return c
end

-- An input drawn once more, with another seed.
function case:draw_again(p, seed) return fill(self, p, { seed = seed }) end

function case:free() self.mine:free() end

-- Rows for lathe.write_tensors: the inputs, then `outputs` by name.
function case:rows(outputs)
    local rows = {}
    for _, p in ipairs(self.args) do
        local a = p.out and outputs[p.name] or self.inputs[p.name]
        rows[#rows + 1] = { p.name, ctype.find(p.ctype).file, p.extents, a }
    end
    return rows
end

-- Refuses a file that names what is no arg of the family.
function case.check_names(family, file, path)
    local known = {}
    for _, row in ipairs(family.args) do known[row[1]] = true end
    for _, name in ipairs(file:names()) do
        if not known[name] then
            fault.usage(("--in: %s: tensor '%s' is no arg of %s"):format(path, name, family.name))
        end
    end
end

case.count = count

return case
