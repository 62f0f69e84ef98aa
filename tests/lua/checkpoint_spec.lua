-- Checkpoints from the outside: `lathe plan --model DIR --check` on the tiny model and on small
-- checkpoints, each with one fault, which must be told in its words and with nothing beside it.
local bad = require("tests.lua.bad_checkpoint")
local cjson = require("cjson")
local claims = require("lua.model.claims")

local SCRATCH <const> = assert(io.popen("mktemp -d")):read("l")
local SMALL <const> = bad.small()
local P <const> = bad.PREFIX
local EXPERT <const> = P .. "layers.1.mlp.experts.3."
local INDEX <const> = "model.safetensors.index.json"

local function read(path)
    local file <close> = assert(io.open(path, "rb"))
    return file:read("a")
end

-- Output, the lines of stderr, exit code.
local function plan(folder, words)
    local errors = SCRATCH .. "/stderr"
    local pipe = assert(io.popen(("env LATHE_DEVICE=cpu ./lathe plan --model %s --check %s 2>%s")
        :format(folder, words or "", errors)))
    local out, lines = pipe:read("a"), {}
    local _, _, code = pipe:close()
    for line in read(errors):gmatch("[^\n]+") do lines[#lines + 1] = line end
    return out, lines, code or 0
end

local function new_folder()
    os.execute(("rm -rf %s/model && mkdir %s/model"):format(SCRATCH, SCRATCH))
    return SCRATCH .. "/model"
end

local function has_part(lines, part)
    for _, line in ipairs(lines) do
        if line:find(part, 1, true) then return true end
    end
    return false
end

-- The folder is refused with these sentences, and no others.
local function refused(folder, sentences)
    local out, lines, code = plan(folder)
    local said = table.concat(lines, "\n")
    assert.equal(1, code, said)
    assert.falsy(out:find("no fault", 1, true))
    for _, sentence in ipairs(sentences) do
        assert.truthy(has_part(lines, sentence), ("'%s' does not say '%s'"):format(said, sentence))
    end
    assert.equal(#sentences, #lines, said)
    for _, line in ipairs(lines) do assert.truthy(line:match("^lathe: .+[^.]$"), line) end
end

-- It passes, and its output says these things.
local function passes(folder, parts)
    local out, lines, code = plan(folder)
    assert.equal(0, code, table.concat(lines, "\n"))
    assert.equal(0, #lines)
    for _, part in ipairs(parts or {}) do
        assert.truthy(out:find(part, 1, true), ("'%s' does not say '%s'"):format(out, part))
    end
    return out
end

local function changed(edit)
    local model, folder = bad.copy(SMALL), new_folder()
    edit(model.tensors, model.config)
    bad.write(folder, model)
    return folder
end

local function f32(x) return string.pack("<f", x) end
local function zeros(dtype, shape, bytes)
    return { dtype = dtype, shape = shape, data = ("\0"):rep(bytes) }
end

teardown(function() os.execute("rm -rf " .. SCRATCH) end)

describe("the tiny checkpoint", function()
    it("is whole, with the counts that its description has", function()
        local out, lines, code = plan(bad.TINY, "--json")
        assert.equal(0, code)
        assert.equal(0, #lines)
        local got = cjson.decode(out)
        assert.equal(1649, got.tensors)
        assert.equal(0, got.unused_tensors)
        assert.equal(13013432, got.bytes)
        assert.equal(0, #got.faults)
        assert.is_true(got.scanned)
        local counts, sum, bytes = {}, 0, 0
        for _, row in ipairs(got.rows) do
            counts[row.class .. " " .. row.format] = row.count
            sum = sum + row.count * (row.format == "nvfp4" and 4 or 1)
            bytes = bytes + row.bytes
        end
        assert.equal(1649, sum)
        assert.equal(13013432, bytes)
        local want = {
            ["experts gate, up nvfp4"] = 224, ["experts down nvfp4"] = 112,
            ["dense gate, up nvfp4"] = 2, ["dense down nvfp4"] = 1, ["shared down bf16"] = 7,
            ["mhc base, scale f32"] = 32, ["mhc fn bf16"] = 16, ["kda q, k, v bf16"] = 18,
            ["kda decay f32"] = 12, ["router f32"] = 7, ["indexer bf16"] = 14,
            ["mtp experts gate, up bf16"] = 32, ["mtp eh_proj bf16"] = 1, ["norms bf16"] = 27,
        }
        for key, count in pairs(want) do assert.equal(count, counts[key], key) end
    end)

    it("prints a table for a person", function()
        passes(bad.TINY, { "8 layers (6 KDA, 2 DSA; 1 dense, 7 MoE of 16 experts) and an MTP layer",
            "experts gate, up      nvfp4     224  2066176",
            "1649 tensors in 1 file, 13013432 bytes; 0 unused", "no fault" })
    end)
end)

describe("a checkpoint that differs without a fault", function()
    it("passes when it is a reduced copy", function()
        passes(changed(function() end), { "2 layers (1 KDA, 1 DSA; 1 dense, 1 MoE of 4 experts)" })
    end)

    it("may have more tensors, which are listed as unused", function()
        passes(changed(function(tensors)
            tensors["model.visual.blocks.0.weight"] = zeros("BF16", { 8, 4 }, 64)
            tensors["model.visual.blocks.1.weight"] = zeros("F16", { 0, 4 }, 0)
            tensors[P .. "layers.0.self_attn.k_scale"] = zeros("F32", {}, 4)
        end), { "3 unused", "unused: model.visual.* (2 tensors, 64 bytes)",
            "unused: model.language_model.layers.0.* (1 tensors, 4 bytes)" })
    end)

    it("may have dimensions of 1 where they say nothing, and wider small tensors", function()
        passes(changed(function(tensors)
            tensors[P .. "layers.0.self_attn.A_log"].shape = { 1, 1, 4, 1 }
            tensors[P .. "layers.0.self_attn.q_conv1d.weight"].shape = { 256, 4 }
            tensors[P .. "layers.0.self_attn.k_conv1d.weight"] = zeros("F32", { 256, 1, 4 }, 4096)
        end), { "kda conv              f32" })
    end)

    it("may have narrowed what the model keeps in F32, and that is said", function()
        passes(changed(function(tensors)
            tensors[P .. "layers.0.hc_attn_base"] = zeros("BF16", { 24 }, 48)
        end), { "note: 1 tensors that are F32 in the model are BF16 in the file, such as '" .. P
            .. "layers.0.hc_attn_base'" })
    end)

    it("may name its tensors without the vision model's prefix, and its config may be flat",
        function()
            passes(changed(function(tensors, config)
                for name, tensor in pairs(bad.copy(SMALL).tensors) do
                    tensors[name] = nil
                    tensors[name:gsub("language_model%.", "")] = tensor
                end
                for key, value in pairs(config.text_config) do config[key] = value end
                config.text_config = nil
            end), { " 0 unused" })
        end)

    it("may begin its data at any address", function()
        local whole = passes(changed(function() end))
        for pad = 1, 7 do
            local folder = new_folder()
            bad.write_config(folder, SMALL)
            bad.write_file(folder .. "/model.safetensors", SMALL.tensors, nil, pad)
            assert.equal(whole, passes(folder))
        end
    end)

    it("may have gate and up with different scales: the larger input scale is used", function()
        local least = string.unpack("<f", SMALL.tensors[EXPERT .. "up_proj.input_scale"].data)
        passes(changed(function(tensors)
            tensors[EXPERT .. "gate_proj.input_scale"].data = f32(0.0625)
            tensors[EXPERT .. "gate_proj.weight_scale_2"].data = f32(0.5)
        end), { ("note: L01.experts.gate_up: the input_scale of its 8 weights runs from %.9g to "
            .. "0.0625: the largest is used"):format(least) })
        local whole = passes(changed(function(tensors)
            tensors[EXPERT .. "gate_proj.weight_scale_2"].data = f32(0.5)
        end))
        assert.falsy(whole:find("note:", 1, true), whole)
    end)

    it("may have no MTP layer, and that is said", function()
        local function without(tensors)
            for name in pairs(SMALL.tensors) do
                if name:find("layers.2.", 1, true) then tensors[name] = nil end
            end
        end
        passes(changed(without), { "note: the MTP layer, 2, is not in this checkpoint: no drafts" })
        local out = passes(changed(function(tensors, config)
            without(tensors)
            config.text_config.num_nextn_predict_layers = 0
        end))
        assert.falsy(out:find("MTP", 1, true), out)
    end)

    it("may have an MTP layer that its config does not name: it is unused", function()
        passes(changed(function(_, config) config.text_config.num_nextn_predict_layers = 0 end),
            { "unused: model.language_model.layers.2.* (" })
    end)
end)

describe("the head", function()
    local HEAD <const> = "lm_head.weight"
    local function with(has_head, tied)
        return changed(function(tensors, config)
            if not has_head then tensors[HEAD] = nil end
            config.tie_word_embeddings, config.text_config.tie_word_embeddings = tied, nil
        end)
    end

    it("is the file's where it has one", function()
        local out = passes(with(true, false))
        assert.falsy(out:find("note:", 1, true), out)
    end)
    it("is the embedding where the config says so and the file has none", function()
        local out = passes(with(false, true),
            { "note: lm_head.weight is not in this checkpoint: the embedding is the head" })
        assert.falsy(out:find("\nhead ", 1, true), out)
    end)
    it("is missing where the config does not say so", function()
        refused(with(false, false), { "tensor 'lm_head.weight': is not in this checkpoint" })
    end)
    it("is the file's against the config, and that is said", function()
        passes(with(true, true), { "lm_head.weight is there beside " .. P .. "embed_tokens.weight, "
            .. "and they differ: the file's head is used" })
        passes(changed(function(tensors, config)
            tensors[HEAD].data = tensors[P .. "embed_tokens.weight"].data
            config.tie_word_embeddings = true
        end), { "and they are equal: the file's head is used" })
    end)
end)

-- ---- one fault each ----

local function drop(name) return function(tensors) tensors[name] = nil end end
local function set_data(name, data) return function(tensors) tensors[name].data = data end end
local function set(name, tensor) return function(tensors) tensors[name] = tensor end end

local Q <const> = P .. "layers.0.self_attn.q_proj.weight"
local GATE <const> = EXPERT .. "gate_proj."
local QUADRUPLE <const> = "(an NVFP4 weight needs weight_scale, weight_scale_2 and input_scale)"
local LEAST <const> = "(a finite number of at least 1.17549e-38 is needed)"

local FAULTS <const> = {
    { "a missing tensor", drop(Q), "tensor '" .. Q .. "': is not in this checkpoint" },
    { "a missing tensor of the MTP layer", drop(P .. "layers.2.eh_proj.weight"),
        "tensor '" .. P .. "layers.2.eh_proj.weight': is not in this checkpoint" },
    { "a missing expert", drop(P .. "layers.2.mlp.experts.2.up_proj.weight"),
        "tensor '" .. P .. "layers.2.mlp.experts.2.up_proj.weight': is not in this checkpoint" },
    { "a wrong dtype", set(Q, zeros("F16", { 256, 256 }, 131072)),
        "tensor '" .. Q .. "': is F16 [256,256] (BF16 [256,256] is needed)" },
    { "a wider matrix", set(Q, zeros("F32", { 256, 256 }, 262144)), "is F32 [256,256] (BF16" },
    { "a wrong shape", set(Q, zeros("BF16", { 256, 128 }, 65536)),
        "tensor '" .. Q .. "': is BF16 [256,128] (BF16 [256,256] is needed)" },
    { "a wrong order of dimensions",
        function(tensors)
            tensors[P .. "layers.0.self_attn.f_a_proj.weight"].shape = { 256, 64 }
        end,
        "f_a_proj.weight': is BF16 [256,64] (BF16 [64,256] is needed)" },
    { "one dimension for two", function(tensors) tensors[Q].shape = { 65536 } end,
        "is BF16 [65536] (BF16 [256,256] is needed)" },
    -- NVFP4
    { "a missing weight_scale", drop(GATE .. "weight_scale"),
        "tensor '" .. GATE .. "weight_scale': is not in this checkpoint " .. QUADRUPLE },
    { "a missing weight_scale_2", drop(GATE .. "weight_scale_2"),
        "tensor '" .. GATE .. "weight_scale_2': is not in this checkpoint " .. QUADRUPLE },
    { "a missing input_scale", drop(GATE .. "input_scale"),
        "tensor '" .. GATE .. "input_scale': is not in this checkpoint " .. QUADRUPLE },
    { "a missing packed weight", drop(GATE .. "weight"),
        "tensor '" .. GATE .. "weight': is not in this checkpoint" },
    { "an input_scale of one dimension",
        function(tensors) tensors[GATE .. "input_scale"].shape = { 1 } end,
        "tensor '" .. GATE .. "input_scale': is F32 [1] (F32 [] is needed)" },
    { "an input_scale in BF16", set(GATE .. "input_scale", zeros("BF16", {}, 2)),
        "tensor '" .. GATE .. "input_scale': is BF16 [] (F32 [] is needed)" },
    { "scales in another format", set(GATE .. "weight_scale", zeros("U8", { 64, 16 }, 1024)),
        "tensor '" .. GATE .. "weight_scale': is U8 [64,16] (F8_E4M3 [64,16] is needed)" },
    { "scales for groups of 32", set(GATE .. "weight_scale", zeros("F8_E4M3", { 64, 8 }, 512)),
        "is F8_E4M3 [64,8] (F8_E4M3 [64,16] is needed)" },
    { "a packed weight of another shape", set(GATE .. "weight", zeros("U8", { 64, 256 }, 16384)),
        "tensor '" .. GATE .. "weight': is U8 [64,256] (U8 [64,128] is needed)" },
    { "BF16 that has scales", set(GATE .. "weight", zeros("BF16", { 64, 256 }, 32768)),
        "tensor '" .. GATE .. "weight': is BF16, but its weight_scale is there" },
    { "an attention in NVFP4", function(tensors)
        tensors[Q] = zeros("U8", { 256, 128 }, 32768)
        tensors[Q .. "_scale"] = zeros("F8_E4M3", { 256, 16 }, 4096)
    end, "is U8 [256,128] (BF16 [256,256] is needed; only the FFNs' weights may be NVFP4)" },
    { "one expert in BF16 among others in NVFP4",
        function(tensors) bad.dequantise({ tensors = tensors }, "%.3%.up_proj") end,
        "layer 1, experts: 11 weights are NVFP4 and 1 are BF16, such as '" .. EXPERT
            .. "up_proj.weight' (one launch reads them: they need one format)" },
    { "half of a dense FFN in BF16",
        function(tensors) bad.dequantise({ tensors = tensors }, "layers%.0%.mlp%.gate") end,
        "layer 0, mlp: 2 weights are NVFP4 and 1 are BF16" },
    -- values
    { "an input_scale of 0", set_data(GATE .. "input_scale", f32(0.0)),
        "tensor '" .. GATE .. "input_scale': is 0 " .. LEAST },
    { "an input_scale of -1", set_data(GATE .. "input_scale", f32(-1.0)), "is -1 " .. LEAST },
    { "an input_scale that is NaN", set_data(GATE .. "input_scale", f32(0 / 0)), "nan " .. LEAST },
    { "an infinite input_scale", set_data(GATE .. "input_scale", f32(math.huge)),
        "is inf " .. LEAST },
    { "an input_scale of 1e-40", set_data(GATE .. "input_scale", f32(1e-40)), "e-41 " .. LEAST },
    { "a weight_scale_2 of 0", set_data(GATE .. "weight_scale_2", f32(0.0)),
        "tensor '" .. GATE .. "weight_scale_2': is 0 " .. LEAST },
    { "NaN among the scales", function(tensors)
        local scale = tensors[GATE .. "weight_scale"]
        scale.data = scale.data:sub(1, 37) .. "\x7f" .. scale.data:sub(39, -2) .. "\xff"
    end, "tensor '" .. GATE .. "weight_scale': 2 of its scales are NaN, the first in row 2, "
        .. "group 5" },
    { "a negative scale", function(tensors)
        local scale = tensors[EXPERT .. "down_proj.weight_scale"]
        scale.data = "\x38\x38\x80" .. scale.data:sub(4)
    end, "down_proj.weight_scale': 1 of its scales are negative, the first in row 0, group 2" },
    -- other tools
    { "block-FP8", set(Q .. "_scale_inv", zeros("F32", { 2, 2 }, 16)),
        "the weights are block-FP8 (1 tensors such as '" .. Q .. "_scale_inv'), which is not "
            .. "served (give a checkpoint in BF16, or in NVFP4 by ModelOpt as nvidia's)" },
    { "compressed-tensors", set(GATE .. "weight_global_scale", zeros("F32", { 1 }, 4)),
        "the weights are compressed-tensors (1 tensors such as '" .. GATE
            .. "weight_global_scale')" },
    -- config against file
    { "a config with another FFN", function(_, config)
        config.text_config.mlp_layer_types, config.text_config.first_k_dense_replace = nil, 2
        config.text_config.intermediate_size = 64
    end, "layers.1.mlp.gate_proj.weight': is not in this checkpoint",
        "layers.1.mlp.up_proj.weight': is not in this checkpoint",
        "layers.1.mlp.down_proj.weight': is not in this checkpoint",
        "layers.0.mlp.gate_proj.weight': is U8 [768,128] (U8 [64,128] is needed)",
        "layers.0.mlp.up_proj.weight': is U8 [768,128] (U8 [64,128] is needed)",
        "layers.0.mlp.down_proj.weight': is U8 [256,384] (U8 [256,32] is needed)" },
    { "an unknown model", function(_, config) config.model_type = "glm4_moe" end,
        "config.json: model_type is \"glm4_moe\" (only glm5_next is served)" },
}

describe("a checkpoint is refused for", function()
    for _, case in ipairs(FAULTS) do
        it(case[1], function() refused(changed(case[2]), { table.unpack(case, 3) }) end)
    end

    it("more faults than a screen has room for, which --json has all", function()
        local folder = changed(function(tensors)
            for name in pairs(SMALL.tensors) do
                if name:find("layers.1.", 1, true) then tensors[name] = nil end
            end
        end)
        local _, lines, code = plan(folder)
        assert.equal(1, code)
        assert.equal(21, #lines)
        assert.equal("lathe: 19 more (missing): --json lists them", lines[21])
        assert.equal(39, #cjson.decode((plan(folder, "--json"))).faults)
    end)
end)

describe("what config.json claims about formats", function()
    it("gives way to the file, and that is said", function()
        local folder = changed(function(tensors)
            bad.dequantise({ tensors = tensors }, "layers%.1%.mlp%.experts")
        end)
        passes(folder, { "experts gate, up      bf16", "note: config.json says that 12 weights "
            .. "are NVFP4 which are BF16, such as '" .. EXPERT:gsub("3%.$", "0.")
            .. "gate_proj.weight': the file decides" })
        passes(changed(function(_, config)
            table.insert(config.quantization_config.ignore, "model.language_model.layers.1.mlp*")
        end), { "note: config.json does not say that 12 weights are NVFP4, such as '"
            .. EXPERT:gsub("3%.$", "0.") .. "gate_proj.weight': the file decides" })
        passes(changed(function(_, config) config.quantization_config = nil end),
            { "note: config.json does not say that 15 weights are NVFP4" })
    end)

    -- How many of the layers' FFNs in NVFP4 the claim does not cover.
    local function uncovered(ignore, exclude)
        local found = { notes = {}, parts = {}, config = {
            quantization = { quant_algo = "NVFP4", ignore = ignore, exclude_modules = exclude } } }
        function found:note(text, ...) table.insert(self.notes, text:format(...)) end
        for layer = 0, 11 do
            found.parts[layer + 1] = { format = "nvfp4", shape = { 2, 2 }, site = "mlp.up",
                name = ("model.language_model.layers.%d.mlp.up_proj.weight"):format(layer) }
        end
        claims.compare(found)
        return found.notes[1] and tonumber(found.notes[1]:match("that (%d+) weights")) or 0
    end

    it("is read as whole names of modules, in every spelling", function()
        assert.equal(0, uncovered({}))
        assert.equal(0, uncovered({ "lm_head", "model.language_model.layers.1.mlp.up" }))
        for _, name in ipairs({ "model.layers.1", "model.language_model.layers.1", "layers.1",
            "language_model.layers.1", "model.layers.1.*", "model.layers.1.mlp.up_proj" }) do
            assert.equal(1, uncovered({ name }), name)
        end
        assert.equal(3, uncovered({ "model.layers.1*" }))
        assert.equal(12, uncovered({ "*mlp*" }))
        assert.equal(10, uncovered({ "model.layers.?" }))
        assert.equal(1, uncovered(nil, { "model.layers.4" }))
        assert.equal(0, uncovered({ "re:.*" }))  -- another tool's words: no claim
    end)
end)

-- ---- files ----

local function sharded(model, count)
    local folder = new_folder()
    return folder, bad.write_shards(folder, model or SMALL, count or 3)
end

local function rewrite(path, edit) bad.save(path, edit(read(path))) end

describe("shards", function()
    it("make one checkpoint", function()
        local folder = sharded()
        passes(folder, { "tensors in 3 files", " 0 unused" })
    end)

    it("hold the model in BF16, too", function()
        local model = bad.dequantise(bad.copy(SMALL), ".")
        model.config.quantization_config = nil
        local out = passes(sharded(model), { "experts gate, up      bf16", "tensors in 3 files" })
        assert.falsy(out:find("nvfp4", 1, true))
        assert.falsy(out:find("note:", 1, true))
    end)

    it("are refused when one is missing", function()
        local folder = sharded()
        os.remove(folder .. "/" .. bad.shard_name(3, 3))
        refused(folder, { "model-00003-of-00003.safetensors: the shard is missing, " .. INDEX
            .. " puts " })
    end)

    it("are refused when one is cut off", function()
        local folder = sharded()
        rewrite(folder .. "/" .. bad.shard_name(2, 3), function(text) return text:sub(1, -2) end)
        refused(folder, { "model-00002-of-00003.safetensors: tensor '" })
        refused(folder, { "(the file is incomplete)" })
    end)

    it("are refused when one lacks what the index puts there", function()
        local folder, map = sharded()
        map["model.visual.lost"] = bad.shard_name(1, 3)
        bad.write_index(folder, map)
        refused(folder, { "tensor 'model.visual.lost': the index puts it in "
            .. "model-00001-of-00003.safetensors, which does not have it" })
        local model = bad.copy(SMALL)
        model.tensors[Q] = nil
        map["model.visual.lost"] = nil
        folder = new_folder()
        bad.write_shards(folder, model, 3)
        bad.write_index(folder, map)
        local _, lines, code = plan(folder)
        assert.equal(1, code)
        assert.truthy(has_part(lines, "tensor '" .. Q .. "': the index puts it in "))
        assert.falsy(has_part(lines, "is not in this checkpoint"))
    end)

    it("are refused when a tensor is in another one than the index says", function()
        local folder, map = sharded()
        map["lm_head.weight"] = bad.shard_name(2, 3)
        bad.write_index(folder, map)
        refused(folder, { "tensor 'lm_head.weight': the index puts it in model-00002-of-00003."
            .. "safetensors, but it is in model-00001-of-00003.safetensors" })
    end)

    it("are refused when two have the same tensor", function()
        local folder = sharded()
        local shard = folder .. "/" .. bad.shard_name(3, 3)
        local names = { "lm_head.weight", P .. "norm.weight" }
        bad.write_file(shard, SMALL.tensors, names)
        refused(folder, { "model-00003-of-00003.safetensors: tensor 'lm_head.weight' is in " })
    end)

    it("may have tensors and neighbours that the index does not list, and that is said", function()
        local folder, map = sharded()
        map["lm_head.weight"] = nil
        bad.write_index(folder, map)
        bad.write_file(folder .. "/mtp.safetensors", { x = zeros("U8", { 1 }, 1) })
        passes(folder, { "note: 1 tensors are not in " .. INDEX .. ", such as 'lm_head.weight'",
            "note: mtp.safetensors is not in " .. INDEX .. ": it is not read" })
    end)

    it("need an index", function()
        local folder = sharded()
        os.remove(folder .. "/" .. INDEX)
        refused(folder, { "has 3 safetensors files, but neither model.safetensors nor " .. INDEX })
    end)

    it("and a whole file beside them are ambiguous", function()
        local folder = sharded()
        bad.write(folder, SMALL)
        refused(folder, { INDEX .. ": there is a model.safetensors too, which it does not name" })
    end)

    it("are refused when the index names a file elsewhere", function()
        local folder, map = sharded()
        for _, name in ipairs({ "../model/" .. bad.shard_name(1, 3), "/x.safetensors",
            "..safetensors", "x.bin", ".safetensors", "a\\b.safetensors" }) do
            map["lm_head.weight"] = name
            bad.write_index(folder, map)
            refused(folder, { INDEX .. ": puts 'lm_head.weight' in \"" .. name
                .. "\", which is no safetensors file of this folder" })
        end
        map["lm_head.weight"], map["a\0b"] = nil, "a\0.safetensors"
        bad.write_index(folder, map)
        refused(folder, { INDEX .. ": puts 'a?b' in \"a?.safetensors\", which is no" })
        map["lm_head.weight"], map["a\0b"] = 3, nil
        bad.write_index(folder, map)
        refused(folder, { INDEX .. ": puts 'lm_head.weight' in 3, which is no" })
    end)

    it("are refused when the index cannot be read", function()
        local folder = sharded()
        bad.save(folder .. "/" .. INDEX, "{")
        refused(folder, { INDEX .. ": is no JSON: " })
        bad.save(folder .. "/" .. INDEX, "[]")
        refused(folder, { INDEX .. ": has no weight_map" })
    end)
end)

describe("a file", function()
    local FILE <const> = "/model.safetensors"
    local function broken(edit)
        local folder = changed(function() end)
        rewrite(folder .. FILE, edit)
        return folder
    end

    it("that lost its last byte is refused", function()
        refused(broken(function(text) return text:sub(1, -2) end), { "(the file is incomplete)" })
    end)
    it("with a byte too many is refused", function()
        refused(broken(function(text) return text .. "\0" end),
            { "1 bytes at its end belong to no tensor" })
    end)
    it("whose tensors overlap is refused", function()
        refused(broken(function(text)
            local size = string.unpack("<I8", text)
            local header = text:sub(9, 8 + size):gsub('"data_offsets":%[([1-9]%d*),(%d+)%]',
                function(from, to)
                    return ('"data_offsets":[%d,%d]'):format(from - 2, to - 2)
                end, 1)
            return string.pack("<I8", #header) .. header .. text:sub(9 + size)
        end), { "shares bytes with" })
    end)
    it("with the same name twice is refused", function()
        refused(broken(function(text)
            return (text:gsub("k_proj%.weight", "q_proj.weight", 1))
        end), { "is there twice" })
    end)
    it("that is empty is refused", function()
        refused(broken(function() return "" end), { "has 0 bytes, a header needs 8 or more" })
    end)
    it("that is not there is missed", function()
        local folder = new_folder()
        bad.write_config(folder, SMALL)
        refused(folder, { "has 0 safetensors files, but neither" })
        os.remove(folder .. "/config.json")
        refused(folder, { "model/config.json: is not there" })
    end)
    it("in a folder that is not there is a wrong command line", function()
        local out, lines, code = plan(SCRATCH .. "/nowhere")
        assert.equal(2, code)
        assert.equal("", out)
        assert.truthy(has_part(lines, "plan: --model: "))
    end)
end)
