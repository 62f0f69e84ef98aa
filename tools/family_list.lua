-- family_list.lua FILE..: the list of families for docs/family.md, from the tables alone.
package.path = "./?.lua;" .. package.path
local catalog = require("gen.catalog")

local function read(path)
    local f <close> = io.open(path, "rb")
    return f and f:read("a")
end

local function args_of(family)
    local words = {}
    for i, row in ipairs(family.args) do
        local mark = row.inout and " inout" or row.out and " out" or row.layout and " tiled" or ""
        words[i] = ("%s %s%s"):format(row[1], row[2], mark)
    end
    return table.concat(words, ", ")
end

-- A bar would end the cell.
local function cell(text) return (text:gsub("|", "\\|")) end

local files = {}
for i = 1, #arg do files[i] = arg[i]:match("([^/]+)$") end
print("| family | computes | sizes | parameters |")
print("|---|---|---|---|")
for _, family in ipairs(catalog.load(read, files).list) do
    print(("| `%s` | %s | %s | %s |"):format(family.name, cell(family.maths),
        table.concat(family.shape, " "), args_of(family)))
end
