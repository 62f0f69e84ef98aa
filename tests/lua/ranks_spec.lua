-- Tensor-parallel ranks: the split rule, the shapes and memory of the full model's plans, the bytes
-- of slices against some that are cut here by hand. That the ranks' sums are the model is in
-- tests/long/ranks.sh.
local bad = require("tests.lua.bad_checkpoint")
local cjson = require("cjson")
local config = require("lua.model.config")
local full = require("tests.lua.full_checkpoint")
local region = require("lua.plan.region")
local split = require("lua.model.split")

local SCRATCH <const> = assert(io.popen("mktemp -d")):read("l")

-- Stdout, stderr and exit code of a command.
local function lathe(words, variables)
    local errors = SCRATCH .. "/stderr"
    local pipe = assert(io.popen(("env LATHE_CACHE_DIR=%s/cache %s ./lathe %s 2>%s"):format(
        SCRATCH, variables or "", words, errors)))
    local out = pipe:read("a")
    local _, _, code = pipe:close()
    local file <close> = assert(io.open(errors))
    return out, file:read("a"), code or 0
end

local function plan(words)
    local out, errors, code = lathe("plan --dry --json " .. words)
    assert.equal(0, code, errors)
    return cjson.decode(out)
end

local function folder_of(name)
    local folder = SCRATCH .. "/" .. name
    os.execute("rm -rf " .. folder .. " && mkdir " .. folder)
    return folder
end

-- The config of a full model, but for these fields.
local function config_with(fields)
    fields.index_kpool = 4
    return assert(config.read(cjson.encode({ model_type = "glm5_next", text_config = fields })))
end

-- "22/21/21" of a number of the config on each rank, or the refusal.
local function shares(c, word, ranks)
    local list = {}
    for rank = 0, ranks - 1 do
        local mine, why = split.take({ config = c, model = {}, layers = {} }, ranks, rank)
        if not mine then return why end
        list[rank + 1] = mine.config[word]
    end
    return table.concat(list, "/")
end

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("the split rule", function()
    it("gives the ranks of the full model what the specification says", function()
        local c = config_with({})
        for _, row in ipairs({
            { "kda_heads",    "64",     "32/32",         "22/21/21",          "16/16/16/16" },
            { "mla_heads",    "64",     "32/32",         "22/21/21",          "16/16/16/16" },
            { "dense_width",  "12288",  "6144/6144",     "4096/4096/4096",
                "3072/3072/3072/3072" },
            { "expert_width", "2048",   "1024/1024",     "704/704/640",       "512/512/512/512" },
            { "shared_width", "2048",   "1024/1024",     "768/640/640",       "512/512/512/512" },
            { "head_rows",    "154880", "77440/77440",   "51648/51648/51584",
                "38720/38720/38720/38720" },
            { "vocab",        "154880", "154880/154880", "154880/154880/154880",
                "154880/154880/154880/154880" },
            { "index_heads",  "32",     "32/32",         "32/32/32",          "32/32/32/32" },
        }) do
            for ranks = 1, 4 do assert.equal(row[ranks + 1], shares(c, row[1], ranks), row[1]) end
        end
    end)

    it("halves the unit of small widths, and needs no unit of what no layer has", function()
        local c = config_with({
            vocab_size = 320, moe_intermediate_size = 64, intermediate_size = 768,
        })
        assert.equal("192/128", shares(c, "head_rows", 2))
        assert.equal("128/64/64/64", shares(c, "head_rows", 4))
        assert.equal("32/16/16", shares(c, "expert_width", 3))
        assert.equal("32/16/16", shares(c, "shared_width", 3))
        c = config_with({ num_hidden_layers = 2, first_k_dense_replace = 2,
            moe_intermediate_size = 16, num_attention_heads = 1 })
        assert.equal("32/32", shares(c, "kda_heads", 2))
    end)

    it("refuses what leaves a rank without a share, or cuts a group of columns", function()
        assert.equal("4 KDA heads cannot be split among 5 ranks (each needs one)",
            shares(config_with({ linear_num_heads = 4 }), "kda_heads", 5))
        assert.equal("1 MLA heads cannot be split among 2 ranks (each needs one)",
            shares(config_with({ num_attention_heads = 1 }), "mla_heads", 2))
        assert.equal("80 columns of an expert cannot be split among 6 ranks (each needs a multiple "
            .. "of 16)", shares(config_with({ moe_intermediate_size = 80 }), "expert_width", 6))
        assert.equal("300 rows of the head cannot be split among 2 ranks (each needs a multiple of "
            .. "16)", shares(config_with({ vocab_size = 300 }), "head_rows", 2))
        assert.equal("5 ranks would cut the columns of a dense FFN's down at 4920 (only a multiple "
            .. "of 16 is served)", shares(config_with({}), "dense_width", 5))
        assert.equal("3 ranks would cut the columns of KDA's o at 24 (only a multiple of 16 is "
            .. "served)", shares(config_with({ linear_num_heads = 3, linear_head_dim = 24 }),
            "kda_heads", 3))
    end)
end)

