-- What config.json's quantization_config claims about formats, beside what the file has.
-- The file decides; where they differ, that is said.
local claims = {}

-- A Lua pattern of a shell pattern: * stands for any characters, ? for one.
local function pattern_of(glob)
    local pattern = glob:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".")
    return "^" .. pattern .. "$", "^" .. pattern .. "%."
end

-- The patterns of modules that stay in BF16, or nil where the claim is in words of another tool.
local function ignored(quantization)
    local list = quantization.ignore or quantization.exclude_modules or {}
    if quantization.quant_algo ~= "NVFP4" or type(list) ~= "table" then return nil end
    local patterns = {}
    for _, glob in ipairs(list) do
        if type(glob) ~= "string" or glob:find("^re:") then return nil end
        local whole, inside = pattern_of(glob)
        table.insert(patterns, whole)
        table.insert(patterns, inside)  -- a module covers what is inside it
    end
    return patterns
end

-- The ways in which exporters write the name of a module.
local function spellings(module)
    local rest = module:gsub("^model%.", ""):gsub("^language_model%.", "")
    return { module, rest, "model." .. rest, "language_model." .. rest }
end

local function is_ignored(patterns, module)
    for _, name in ipairs(spellings(module)) do
        for _, pattern in ipairs(patterns) do
            if name:find(pattern) then return true end
        end
    end
    return false
end

-- A weight of a linear layer: what such a claim is about.
local function is_linear(part)
    return #part.shape == 2 and part.name:find("%.weight$") and part.site ~= "embed"
        and part.site ~= "router.weight"
end

local function count(tally, part)
    tally.count, tally.first = tally.count + 1, tally.first or part.name
end

-- Notes where the config and the file disagree. parts: with their formats.
function claims.compare(found)
    local quantization, narrow, wide = found.config.quantization, { count = 0 }, { count = 0 }
    local patterns = quantization and ignored(quantization)
    if quantization and not patterns then return end
    for _, part in ipairs(found.parts) do
        if part.format and is_linear(part) then
            local claimed = patterns and not is_ignored(patterns, part.name:gsub("%.weight$", ""))
            if part.format == "nvfp4" and not claimed then count(narrow, part) end
            if part.format == "bf16" and claimed then count(wide, part) end
        end
    end
    if narrow.count > 0 then
        found:note("config.json does not say that %d weights are NVFP4, such as '%s': the file "
            .. "decides", narrow.count, narrow.first)
    end
    if wide.count > 0 then
        found:note("config.json says that %d weights are NVFP4 which are BF16, such as '%s': the "
            .. "file decides", wide.count, wide.first)
    end
end

return claims
