-- embed.lua OUTDIR FILE..: writes OUTDIR/embedded.S and OUTDIR/embedded.c, the table of
-- runtime/embedded.h. A FILE is a path from the root of the repository, or NAME=PATH.
local out <const> = arg[1]

local function write(name, lines)
    local f <close> = assert(io.open(out .. "/" .. name, "w"))
    assert(f:write(table.concat(lines, "\n"), "\n"))
end

local files = {}
for i = 2, #arg do
    local name, path = arg[i]:match("^(.-)=(.+)$")
    files[#files + 1] = { name = name or arg[i], path = path or arg[i] }
end
table.sort(files, function(a, b) return a.name < b.name end)

local bytes = { '    .section .note.GNU-stack,"",@progbits', "    .section .rodata" }
local symbols = { '#include "runtime/embedded.h"', "" }
local rows = {}
for i, file in ipairs(files) do
    local f <close> = assert(io.open(file.path, "rb"))
    local symbol = ("lt_embedded_%d"):format(i)
    bytes[#bytes + 1] = ('    .global %s\n%s:\n    .incbin "%s"'):format(symbol, symbol, file.path)
    symbols[#symbols + 1] = ("extern const char %s[];"):format(symbol)
    rows[#rows + 1] = ('    {"%s", %s, %d},'):format(file.name, symbol, f:seek("end"))
end
write("embedded.S", bytes)
write("embedded.c", {
    table.concat(symbols, "\n"),
    "",
    "const lt_embedded lt_embedded_files[] = {",
    table.concat(rows, "\n"),
    "    {0, 0, 0},",
    "};",
    ("const size_t lt_embedded_count = %d;"):format(#files),
})