describe("the bytes of a part", function()
    local function text(part, bytes, elements)
        local r = region.of(part, "t", bytes, elements)
        return ("%d %d %d %d"):format(r.offset, r.width, r.pitch, r.count)
    end

    it("are one run of a whole tensor and of rows, one a row of columns", function()
        assert.equal("0 48 48 1", text({ shape = { 3, 8 } }, 2, 1))
        local rows = { whole = { 9, 1, 4 }, slice = { axis = 1, from = 2, to = 5 } }
        assert.equal("16 24 72 1", text(rows, 2, 1))
        local columns = { whole = { 5, 64 }, slice = { axis = 2, from = 16, to = 48 } }
        assert.equal("32 64 128 5", text(columns, 2, 1))
        assert.equal("8 16 32 5", text(columns, 1, 2))
        assert.equal("1 2 4 5", text(columns, 1, 16))
    end)

    it("come in pieces that hold at most so many, in order and whole", function()
        for _, most in ipairs({ 1, 7, 64, 100, 1000 }) do
            for _, count in ipairs({ 1, 5 }) do
                local all = { name = "t", offset = 10, width = 40, pitch = 50, count = count }
                local sum, at = 0, 10
                for _, piece in ipairs(region.pieces(all, most)) do
                    assert.equal(at, piece.offset)
                    assert.truthy(piece.width * piece.count <= math.max(most,
                        count > 1 and 40 or 0))
                    sum = sum + piece.width * piece.count
                    at = at + (count > 1 and 50 * piece.count or piece.width)
                end
                assert.equal(40 * count, sum)
            end
        end
    end)
end)

-- What of a step of the full model is another size on a rank: the steps, the sizes, what they are
-- on ranks 0, 1, 2 of 3.
local SPLIT <const> = {
    { "^L%d+%.attn%.front$",            "N",       { 8726, 8341, 8341 } },
    { "^L%d+%.attn%.kda_decode$",       "HEADS",   { 22, 21, 21 } },
    { "^L%d+%.attn%.kda_decode$",       "N",       { 5632, 5376, 5376 } },
    { "^L%d+%.attn%.kda_decode$",       "STRIDE",  { 8726, 8341, 8341 } },
    { "^L0[0124]%.attn%.y$",            "K",       { 2816, 2688, 2688 } },
    { "^L03%.attn%.q$",                 "N",       { 11264, 10752, 10752 } },
    { "^L03%.attn%.mla_decode$",        "HEADS",   { 22, 21, 21 } },
    { "^L03%.attn%.o%.quant$",          "K",       { 11264, 10752, 10752 } },
    { "^L03%.attn%.y$",                 "K",       { 11264, 10752, 10752 } },
    { "^L0[012]%.ffn%.a%.gate_up$",     "N",       { 8192, 8192, 8192 } },
    { "^L0[012]%.ffn%.a%.swiglu$",      "K",       { 4096, 4096, 4096 } },
    { "^L0[012]%.ffn%.y$",              "K",       { 4096, 4096, 4096 } },
    { "^L0[34]%.ffn%.a$",               "N",       { 1408, 1408, 1280 } },
    { "^L0[34]%.ffn%.down$",            "K",       { 704, 704, 640 } },
    { "^L0[34]%.ffn%.s_a$",             "N",       { 1536, 1280, 1280 } },
    { "^L0[34]%.ffn%.s_y$",             "K",       { 768, 640, 640 } },
    { "^head%./logits$",                "N",       { 51648, 51648, 51584 } },
    { "^head%.argmax%.f32$",            "VOCAB",   { 51648, 51648, 51584 } },
}

-- The sizes of a step by name.
local function sizes_of(row)
    local sizes = {}
    for size, n in row.shape:gmatch("(%w+)=(%d+)") do sizes[size] = math.tointeger(tonumber(n)) end
    return sizes
