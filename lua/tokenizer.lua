-- Reads tokenizer.json of Hugging Face into a tokenizer of the runtime: byte-level BPE and what it
-- needs, all else is refused, since a text that is split otherwise gives a model other tokens.
local cjson = require("cjson")
local fault = require("lua.fault")
local fields = require("lua.model.fields")
local input = require("lua.input")
local lathe = require("lathe")

local tokenizer = {}

-- What ByteLevel splits by when its use_regex is on.
local GPT2 <const> =
    [['s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+]]

-- The fields that each object may have, and what they are. A field that is not here could change
-- what the others mean.
local FILE <const> = {
    version = "string", truncation = "any", padding = "any", added_tokens = "table",
    normalizer = "table", pre_tokenizer = "table", post_processor = "table", decoder = "table",
    model = "table",
}
local TOKEN <const> = {
    id = "number", content = "string", single_word = "boolean", lstrip = "boolean",
    rstrip = "boolean", normalized = "boolean", special = "boolean",
}
local TOKEN_NEEDS <const> = {
    "id", "content", "single_word", "lstrip", "rstrip", "normalized", "special",
}
local BYTE_LEVEL <const> = {
    add_prefix_space = "boolean", trim_offsets = "boolean", use_regex = "boolean",
}
local MODEL <const> = {
    BPE = {
        dropout = "number", unk_token = "string", continuing_subword_prefix = "string",
        end_of_word_suffix = "string", fuse_unk = "boolean", byte_fallback = "boolean",
        ignore_merges = "boolean", vocab = "table", merges = "table",
    },
}
local PRE_TOKENIZER <const> = {
    ByteLevel = BYTE_LEVEL,
    Split = { pattern = "table", behavior = "string", invert = "boolean" },
    Sequence = { pretokenizers = "table" },
}
local NORMALIZER <const> = { NFC = {}, Sequence = { normalizers = "table" } }
local DECODER <const> = { ByteLevel = BYTE_LEVEL }

-- behavior, and with invert: which pieces stay
local KEEP <const> = { Isolated = { "all", "all" }, Removed = { "gaps", "matches" } }

local WORD <const> = {
    string = "a string", number = "a number", boolean = "true or false", userdata = "null",
    table = "an object or an array", ["nil"] = "nothing",
}

local function refuse(what, ...)
    fault.usage("tokenizer.json: " .. what .. ": " .. string.format(...))
end

-- The same for what the runtime refuses with a sentence of its own.
local function accept(fine, why, what)
    if not fine then fault.usage(("tokenizer.json: %s%s"):format(what or "", why)) end
end

-- What a file says, for a sentence.
local function shown(value)
    return fields.printable(value == cjson.null and "null" or tostring(value), 40)
end

local function need_object(value, what)
    if type(value) == "table" then return end
    refuse(what, "must be an object, not %s", WORD[type(value)])
end

-- The fields of an object, without those that are null.
local function read(object, legal, what)
    local values, names = {}, {}
    for name in pairs(object) do names[#names + 1] = tostring(name) end
    table.sort(names)
    for _, name in ipairs(names) do
        local value, kind = object[name], legal[name]
        if value ~= nil and value ~= cjson.null then
            if not kind then refuse(what, "field '%s' is not supported", shown(name)) end
            if kind ~= "any" and type(value) ~= kind then
                refuse(what, "field '%s' must be %s, not %s", name, WORD[kind], WORD[type(value)])
            end
            values[name] = value
        end
    end
    return values
end

-- An object whose field `type` says which fields it has.
local function read_typed(object, kinds, what)
    need_object(object, what)
    local kind = object.type
    local legal = type(kind) == "string" and kinds[kind]
    if not legal then
        local known = {}
        for name in pairs(kinds) do known[#known + 1] = name end
        table.sort(known)
        refuse(what, "type '%s' is not supported (only %s)", shown(kind),
            table.concat(known, ", "))
    end
    local rest = {}
    for name, value in pairs(object) do rest[name] = value end
    rest.type = nil
    return kind, read(rest, legal, what .. " " .. kind)
end

local function need(values, name, what)
    if values[name] == nil then refuse(what, "field '%s' is missing", name) end
    return values[name]
end

-- Is it an array? JSON's empty object looks like one.
local function need_list(values, name, what)
    local list = need(values, name, what)
    if #list == 0 and next(list) ~= nil then refuse(what, "field '%s' must be an array", name) end
    return list
end

-- ---- the parts of the file ----

-- unk_token and fuse_unk have nothing to do: every byte has a token, or the text is refused.
local function fill_model(t, object)
    local _, model = read_typed(object, MODEL, "model")
    local function refuse_set(name, plain)
        local value = model[name]
        if value ~= nil and value ~= plain then
            refuse("model BPE", "%s = %s is not supported", name, shown(value))
        end
    end
    refuse_set("dropout", 0)
    refuse_set("continuing_subword_prefix", "")
    refuse_set("end_of_word_suffix", "")
    refuse_set("byte_fallback", false)
    local vocabulary = need(model, "vocab", "model BPE")
    if #vocabulary > 0 then refuse("model BPE", "field 'vocab' must be an object") end
    if not next(vocabulary) then refuse("model BPE", "field 'vocab' is empty") end
    accept(t:add_vocabulary(vocabulary))
    accept(t:add_merges(need_list(model, "merges", "model BPE")))
    t:set_ignore_merges(model.ignore_merges or false)
end

local function fill_token(t, object, what)
    need_object(object, what)
    local token = read(object, TOKEN, what)
    for _, name in ipairs(TOKEN_NEEDS) do need(token, name, what) end
    if token.single_word then refuse(what, "single_word is not supported") end
    local fine, why = t:add_token(token)
    accept(fine, why, what .. ": ")
end

local function fill_split(t, split, what)
    local kept = KEEP[need(split, "behavior", what)]
    if not kept then refuse(what, "behavior '%s' is not supported", shown(split.behavior)) end
    local pattern = read(need(split, "pattern", what), { Regex = "string", String = "string" },
        what .. " pattern")
    local text = pattern.Regex or pattern.String and pattern.String:gsub("%p", "\\%0")
    if not text or pattern.Regex and pattern.String then
        refuse(what, "pattern must be one Regex or one String")
    end
    accept(t:add_split(text, kept[split.invert and 2 or 1]))
end

local function fill_byte_level(t, level)
    if level.add_prefix_space then accept(t:add_space()) end
    if level.use_regex ~= false then accept(t:add_split(GPT2, "all")) end
end

-- Appends { type, fields } of a pre-tokenizer, whose sequences may hold sequences.
local function flatten(object, list, depth)
    local kind, part = read_typed(object, PRE_TOKENIZER, "pre_tokenizer")
    if kind ~= "Sequence" then
        list[#list + 1] = { kind, part }
        return list
    end
    if depth == 0 then refuse("pre_tokenizer", "sequences are nested too deep") end
    for _, inner in ipairs(need_list(part, "pretokenizers", "pre_tokenizer Sequence")) do
        flatten(inner, list, depth - 1)
    end
    return list
end

local function fill_pre_tokenizer(t, object)
    if not object then refuse("pre_tokenizer", "is missing: only byte-level BPE is supported") end
    local list = flatten(object, {}, 4)
    for i, part in ipairs(list) do
        local kind, values = part[1], part[2]
        if (kind == "ByteLevel") ~= (i == #list) then
            refuse("pre_tokenizer", "ByteLevel must come last, and once")
        end
        if kind == "Split" then fill_split(t, values, "pre_tokenizer Split")
        else fill_byte_level(t, values) end
    end
    if #list == 0 then refuse("pre_tokenizer", "has no ByteLevel") end
end

local function fill_normalizer(t, object, depth)
    if object == nil then return end
    local kind, part = read_typed(object, NORMALIZER, "normalizer")
    if kind == "NFC" then
        t:set_nfc(true)
        return
    end
    if depth == 0 then refuse("normalizer", "sequences are nested too deep") end
    for _, inner in ipairs(need_list(part, "normalizers", "normalizer Sequence")) do
        fill_normalizer(t, inner, depth - 1)
    end
end

local function check_decoder(object)
    if not object then refuse("decoder", "is missing: only ByteLevel is supported") end
    read_typed(object, DECODER, "decoder")
end

-- What the file asks for and lathe leaves undone: sentences for the user.
local function notes_of(file)
    local notes = {}
    local post = file.post_processor and file.post_processor.type
    if post and post ~= "ByteLevel" then  -- that one moves offsets, which nobody asks for
        notes[1] = ("post_processor %s: is not applied, nothing is put around a text"):format(
            shown(post))
    end
    for _, name in ipairs({ "truncation", "padding" }) do
        if file[name] then notes[#notes + 1] = name .. ": is not applied" end
    end
    return notes
end

local function fill(t, file)
    fill_model(t, need(file, "model", "file"))
    for i, token in ipairs(file.added_tokens and need_list(file, "added_tokens", "file") or {}) do
        fill_token(t, token, ("added_tokens %d"):format(i))
    end
    fill_normalizer(t, file.normalizer, 4)
    fill_pre_tokenizer(t, file.pre_tokenizer)
    check_decoder(file.decoder)
    accept(t:ready())
end

-- The tokenizer of a file's text, and notes: sentences about what the file asks for and is not
-- done. Raises a fault that says what is wrong with the file.
function tokenizer.parse(text)
    local file, why = fields.decode(text)
    if not file then refuse("file", "%s (is it whole?)", fields.printable(why)) end
    file = read(file, FILE, "file")
    local t = fault.reach(lathe.tokenizer())
    fill(t, file)
    return t, notes_of(file)
end

-- The ids of a text that a user gave; subject: where.
function tokenizer.encode(t, subject, text)
    local ids, why = t:encode(text)
    if not ids then fault.usage(("%s: %s"):format(subject, why)) end
    return ids
end

function tokenizer.open(path) return tokenizer.parse(input.read("tokenizer", path)) end

return tokenizer
