-- Which of a step's launches are timed for one of its kernels: its own alone, or a chain, in which
-- each of them stands behind the launch that the step has in front of it: its producer.
local chain = {}

-- A launch that begins when all in front of it has ended.
function chain.waiting(one) return { kernel = one.kernel, launch = one.launch, args = one.args } end

-- The first waits, as a step's first does: repetitions of the list do not overlap.
local function add(list, one) list[#list + 1] = #list == 0 and chain.waiting(one) or one end

-- launches: a step's, as device:program takes them; numbers: of the kernel's among them. Its own,
-- none of which overlaps another.
function chain.alone(launches, numbers)
    local list = {}
    for i, number in ipairs(numbers) do list[i] = chain.waiting(launches[number]) end
    return list
end

-- A kernel's launches with their producers, and the producers without them. Each launch is there
-- once, in the order of the step and with the step's programmatic edge; one that is the kernel's
-- and the producer of its next is no producer in the second list.
function chain.lists(launches, numbers)
    local is_own, whole, producers = {}, {}, {}
    for _, number in ipairs(numbers) do is_own[number] = true end
    for i, one in ipairs(launches) do
        if is_own[i] or is_own[i + 1] then add(whole, one) end
        if is_own[i + 1] and not is_own[i] then add(producers, one) end
    end
    return whole, producers
end

-- What a launch of the kernel adds to its producers, on average; nil where it has none, as the
-- first of a step. time: the microseconds that a list takes.
function chain.us(launches, numbers, time)
    local whole, producers = chain.lists(launches, numbers)
    if #producers == 0 then return nil end
    return (time(whole) - time(producers)) / #numbers
end

return chain
