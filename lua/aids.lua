-- Aids for a look into a step of the model: launch by launch, what each wrote. Before a launch what
-- it will write is made 0xff again, but for states, so that what it leaves out looks the same
-- wherever its values lie.
local ctype = require("gen.ctype")
local fault = require("lua.fault")
local lathe = require("lathe")
local report = require("lua.report")

local aids = {}

local FLOATS <const> = { f32 = true, bf16 = true, f16 = true, e4m3 = true }
local SHOWN <const> = 8  -- values of a row
local PARTS <const> = {  -- of a layer, as checkpoints and people name them
    mlp = "ffn", ffn = "ffn", self_attn = "attn", attn = "attn",
}

-- ---- launches ----

-- What launch i writes: { param, buffer, offset, is_state }.
local function outputs(p, i)
    local step, list = p.plan.steps[i], {}
    for j, param in ipairs(step.kernel.params) do
        if param.out and not param.scratch then
            local arg = p.plan.launches[i].args[j]
            local is_part = type(arg) == "table"
            list[#list + 1] = {
                param = param, buffer = is_part and arg[1] or arg, offset = is_part and arg[2] or 0,
                is_state = type(step.args[param.name]) == "table",
            }
        end
    end
    return list
end

-- Elements of an output on the host, all or `count` from `first` on; the array is the caller's.
function aids.read(output, first, count)
    local bytes = ctype.find(output.param.ctype).bytes
    local all = output.param.bytes // bytes
    local array = fault.reach(lathe.array(output.param.ctype, count or all))
    fault.reach(output.buffer:read(array, output.offset + (first or 0) * bytes))
    return array
end

local function forget(output)
    if output.param.inout or output.is_state then return end
    local poison <close> = fault.reach(lathe.array("u8", output.param.bytes))
    fault.reach(output.buffer:write(poison, output.offset))
end

-- Runs the launches of a program one by one; behind each, calls the watchers with the program, the
-- launch's number and what it wrote.
function aids.walk(p, watchers)
    for i = 1, #p.plan.steps do
        local list = outputs(p, i)
        for _, output in ipairs(list) do forget(output) end
        fault.reach(p.run:step(i))
        for _, watcher in ipairs(watchers) do watcher(p, i, list) end
    end
end

-- ---- the first number that is none ----

-- Runs the launches of a program until one writes something that is no finite number, and says
-- which; nil where none does.
function aids.blame(p)
    for i, step in ipairs(p.plan.steps) do
        local list, before = outputs(p, i), {}
        for k, output in ipairs(list) do
            forget(output)
            before[k] = aids.read(output)
        end
        fault.reach(p.run:step(i))
        for k, output in ipairs(list) do
            local now <close> = aids.read(output)
            local old <close> = before[k]
            local wrong = lathe.nonfinite(now, old)
            if FLOATS[output.param.ctype] and wrong > 0 then
                return ("the first operator that makes one is %s, %d values of '%s' (kernel %s)")
                    :format(step.site, wrong, output.param.name, step.kernel.name)
            end
        end
    end
end

-- ---- hashes ----

-- A watcher that writes a line a launch to an output: the step's number from 1, site, family and
-- shape of the kernel, and name=hash of each value's bytes. The variant is left out: it is the
-- device's.
function aids.hashes(file)
    local number = 0
    return function(p, i, list)
        if i == 1 then number = number + 1 end
        local step = p.plan.steps[i]
        local words = { tostring(number), step.site, step.kernel.name:match("^(.*)__") }
        for _, output in ipairs(list) do
            local array <close> = aids.read(output)
            words[#words + 1] = ("%s=%s"):format(output.param.name, lathe.hash(array))
        end
        file:write(table.concat(words, " ") .. "\n")
    end
end

-- ---- values ----

-- "L03.ffn" of "layer3.mlp" and of itself; "L03" of "layer3".
local function site_of(name)
    local layer, part = name:match("^layer(%d+)(.*)$")
    if not layer then return name end
    local head, rest = part:match("^%.([%w_]+)(.*)$")
    if not head then return ("L%02d"):format(tonumber(layer)) end
    return ("L%02d.%s%s"):format(tonumber(layer), PARTS[head] or head, rest)
end

local function belongs(site, wanted)
    return site == wanted or site:sub(1, #wanted + 1) == wanted .. "."
end

-- The elements of the last of `rows` rows: first, count, extents. A state has no rows.
local function last_row(output, rows)
    local extents = { table.unpack(output.param.extents) }
    local all = output.param.bytes // ctype.find(output.param.ctype).bytes
    if output.is_state or extents[1] % rows ~= 0 then return 0, all, extents end
    extents[1] = extents[1] // rows
    if extents[1] == 1 and #extents > 1 then table.remove(extents, 1) end
    return all - all // rows, all // rows, extents
end

local function number(x) return x ~= x and "nan" or ("%.6g"):format(x) end

-- The root mean square; of a state without what is no number: nothing has been written there.
local function rms_of(array, count, is_state)
    local sum, used = 0.0, 0
    for k = 0, count - 1 do
        local x = array:at(k)
        if not is_state or x - x == 0 then sum, used = sum + x * x, used + 1 end
    end
    return used > 0 and (sum / used) ^ 0.5 or 0.0
end

local function row_of(p, i, output)
    local first, count, extents = last_row(output, p.rows)
    local array <close> = aids.read(output, first, count)
    local shown, is_float = {}, FLOATS[output.param.ctype]
    for k = 1, math.min(SHOWN, count) do shown[k] = number(array:at(k - 1)) end
    return {
        site = p.plan.steps[i].site, value = output.param.name, format = output.param.ctype,
        shape = table.concat(extents, "x"), first = table.concat(shown, " "),
        rms = is_float and number(rms_of(array, count, output.is_state)) or nil,
    }
end

-- A watcher that keeps what the steps of a site wrote for the last row of the latest step, and a
-- function that gives its table as lines. p: a program of the model, to see what there is.
function aids.dump(name, p)
    local wanted, rows, found = site_of(name), {}, false
    for _, step in ipairs(p.plan.steps) do found = found or belongs(step.site, wanted) end
    if not found then
        fault.usage(("--dump: '%s' is no site (as layer3.mlp, L03.attn, head or %s)"):format(
            name, p.plan.steps[2].site))
    end
    local function watch(program, i, list)
        if i == 1 then rows = {} end
        if not belongs(program.plan.steps[i].site, wanted) then return end
        for _, output in ipairs(list) do rows[#rows + 1] = row_of(program, i, output) end
    end
    return watch, function()
        return report.lines({
            { "site", "site" }, { "value", "value" }, { "format", "format" }, { "shape", "shape" },
            { "rms", "rms" }, { "first", "first values" },
        }, rows)
    end
end

return aids
