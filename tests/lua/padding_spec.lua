-- Rows without a slot are padding. Whatever they hold, they write nothing, and the other rows and
-- all states have the bits that they have without it. Of every family whose rows have slots.
local catalog = require("gen.catalog")
local golden = require("tests.lua.golden")

local POISON <const> = { F32 = 0 / 0, BF16 = 0 / 0, I32 = 0x7fffffff, U8 = 0xff, F8_E4M3 = 0x7f }
local UNWRITTEN <const> = -2139062144  -- an i32 of 0x80 bytes

local function read(path)
    local file <close> = io.open(path)
    return file and file:read("a")
end

local function arg_of(family, name)
    for _, arg in ipairs(family.args) do
        if arg[1] == name then return arg end
    end
end

-- How many slots a shape has: one a row, or one a sequence of several rows.
local function count_of(slots, s)
    local extent = slots[3][1]
    return type(extent) == "function" and extent(s) or s[extent]
end

-- Families with slots, and of each the sample with the most of them.
local function with_slots()
    local files, jobs = {}, {}
    local pipe <close> = assert(io.popen("cd families && ls *.lua *.c"))
    for name in pipe:lines() do files[#files + 1] = name end
    for _, family in ipairs(catalog.load(read, files).list) do
        local slots = arg_of(family, "slots")
        if slots and not slots.out then
            local most = family.check.samples[1]
            for _, s in ipairs(family.check.samples) do
                most = count_of(slots, s) > count_of(slots, most) and s or most
            end
            jobs[#jobs + 1] = { family = family, shape = most }
        end
    end
    return jobs
end

local function words_of(job)
    local list = {}
    for i, size in ipairs(job.family.shape) do list[i] = ("%s=%d"):format(size, job.shape[size]) end
    return table.concat(list, " ")
end

-- Args as a kernel has them before a launch; a state is what an earlier one left.
local function inputs_of(job, file)
    local inputs = {}
    for _, arg in ipairs(job.family.args) do
        if arg.inout or not arg.out then inputs[arg[1]] = file:tensor(arg[1]) end
    end
    return inputs
end

local function is_row(arg) return arg[3][1] == "M" and not arg.inout end

-- Calls f(tensor, from, to) for the padding's rows of each arg for which which(arg) is true.
local function each_padding_row(job, slots, file, which, f)
    for _, arg in ipairs(job.family.args) do
        if is_row(arg) and which(arg) then
            local tensor = file[arg[1]]
            local width = #tensor.data // #slots  -- of the rows that share a slot
            for i, slot in ipairs(slots) do
                if slot < 0 then f(tensor, (i - 1) * width + 1, i * width) end
            end
        end
    end
end

local function is_poisoned(arg) return not arg.out and arg[1] ~= "slots" end

local function same(name, a, b)
    for i, x in ipairs(a) do
        local y = b[i]
        assert(x == y or x ~= x and y ~= y, ("%s: element %d is %s, then %s"):format(name, i, x, y))
    end
end

local function outputs_of(job, file)
    local outputs = {}
    for _, arg in ipairs(job.family.args) do
        if arg.out or arg.inout then outputs[arg[1]] = file:tensor(arg[1]) end
    end
    return outputs
end

describe("padding rows", function()
    local jobs = with_slots()

    it("are in nine families", function() assert.equal(9, #jobs) end)

    for _, job in ipairs(jobs) do
        it("write nothing, whatever they hold: " .. job.family.name, function()
            local name, words = job.family.name, words_of(job)
            local inputs = inputs_of(job, golden.run(name, words, {}))
            local slots = inputs.slots.data
            local before = outputs_of(job, golden.run(name, words, inputs))
            local count = 0
            each_padding_row(job, slots, inputs, is_poisoned, function(tensor, from, to)
                for i = from, to do tensor.data[i] = POISON[tensor.dtype] end
                count = count + 1
            end)
            assert.truthy(count > 0)
            local after = outputs_of(job, golden.run(name, words, inputs))
            for arg, tensor in pairs(after) do same(arg, before[arg].data, tensor.data) end
            each_padding_row(job, slots, after, function(arg) return arg.out end,
                function(tensor, from, to)
                    for i = from, to do
                        local x = tensor.data[i]
                        assert(x ~= x or x == UNWRITTEN, "a row was written")
                    end
                end)
        end)
    end
end)
