-- A checkpoint: what its config needs, found in its files and checked before anything is uploaded.
-- The file decides what format a weight has; config.json is compared with it.
local claims = require("lua.model.claims")
local files = require("lua.model.files")
local lathe = require("lathe")
local part = require("lua.model.part")
local scales = require("lua.model.scales")
local tensors = require("lua.model.tensors")

local checkpoint = {}

local SCAN_BELOW <const> = 10 ^ 9  -- bytes: above, scales are read only when asked for

-- Weights of other tools, which hold the same things under other names.
local FOREIGN <const> = {
    { "%.weight_scale_inv$", "block-FP8" },
    { "%.weight_packed$", "compressed-tensors" },
    { "%.weight_global_scale$", "compressed-tensors" },
    { "%.qweight$", "GPTQ or AWQ" },
}

function checkpoint:fault(kind, text, ...)
    table.insert(self.faults, { kind = kind, text = text:format(...) })
end

function checkpoint:note(text, ...) table.insert(self.notes, text:format(...)) end

function checkpoint:free() if self.weights then self.weights:free() end end

-- The weights of an FFN share a launch: they have one format.
local function check_blocks(found)
    local blocks, order = {}, {}
    for _, each in ipairs(found.parts) do
        if each.rule == "ffn" and each.format then
            local key = ("layer %d, %s"):format(each.layer, each.site:match("^[^.]+"))
            if not blocks[key] then
                blocks[key] = { nvfp4 = {}, bf16 = {} }
                order[#order + 1] = key
            end
            table.insert(blocks[key][each.format], each.name)
        end
    end
    for _, key in ipairs(order) do
        local packed, plain = blocks[key].nvfp4, blocks[key].bf16
        if #packed > 0 and #plain > 0 then
            found:fault("format", "%s: %d weights are NVFP4 and %d are BF16, such as '%s' (one "
                .. "launch reads them: they need one format)", key, #packed, #plain,
                (#plain <= #packed and plain or packed)[1])
        end
    end
end

local function check_foreign(found)
    for _, row in ipairs(FOREIGN) do
        local count, first = 0, nil
        for _, tensor in ipairs(found.list) do
            if tensor.name:find(row[1]) then count, first = count + 1, first or tensor.name end
        end
        if count > 0 then
            return found:fault("format", "the weights are %s (%d tensors such as '%s'), which is "
                .. "not served (give a checkpoint in BF16, or in NVFP4 by ModelOpt as nvidia's)",
                row[2], count, first)
        end
    end
    return true
end

-- What of the model is in the files: { prefix, head, mtp } for tensors.parts.
local function choose(found)
    local prefix = tensors.PREFIXES[1]
    for _, each in ipairs(tensors.PREFIXES) do
        if found.by_name[each .. "embed_tokens.weight"] then prefix = each break end
    end
    local mtp, start = false, tensors.layer_prefix(prefix, found.config.layers)
    for _, tensor in ipairs(found.list) do
        mtp = mtp or tensor.name:sub(1, #start) == start
    end
    if found.config.mtp == 1 and not mtp then
        found:note("the MTP layer, %d, is not in this checkpoint: no drafts", found.config.layers)
    end
    found.mtp = found.config.mtp == 1 and mtp
    found.tied = found.config.tied and not found.by_name[tensors.HEAD]
    if found.tied then
        found:note("%s is not in this checkpoint: the embedding is the head", tensors.HEAD)
    end
    return { prefix = prefix, head = not found.tied, mtp = found.mtp }
end

-- found.model[site], found.layers[layer][site]; of experts: [site][expert].
function checkpoint.arrange(found)
    found.model, found.layers = {}, {}
    for _, each in ipairs(found.parts) do
        local place = found.model
        if each.layer then
            found.layers[each.layer] = found.layers[each.layer] or {}
            place = found.layers[each.layer]
        end
        if each.expert then
            place[each.site] = place[each.site] or {}
            place[each.site][each.expert] = each
        else
            place[each.site] = each
        end
    end
    if found.tied then found.model.head = tensors.tied_head(found.model.embed) end
end

-- "model.visual.*": what an unused tensor is listed under.
local function family_of(name)
    local family = name:match("^.-%.layers%.%d+%.") or name:match("^[^.]+%.[^.]+%.")
    return family and family .. "*" or name
end

local function gather_unused(found)
    local by_family = {}
    for _, tensor in ipairs(found.list) do
        if not tensor.used then
            local family = family_of(tensor.name)
            local row = by_family[family]
            if not row then
                row = { name = family, count = 0, bytes = 0, first = tensor.name }
                by_family[family] = row
                table.insert(found.unused, row)
            end
            row.count, row.bytes = row.count + 1, row.bytes + tensor.bytes
        end
    end
end

-- With a head and a config that says there is none: are both the same?
local function check_head(found)
    if not found.config.tied or found.tied then return end
    local embed = found.model.embed.name
    if not (found.by_name[embed] and found.by_name[tensors.HEAD]) then return end
    local how = "they were not compared"
    if found.scanned then
        how = found.weights:equal(embed, tensors.HEAD) and "they are equal" or "they differ"
    end
    found:note("tie_word_embeddings is true, but %s is there beside %s, and %s: the file's head is "
        .. "used", tensors.HEAD, embed, how)
end

local function check_tensors(found)
    found.parts = tensors.parts(found.config, choose(found))
    for _, each in ipairs(found.parts) do part.check(found, each) end
    if found.narrowed.count > 0 then
        found:note("%d tensors that are F32 in the model are BF16 in the file, such as '%s': they "
            .. "are widened", found.narrowed.count, found.narrowed.first)
    end
    check_blocks(found)
    claims.compare(found)
    checkpoint.arrange(found)
    gather_unused(found)
end

-- A folder's checkpoint: freed by <close>. nil and a sentence where there is no such folder.
--   faults: { kind, text }; notes: sentences; with a fault in the files there is no more than that
--   config, files, bytes, parts (tensors.lua, with format, bytes, scales), model, layers, mtp, tied
--   unused: { name, count, bytes, first }; scanned: were values read?
-- scan: true reads the scales' values in any case, nil where the checkpoint is small, false never.
function checkpoint.open(folder, scan)
    local found = setmetatable({
        folder = folder, faults = {}, notes = {}, unused = {}, narrowed = { count = 0 },
    }, { __index = checkpoint, __close = checkpoint.free })
    local present, why = lathe.safetensors(folder)
    if not present then return nil, why end
    found.config = files.config(found)
    if not found.config or not files.map(found, present) then return found end
    if not check_foreign(found) then return found end
    found.scanned = scan
    if scan == nil then found.scanned = found.bytes < SCAN_BELOW end
    check_tensors(found)
    check_head(found)
    if found.scanned then
        scales.check(found)
    else
        found:note("the scales' values were not looked at: %d bytes is much to read (--scan does)",
            found.bytes)
    end
    return found
end

return checkpoint
