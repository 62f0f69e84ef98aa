-- DSA on the tiny model against what the public implementation made of it: the latents of the
-- captured rows, the tokens of every row's selection, and the attention of the first five rows,
-- whose context is captured whole.
local golden = require("tests.lua.golden")

local CAPTURED <const> = 16                 -- positions 0 to 4, then others
local ROWS <const>, HEADS <const> = 5, 4
local LATENT <const>, D <const> = 128, 64   -- kv_lora; a head's q, k and v
local POOLS <const>, WIDTH <const> = 16, 67 -- index_topk / 4, and what they expand to
local PAGE <const> = 64

local function filled(count, x)
    local list = {}
    for i = 1, count do list[i] = type(x) == "function" and x(i - 1) or x end
    return list
end

local function i32(shape, data) return { dtype = "I32", shape = shape, data = data } end

local function e4m3(code)
    local exponent, mantissa = code >> 3 & 15, code & 7
    local magnitude = exponent == 0 and mantissa / 512 or (8 + mantissa) * 2.0 ^ (exponent - 10)
    return code < 128 and magnitude or -magnitude
end

-- y[i] = sum over j of rows[first + i][j] x[j], or of the transposed rows.
local function times(weight, first, count, x)
    local y, k = {}, weight.shape[2]
    for i = 0, count - 1 do
        local sum = 0.0
        for j = 1, k do sum = sum + weight.data[(first + i) * k + j] * x[j] end
        y[i + 1] = sum
    end
    return y
end

local function transposed_times(weight, first, count, x)
    local y, k = filled(weight.shape[2], 0.0), weight.shape[2]
    for i = 0, count - 1 do
        for j = 1, k do y[j] = y[j] + weight.data[(first + i) * k + j] * x[i + 1] end
    end
    return y
end

local function part(list, at, count) return table.move(list, at + 1, at + count, 1, {}) end

local function append(list, more) table.move(more, 1, #more, #list + 1, list) end

local function write_latents(values, model)
    local words = ("M=%d D=%d STRIDE=%d OFFSET=0 SLOTS=1 PAGES=1 BLOCKS=1"):format(
        CAPTURED, LATENT, LATENT)
    return golden.run("mla_latent_write", words, {
        x = { dtype = "BF16", shape = { CAPTURED, LATENT },
            data = values:tensor("layer3.kv_a_layernorm.in0").data },
        w = model:tensor("model.language_model.layers.3.self_attn.kv_a_layernorm.weight"),
        positions = i32({ CAPTURED }, filled(CAPTURED, function(i) return i end)),
        slots = i32({ CAPTURED }, filled(CAPTURED, 0)),
        block_table = i32({ 1, 1 }, { 0 }),
    }):tensor("cache")
end

-- The pools of up to 16 rows of the golden selection, as dsa_topk would give them.
local function pools_of(rows, first, count)
    local pools, positions = {}, {}
    for m = 0, count - 1 do
        for j = 0, POOLS - 1 do
            local id = rows[(first + m) * WIDTH + 4 * j + 1]
            pools[#pools + 1] = id < 0 and -1 or id // 4
        end
        positions[m + 1] = first + m
    end
    return pools, positions
end

local function set_of(rows, m)
    local set = {}
    for j = 1, WIDTH do
        local id = rows[m * WIDTH + j]
        if id >= 0 then set[#set + 1] = id end
    end
    table.sort(set)
    return set
end

-- o_lat of the first rows, through absorbed queries, back through the values and o_proj.
local function attend(values, model, cache)
    local function weight(name)
        return model:tensor("model.language_model.layers.3.self_attn." .. name .. ".weight")
    end
    local q_b, kv_b, q_lat, y = weight("q_b_proj"), weight("kv_b_proj"), {}, {}
    local qan = values:tensor("layer3.q_a_layernorm.0").data
    for m = 0, ROWS - 1 do
        for h = 0, HEADS - 1 do
            local q = times(q_b, h * D, D, part(qan, m * q_b.shape[2], q_b.shape[2]))
            append(q_lat, transposed_times(kv_b, h * 2 * D, D, q))
        end
    end
    local words = ("M=%d HEADS=%d D=%d QK=%d WIDTH=%d SLOTS=1 PAGES=1 BLOCKS=1"):format(
        ROWS, HEADS, LATENT, D, ROWS)
    local o_lat = golden.run("mla_decode", words, {
        q = { dtype = "BF16", shape = { ROWS, HEADS, LATENT }, data = q_lat },
        cache = { dtype = "F8_E4M3", shape = { 1, PAGE, LATENT }, data = cache },
        ids = i32({ ROWS, ROWS }, filled(ROWS * ROWS, function(i) return i % ROWS end)),
        positions = i32({ ROWS }, filled(ROWS, function(i) return i end)),
        slots = i32({ ROWS }, filled(ROWS, 0)),
        block_table = i32({ 1, 1 }, { 0 }),
    }):tensor("y").data
    for m = 0, ROWS - 1 do
        local o = {}
        for h = 0, HEADS - 1 do
            local lat = part(o_lat, (m * HEADS + h) * LATENT, LATENT)
            append(o, times(kv_b, h * 2 * D + D, D, lat))
        end
        append(y, times(weight("o_proj"), 0, 256, o))
    end
    return y
end

describe("DSA of the tiny model", function()
    local values, model = golden.values(), golden.model()

    it("writes the captured latents, rounded to E4M3", function()
        local got = write_latents(values, model).data
        local want = values:tensor("layer3.kv_a_layernorm.0").data
        for i = 1, #want do  -- half a step of E4M3, and one of bf16 for the input
            local allowed = math.max(2.0 ^ -4 * math.abs(want[i]), 2.0 ^ -10) * 1.07
            assert(math.abs(e4m3(got[i]) - want[i]) <= allowed,
                ("latent %d is %g, not %g"):format(i - 1, e4m3(got[i]), want[i]))
        end
    end)

    it("expands every row's pools to the tokens of its selection", function()
        for _, name in ipairs({ "layer3.indexer.0", "layer7.indexer.0" }) do
            local rows = values:tensor(name).data
            for first = 0, 199, 16 do
                local count = math.min(16, 200 - first)
                local pools, positions = pools_of(rows, first, count)
                local ids = golden.run("dsa_expand", ("M=%d K=%d"):format(count, POOLS), {
                    pools = i32({ count, POOLS }, pools), positions = i32({ count }, positions),
                    slots = i32({ count }, filled(count, 0)),
                }):tensor("ids").data
                for m = 0, count - 1 do
                    assert.same(set_of(rows, first + m), set_of(ids, m))
                end
            end
        end
    end)

    it("attends over absorbed latents like the public attention, up to the rounding to E4M3",
        function()
            local got = attend(values, model, write_latents(values, model).data)
            local want = part(values:tensor("layer3.self_attn.0").data, 0, ROWS * 256)
            assert(golden.error(got, want) < 0.02, golden.error(got, want))
        end)
end)
