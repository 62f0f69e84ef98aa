-- lathe check: kernels against their references; --bits: two devices against each other.
local bits = require("lua.bits")
local choice = require("lua.choice")
local fault = require("lua.fault")
local output = require("lua.output")
local place = require("lua.place")
local report = require("lua.report")
local sweep = require("lua.sweep")

local check = { summary = "run kernels and compare them with their references" }

function check.declare(command)
    command:argument("family", "one of `lathe families`; default: all of them"):args("?")
    command:argument("words", "the shape, such as M=2 N=4096 K=11264; default: its samples")
        :args("*")
    command:flag("--all", "every kept variant; on the CPU device in several orders")
    command:flag("--real", "the model's shapes too (the CPU device runs some of their blocks)")
    command:flag("--bits", "compare a GPU with the CPU device, bit for bit, every variant")
    command:option("--arch", "whose text the CPU device plays; default: sm_90a")
    command:option("--knobs", "k=v,..: instead of the default variant's values")
    command:option("--seed", "of the inputs that are drawn", "1")
    command:option("--in", "safetensors file: inputs by name; those that are missing are drawn")
        :target("input")
    command:option("--out", "safetensors file to write: the inputs and what became of them")
        :target("output")
end

-- Options that exclude each other or lack something.
local function check_options(options)
    local given = #options.words > 0
    if (options.input or options.output or options.knobs) and not given then
        fault.usage("check: --knobs, --in and --out need a family and a shape (give FAMILY K=V..)")
    end
    if (options.input or options.output) and (options.all or options.bits) then
        fault.usage("check: --in and --out are for one kernel (leave --all and --bits out)")
    end
    if options.bits and options.arch then
        fault.usage("check: --bits compares what the GPU runs (leave --arch out)")
    end
    if options.real and given then
        fault.usage("check: --real adds the model's shapes, and a shape is given (leave it out)")
    end
    if options.all and options.knobs then
        fault.usage("check: --all and --knobs ask for different variants (give one of them)")
    end
end

-- Families and shapes that are asked for: { family, shape, real }.
local function jobs_of(options, families, target)
    local family = options.family and choice.family(families, options.family)
    if #options.words > 0 then
        return { { family = family, shape = choice.shape(family, options.words) } }
    end
    local list = family and { family } or families.list
    if options.bits then return bits.jobs(list) end
    return sweep.jobs(list, options.real or options.all and not target.is_cpu)
end

local function print_counts(options, columns, outcome)
    report.print(options, columns, outcome.rows, outcome.counts)
    for _, sentence in ipairs(outcome.failures) do io.stderr:write("lathe: ", sentence, "\n") end
    if options.json then return end
    for _, refusal in ipairs(outcome.counts.refusals) do print("refused: " .. refusal) end
    local c = outcome.counts
    print(("%d families, %d shapes, %d variants, %d launches, %d elements compared, %d refused, "
        .. "%d failed"):format(c.families, c.shapes, c.variants, c.launches, c.compared,
        #c.refusals, c.failed))
end

function check.run(options)
    check_options(options)
    options.seed = choice.number("--seed", options.seed, 0)
    local families = choice.catalog()
    if options.family then choice.family(families, options.family) end
    local out <close> = options.output and output.open("--out", options.output)
    options.output = out
    local columns, outcome
    if options.bits then
        columns, outcome = bits.run(options, families, jobs_of(options, families))
    else
        local target = place.open(options.device, families, options.arch)
        columns, outcome = sweep.run(options, target, jobs_of(options, families, target))
    end
    print_counts(options, columns, outcome)
    return (outcome.counts.failed > 0 or #outcome.counts.refusals > 0) and 1 or 0
end

return check
