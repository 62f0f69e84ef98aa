-- KDA on the tiny model: the first five rows of its prompt from the projections to the gated norm,
-- against what the public implementation made of them.
local golden = require("tests.lua.golden")

local ROWS <const>, HEADS <const>, D <const> = 5, 4, 64  -- positions 0 to 4 are captured
local WIDTH <const> = HEADS * D
local STRIDE <const> = 3 * WIDTH + 2 * D + HEADS         -- q | k | v | f_a | g_a | b

-- The first `rows` rows of x times the transposed weight (rows of K), behind one another.
local function project(x, weight, rows)
    local n, k, y = weight.shape[1], weight.shape[2], {}
    for m = 0, rows - 1 do
        for i = 0, n - 1 do
            local sum = 0.0
            for j = 1, k do sum = sum + x[m * k + j] * weight.data[i * k + j] end
            y[m * n + i + 1] = sum
        end
    end
    return y
end

-- Rows of several matrices side by side.
local function stacked(parts, rows)
    local all = {}
    for m = 0, rows - 1 do
        for _, part in ipairs(parts) do
            local n = #part // rows
            table.move(part, m * n + 1, (m + 1) * n, #all + 1, all)
        end
    end
    return all
end

local function filled(count, x)
    local list = {}
    for i = 1, count do list[i] = x end
    return list
end

local function first(t, rows) return table.move(t.data, 1, #t.data // 16 * rows, 1, {}) end

local function layer(values, model, index)
    local l = {}
    function l.value(name) return values:tensor(("layer%d.%s"):format(index, name)) end
    function l.weight(name)
        return model:tensor(("model.language_model.layers.%d.self_attn.%s"):format(index, name))
    end
    return l
end

local function in_projection(l)
    local x, parts = first(l.value("q_proj.in0"), ROWS), {}
    for i, name in ipairs({ "q", "k", "v", "f_a", "g_a", "b" }) do
        parts[i] = project(x, l.weight(name .. "_proj.weight"), ROWS)
    end
    return parts
end

local function tensor(dtype, shape, data) return { dtype = dtype, shape = shape, data = data } end

-- One weight behind another.
local function joined(l, names)
    local all = {}
    for _, name in ipairs(names) do
        local part = l.weight(name).data
        table.move(part, 1, #part, #all + 1, all)
    end
    return all
end

-- The gated norm of the rows whose projections these are, in the order of in_projection.
local function decode(l, parts)
    local words = ("M=%d TOKENS=%d HEADS=%d D=%d N=%d K=%d STRIDE=%d SLOTS=2"):format(
        ROWS, ROWS, HEADS, D, 2 * WIDTH, D, STRIDE)
    return golden.run("kda_decode.bf16", words, {
        x = tensor("BF16", { ROWS, STRIDE }, stacked(parts, ROWS)),
        taps = tensor("F32", { 3 * WIDTH, 4 },
            joined(l, { "q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight" })),
        w = tensor("BF16", { 2 * WIDTH, D },
            joined(l, { "f_b_proj.weight", "g_b_proj.weight" })),
        a_log = tensor("F32", { HEADS }, l.weight("A_log").data),
        dt_bias = tensor("F32", { HEADS, D }, l.weight("dt_bias").data),
        norm = tensor("BF16", { D }, l.weight("o_norm.weight").data),
        state = tensor("F32", { 2, HEADS, D, D }, filled(2 * WIDTH * D, 0.0)),
        window = tensor("F32", { 2, 3 * WIDTH, 4 }, filled(24 * WIDTH, 0.0)),
        slots = tensor("I32", { 1 }, { 1 }),
        snaps = tensor("I32", { ROWS }, filled(ROWS, -1)),
    }):tensor("y").data
end

-- bf16 keeps 2^-9 of a number, 0.0011 of it in the mean square; a sum of such is as far off.
describe("golden kda", function()
    local values, model = golden.values(), golden.model()

    for _, index in ipairs({ 0, 4 }) do
        it(("layer %d: rows 0 to 4, projections to gated norm"):format(index), function()
            local l = layer(values, model, index)
            local parts = in_projection(l)
            assert.near(0, golden.error(parts[1], first(l.value("q_proj.0"), ROWS)), 1e-6)
            assert.near(0, golden.error(decode(l, parts), first(l.value("o_norm.0"), ROWS)), 0.006)
        end)
    end
end)
