-- Tensor parallelism: which part of a model is a rank's. Heads, FFN widths and the head's rows are
-- counted in units, which the ranks get in order, the first ones one more where it does not come
-- out even; nothing is padded. All else every rank has whole.
local split = {}

local GROUP <const> = 16  -- columns that share an NVFP4 scale: none is cut, no unit is smaller

-- What is split: its name in a config, its unit, which layers have it, what it is called.
local DIMENSIONS <const> = {
    { "kda_heads",    1,   "kda",   "KDA heads" },
    { "mla_heads",    1,   "dsa",   "MLA heads" },
    { "dense_width",  8,   "dense", "columns of a dense FFN" },
    { "expert_width", 64,  "moe",   "columns of an expert" },
    { "shared_width", 128, "moe",   "columns of the shared expert" },
    { "head_rows",    64,  nil,     "rows of the head" },
}

-- Words of tensors.lua's shapes that count something of each head.
local OF_HEADS <const> = {
    { "kda", "kda_heads", function(c) return c.kda_dim end },
    { "q",   "mla_heads", function(c) return c.qk_dim end },
    { "kv",  "mla_heads", function(c) return c.qk_dim + c.v_dim end },
    { "v",   "mla_heads", function(c) return c.v_dim end },
}

-- Words that are columns of some tensor, and what they are called there.
local COLUMNS <const> = {
    { "kda", "KDA's o" }, { "v", "DSA's o" }, { "dense_width", "a dense FFN's down" },
    { "expert_width", "an expert's down" }, { "shared_width", "the shared expert's down" },
}

local function has_layers(c, kind)
    if not kind then return true end
    for i = 1, c.layers do
        if c.kinds[i] == kind or c.ffns[i] == kind then return true end
    end
    return false
end

-- A unit that leaves no rank without one; small widths have smaller units.
local function unit_for(total, unit, ranks)
    while unit > GROUP and (total % unit ~= 0 or total // unit < ranks) do unit = unit // 2 end
    return unit
end

-- What a rank has of `total`: from, to (not with it).
local function range_of(total, unit, ranks, rank)
    local base, more = total // unit // ranks, total // unit % ranks
    local from = rank * base + math.min(rank, more)
    return { from = from * unit, to = (from + base + (rank < more and 1 or 0)) * unit }
end

-- The ranges of one rank by word of tensors.lua's shapes; nil and a sentence.
local function ranges_of(c, ranks, rank)
    local ranges = {}
    for _, row in ipairs(DIMENSIONS) do
        local word, unit, kind, name = table.unpack(row)
        if has_layers(c, kind) then
            unit = unit_for(c[word], unit, ranks)
            if c[word] % unit ~= 0 or c[word] // unit < ranks then
                return nil, ("%d %s cannot be split among %d ranks (each needs %s)"):format(
                    c[word], name, ranks, unit == 1 and "one" or "a multiple of " .. unit)
            end
            ranges[word] = range_of(c[word], unit, ranks, rank)
        end
    end
    for _, row in ipairs(OF_HEADS) do
        local heads, each = ranges[row[2]], row[3](c)
        if heads then ranges[row[1]] = { from = heads.from * each, to = heads.to * each } end
    end
    return ranges
end

-- Does every cut of columns lie between groups? nil and a sentence.
local function check_columns(ranges, ranks)
    for _, row in ipairs(COLUMNS) do
        local range = ranges[row[1]]
        if range and range.from % GROUP ~= 0 then
            return nil, ("%d ranks would cut the columns of %s at %d (only a multiple of %d is "
                .. "served)"):format(ranks, row[2], range.from, GROUP)
        end
    end
    return true
end

-- The ranges of a rank, where every rank can be served; nil and a sentence.
local function served_ranges(c, ranks, rank)
    if ranks == 1 then return {} end
    local mine
    for each = 0, ranks - 1 do
        local ranges, why = ranges_of(c, ranks, each)
        if not ranges then return nil, why end
        local fits, reason = check_columns(ranges, ranks)
        if not fits then return nil, reason end
        if each == rank then mine = ranges end
    end
    return mine
end

-- A part as the rank has it: its shape, whole = the tensor's, slice = { axis, from, to }. The part
-- itself where it is not cut.
local function cut(part, ranges)
    for axis, word in ipairs(part.words) do
        local range = ranges[word]
        if range then
            local shape = { table.unpack(part.shape) }
            shape[axis] = range.to - range.from
            return setmetatable({
                shape = shape, whole = part.shape,
                slice = { axis = axis, from = range.from, to = range.to },
            }, { __index = part })
        end
    end
    return part
end

local function cut_all(sites, ranges)
    local mine = {}
    for site, part in pairs(sites) do
        if part.name then
            mine[site] = cut(part, ranges)
        else
            mine[site] = {}
            for expert, each in pairs(part) do mine[site][expert] = cut(each, ranges) end
        end
    end
    return mine
end

-- A checkpoint as one of `ranks` ranks sees it, from 0; nil and a sentence where it cannot be split
-- so. As checkpoint.open's, but: config has the rank's numbers of what is split; parts in model and
-- layers are cut; ranks, rank; whole: the checkpoint; first_row: the token of the first of its
-- logits.
function split.take(found, ranks, rank)
    local ranges, why = served_ranges(found.config, ranks, rank)
    if not ranges then return nil, why end
    local config, layers = {}, {}
    for key, value in pairs(found.config) do
        local range = ranges[key]
        config[key] = range and range.to - range.from or value
    end
    for i, sites in pairs(found.layers) do layers[i] = cut_all(sites, ranges) end
    return setmetatable({
        config = config, model = cut_all(found.model, ranges), layers = layers, ranks = ranks,
        rank = rank, whole = found, first_row = ranges.head_rows and ranges.head_rows.from or 0,
    }, { __index = found })
end

return split
