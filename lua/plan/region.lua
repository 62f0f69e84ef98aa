-- Which bytes of a tensor in a file a part is: equal runs. A whole tensor is one run, as are some
-- of its rows; of some of its columns each row has one.
local region = {}

local function product(shape, from)
    local n = 1
    for axis = from, #shape do n = n * shape[axis] end
    return n
end

-- { name, offset, width, pitch, count }: bytes, and the number of runs. name: of the tensor, which
-- has `bytes` bytes for `elements` elements of the part.
function region.of(part, name, bytes, elements)
    local slice, shape = part.slice, part.whole or part.shape
    if not slice then
        local width = product(shape, 1) * bytes // elements
        return { name = name, offset = 0, width = width, pitch = width, count = 1 }
    end
    local each = product(shape, slice.axis + 1)  -- elements of a row; of columns 1
    local from, to = slice.from * each * bytes // elements, slice.to * each * bytes // elements
    local pitch = product(shape, slice.axis) * bytes // elements
    local count = slice.axis == 1 and 1 or shape[1]
    return { name = name, offset = from, width = to - from, pitch = pitch, count = count }
end

-- The region in parts of `most` bytes at most, a run at least: regions of the same tensor.
function region.pieces(all, most)
    if all.width * all.count <= most then return { all } end
    local list = {}
    if all.count == 1 then
        for from = 0, all.width - 1, most do
            local width = math.min(most, all.width - from)
            list[#list + 1] = {
                name = all.name, offset = all.offset + from, width = width, pitch = width,
                count = 1,
            }
        end
        return list
    end
    local step = math.max(1, most // all.width)
    for run = 0, all.count - 1, step do
        list[#list + 1] = {
            name = all.name, offset = all.offset + run * all.pitch, width = all.width,
            pitch = all.pitch, count = math.min(step, all.count - run),
        }
    end
    return list
end

return region