end

-- The sizes that a step of the whole model has on a rank of 3.
local function wanted_sizes(row, rank, met)
    local sizes = sizes_of(row)
    for i, each in ipairs(SPLIT) do
        if row.step:find(each[1]) then
            assert.truthy(sizes[each[2]], row.step .. " has no " .. each[2])
            sizes[each[2]], met[i] = each[3][rank + 1], true
        end
    end
    return sizes
end

describe("the full model on three ranks", function()
    local folder = folder_of("full")
    full.write(folder, { num_hidden_layers = 5, n_routed_experts = 16 })

    it("has the specification's shapes in what is split, all others as on one", function()
        local whole = plan("--model " .. folder)
        for rank = 0, 2 do
            local mine = plan(("--model %s --ranks 3 --rank %d"):format(folder, rank))
            local met = {}
            assert.equal(#whole.rows, #mine.rows)
            for i, row in ipairs(mine.rows) do
                assert.equal(whole.rows[i].step, row.step)
                assert.same(wanted_sizes(whole.rows[i], rank, met), sizes_of(row), row.step)
            end
            for i, each in ipairs(SPLIT) do assert.truthy(met[i], each[1]) end
        end
    end)

    it("says which values are partial: two a layer, behind which a sum belongs", function()
        local mine = plan("--model " .. folder .. " --ranks 3 --rank 1")
        local sites = {}
        for i, row in ipairs(mine.rows) do
            if row.partial then
                sites[#sites + 1] = ("%s %d %s"):format(row.step, row.partial,
                    mine.rows[i + 1].family)
            end
        end
        assert.equal(10, mine.partial_sums)
        assert.same({
            "L00.attn.y 3 mhc_post_pre_quant", "L00.ffn.y 3 mhc_post_pre",
            "L01.attn.y 3 mhc_post_pre_quant", "L01.ffn.y 3 mhc_post_pre",
            "L02.attn.y 3 mhc_post_pre_quant", "L02.ffn.y 3 mhc_post_pre",
            "L03.attn.y 3 mhc_post_pre_quant", "L03.ffn.moe_combine 3 mhc_post_pre",
            "L04.attn.y 3 mhc_post_pre_quant",
            "L04.ffn.moe_combine 3 mhc_post",
        }, sites)
        assert.equal(0, plan("--model " .. folder).partial_sums)
        local text = lathe("plan --dry --model " .. folder .. " --ranks 3 --rank 1")
        assert.equal(10, select(2, text:gsub("y@%d+: partial of 3\n", "")))
        assert.truthy(text:find("\nrank 1 of 3: 10 steps write partial sums, which nothing adds up"
            .. "\n", 1, true))
    end)

    it("has another digest on each rank, and of another number of ranks", function()
        local seen = {}
        for _, words in ipairs({ "", "--ranks 2", "--ranks 2 --rank 1", "--ranks 3",
            "--ranks 3 --rank 1", "--ranks 3 --rank 2" }) do
            local digest = plan("--model " .. folder .. " " .. words).digest
            assert.equal(nil, seen[digest], words)
            seen[digest] = words
        end
        assert.equal("", seen[plan("--model " .. folder .. " --ranks 1 --rank 0").digest])
    end)

    it("has one digest of all ranks' choices, another one of another number of ranks", function()
        local words, choices = "--model " .. folder, nil
        for rank = 0, 2 do
            local mine = plan(("%s --ranks 3 --rank %d"):format(words, rank))
            choices = choices or mine.choices
            assert.equal(64, #mine.choices)
            assert.equal(choices, mine.choices)
        end
        local seen = { [choices] = true }
        for _, more in ipairs({ "--ranks 2", "--ranks 3 --recipe reference",
            "--ranks 3 --context 128", "--ranks 3 --arch sm_121a",
            "--ranks 3 --mode prefill --rows 2" }) do
            local other = plan(words .. " " .. more).choices
            assert.falsy(seen[other], more)
            seen[other] = true
        end
        assert.equal(nil, plan(words).choices)
    end)

    it("needs the memory that the specification counts", function()
        full.write(folder, { num_hidden_layers = 45, n_routed_experts = 288 })
        -- In GB: all weights; experts and dense FFNs, the latter 0.085. Then KDA's heads.
        local want = { [0] = { 62.91, 58.86 + 0.085, 22 }, [2] = { 57.45, 53.51 + 0.085, 21 } }
        -- Every rank has whole: 4096 tokens of latent and pooled keys, a ring of 32 raw rows.
        local replicated <const> = 11 * (4096 * (512 + 128 + 1) + 32 * 2 * 128 * 2)
        for rank = 0, 2, 2 do
            local all, packed, heads = table.unpack(want[rank])
            local bytes = { weights = 0, states = 0, w4a4 = 0 }
            local mine = plan(("--model %s --ranks 3 --rank %d"):format(folder, rank))
            for _, row in ipairs(mine.memory) do
                for _, key in ipairs({ row.kind, row.format }) do
                    bytes[key] = (bytes[key] or 0) + row.bytes
                end
            end
            assert.near(all, bytes.weights / 1e9, 0.006)
            assert.near(packed, bytes.w4a4 / 1e9, 0.006)
            local kda = 34 * 4 * (heads * 128 * 128 + 3 * heads * 128 * 4)
            assert.equal(kda + replicated, math.tointeger(bytes.states))
        end
    end)
end)

-- ---- slices of the tiny model, cut by hand ----

-- What rank 0, 1, 2 of 3 has of a tensor: the pattern of its name, the axis, of how many rows or
-- columns, and where each rank begins.
local HEADS <const>, VALUES <const> = { 0, 2, 3, 4 }, { 0, 128, 192, 256 }
local DENSE <const>, EXPERT <const> = { 0, 256, 512, 768 }, { 0, 32, 48, 64 }
local CUTS <const> = {
    { "^lm_head%.weight$", 1, 320, { 0, 128, 256, 320 } },
    { "self_attn%.[qkv]_proj%.weight$", 1, 256, VALUES },
    { "self_attn%.[qkv]_conv1d%.weight$", 1, 256, VALUES },
    { "self_attn%.[fg]_b_proj%.weight$", 1, 256, VALUES },
    { "self_attn%.b_proj%.weight$", 1, 4, HEADS },
    { "self_attn%.A_log$", 1, 4, HEADS },
    { "self_attn%.dt_bias$", 1, 256, VALUES },
    { "self_attn%.o_proj%.weight$", 2, 256, VALUES },
    { "self_attn%.q_b_proj%.weight$", 1, 256, VALUES },
    { "self_attn%.kv_b_proj%.weight$", 1, 512, { 0, 256, 384, 512 } },
    { "mlp%.gate_proj%.weight", 1, 768, DENSE },
    { "mlp%.up_proj%.weight", 1, 768, DENSE },
    { "mlp%.down_proj%.weight", 2, 768, DENSE },
    { "experts%.?%d*%.gate_proj%.weight", 1, 64, EXPERT },
    { "experts%.?%d*%.up_proj%.weight", 1, 64, EXPERT },
    { "experts%.?%d*%.down_proj%.weight", 2, 64, EXPERT },
}

-- Rows or columns [from, to) of `total` as bytes; two codes a byte, or a scale for 16, are columns
-- too.
local function cut_bytes(t, axis, from, to, total)
    local row = #t.data // t.shape[1]
    if axis == 1 then return t.data:sub(from * row + 1, to * row) end
    local out = {}
    for i = 0, t.shape[1] - 1 do
        out[i + 1] = t.data:sub(i * row + from * row // total + 1, i * row + to * row // total)
    end
    return table.concat(out)
end

-- A file of the tensors of rank `rank` of 3.
local function write_cut(path, model, rank)
    local cut = bad.copy(model)
    for name, t in pairs(cut.tensors) do
        for _, row in ipairs(CUTS) do
            local pattern, axis, total, starts = table.unpack(row)
            if #t.shape > 0 and name:find(pattern) then
                local from, to = starts[rank + 1], starts[rank + 2]
                t.data = cut_bytes(t, axis, from, to, total)
                t.shape[axis] = t.shape[axis] * (to - from) // total
                break
            end
        end
    end
    bad.write_file(path, cut.tensors)
end

-- Makes all weights of a rank, and the same from a file where they are cut already; prints how many
-- arrays and bytes there are, and how many differ; how many kernels the rehearsal did not know.
local COMPARE <const> = [[
local checkpoint = require("lua.model.checkpoint")
local choice = require("lua.choice")
local glm5_next = require("lua.model.glm5_next")
local lathe = require("lathe")
local place = require("lua.place")
local recipe = require("lua.model.recipe")
local rehearsal = require("lua.plan.rehearsal")
local split = require("lua.model.split")
local weights = require("lua.plan.weights")

-- A target whose buffers and kernels are noted down.
local function noting(target, bytes, kernels)
    local device = target.device
    return {
        families = target.families, arch = target.arch, dev = target.dev, is_cpu = true,
        device = {
            alloc = function(_, n)
                local buffer, why = device:alloc(n)
                if buffer then bytes[buffer] = n end
                return buffer, why
            end,
            load = function(_, kernel)
                kernels[kernel.name] = true
                return device:load(kernel)
            end,
            launch = function(_, ...) return device:launch(...) end,
        },
    }
end

local function whole(value)
    if type(value) ~= "table" then return value end
    if value.name then
        return { name = value.name, shape = value.shape, format = value.format,
            scales = value.scales }
    end
    local copy = {}
    for key, each in pairs(value) do copy[key] = whole(each) end
    return copy
end

local function hash(buffer, bytes)
    local array <close> = lathe.array("u8", bytes)
    assert(buffer:read(array))
    return lathe.hash(array)
end

return function(argv)
    local folder, file, name, rank = table.unpack(argv)
    local bytes, kernels, read, again = {}, {}, 0, 0
    local target = noting(place.open("cpu", choice.catalog()), bytes, kernels)
    local found = split.take(assert(checkpoint.open(folder)), 3, tonumber(rank) // 1)
    local cut = lathe.weights()
    assert(cut:add(file))
    local list = glm5_next.circuit(found, recipe.find(name), 1, 64).weights
    local others = {}
    for i, weight in ipairs(list) do
        others[i] = { kind = weight.kind, format = weight.format,
            has_input_scale = weight.has_input_scale, parts = whole(weight.parts),
            experts = whole(weight.experts) }
    end
    local function none() return { kernels = {}, loaded = {} } end
    local made = weights.make(target, found, list, none(), function(_, _, n) read = n end)
    local hand = weights.make(target, { weights = cut }, others, none(),
        function(_, _, n) again = n end)
    local arrays, differ, unknown = 0, 0, 0
    for i, weight in ipairs(list) do
        for key, buffer in pairs(made[weight]) do
            local other = hand[others[i] ][key]
            arrays = arrays + 1
            if bytes[buffer] ~= bytes[other]
                or hash(buffer, bytes[buffer]) ~= hash(other, bytes[other]) then
                differ = differ + 1
                print(weight.key, key)
            end
        end
    end
    local known = {}
    for _, kernel in ipairs(rehearsal.kernels(target, found, list)) do known[kernel.name] = true end
    for kernel in pairs(kernels) do unknown = unknown + (known[kernel] and 0 or 1) end
    print(("%d arrays, %d differ, %d bytes more, %d kernels unknown"):format(arrays, differ,
        read - again, unknown))
    return 0
end
]]

describe("slices of the tiny model", function()
    os.execute("mkdir -p " .. SCRATCH .. "/tree/lua")
    bad.save(SCRATCH .. "/tree/lua/cli.lua", COMPARE)

    local function compare(model, folder, recipe, rank)
        write_cut(SCRATCH .. "/cut.safetensors", model, rank)
        return (lathe(("%s %s/cut.safetensors %s %d"):format(folder, SCRATCH, recipe, rank),
            ("LATHE_ROOT=%s/tree"):format(SCRATCH)))
    end

    it("make the weights that slices cut by hand make, and no more bytes are read", function()
        local tiny = bad.tiny()
        local same = "%d arrays, 0 differ, 0 bytes more, 0 kernels unknown\n"
        for _, row in ipairs({ { "card", 1, 285 }, { "card", 2, 285 }, { "reference", 0, 173 } }) do
            local recipe, rank, arrays = table.unpack(row)
            assert.equal(same:format(arrays), compare(tiny, bad.TINY, recipe, rank))
        end
    end)

    it("may be of weights in BF16 that the card quantises", function()
        local small = bad.dequantise(bad.small(), "")
        local folder = folder_of("bf16")
        bad.write(folder, small)
        assert.equal("64 arrays, 0 differ, 0 bytes more, 0 kernels unknown\n",
            compare(small, folder, "card", 1))
    end)

    it("of a tied head are rows of the embedding", function()
        local small = bad.small()
        small.config.text_config.tie_word_embeddings = nil
        small.config.tie_word_embeddings = true
        small.tensors["lm_head.weight"] = nil
        local folder = folder_of("tied")
        bad.write(folder, small)
        local keys = {}
        for _, row in ipairs(plan("--model " .. folder .. " --ranks 2 --rank 1").rows) do
            for _, place in ipairs(row.reads) do
                if row.step == "embed.mhc_expand" or row.step == "head./logits" then
                    keys[#keys + 1] = place.kind == "weights" and place.value or nil
                end
            end
        end
        assert.same({
            "plain bf16 model.language_model.embed_tokens.weight",
            "rows bf16 model.language_model.embed_tokens.weight[192:320]",
        }, keys)
    end)
end)

describe("a rank from the command line", function()
    local function refused(words, sentence)
        local out, errors, code = lathe(words, "LATHE_DEVICE=cpu")
        assert.equal(2, code, words .. ": " .. errors)
        assert.equal("", out)
        assert.equal("lathe: " .. sentence .. "\n", errors)
    end

    it("is refused in one sentence where there is none such", function()
        for _, command in ipairs({ "plan --dry", "run", "build --arch sm_90a" }) do
            local words = command .. " --model tests/tiny "
            refused(words .. "--ranks x", "--ranks: 'x' is not a number of 1 or more")
            refused(words .. "--ranks 0", "--ranks: '0' is not a number of 1 or more")
            refused(words .. "--ranks 3 --rank 3",
                "--rank: 3 is asked for, but the ranks are 0 to 2 (--ranks says how many)")
            refused(words .. "--rank 1",
                "--rank: 1 is asked for, but the rank is 0 (--ranks says how many)")
            refused(words .. "--ranks 5",
                "--ranks: 4 KDA heads cannot be split among 5 ranks (each needs one)")
        end
        refused("plan --check --model tests/tiny --ranks 2",
            "plan: --check knows no --ranks (it looks at the checkpoint alone)")
        refused("build w8a8_gemv --rank 1", "build: --rank is a word of --model")
    end)

    it("runs alone, says once that it does, and draws tokens of its own rows", function()
        local choices = cjson.decode((lathe("--json plan --model tests/tiny --ranks 3 --context 5",
            "LATHE_DEVICE=cpu"))).choices
        local note = "rank 2 of 3 alone: the partial sums of the ranks are not added up, so what "
            .. "comes out is not the model's\nchoices of all ranks " .. choices
            .. " (the same on each of them, or they do not belong together)\n"
        for _, draw in ipairs({ "", " --temperature 2" }) do
            local out, errors, code = lathe("run --model tests/tiny --ranks 3 --rank 2 --tokens "
                .. "-n 4 --prompt a" .. draw, "LATHE_DEVICE=cpu")
            assert.equal(0, code, errors)
            assert.equal(note, errors:sub(1, #note))
            assert.equal(nil, errors:find(note, #note, true))
            for id in out:gmatch("%d+") do
                assert.truthy(tonumber(id) >= 256 and tonumber(id) < 320, out)
            end
        end
    end)

    it("counts in eval the tokens that it has logits of", function()
        bad.save(SCRATCH .. "/ids", "1 130 2 131 3\n4 5\n")
        local words = "eval --model tests/tiny --ids " .. SCRATCH .. "/ids --ranks 3 --rank "
        for rank, count in pairs({ [0] = 3, [1] = 2 }) do
            local out, errors, code = lathe("--json " .. words .. rank, "LATHE_DEVICE=cpu")
            assert.equal(0, code, errors)
            local all = cjson.decode(out)
            assert.same({ count, rank, 3 }, { all.predictions, all.rank, all.ranks })
            assert.truthy(all.nats > 0 and all.nats < 100)
        end
        local _, errors, code = lathe(words .. 2, "LATHE_DEVICE=cpu")
        assert.equal(2, code)
        assert.truthy(errors:find("eval: no token of the text is one of rank 2, 256 to 319 "
            .. "(another --rank has some)", 1, true), errors)
    end)

    it("builds the kernels of its plan", function()
        local words = " --model tests/tiny --ranks 3 --rank 1"
        local out, _, code = lathe("build --json --arch sm_90a --mode decode" .. words,
            "LATHE_JIT=off")
        assert.equal(1, code)
        local names = {}
        for _, row in ipairs(cjson.decode(out).rows) do names[row.kernel] = true end
        for _, row in ipairs(plan(words).rows) do assert.truthy(names[row.kernel], row.kernel) end
    end)
end)
