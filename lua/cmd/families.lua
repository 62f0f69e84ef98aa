-- lathe families: the list; or one family whole; or what it has for one shape.
local choice = require("lua.choice")
local lathe = require("lathe")
local report = require("lua.report")
local shape = require("gen.shape")
local variant = require("gen.variant")

local families = { summary = "list the families; or show one whole, or what it has for a shape" }

function families.declare(command)
    command:argument("family", "one of the list"):args("?")
    command:argument("words", "a shape: the variants that are kept for it"):args("*")
    command:option("--arch", "variants for this arch")
    command:option("--sms", "multiprocessors to keep variants for")
end

local function list(options, all)
    local rows = {}
    for i, family in ipairs(all.list) do
        rows[i] = { family = family.name, sizes = table.concat(family.shape, " "),
            maths = family.maths, file = family.file, rev = family.rev }
    end
    local columns = { { "family", "family" }, { "sizes", "sizes" }, { "maths", "maths" } }
    report.print(options, columns, rows)
end

local function extents(row)
    local words = {}
    for i, extent in ipairs(row[3]) do
        words[i] = type(extent) == "function" and "f(shape)" or tostring(extent)
    end
    return table.concat(words, " x ")
end

local function args_of(family)
    local rows = {}
    for i, row in ipairs(family.args) do
        rows[i] = { name = row[1], format = row[2], extents = extents(row),
            direction = row.out and "out" or row.inout and "inout" or "in", layout = row.layout }
    end
    return rows
end

local function knobs_of(family)
    local rows = {}
    for i, knob in ipairs(family.knobs) do
        rows[i] = { name = knob[1], values = table.concat(knob, " ", 2) }
    end
    return rows
end

-- What it has for its own sample and real shapes.
local function shapes_of(family, dev)
    local rows = {}
    for _, field in ipairs({ "samples", "real" }) do
        for _, s in ipairs(family.check[field] or {}) do
            local kept = variant.kept(family, s, dev)
            rows[#rows + 1] = { shape = choice.words(family, s), list = field, variants = #kept,
                default = kept[1] and variant.text(family, kept[1]) }
        end
    end
    return rows
end

local function measure(family)
    local check = family.check
    if check.bits then return "equal bits" end
    local words = {}
    if check.ulp then words[1] = ("%g ulp"):format(check.ulp) end
    if check.relative then words[#words + 1] = ("%g relative"):format(check.relative) end
    return table.concat(words, ", ")
end

local function packer_line(family)
    return family.packs and ("packs      the layout %s, at load"):format(family.packs) or nil
end

local function print_table(title, columns, rows)
    if #rows == 0 then return end
    print("\n" .. title)
    for _, line in ipairs(report.lines(columns, rows)) do print("  " .. line) end
end

local function show(family, rows)
    print(("%s rev %d  (%s)"):format(family.name, family.rev, family.file))
    print("maths      " .. family.maths)
    print("sizes      " .. table.concat(family.shape, " "))
    print("check      " .. measure(family)
        .. (lathe.has_reference(family.name) and "" or ", but this program has no reference"))
    local packs = packer_line(family)
    if packs then print(packs) end
    print_table("args, in order", { { "name", "name" }, { "format", "format" },
        { "extents", "extents" }, { "direction", "" }, { "layout", "layout" } }, rows.args)
    print_table("knobs, safe values first", { { "name", "knob" }, { "values", "values" } },
        rows.knobs)
    print_table("shapes that are checked", { { "shape", "shape" }, { "list", "list" },
        { "variants", "variants" }, { "default", "default" } }, rows.shapes)
end

-- The variants for one shape, in order: the first is the default.
local function show_shape(options, family, s, dev)
    local rows = {}
    local served, why = choice.served(family, s)
    for i, v in ipairs(served and variant.kept(family, s, dev) or {}) do
        rows[i] = { variant = variant.text(family, v), class = family.class(s, v),
            default = i == 1 and "default" or "" }
    end
    local columns = { { "variant", "variant" }, { "class", "class" }, { "default", "" } }
    report.print(options, columns, rows,
        { family = family.name, shape = s, served = served == true, reason = why })
    if options.json then return end
    print(served and ("%s keeps %d of %d variants for %s"):format(family.name, #rows,
        #variant.all(family), shape.text(family, s))
        or ("%s does not serve %s: %s"):format(family.name, shape.text(family, s), why))
end

function families.run(options)
    local all = choice.catalog()
    if not options.family then return list(options, all) end
    local family = choice.family(all, options.family)
    local _, dev = choice.target(options)
    if #options.words > 0 then
        return show_shape(options, family, choice.sizes(family, options.words), dev)
    end
    local rows = {
        args = args_of(family), knobs = knobs_of(family), shapes = shapes_of(family, dev),
        name = family.name, rev = family.rev, maths = family.maths, sizes = family.shape,
        check = measure(family), packs = family.packs, file = family.file,
    }
    if options.json then return report.json(rows) end
    show(family, rows)
end

return families
