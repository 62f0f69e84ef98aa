-- The files of a checkpoint's folder: config.json, the index, the shards; mapped into one table of
-- tensors. What is wrong with them goes to found:fault, what is merely odd to found:note.
local config = require("lua.model.config")
local fields = require("lua.model.fields")
local lathe = require("lathe")

local files = {}

local CONFIG <const> = "config.json"
local SINGLE <const> = "model.safetensors"
local INDEX <const> = "model.safetensors.index.json"
local MOST <const> = 1 << 28  -- bytes of a JSON file; the full model's index has 15 MB

-- The text of a file; nil where there is none, nil and a sentence where it cannot be read.
local function read(path)
    local file <close> = io.open(path, "rb")
    if not file then return nil end
    local _, why = file:read(1)  -- a folder has no first byte, and a size that means nothing
    local bytes = file:seek("end")
    if why or not bytes then return nil, "cannot be read" end
    if bytes > MOST then return nil, ("has more than %d bytes"):format(MOST) end
    file:seek("set")
    local text = file:read("a")
    if not text then return nil, "cannot be read" end
    return text
end

-- The config, or nil and a fault.
function files.config(found)
    local text, why = read(found.folder .. "/" .. CONFIG)
    if not text then
        return found:fault("config", "%s/%s: %s", found.folder, CONFIG, why or "is not there")
    end
    local c, sentences = config.read(text)
    for _, sentence in ipairs(sentences or {}) do found:fault("config", "%s", sentence) end
    for _, sentence in ipairs(c and c.notes or {}) do found:note("%s", sentence) end
    return c
end

-- A name that stays in the folder.
local function is_shard(name)
    return type(name) == "string" and name:match("^[^./\\][^/\\%c]*%.safetensors$") ~= nil
end

local function sorted_keys(map)
    local keys = {}
    for key in pairs(map) do keys[#keys + 1] = key end
    table.sort(keys)
    return keys
end

-- The index's map from tensor to file, or nil and a fault; nil alone where there is no index.
local function read_index(found)
    local text, why = read(found.folder .. "/" .. INDEX)
    if not text and not why then return nil end
    local index
    if text then index, why = fields.decode(text) end
    local map = index and index.weight_map
    if not why and type(map) ~= "table" then why = "has no weight_map" end
    if why then return found:fault("index", "%s: %s", INDEX, why) end
    for _, name in ipairs(sorted_keys(map)) do
        if not is_shard(map[name]) then
            return found:fault("index", "%s: puts '%s' in %s, which is no safetensors file of "
                .. "this folder", INDEX, fields.printable(name), fields.shown(map[name]))
        end
    end
    return map
end

-- How many tensors the index puts into each file.
local function count_files(map)
    local counts = {}
    for _, file in pairs(map) do counts[file] = (counts[file] or 0) + 1 end
    return counts
end

-- Notes the files that nothing names.
local function note_others(found, present, counts)
    for _, name in ipairs(present) do
        if not counts[name] then
            local why = found.index and "is not in " .. INDEX or "lies beside " .. SINGLE
            found:note("%s %s: it is not read", name, why)
        end
    end
end

-- The names of the files to map, or nil and a fault.
local function names_of(found, present)
    local has = {}
    for _, name in ipairs(present) do has[name] = true end
    local counts = found.index and count_files(found.index) or { [SINGLE] = 1 }
    if found.index and has[SINGLE] and not counts[SINGLE] then
        return found:fault("index", "%s: there is a %s too, which it does not name (remove one of "
            .. "them)", INDEX, SINGLE)
    end
    if not found.index and not has[SINGLE] then
        return found:fault("file", "%s: has %d safetensors files, but neither %s nor %s",
            found.folder, #present, SINGLE, INDEX)
    end
    local names, whole = sorted_keys(counts), true
    for _, name in ipairs(names) do
        if not has[name] then
            whole = false
            found:fault("file", "%s: the shard is missing, %s puts %d tensors in it (is the "
                .. "download complete?)", name, INDEX, counts[name])
        end
    end
    note_others(found, present, counts)
    return whole and names
end

-- Does each tensor lie where the index says?
local function compare_index(found)
    local unlisted, first = 0, nil
    for _, name in ipairs(sorted_keys(found.index)) do
        local file, tensor = found.index[name], found.by_name[name]
        if not tensor then
            found:fault("index", "tensor '%s': the index puts it in %s, which does not have it "
                .. "(that is not the shard that the index describes)", fields.printable(name), file)
        elseif found.files[tensor.file] ~= file then
            found:fault("index", "tensor '%s': the index puts it in %s, but it is in %s", name,
                file, found.files[tensor.file])
        end
    end
    for _, tensor in ipairs(found.list) do
        if not found.index[tensor.name] then
            unlisted, first = unlisted + 1, first or tensor.name
        end
    end
    if unlisted > 0 then
        found:note("%d tensors are not in %s, such as '%s': they are taken as they are", unlisted,
            INDEX, first)
    end
end

-- Maps every file: found.weights, files, list, by_name, bytes. Nil where one cannot be used.
-- present: the names of the folder's safetensors files.
function files.map(found, present)
    local before = #found.faults
    found.index = read_index(found)
    if #found.faults > before then return nil end
    local names = names_of(found, present)
    if not names then return nil end
    found.weights = assert(lathe.weights())
    for _, name in ipairs(names) do
        local added, why = found.weights:add(found.folder .. "/" .. name)
        if not added then found:fault("file", "%s", why) end
    end
    if #found.faults > before then return nil end
    found.files, found.list, found.by_name, found.bytes = names, found.weights:list(), {}, 0
    for _, tensor in ipairs(found.list) do
        found.by_name[tensor.name] = tensor
        found.bytes = found.bytes + tensor.bytes
    end
    if found.index then compare_index(found) end
    return true
end

return files
