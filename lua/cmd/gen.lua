-- lathe gen: the generated text of one kernel, with its prelude: ready to compile.
local choice = require("lua.choice")
local report = require("lua.report")

local gen = { summary = "print the generated text of a kernel, ready to compile" }

function gen.declare(command)
    command:argument("family", "as `lathe families` lists them")
    command:argument("words", "the shape, such as M=2 N=4096 K=11264"):args("*")
    command:option("--arch", "whose text: sm_90a, sm_121a, cpu and so on")
    command:option("--knobs", "k=v,..: instead of the default variant's values")
    command:option("--sms", "multiprocessors to choose the variant for")
end

function gen.run(options)
    local family = choice.family(choice.catalog(), options.family)
    local s = choice.shape(family, options.words)
    local arch_name, dev = choice.target(options)
    local v = choice.variant(family, s, dev, options.knobs)
    local kernel = choice.kernel(family, s, v, arch_name, dev)
    if options.json then
        report.json({
            name = kernel.name, arch = kernel.arch, class = kernel.class, shape = kernel.shape,
            variant = kernel.variant, launch = kernel.launch, work = kernel.work,
            text = kernel.prelude .. kernel.text,
        })
    else
        io.write(kernel.prelude, kernel.text)
    end
end

return gen
