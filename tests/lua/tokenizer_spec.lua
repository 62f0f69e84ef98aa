-- What lua/tokenizer.lua says about files that it does not take. The module lives in ./lathe, so
-- each test runs a script there in place of the command line: LATHE_ROOT is a folder with a
-- lua/cli.lua of its own.
local cjson = require("cjson")

local SCRATCH <const> = assert(io.popen("mktemp -d")):read("l")
local FILE <const> = "tests/tokenizer/tokenizer.json"
local GLM <const> = [[(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|]]
    .. [[ ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+]]

local SCRIPT <const> = [[
local tokenizer = require("lua.tokenizer")
return function(argv)
    for _, path in ipairs(argv) do
        local fine, what, notes = pcall(tokenizer.open, path)
        if fine then
            local ids = what:encode("It's 12345 \u{e9}\n\n x")
            print("loaded " .. table.concat(ids, " ") .. "|" .. table.concat(notes, "|"))
        else
            print(type(what) == "table" and what.text or "a bug: " .. tostring(what))
        end
    end
    return 0
end
]]

local function read(path)
    local file <close> = assert(io.open(path, "rb"))
    return file:read("a")
end

local function write(path, text)
    local file <close> = assert(io.open(path, "wb"))
    assert(file:write(text))
end

-- What loading each text says, a line for each.
local function load_all(texts)
    local words = {}
    for i, text in ipairs(texts) do
        words[i] = ("%s/%d.json"):format(SCRATCH, i)
        write(words[i], text)
    end
    local pipe <close> = assert(io.popen(("LATHE_ROOT=%s ./lathe %s 2>&1"):format(
        SCRATCH, table.concat(words, " "))))
    local lines = {}
    for line in pipe:lines() do lines[#lines + 1] = line end
    return lines
end

local function level(t)
    t.type = "ByteLevel"
    return t
end

local function split(pattern, behavior, more)
    local t = { type = "Split", pattern = { Regex = pattern }, behavior = behavior or "Isolated",
        invert = false }
    for name, value in pairs(more or {}) do t[name] = value end
    return t
end

local function sequence(...) return { type = "Sequence", pretokenizers = { ... } } end

local function added(id, content, more)
    local t = { id = id, content = content, single_word = false, lstrip = false, rstrip = false,
        normalized = false, special = false }
    for name, value in pairs(more or {}) do t[name] = value end
    return t
end

-- what the file gets, and the sentence behind its name; none: it loads
local null <const> = cjson.null
local BROKEN <const> = {
    { { model = null }, "file: field 'model' is missing" },
    { { model = "BPE" }, "file: field 'model' must be an object or an array, not a string" },
    { { extra = true }, "file: field 'extra' is not supported" },
    { { added_tokens = { a = 1 } }, "file: field 'added_tokens' must be an array" },
    { { added_tokens = { 5 } }, "added_tokens 1: must be an object, not a number" },
    { { added_tokens = { added(9000) } }, "added_tokens 1: field 'content' is missing" },
    { { added_tokens = { added("1", "x") } },
        "added_tokens 1: field 'id' must be a number, not a string" },
    { { added_tokens = { added(9000.5, "<x>") } },
        "added_tokens 1: id is not a whole number from 0 to 4194303" },
    { { added_tokens = { added(2^53, "<x>") } },
        "added_tokens 1: id is not a whole number from 0 to 4194303" },
    { { added_tokens = { added(9000, "<x>"), added(9000, "<y>") } },
        "added_tokens 2: vocabulary: id 9000 is both '<x>' and '<y>'" },
    { { added_tokens = { added(9000, "<x>"), added(9001, "<x>") } },
        "added token '<x>': is there twice" },
    { { added_tokens = { added(0, "<x>") } },
        "added_tokens 1: vocabulary: id 0 is both '!' and '<x>'" },
    { { added_tokens = { added(9000, "!") } },
        "added_tokens 1: added token '!': has id 9000, but 0 in the vocabulary" },
    { { added_tokens = { added(9000, "") } }, "added_tokens 1: added token 9000: is empty" },
    { { added_tokens = { added(9000, "<x>", { single_word = true }) } },
        "added_tokens 1: single_word is not supported" },
    { { normalizer = { type = "NFKC" } },
        "normalizer: type 'NFKC' is not supported (only NFC, Sequence)" },
    { { normalizer = { type = "Sequence", normalizers = { { type = "Lowercase" } } } },
        "normalizer: type 'Lowercase' is not supported (only NFC, Sequence)" },
    { { normalizer = { type = "NFC" } } },  -- the text is below U+0300
    { { pre_tokenizer = null }, "pre_tokenizer: is missing: only byte-level BPE is supported" },
    { { pre_tokenizer = { type = "Metaspace" } },
        "pre_tokenizer: type 'Metaspace' is not supported (only ByteLevel, Sequence, Split)" },
    { { pre_tokenizer = { type = 5 } },
        "pre_tokenizer: type '5.0' is not supported (only ByteLevel, Sequence, Split)" },
    { { pre_tokenizer = split("a") }, "pre_tokenizer: ByteLevel must come last, and once" },
    { { pre_tokenizer = sequence(level({}), split("a")) },
        "pre_tokenizer: ByteLevel must come last, and once" },
    { { pre_tokenizer = sequence() }, "pre_tokenizer: has no ByteLevel" },
    { { pre_tokenizer = sequence(level({}), level({})) },
        "pre_tokenizer: ByteLevel must come last, and once" },
    { { pre_tokenizer = level({ cut = 1 }) },
        "pre_tokenizer ByteLevel: field 'cut' is not supported" },
    { { pre_tokenizer = sequence(split("(a"), level({})) },
        "split pattern: is no regular expression: missing closing parenthesis" },
    { { pre_tokenizer = sequence(split("\\w+"), level({})) },
        "split pattern: '\\w' at byte 0 is not supported" },
    { { pre_tokenizer = sequence(split("a*"), level({})) },
        "split pattern: matches empty text, which is not supported" },
    { { pre_tokenizer = sequence(split("a", "MergedWithNext"), level({})) },
        "pre_tokenizer Split: behavior 'MergedWithNext' is not supported" },
    { { pre_tokenizer = sequence(split("a", nil, { pattern = {} }), level({})) },
        "pre_tokenizer Split: pattern must be one Regex or one String" },
    { { pre_tokenizer = sequence(split("a", nil, { pattern = "a" }), level({})) },
        "pre_tokenizer Split: field 'pattern' must be an object or an array, not a string" },
    { { pre_tokenizer = sequence(sequence(sequence(sequence(sequence(level({})))))) },
        "pre_tokenizer: sequences are nested too deep" },
    { { decoder = null }, "decoder: is missing: only ByteLevel is supported" },
    { { decoder = { type = "Metaspace" } },
        "decoder: type 'Metaspace' is not supported (only ByteLevel)" },
}

-- the same for fields of the model
local BROKEN_MODEL <const> = {
    { { type = "Unigram" }, "model: type 'Unigram' is not supported (only BPE)" },
    { { type = null }, "model: type 'null' is not supported (only BPE)" },
    { { byte_fallback = true }, "model BPE: byte_fallback = true is not supported" },
    { { dropout = 0.1 }, "model BPE: dropout = 0.1 is not supported" },
    { { end_of_word_suffix = "</w>" }, "model BPE: end_of_word_suffix = </w> is not supported" },
    { { continuing_subword_prefix = "##" },
        "model BPE: continuing_subword_prefix = ## is not supported" },
    { { vocab = null }, "model BPE: field 'vocab' is missing" },
    { { vocab = { "a", "b" } }, "model BPE: field 'vocab' must be an object" },
    { { vocab = { a = 1, b = 1 }, merges = {} }, "vocabulary: id 1 is both 'a' and 'b'" },
    { { vocab = { a = "1" } }, "vocabulary: 'a': id is not a whole number from 0 to 4194303" },
    { { vocab = { a = -1 } }, "vocabulary: 'a': id is not a whole number from 0 to 4194303" },
    { { vocab = { ["a\xff"] = 1 } }, "token 'a\\xff': is not UTF-8" },
    { { vocab = {}, merges = {} },
        "model BPE: field 'vocab' is empty" },
    { { merges = null }, "model BPE: field 'merges' is missing" },
    { { merges = "a b" },
        "model BPE: field 'merges' must be an object or an array, not a string" },
    { { merges = { x = "a b" } }, "model BPE: field 'merges' must be an array" },
    { { merges = { { "a", "b", "c" } } }, "merges: number 1: is not a pair of texts" },
    { { merges = { { "h", "e" }, { "a", 5 } } }, "merges: number 2: is not a pair of texts" },
    { { merges = { 5 } }, "merges: number 1: is not a pair of texts" },
    { { merges = { "ab" } }, "merges: number 1: is not two texts with a space between them" },
    { { merges = { "a b c" } }, "merges: number 1: is not two texts with a space between them" },
    { { merges = { "h e", "qq e" } },
        "merges: number 2: merge of 'qq' and 'e': 'qq' is not in the vocabulary" },
    { { merges = { { "q", "z" } } },
        "merges: number 1: merge of 'q' and 'z': 'qz' is not in the vocabulary" },
}

-- The file with some fields replaced, as text.
local function changed(parts, model)
    local file = cjson.decode(read(FILE))
    for name, value in pairs(parts) do file[name] = value end
    for name, value in pairs(model) do file.model[name] = value end
    return cjson.encode(file)
end

local function expect(said, sentence)
    if not sentence then
        assert.truthy(said:find("^loaded "), said)
        return
    end
    assert.equal("tokenizer.json: " .. sentence, said)
end

describe("tokenizer.json", function()
    setup(function()
        assert(os.execute("mkdir " .. SCRATCH .. "/lua"))
        write(SCRATCH .. "/lua/cli.lua", SCRIPT)
    end)
    teardown(function() os.execute("rm -rf " .. SCRATCH) end)

    it("with a wrong part is refused with one sentence that names it", function()
        local texts = {}
        for i, case in ipairs(BROKEN) do texts[i] = changed(case[1], {}) end
        local said = load_all(texts)
        assert.equal(#BROKEN, #said, said[#said])
        for i, case in ipairs(BROKEN) do expect(said[i], case[2]) end
    end)

    it("with a wrong model is refused with one sentence that names it", function()
        local texts = {}
        for i, case in ipairs(BROKEN_MODEL) do texts[i] = changed({}, case[1]) end
        local said = load_all(texts)
        assert.equal(#BROKEN_MODEL, #said, said[#said])
        for i, case in ipairs(BROKEN_MODEL) do expect(said[i], case[2]) end
    end)

    it("that is cut off or no JSON is refused", function()
        local text = read(FILE)
        local said = load_all({ text:sub(1, 1000), text:sub(1, -3), "", "[", "5", "null", "\0",
            '{"model":NaN}', ("["):rep(5000), text .. "\0x" })
        assert.equal(10, #said)
        for i, line in ipairs(said) do
            local is_json = i == 5 or i == 6
            assert.truthy(line:find(is_json and "^tokenizer.json: file: is no object"
                or "^tokenizer.json: file: is no JSON: .*%(is it whole%?%)$"), line)
        end
        assert.equal("tokenizer: " .. SCRATCH .. "/0.json: No such file or directory",
            (function()
                local pipe <close> = assert(io.popen(("LATHE_ROOT=%s ./lathe %s/0.json"):format(
                    SCRATCH, SCRATCH)))
                return pipe:read("l")
            end)())
    end)

    it("says what it asks for and does not get", function()
        local said = load_all({
            changed({ post_processor = { type = "TemplateProcessing", single = {} },
                truncation = { max_length = 5 } }, {}),
            changed({ post_processor = level({ trim_offsets = true }) }, {}),
        })
        assert.equal("post_processor TemplateProcessing: is not applied, nothing is put around a "
            .. "text|truncation: is not applied", said[1]:match("|(.*)"))
        assert.equal("", said[2]:match("|(.*)"))
    end)

    it("gives the same ids with merges as strings and as pairs", function()
        local merges = {}
        for i, pair in ipairs(cjson.decode(read(FILE)).model.merges) do
            merges[i] = table.concat(pair, " ")
        end
        local glm = { pre_tokenizer = sequence(split(GLM), level({ use_regex = false })) }
        local said = load_all({ read(FILE), changed({}, { merges = merges }), changed(glm, {}),
            changed({ pre_tokenizer = sequence(split(" ", "Removed"), level({})) }, {}) })
        assert.truthy(said[1]:find("^loaded %d+ "), said[1])
        assert.equal(said[1], said[2])
        assert.equal(said[1], said[3])
        assert.not_equal(said[1], said[4])
    end)
end)
