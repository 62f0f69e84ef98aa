-- DSA's selection where it bites: contexts shorter than it, many equal scores, scores that differ
-- in the last bit, and tokens that are taken back.
local golden = require("tests.lua.golden")

local INF <const> = 1 / 0

local function filled(count, value)
    local list = {}
    for i = 0, count - 1 do list[i + 1] = value(i) end
    return list
end

local function i32(shape, data) return { dtype = "I32", shape = shape, data = data } end
local function f32(shape, data) return { dtype = "F32", shape = shape, data = data } end
local function none() return 0 end

local function topk(k, scores, positions)
    local rows <const> = #positions
    local pools <const> = #scores // rows
    return golden.run("dsa_topk", ("M=%d K=%d POOLS=%d"):format(rows, k, pools), {
        score = f32({ rows, pools }, scores), positions = i32({ rows }, positions),
        slots = i32({ rows }, filled(rows, none)),
    }):tensor("ids").data
end

-- The k best of a row of scores, as a sort has them: of equal ones the first.
local function sorted(k, scores)
    local order = filled(#scores, function(i) return i end)
    table.sort(order, function(a, b)
        local x, y = scores[a + 1], scores[b + 1]
        if x ~= y then return x > y end
        return a < b
    end)
    local ids = table.move(order, 1, k, 1, {})
    table.sort(ids)
    return ids
end

describe("a context no longer than the selection", function()
    local LENGTHS <const> = { 1, 2, 3, 4, 5, 2047, 2048, 2049, 2051, 2052, 8191, 8192, 8193 }
    local K <const>, POOLS <const> = 512, 2048
    local WIDTH <const> = 4 * K + 3

    it("is selected whole, then come -1: what lay there before is never seen", function()
        local rows = #LENGTHS
        local positions = filled(rows, function(m) return LENGTHS[m + 1] - 1 end)
        local scores = filled(rows * POOLS, function(i)  -- behind the candidates: the best of all
            local p, length = i % POOLS, LENGTHS[i // POOLS + 1]
            return p < length // 4 and (p * 37 % 101) or INF
        end)
        local pools = topk(K, scores, positions)
        local ids = golden.run("dsa_expand", ("M=%d K=%d"):format(rows, K), {
            pools = i32({ rows, K }, pools), positions = i32({ rows }, positions),
            slots = i32({ rows }, filled(rows, none)),
        }):tensor("ids").data
        for m, length in ipairs(LENGTHS) do
            local row, seen = table.move(ids, (m - 1) * WIDTH + 1, m * WIDTH, 1, {}), {}
            local held = math.min(length // 4, K) * 4 + length % 4
            for i, id in ipairs(row) do
                assert.equal(i <= held, id >= 0)
                assert.truthy(id < length and not seen[id])
                seen[id] = id >= 0 or nil
                if length // 4 <= K then assert.equal(i <= held and i - 1 or -1, id) end
            end
        end
    end)
end)

describe("the best of 131072 pools", function()
    local POOLS <const>, K <const> = 131072, 512
    local LAST <const> = 4 * POOLS - 1

    it("are of many equal scores the first ones", function()
        local function is_high(p) return p % 257 == 3 end  -- 510 of them
        assert.same(filled(K, function(i) return i end), topk(K, filled(POOLS, none), { LAST }))
        local function score(p) return is_high(p) and 2.0 or 1.0 end
        local ids = topk(K, filled(POOLS, score), { LAST })
        local want, ties = {}, K - (POOLS - 4) // 257 - 1
        for p = 0, POOLS - 1 do
            if is_high(p) or ties > 0 then want[#want + 1] = p end
            if not is_high(p) then ties = ties - 1 end
        end
        assert.same(want, ids)
    end)

    it("are those of a sort where scores differ in the last bit alone", function()
        local word = 7
        local scores = filled(POOLS, function()
            word = word * 1103515245 + 12345 & 0x7fffffff
            return 1 + (word >> 8) % 128 * 0x1p-23
        end)
        assert.same(sorted(K, scores), topk(K, scores, { LAST }))
    end)

    it("never lie behind the context", function()
        local scores = filled(POOLS, function(p) return p == POOLS - 1 and INF or p * 0.5 end)
        local ids = topk(K, scores, { LAST - 4 })
        assert.same(filled(K, function(i) return POOLS - 1 - K + i end), ids)
    end)
end)

describe("tokens that are taken back", function()
    local D <const>, RING <const> = 64, 16
    local SIZES <const> = "D=64 RING=16 SLOTS=1 "

    -- Key and gate of the token at a position; of another one where it is `wrong`.
    local function row_of(position, wrong)
        return filled(2 * D, function(i)
            return ((position * 31 + i * 7 + (wrong and 13 or 0)) % 61 - 30) / 8
        end)
    end

    -- A step of tokens at positions from `first` on.
    local function step(state, first, rows)
        local positions, x = {}, {}
        for i, wrong in ipairs(rows) do
            positions[i] = first + i - 1
            table.move(row_of(positions[i], wrong), 1, 2 * D, #x + 1, x)
        end
        local m = #rows
        local at, slots = i32({ m }, positions), i32({ m }, filled(m, none))
        local raw = golden.run("dsa_index_store",
            ("M=%d STRIDE=128 OFFSET=0 GATE=64 %s"):format(m, SIZES), {
                raw = state.raw, x = { dtype = "BF16", shape = { m, 2 * D }, data = x },
                w = state.one, b = state.zero, positions = at, slots = slots,
            }):tensor("raw")
        local out = golden.run("dsa_pool_keys", ("M=%d PAGES=1 BLOCKS=1 %s"):format(m, SIZES), {
            pooled = state.pooled, scale = state.scale, raw = raw, ape = state.ape,
            positions = at, slots = slots, block_table = i32({ 1, 1 }, { 0 }),
        })
        local now = { raw = raw, pooled = out:tensor("pooled"), scale = out:tensor("scale") }
        return setmetatable(now, { __index = state })
    end

    -- The keys of the first pools of a page, up to eight: its f16 are fragments of a product.
    local function keys(state, pools)
        local pooled, scale = state.pooled.data, state.scale.data
        return filled(pools * D, function(i)
            local p, d = i // D, i % D
            local at = d // 16 * 256 + (p * 4 + d % 16 // 4) * 8 + d % 4 // 2 * 4 + d % 2 + 1
            return (pooled[at] + 2.0 ^ -11 * pooled[at + 16 * D]) * scale[p + 1]
        end)
    end

    local function flags(count, value) return filled(count, function() return value end) end

    it("leave nothing in the pooled keys, wherever in a pool the context ends", function()
        local empty = {
            raw = { dtype = "BF16", shape = { 1, RING, 2, D }, data = filled(RING * 2 * D, none) },
            pooled = { dtype = "F16", shape = { 1, 2, 16, D }, data = filled(2 * 16 * D, none) },
            scale = f32({ 1, 16 }, filled(16, none)),
            ape = f32({ 4, D }, filled(4 * D, function(i) return i % 5 / 4 end)),
            one = { dtype = "BF16", shape = { D }, data = filled(D, function() return 1 end) },
            zero = { dtype = "BF16", shape = { D }, data = filled(D, none) },
        }
        local plain = step(empty, 0, flags(15, false))
        for context = 4, 7 do
            local before = step(empty, 0, flags(context, false))
            for _, kept in ipairs({ 0, 1, 3 }) do
                local draft = flags(4, true)
                for i = 1, kept do draft[i] = false end
                local after = step(step(before, context, draft), context + kept, flags(4, false))
                local pools = (context + kept + 4) // 4
                assert.same(keys(plain, pools), keys(after, pools))
            end
        end
    end)
end)
