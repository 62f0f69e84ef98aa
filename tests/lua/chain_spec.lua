-- The launches that are timed for a kernel of a step, and what is made of their times.
local chain = require("lua.chain")

-- A step whose launch i is of the kernel with the i-th letter: each but the first is programmatic.
local function step(letters)
    local launches = {}
    for i = 1, #letters do
        launches[i] = {
            kernel = letters:sub(i, i), launch = { block = i }, args = { "w" .. i },
            programmatic = i > 1,
        }
    end
    return launches
end

local function numbers_of(letters, letter)
    local list = {}
    for i = 1, #letters do
        if letters:sub(i, i) == letter then list[#list + 1] = i end
    end
    return list
end

-- "a1 >b2": kernels and numbers, the mark before one that may begin early.
local function text(list)
    local words = {}
    for i, one in ipairs(list) do
        assert.equal("w" .. one.launch.block, one.args[1])
        words[i] = (one.programmatic and ">" or "") .. one.kernel .. one.launch.block
    end
    return table.concat(words, " ")
end

local function lists(letters, letter)
    local whole, producers = chain.lists(step(letters), numbers_of(letters, letter))
    return text(whole), text(producers)
end

-- A launch takes 10 us, one that waits 3 more, one of kernel b 5 more.
local function clock(list)
    local us = 0
    for _, one in ipairs(list) do
        us = us + 10 + (one.programmatic and 0 or 3) + (one.kernel == "b" and 5 or 0)
    end
    return us
end

describe("a kernel's launches alone", function()
    it("are all of them in order, and each waits", function()
        assert.equal("b2 b4", text(chain.alone(step("abcba"), { 2, 4 })))
    end)

    it("leave the step's as they were", function()
        local launches = step("ab")
        chain.alone(launches, { 2 })
        chain.lists(launches, { 2 })
        assert.same(step("ab"), launches)
    end)
end)

describe("a kernel's chain", function()
    it("has in front of each launch the one that the step has there", function()
        local whole, producers = lists("acbcabd", "b")
        assert.equal("c2 >b3 >a5 >b6", whole)
        assert.equal("c2 >a5", producers)
    end)

    it("has a launch once that is also the next one's producer", function()
        local whole, producers = lists("abbcb", "b")
        assert.equal("a1 >b2 >b3 >c4 >b5", whole)
        assert.equal("a1 >c4", producers)
    end)

    it("begins with a step's first launch where that is the kernel's", function()
        local whole, producers = lists("bcab", "b")
        assert.equal("b1 >a3 >b4", whole)
        assert.equal("a3", producers)
    end)

    it("keeps an edge that is not programmatic", function()
        local launches = step("abab")
        launches[3].programmatic = false
        assert.equal("a1 >b2 a3 >b4", text((chain.lists(launches, { 2, 4 }))))
    end)
end)

describe("a kernel's time in the chain", function()
    local function us(letters, letter)
        return chain.us(step(letters), numbers_of(letters, letter), clock)
    end

    it("is what its launches add to their producers, on average", function()
        assert.equal(15, us("acbcab", "b"))
        assert.equal(10, us("bcbab", "c"))
    end)

    it("is shown as it is measured, below zero too", function()
        local function slow(list) return #list == 1 and 12 or 9 end
        assert.equal(-3, chain.us(step("ab"), { 2 }, slow))
    end)

    it("is none where nothing is in front of the kernel", function()
        assert.is_nil(us("bba", "b"))
    end)
end)
