-- A template is CUDA C in which a line that begins with @ is Lua and $(expr) is a hole.
-- Each of its lines becomes one line of a Lua chunk, so Lua's own errors name the right line.
local ctype = require("gen.ctype")
local message = require("gen.message")
local order = require("gen.order")

local template = {}

-- A read-only view of t: an unknown name in it is an error at the line that asks for it. author:
-- who asks, where that is no template.
function template.sealed(t, prefix, author)
    return setmetatable({}, {
        __index = function(_, key)
            local value = t[key]
            if value == nil and math.type(key) ~= "integer" then
                error(("unknown name '%s%s'"):format(prefix, tostring(key)), 2)
            end
            return value
        end,
        __newindex = function(_, key)
            error(("'%s%s' cannot be set (%s's own names are local)"):format(
                prefix, tostring(key), author or "a template"), 2)
        end,
        __len = function() return #t end,
    })
end

-- The same for what an author may see of Lua's libraries: nothing that differs from run to run.
function template.libraries(author)
    local functions, texts = order.merged(math, {}), order.merged(string, {})
    functions.random, functions.randomseed, texts.dump = nil, nil, nil
    return {
        math = template.sealed(functions, "math.", author),
        string = template.sealed(texts, "string.", author),
        table = template.sealed(order.merged(table, {}), "table.", author),
    }
end

local LIBRARIES <const> = template.libraries()

-- What every template and lib sees.
local COMMON <const> = {
    ipairs = ipairs,
    math = LIBRARIES.math,
    string = LIBRARIES.string,
    f32 = ctype.f32,
    ctype = ctype.spelling,
}

-- One line of a template as one line of Lua.
local function translate(line, number, path)
    local code = line:match("^%s*@(.*)$")
    if code then return code end
    local parts, at = { ("_text(%d"):format(number) }, 1
    while true do
        local hole = line:find("$(", at, true)
        if not hole then break end
        local expression = line:match("^%b()", hole + 1)
        if not expression then
            error(("%s:%d: a hole that begins with '$(' is not closed"):format(path, number), 0)
        end
        parts[#parts + 1] = (", %q, _hole(%s)"):format(line:sub(at, hole - 1), expression)
        at = hole + 1 + #expression
    end
    parts[#parts + 1] = (", %q)"):format(line:sub(at))
    return table.concat(parts)
end

-- Rendered text is a list of pieces: `count` whole lines that lie one behind the other in a file.
local function piece(text, path, line, count)
    return { text = text, file = path, line = line, count = count }
end

-- A text of whole lines as a piece.
function template.piece(path, text)
    return piece(text, path, 1, select(2, text:gsub("\n", "")))
end

local function lines_of(source)
    local lines = {}
    if source:sub(-1) ~= "\n" then source = source .. "\n" end
    for text in source:gmatch("([^\n]*)\n") do lines[#lines + 1] = text end
    return lines
end

local function is_plain(text)
    return not text:find("$(", 1, true) and not text:find("^%s*@")
end

-- Plain lines as one or two pieces. What continues the line in front of them is apart: behind it a
-- #line may be needed.
local function pieces_of(lines, path, first, last)
    local head = first
    while head < last and lines[head]:sub(-1) == "\\" do head = head + 1 end
    local pieces = {}
    for i, from in ipairs({ first, head + 1 }) do
        local to = i == 1 and head or last
        if from <= to then
            local text = table.concat(lines, "\n", from, to) .. "\n"
            pieces[i] = piece(text, path, from, to - from + 1)
        end
    end
    return pieces
end

-- Lines as Lua, one for one, and the plain ones as pieces by the first of them: all that are plain
-- from there on are one call, and empty lines behind it.
local function translate_all(lines, path)
    local code, plain, i = {}, {}, 1
    while i <= #lines do
        local first = i
        while i <= #lines and is_plain(lines[i]) do
            code[i], i = "", i + 1
        end
        if i > first then
            code[first] = ("_plain(%d)"):format(first)
            plain[first] = pieces_of(lines, path, first, i - 1)
        else
            code[i], i = translate(lines[i], i, path), i + 1
        end
    end
    return "local _plain, _text, _hole = ... " .. table.concat(code, "\n"), plain
end

local sources <const> = {}  -- what was read of each template and lib: { source, code, plain }

local function parse(path, source)
    local known = sources[path]
    if known and known.source == source then return known end
    known = { source = source }
    known.code, known.plain = translate_all(lines_of(source), path)
    sources[path] = known
    return known
end

local function fill_hole(x)
    if type(x) == "string" then return x end
    if math.type(x) == "integer" then return ("%d"):format(x) end
    error("a hole needs a string or an integer, got " .. message.describe(x), 2)
end

-- Runs one template or lib; its pieces are appended to out.
local function run(path, source, names, out)
    local parsed = parse(path, source)
    local chunk, why = load(parsed.code, "@" .. path, "t", names)
    if not chunk then error(why, 0) end
    local function add_plain(first)
        for _, each in ipairs(parsed.plain[first]) do out[#out + 1] = each end
    end
    local function add_text(number, ...)
        for text in (table.concat({ ... }) .. "\n"):gmatch("[^\n]*\n") do
            out[#out + 1] = piece(text, path, number, 1)
        end
    end
    chunk(add_plain, add_text, fill_hole)
end

-- A compiler would take it for the end of the text, or pass over it.
local function check_bytes(pieces)
    for _, each in ipairs(pieces) do
        local at = each.text:find("\0", 1, true)
        if at then
            local _, lines = each.text:sub(1, at):gsub("\n", "")
            error(("%s:%d: a zero byte"):format(each.file, each.line + lines), 0)
        end
    end
end

-- The pieces of the template `source`. env: names that it sees besides the common ones;
-- opts.read(path) gives a lib's text or nil. A mistake is an error "path:line: ".
function template.render(path, source, env, opts)
    local out, pasted, lib_names = {}, {}, nil
    local function use(lib)
        local lib_path = ("templates/lib/%s.cut"):format(tostring(lib))
        if pasted[lib_path] then return end
        pasted[lib_path] = true
        local text, why = opts.read(lib_path)
        if not text then error(("no lib '%s' (%s)"):format(tostring(lib), why or lib_path), 2) end
        run(lib_path, text, template.sealed(lib_names, ""), out)
    end
    lib_names = order.merged(COMMON, { use = use })
    run(path, source, template.sealed(order.merged(lib_names, env), ""), out)
    check_bytes(out)
    return out
end

-- The text of pieces; with directives, #line keeps a compiler's messages in step with the files.
-- A line that continues the one before it waits until that one ends.
function template.print(pieces, directives)
    local out, file, line, continued = {}, nil, nil, false
    for _, each in ipairs(pieces) do
        if directives and not continued and (each.file ~= file or each.line ~= line) then
            out[#out + 1] = ("#line %d \"%s\"\n"):format(each.line, each.file)
            file, line = each.file, each.line
        end
        out[#out + 1] = each.text
        line = (line or 0) + each.count
        continued = each.text:sub(-2) == "\\\n"
    end
    return table.concat(out)
end

return template
