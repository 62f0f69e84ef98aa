-- Golden values for tests: tensors of the tiny model and of its activations, made by code that is
-- not ours, and families run on them through the command line.
local cjson = require("cjson")

local golden = {}

local BYTES <const> = { F32 = 4, BF16 = 2, F16 = 2, I32 = 4, U8 = 1, F8_E4M3 = 1 }
local READ <const> = { F32 = "<f", I32 = "<i4", BF16 = "<I2", F16 = "<I2", U8 = "B", F8_E4M3 = "B" }

local function bf16_bits(x)
    local word = string.unpack("<I4", string.pack("<f", x))
    return (word + 0x7fff + (word >> 16 & 1)) >> 16
end

local function bf16_number(bits) return (string.unpack("<f", string.pack("<I4", bits << 16))) end

local function f16_bits(x)  -- of a number that f16 has
    local word = string.unpack("<I4", string.pack("<f", x))
    local sign, e, bits = word >> 16 & 0x8000, (word >> 23 & 255) - 112, word >> 13 & 1023
    if e <= 0 then return sign | math.tointeger(math.abs(x) * 2.0 ^ 24) end
    return sign | math.min(e, 31) << 10 | bits
end

local function f16_number(word)
    local sign, e, bits = word < 0x8000 and 1.0 or -1.0, word >> 10 & 31, word & 1023
    if e == 31 then return bits == 0 and sign / 0.0 or 0.0 / 0.0 end
    return sign * (e == 0 and bits * 2.0 ^ -24 or (1024 + bits) * 2.0 ^ (e - 25))
end

local BITS <const> = { BF16 = bf16_bits, F16 = f16_bits }
local NUMBER <const> = { BF16 = bf16_number, F16 = f16_number }

local function decode(dtype, data)
    local numbers, at = {}, 1
    for i = 1, #data // BYTES[dtype] do
        local value
        value, at = string.unpack(READ[dtype], data, at)
        numbers[i] = NUMBER[dtype] and NUMBER[dtype](value) or value
    end
    return numbers
end

local function encode(dtype, numbers)
    local parts = {}
    for i, x in ipairs(numbers) do
        if BITS[dtype] then x = BITS[dtype](x) end
        parts[i] = string.pack(READ[dtype], x)
    end
    return table.concat(parts)
end

-- A safetensors file: file:tensor(name) gives { dtype, shape, data = numbers in row-major order }.
function golden.open(path)
    local handle = assert(io.open(path, "rb"))
    local size = string.unpack("<I8", handle:read(8))
    local header = cjson.decode(handle:read(size))
    local file = {}
    function file.tensor(_, name)
        local entry = assert(header[name], name)
        local from = math.tointeger(entry.data_offsets[1])
        local to = math.tointeger(entry.data_offsets[2])
        handle:seek("set", 8 + size + from)
        local shape = {}
        for i, n in ipairs(entry.shape) do shape[i] = math.tointeger(n) end
        return { dtype = entry.dtype, shape = shape,
            data = decode(entry.dtype, to > from and handle:read(to - from) or "") }
    end
    return file
end

function golden.values() return golden.open("tests/tiny/golden.safetensors") end
function golden.model() return golden.open("tests/tiny/model.safetensors") end

local function names_of(tensors)
    local names = {}
    for name in pairs(tensors) do names[#names + 1] = name end
    table.sort(names)
    return names
end

-- tensors: name -> { dtype, shape, data }
function golden.write(path, tensors)
    local header, parts, at = {}, {}, 0
    for _, name in ipairs(names_of(tensors)) do
        local t = tensors[name]
        local data = encode(t.dtype, t.data)
        header[#header + 1] = ('%s:{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}'):format(
            cjson.encode(name), t.dtype, table.concat(t.shape, ","), at, at + #data)
        parts[#parts + 1], at = data, at + #data
    end
    local text = "{" .. table.concat(header, ",") .. "}"
    text = text .. (" "):rep(-#text % 8)
    local file <close> = assert(io.open(path, "wb"))
    file:write(string.pack("<I8", #text), text, table.concat(parts))
end

-- Runs a family's default variant on inputs (name -> { dtype, shape, data }) on the CPU device,
-- which also compares it with its reference; returns the file of its args.
function golden.run(family, words, inputs)
    local from, to, log = os.tmpname(), os.tmpname(), os.tmpname()
    golden.write(from, inputs)
    local ok = os.execute(("./lathe check %s %s --device cpu --in %s --out %s > %s 2>&1"):format(
        family, words, from, to, log))
    local said <close> = assert(io.open(log))
    assert(ok, said:read("a"))
    local outputs = golden.open(to)
    for _, path in ipairs({ from, to, log }) do os.remove(path) end
    return outputs
end

-- Root mean square of got - want as a part of want's.
function golden.error(got, want)
    assert(#got == #want, ("%d values against %d"):format(#got, #want))
    local off, all = 0.0, 0.0
    for i = 1, #want do
        off, all = off + (got[i] - want[i]) ^ 2, all + want[i] ^ 2
    end
    return (off / all) ^ 0.5
end

return golden
