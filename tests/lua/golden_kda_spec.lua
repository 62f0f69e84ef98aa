-- KDA on the tiny model: the first five rows of its prompt through convolution, gates, recurrence
-- and output norm, against what the public implementation made of them.
local golden = require("tests.lua.golden")

local ROWS <const>, HEADS <const>, D <const> = 5, 4, 64  -- positions 0 to 4 are captured
local WIDTH <const> = HEADS * D
local STRIDE <const> = 3 * WIDTH + D + HEADS + D         -- q | k | v | f_a | b | g_a

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
    for i, name in ipairs({ "q", "k", "v", "f_a", "b", "g_a" }) do
        parts[i] = project(x, l.weight(name .. "_proj.weight"), ROWS)
    end
    return parts
end

local function shape(m, more) return ("M=%d HEADS=%d D=%d %s"):format(m, HEADS, D, more) end

local function convolve(l, x)
    local taps = {}
    for _, name in ipairs({ "q", "k", "v" }) do
        local part = l.weight(name .. "_conv1d.weight").data
        table.move(part, 1, #part, #taps + 1, taps)
    end
    return golden.run("kda_conv.tokens", shape(ROWS, ("STRIDE=%d SLOTS=2"):format(STRIDE)), {
        x = { dtype = "BF16", shape = { ROWS, STRIDE }, data = x },
        taps = { dtype = "F32", shape = { 3 * WIDTH, 4 }, data = taps },
        window = { dtype = "F32", shape = { 2, 3 * WIDTH, 4 }, data = filled(24 * WIDTH, 0.0) },
        slot = { dtype = "I32", shape = { 1 }, data = { 1 } },
        snaps = { dtype = "I32", shape = { ROWS }, data = filled(ROWS, -1) },
    }):tensor("y")
end

local function gates(l, x, f)
    local words = shape(ROWS, ("FSTRIDE=%d FOFFSET=0 BSTRIDE=%d BOFFSET=%d"):format(
        WIDTH, STRIDE, 3 * WIDTH + D))
    return golden.run("kda_gates", words, {
        f = { dtype = "BF16", shape = { ROWS, WIDTH }, data = f },
        b = { dtype = "BF16", shape = { ROWS, STRIDE }, data = x },
        a_log = { dtype = "F32", shape = { HEADS }, data = l.weight("A_log").data },
        dt_bias = { dtype = "F32", shape = { HEADS, D }, data = l.weight("dt_bias").data },
    })
end

local function recur(x, gated)
    return golden.run("kda_recurrent.tokens", shape(ROWS, "SLOTS=2"), {
        x = x, g = gated:tensor("g"), beta = gated:tensor("beta"),
        state = { dtype = "F32", shape = { 2, HEADS, D, D }, data = filled(2 * WIDTH * D, 0.0) },
        slot = { dtype = "I32", shape = { 1 }, data = { 1 } },
        snaps = { dtype = "I32", shape = { ROWS }, data = filled(ROWS, -1) },
    }):tensor("o")
end

local function finish(l, o, gate, rows)
    return golden.run("kda_out", shape(rows, ("GSTRIDE=%d GOFFSET=0"):format(WIDTH)), {
        o = { dtype = "F32", shape = { rows, HEADS, D }, data = o },
        gate = { dtype = "BF16", shape = { rows, WIDTH }, data = gate },
        w = { dtype = "BF16", shape = { D }, data = l.weight("o_norm.weight").data },
    }):tensor("y").data
end

-- bf16 keeps 2^-9 of a number, 0.0011 of it in the mean square; a sum of such is as far off.
describe("golden kda", function()
    local values, model = golden.values(), golden.model()

    for _, index in ipairs({ 0, 4 }) do
        local l = layer(values, model, index)

        it(("layer %d: rows 0 to 4 through the four kernels"):format(index), function()
            local parts = in_projection(l)
            assert.near(0, golden.error(parts[1], first(l.value("q_proj.0"), ROWS)), 1e-6)
            local x = stacked(parts, ROWS)
            local gated = gates(l, x, project(parts[4], l.weight("f_b_proj.weight"), ROWS))
            assert.near(0, golden.error(gated:tensor("g").data,
                first(l.value("forget_gate.0"), ROWS)), 0.003)
            local y = convolve(l, x)
            local o = recur(y, gated)
            assert.near(0, golden.error(o.data, first(l.value("o_norm.in0"), ROWS)), 0.006)
            local gate = project(parts[6], l.weight("g_b_proj.weight"), ROWS)
            assert.near(0, golden.error(finish(l, o.data, gate, ROWS),
                first(l.value("o_norm.0"), ROWS)), 0.006)
        end)

        it(("layer %d: the output norm of all captured rows"):format(index), function()
            local y = finish(l, l.value("o_norm.in0").data, l.value("o_norm.in1").data, 16)
            assert.near(0, golden.error(y, l.value("o_norm.0").data), 0.003)
        end)
    end
end)
