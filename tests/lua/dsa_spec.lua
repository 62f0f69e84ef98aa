-- What the families of DSA promise beyond their references: a row's bits do not depend on the rows
-- beside it, and NaN stays where it belongs.
local golden = require("tests.lua.golden")

local NAN <const> = 0 / 0

local function words(s)
    local list = {}
    for _, pair in ipairs(s) do list[#list + 1] = ("%s=%d"):format(pair[1], pair[2]) end
    return table.concat(list, " ")
end

local function is_same(a, b) return a == b or a ~= a and b ~= b end

-- Row m of a tensor whose first extent is the rows.
local function row_of(t, m, rows)
    local n = #t.data // rows
    return { dtype = t.dtype, shape = table.move(t.shape, 2, #t.shape, 2, { 1 }),
        data = table.move(t.data, m * n + 1, m * n + n, 1, {}) }
end

-- s: sizes, M first. by_row, whole: names of inputs. Runs the rows together, then each alone.
local function rows_are_alone(family, s, by_row, whole, out)
    local all, rows = golden.run(family, words(s), {}), s[1][2]
    for m = 0, rows - 1 do
        local inputs, one = {}, table.move(s, 1, #s, 1, {})
        one[1] = { "M", 1 }
        if one[2][1] == "TOKENS" then one[2] = { "TOKENS", 1 } end
        for _, name in ipairs(by_row) do inputs[name] = row_of(all:tensor(name), m, rows) end
        for _, name in ipairs(whole) do inputs[name] = all:tensor(name) end
        local together = row_of(all:tensor(out), m, rows).data
        local alone = inputs.slots.data[1] < 0 and together
            or golden.run(family, words(one), inputs):tensor(out).data
        for i = 1, #together do
            assert(is_same(together[i], alone[i]), ("row %d, element %d: %.9g together, %.9g alone")
                :format(m, i - 1, together[i], alone[i]))
        end
    end
end

describe("rows together and each alone have the same bits:", function()
    it("dsa_scores, four rows of one sequence", function()
        rows_are_alone("dsa_scores", { { "M", 4 }, { "TOKENS", 4 }, { "HEADS", 4 }, { "D", 64 },
            { "POOLS", 64 }, { "SLOTS", 1 }, { "PAGES", 4 }, { "BLOCKS", 4 } },
            { "iq", "iw", "positions", "slots" }, { "pooled", "scale", "block_table" }, "score")
    end)

    it("mla_decode, five rows of two sequences", function()
        rows_are_alone("mla_decode", { { "M", 5 }, { "HEADS", 4 }, { "D", 128 }, { "QK", 64 },
            { "WIDTH", 67 }, { "SLOTS", 2 }, { "PAGES", 4 }, { "BLOCKS", 8 } },
            { "q", "ids", "positions", "slots" }, { "cache", "block_table" }, "y")
    end)

    it("mla_decode, blocks with one, two and four parts of the ids", function()
        local y = {}
        for i, knobs in ipairs({ "o1p16c16s1h1", "o1p16c16s1h2", "o2p16c16s1h4" }) do
            y[i] = golden.run("mla_decode", "M=1 HEADS=9 D=64 QK=64 WIDTH=2051 SLOTS=1 PAGES=64 "
                .. "BLOCKS=64 --knobs " .. knobs, {}):tensor("y").data
            assert.same(y[1], y[i])
        end
    end)
end)

local function small(list, shape, dtype) return { dtype = dtype, shape = shape, data = list } end

local function filled(count, value)
    local list = {}
    for i = 0, count - 1 do list[i + 1] = value(i) end
    return list
end

describe("NaN", function()  -- three rows of one sequence of 12 tokens
    local positions = small({ 3, 7, 11 }, { 3 }, "I32")
    local slots, block_table = small({ 0, 0, 0 }, { 3 }, "I32"), small({ 0 }, { 1, 1 }, "I32")

    it("in a key makes NaN of that pool's scores alone", function()
        local score = golden.run("dsa_scores",
            "M=3 TOKENS=3 HEADS=4 D=64 POOLS=16 SLOTS=1 PAGES=1 BLOCKS=1", {
                pooled = small(filled(2 * 16 * 64, function(i)  -- NaN in pool 1
                    return i == 32 and NAN or i % 5 - 2
                end), { 1, 2, 16, 64 }, "F16"),
                scale = small(filled(16, function() return 1 end), { 1, 16 }, "F32"),
                positions = positions, slots = slots, block_table = block_table,
            }):tensor("score").data
        for m = 0, 2 do
            for p = 0, 15 do
                local is_nan = score[m * 16 + p + 1] ~= score[m * 16 + p + 1]
                assert.equal(p == 1 and p <= m, is_nan)
            end
        end
    end)

    it("in a latent makes NaN of the rows that attend to it, not of those that skip it", function()
        local codes = filled(64 * 64, function(i)  -- NaN in tokens 0 and 5
            return (i == 9 or i == 5 * 64 + 9) and 0x7f or i % 50
        end)
        local ids = filled(3 * 40, function() return -1 end)
        for j, id in ipairs({ 1, 2, 5, 3 }) do ids[j] = id end  -- 5 is not to be seen yet
        for j, id in ipairs({ 4, 5, 1, 2 }) do ids[40 + j] = id end
        for j, id in ipairs({ 2, 4, -1, 10 }) do ids[80 + 32 + j] = id end  -- behind idle tiles
        local y = golden.run("mla_decode",
            "M=3 HEADS=4 D=64 QK=64 WIDTH=40 SLOTS=1 PAGES=1 BLOCKS=1", {
                cache = small(codes, { 1, 64, 64 }, "F8_E4M3"), ids = small(ids, { 3, 40 }, "I32"),
                positions = positions, slots = slots, block_table = block_table,
            }):tensor("y").data
        for i = 1, #y do assert.equal((i - 1) // 256 == 1, y[i] ~= y[i]) end
    end)

    it("in scores comes last, whatever its sign", function()
        local score = filled(16, function(i)
            return i % 4 == 0 and NAN or i % 4 == 2 and -NAN or -i
        end)
        local ids = golden.run("dsa_topk", "M=1 K=9 POOLS=16", {
            score = small(score, { 1, 16 }, "F32"), positions = small({ 63 }, { 1 }, "I32"),
            slots = small({ 0 }, { 1 }, "I32"),
        }):tensor("ids").data
        assert.same({ 0, 1, 3, 5, 7, 9, 11, 13, 15 }, ids)
    end)
end)

it("dsa_scores multiplies the keys that dsa_pool_keys writes", function()
    local D <const>, POOLS <const> = 64, 16
    local block_table = small({ 0 }, { 1, 1 }, "I32")
    local function key(token, d) return (token * 31 + d * d * 7) % 61 - 30 end
    local function query(h, d) return (h * 5 + d * 3) % 17 - 8 end
    local page = golden.run("dsa_pool_keys", "M=16 D=64 RING=64 SLOTS=1 PAGES=1 BLOCKS=1", {
        raw = small(filled(64 * 2 * D, function(i)  -- gates of 0: a pool is its tokens' mean
            return i // D % 2 == 0 and key(i // (2 * D), i % D) or 0
        end), { 1, 64, 2, D }, "BF16"),
        ape = small(filled(4 * D, function() return 0 end), { 4, D }, "F32"),
        positions = small(filled(POOLS, function(p) return 4 * p + 3 end), { POOLS }, "I32"),
        slots = small(filled(POOLS, function() return 0 end), { POOLS }, "I32"),
        block_table = block_table,
    })
    local score = golden.run("dsa_scores",
        "M=1 TOKENS=1 HEADS=2 D=64 POOLS=16 SLOTS=1 PAGES=1 BLOCKS=1", {
            iq = small(filled(2 * D, function(i) return query(i // D, i % D) end), { 1, 2, D },
                "F32"),
            iw = small({ 1, 2 }, { 1, 2 }, "F32"), positions = small({ 63 }, { 1 }, "I32"),
            slots = small({ 0 }, { 1 }, "I32"), block_table = block_table,
            pooled = page:tensor("pooled"), scale = page:tensor("scale"),
        }):tensor("score").data
    local want = filled(POOLS, function(p)
        local sum = 0
        for h = 0, 1 do
            local dot = 0
            for i = 0, 4 * D - 1 do
                dot = dot + query(h, i % D) * key(4 * p + i // D, i % D) / 4
            end
            sum = sum + (h + 1) * math.max(dot, 0)
        end
        return sum / (2 * D) ^ 0.5
    end)
    assert(golden.error(score, want) < 1e-6)
end)
