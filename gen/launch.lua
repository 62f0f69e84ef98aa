-- The launch of a kernel: grid, clusters of its blocks, block and dynamic shared memory, held
-- against what an arch allows.
local message = require("gen.message")

local launch = {}

local WARP <const> = 32
local MOST_THREADS <const> = 1024                         -- a block
local MOST_BLOCKS <const> = { 2147483647, 65535, 65535 }  -- x, y, z
local LEGAL <const> = { "grid", "cluster", "block", "shared" }

local function is_count(x, least) return math.type(x) == "integer" and x >= least end

-- { x, y, z }, or nil and a sentence.
local function grid_of(raw)
    local given = type(raw) == "table" and raw or { raw }
    if #given > #MOST_BLOCKS then
        return nil, ("grid has %d sizes, at most %d"):format(#given, #MOST_BLOCKS)
    end
    local grid = {}
    for i, most in ipairs(MOST_BLOCKS) do
        local n = given[i] or i > 1 and 1 or raw
        if not is_count(n, 1) or n > most then
            return nil, ("grid %s must be an integer from 1 to %d, got %s"):format(
                ("xyz"):sub(i, i), most, message.describe(n))
        end
        grid[i] = n
    end
    return grid
end

local function cluster_fault(cluster, grid, target)
    if cluster == nil then return end
    if not is_count(cluster, 1) or cluster > target.cluster then
        return ("cluster must be an integer from 1 to %d on %s, got %s"):format(
            target.cluster, target.name, message.describe(cluster))
    end
    if grid[1] % cluster ~= 0 then
        return ("grid x is %d, not a whole number of clusters of %d"):format(grid[1], cluster)
    end
end

local function block_fault(block)
    if not is_count(block, WARP) or block % WARP ~= 0 or block > MOST_THREADS then
        return ("block must be a multiple of %d up to %d, got %s"):format(
            WARP, MOST_THREADS, message.describe(block))
    end
end

local function shared_fault(shared, target)
    if not is_count(shared, 0) then
        return "shared must be an integer of 0 or more, got " .. message.describe(shared)
    end
    if shared > target.shared then
        return ("shared is %d bytes, %s has %d a block"):format(
            shared, target.name, target.shared)
    end
end

local function unknown_fault(raw)
    if type(raw) ~= "table" then
        return "{ grid =, cluster =, block =, shared = } is needed, got " .. message.describe(raw)
    end
    local known = 0
    for _, field in ipairs(LEGAL) do known = known + (raw[field] ~= nil and 1 or 0) end
    local all = 0
    for _ in next, raw do all = all + 1 end
    if all ~= known then return "the legal fields are grid, cluster, block and shared" end
end

-- What a family's launch returned as { grid = { x, y, z }, cluster = n or nil, block = n,
-- shared = n }; or nil and a sentence.
function launch.normal(raw, target)
    local wrong = unknown_fault(raw)
    if wrong then return nil, wrong end
    local shared = raw.shared == nil and 0 or raw.shared
    local grid, grid_wrong = grid_of(raw.grid)
    wrong = grid_wrong or cluster_fault(raw.cluster, grid, target) or block_fault(raw.block)
        or shared_fault(shared, target)
    if wrong then return nil, wrong end
    return { grid = grid, cluster = raw.cluster, block = raw.block, shared = shared }
end

return launch
