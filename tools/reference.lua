-- Writes the C prototypes of the references and the table that finds them by family, from the
-- family tables alone.
--   lua5.4 tools/reference.lua OUTDIR family.lua ..
package.path = "./?.lua;" .. package.path
local catalog = require("gen.catalog")
local sample = require("gen.sample")

local C_TYPE <const> = {
    bf16 = "uint16_t", f16 = "uint16_t", f32 = "float", e4m3 = "uint8_t", e2m1x2 = "uint8_t",
    u8 = "uint8_t", i8 = "int8_t", u16 = "uint16_t", i32 = "int32_t", u32 = "uint32_t",
}

local HEADER <const> = [[
/* Written by tools/reference.lua from the family tables. */
#ifndef LT_REFERENCE_H
#define LT_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

/* shape: sizes in the family's order. args: a host array for each arg, row-major; an output that is
 * checked within a tolerance is two arrays: the value in double, and the sum of the magnitudes.
 * Outputs start as 0xff bytes, which is NaN and means: not written; those that are read too
 * start with what the kernel finds. */
typedef void (*lt_reference_fn)(const int64_t *shape, void **args);
typedef struct {
    const char *family, *signature; /* sample.signature of gen/sample.lua */
    lt_reference_fn run;
} lt_reference;
extern const lt_reference lt_references[];
extern const size_t lt_reference_count;

]]

local ADAPTER <const> = [[
static void run_%s(const int64_t *shape, void **args)
{
    lt_reference_%s(%s);
}

]]

local FOOTER <const> = [[
};
const size_t lt_reference_count = sizeof lt_references / sizeof *lt_references;
]]

local function read(path)
    local file <close> = assert(io.open(path, "rb"))
    return file:read("a")
end

local function write(path, parts)
    local file <close> = assert(io.open(path, "wb"))
    file:write(table.concat(parts))
end

-- The C parameters of a family's reference: type and name, in the order of the args.
local function parameters(fam)
    local list = {}
    for _, arg in ipairs(fam.args) do
        local name, ctype = arg[1], C_TYPE[arg[2]]
        if (arg.out or arg.inout) and sample.measure(fam, arg[2]) ~= "bits" then
            list[#list + 1] = { "double *", name }
            list[#list + 1] = { "double *", name .. "_magnitude" }
        else
            list[#list + 1] = { ((arg.out or arg.inout) and "" or "const ") .. ctype .. " *", name }
        end
    end
    return list
end

local function symbol(fam) return (fam.name:gsub("%.", "_")) end

local function prototype(fam)
    local list = { ("const lt_shape_%s *s"):format(symbol(fam)) }
    for _, p in ipairs(parameters(fam)) do list[#list + 1] = p[1] .. p[2] end
    return ("void lt_reference_%s(%s)"):format(symbol(fam), table.concat(list, ", "))
end

local function declaration(fam)
    return ("typedef struct {\n    int64_t %s;\n} lt_shape_%s;\n%s;\n\n"):format(
        table.concat(fam.shape, ", "), symbol(fam), prototype(fam))
end

local function adapter(fam)
    local list = { "(const void *)shape" }
    for i in ipairs(parameters(fam)) do list[#list + 1] = ("args[%d]"):format(i - 1) end
    return ADAPTER:format(symbol(fam), symbol(fam), table.concat(list, ", "))
end

local function main(outdir, ...)
    local names = { ... }
    for i, path in ipairs(names) do names[i] = path:match("[^/]+$") end
    local families = catalog.load(read, names).list
    local header, source = { HEADER }, { '#include "reference.h"\n\n' }
    for _, fam in ipairs(families) do
        header[#header + 1] = declaration(fam)
        source[#source + 1] = adapter(fam)
    end
    header[#header + 1] = "#endif\n"
    source[#source + 1] = "const lt_reference lt_references[] = {\n"
    for _, fam in ipairs(families) do
        source[#source + 1] = ('    {"%s", "%s", run_%s},\n'):format(
            fam.name, sample.signature(fam), symbol(fam))
    end
    source[#source + 1] = FOOTER
    write(outdir .. "/reference.h", header)
    write(outdir .. "/reference.c", source)
end

main(...)
