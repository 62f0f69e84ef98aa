-- The pipeline: family, shape, variant and arch -> a kernel's text, parameters, launch and work.
-- Pure: the same job gives the same bytes in every process.
local arch = require("gen.arch")
local launch = require("gen.launch")
local message = require("gen.message")
local name = require("gen.name")
local param = require("gen.param")
local shape = require("gen.shape")
local template = require("gen.template")
local variant = require("gen.variant")

local emit = {}

local PRELUDES <const> = {
    cuda = { "templates/prelude/cuda.h", "templates/prelude/exact.h" },
    cpu = { "templates/prelude/cpu.h" },  -- the host has exact.h's functions as symbols
}
local ASKED_FOR <const> = {  -- by a text that has such names
    cuda = {
        { "lt_cluster_", "templates/prelude/cluster.h" },
        { "lt_wgmma_", "templates/prelude/wgmma.h" },
        { "lt_resident_", "templates/prelude/resident.h" },
    },
    cpu = { { "lt_resident_", "templates/prelude/resident.h" } },
}

-- An error in a field of a family: at the first line of the function to blame, which may be the
-- field itself, else in its file.
local function blame(family, field, sentence, culprit)
    local where = family.file
    culprit = culprit or family[field]
    if type(culprit) == "function" then
        local info = debug.getinfo(culprit, "S")
        where = ("%s:%d"):format(info.short_src, info.linedefined)
    end
    error(("%s: family %s: %s: %s"):format(where, family.name, field, sentence), 0)
end

-- Refuses a shape that is not served and a variant that is not kept.
local function check_asked(family, s, v, dev)
    local wrong = shape.fault(family.shape, s) or variant.fault(family, v)
    if wrong then error(("family %s: %s"):format(family.name, wrong), 0) end
    local served, reason = family.serves(s)
    if not served then
        error(("family %s: %s is not served: %s"):format(
            family.name, shape.text(family, s), reason), 0)
    end
    if not family.keep(s, v, dev) then
        error(("family %s: variant %s is not kept for %s"):format(
            family.name, variant.text(family, v), shape.text(family, s)), 0)
    end
end

local function class_of(family, s, v)
    local class = family.class(s, v)
    if type(class) ~= "string" or not class:match("^[%w_.+-]+$") then
        blame(family, "class", "one word is needed, got " .. message.describe(class))
    end
    return class
end

local function params_of(family, s, v)
    local params, wrong, field, culprit = param.list(family, s, v)
    if not params then blame(family, field, wrong, culprit) end
    return params
end

local function launch_of(family, s, v, dev, target)
    local normal, wrong = launch.normal(family.launch(s, v, dev), target)
    if not normal then blame(family, "launch", wrong) end
    return normal
end

local function work_of(family, s)
    local work = family.work(s)
    if type(work) ~= "table" or math.type(work.bytes) ~= "integer"
        or math.type(work.flops) ~= "integer" then
        blame(family, "work", "{ bytes =, flops = } as integers is needed")
    end
    return { bytes = work.bytes, flops = work.flops }
end

-- Name, path and text of the family's template: the arch's own where there is one.
local function find_template(family, s, v, dev, target, read)
    local base = family.template and family.template(s, v, dev) or name.symbol(family.name)
    if type(base) ~= "string" or not base:match("^[%l%d_]+$") then
        blame(family, "template", "a base name is needed, got " .. message.describe(base))
    end
    local own = ("templates/%s/%s.cut"):format(target.folder, base)
    local common = ("templates/%s.cut"):format(base)
    for _, path in ipairs({ own, common }) do
        local source = read(path)
        if source then return base, path, source end
    end
    blame(family, "template", ("there is none (looked for %s and %s)"):format(own, common))
end

-- enum { M = 2, N = 4096, COLS = 2 };
local function constants(family, s, v)
    local list = {}
    for _, size in ipairs(family.shape) do list[#list + 1] = ("%s = %d"):format(size, s[size]) end
    for _, knob in ipairs(family.knobs) do
        list[#list + 1] = ("%s = %d"):format(knob[1]:upper(), v[knob[1]])
    end
    return ("enum { %s };"):format(table.concat(list, ", "))
end

-- const e4m3 *x, bf16 *y
local function declaration(params)
    local list = {}
    for i, p in ipairs(params) do list[i] = ("%s *%s"):format(param.spelling(p), p.name) end
    return table.concat(list, ", ")
end

-- What this template sees besides the names that all see.
local function names_for(family, s, v, dev, kernel, params)
    local args = {}
    for i, p in ipairs(params) do args[i], args[p.name] = p, p end
    return {
        s = template.sealed(s, "s."),
        v = template.sealed(v, "v."),
        dev = template.sealed(dev, "dev."),
        args = template.sealed(args, "args."),
        name = kernel,
        constants = function() return constants(family, s, v) end,
        params = function() return declaration(params) end,
    }
end

local function head(family, s, v, class)
    return ("/* family %s rev %d, shape %s, variant %s, class %s */\n"):format(
        family.name, family.rev, shape.text(family, s), variant.text(family, v), class)
end

-- How the CPU device calls the kernel: the same void ** as cuLaunchKernel's kernelParams.
local function entry(kernel, params)
    local list = {}
    for i, p in ipairs(params) do
        list[i] = ("*(%s **)a[%d]"):format(param.spelling(p), i - 1)
    end
    return ("#ifndef __CUDACC__\nvoid lt_entry(void **a) { %s(%s); }\n#endif\n"):format(
        kernel, table.concat(list, ", "))
end

local function joined(...)
    local all = {}
    for _, lines in ipairs({ ... }) do table.move(lines, 1, #lines, #all + 1, all) end
    return all
end

-- The prelude without and with #line. None of its files ends in the middle of a line.
local function prelude_of(target, text, read)
    local plain, directed, paths = "", "", joined(PRELUDES[target.prelude])
    for _, more in ipairs(ASKED_FOR[target.prelude]) do
        if text:find(more[1], 1, true) then paths[#paths + 1] = more[2] end
    end
    for _, path in ipairs(paths) do
        local source = read(path)
        if not source then error(("prelude %s: not found"):format(path), 0) end
        plain = plain .. source
        directed = ("%s#line 1 \"%s\"\n%s"):format(directed, path, source)
    end
    return plain, directed
end

-- job: family, shape, variant, arch (a name), read(path) -> text or nil, dev (arch.device's table;
-- default: one multiprocessor). Returns a kernel: see docs/family.md. A mistake of the description
-- or the template is an error that begins with its file and line.
function emit.kernel(job)
    local family, s, v, read = job.family, job.shape, job.variant, job.read
    local target = arch.get(job.arch)
    local dev = job.dev or arch.device(job.arch, 1)
    check_asked(family, s, v, dev)

    local kernel, class = name.kernel(family, s, v), class_of(family, s, v)
    local params = params_of(family, s, v)
    local base, path, source = find_template(family, s, v, dev, target, read)
    local names = names_for(family, s, v, dev, kernel, params)
    local body = template.render(path, source, names, { read = read })
    local pieces = joined({ template.piece("generated", head(family, s, v, class)) }, body,
        { template.piece("generated", entry(kernel, params)) })
    local normal = launch_of(family, s, v, dev, target)
    local text = template.print(pieces, false)
    local prelude, directed = prelude_of(target, text, read)

    return {
        name = kernel, arch = job.arch, model = target.model, class = class,
        family = family, shape = s, variant = v, params = params, template = base,
        launch = normal, work = work_of(family, s),
        prelude = prelude, text = text, plain = prelude .. text,
        source = directed .. template.print(pieces, true),
    }
end

return emit
