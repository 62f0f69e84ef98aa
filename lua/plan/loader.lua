-- What making weights needs of a device: buffers, also short-lived ones, single launches of
-- families, and tensors' bytes, which pass through host memory in pieces.
local catalog = require("gen.catalog")
local choice = require("lua.choice")
local compile = require("lua.plan.compile")
local ctype = require("gen.ctype")
local fault = require("lua.fault")
local lathe = require("lathe")
local param = require("gen.param")
local region = require("lua.plan.region")
local scales = require("lua.model.scales")
local shape = require("gen.shape")
local variant = require("gen.variant")

local loader = {}

local KEPT <const> = 1 << 20        -- bytes of a short-lived buffer that stays to be used again
local PIECE <const> = 16 << 20      -- bytes of host memory for an upload
local NUMBERS <const> = 1 << 16     -- elements that are converted at once

-- known: kernels = of family and shape, which were made before; loaded = of a kernel's name, on the
-- device. The loader adds to them and frees them. tell(bytes): what has been read so far; often.
function loader.new(target, found, known, tell)
    return setmetatable({
        target = target, found = found, tell = tell, bytes = 0, at = "", kernels = known.kernels,
        loaded = known.loaded, spare = {}, arrays = {},
    }, { __index = loader, __close = loader.free })
end

-- Frees the short-lived buffers of more than `most` bytes that nobody holds.
local function free_spare(self, most)
    for bytes, list in pairs(self.spare) do
        if bytes > most then
            for _, buffer in ipairs(list) do buffer:free() end
            self.spare[bytes] = nil
        end
    end
end

function loader:free()
    free_spare(self, 0)
    for _, array in pairs(self.arrays) do array:free() end
    self.arrays = {}
    for name, loaded in pairs(self.loaded) do
        loaded:free()
        self.loaded[name] = nil
    end
end

-- What faults name from here on.
function loader:enter(name) self.at = name end

-- The values of a call that fails when the machine does.
function loader:reach(value, why)
    if not value then fault.device(("%s: %s"):format(self.at, why)) end
    return value
end

-- A buffer that stays: 0xff where it is not written.
function loader:alloc(bytes) return self:reach(self.target.device:alloc(bytes)) end

-- ---- short-lived buffers: those of one size are used again ----

local temporary = {}

function temporary:alloc(bytes)
    local list = self.loader.spare[bytes]
    local buffer = list and table.remove(list) or self.loader:alloc(bytes)
    table.insert(self, { buffer = buffer, bytes = bytes })
    return buffer
end

local function give_back(self)
    local spare = self.loader.spare
    for _, each in ipairs(self) do
        spare[each.bytes] = spare[each.bytes] or {}
        table.insert(spare[each.bytes], each.buffer)
    end
end

-- `local mine <close> = loader:temporary()`; mine:alloc(bytes) lasts as long as it.
function loader:temporary()
    return setmetatable({ loader = self }, { __index = temporary, __close = give_back })
end

-- Frees the large ones that nobody holds.
function loader:drop() free_spare(self, KEPT) end

-- ---- launches ----

local function default_kernel(self, family, s)
    local target = self.target
    local served, why = choice.served(family, s)
    if not served then
        fault.usage(("%s: %s %s is not served: %s"):format(self.at, family.name,
            shape.text(family, s), why))
    end
    local v = variant.default(family, s, target.dev)
    if not v then fault.usage(choice.no_variant(family, s, target.dev)) end
    return choice.kernel(family, s, v, target.arch, target.dev)
end

-- A family's default kernel, and the same on the device.
local function loaded_kernel(self, family, s)
    local key = family.name .. " " .. shape.text(family, s)
    local kernel = self.kernels[key] or default_kernel(self, family, s)
    self.kernels[key] = kernel
    if not self.loaded[kernel.name] then
        local loaded, said = self.target.device:load(kernel)
        self.loaded[kernel.name] = self:reach(loaded, said)
        compile.count(self.target, kernel, said)
    end
    return kernel, self.loaded[kernel.name]
end

-- Runs a family's default variant once. args: buffers or { buffer, offset } by name.
function loader:apply(family_name, s, args)
    local mine <close> = self:temporary()
    local family = fault.expect(catalog.find(self.target.families, family_name))
    local kernel, loaded = loaded_kernel(self, family, s)
    local list = {}
    for i, each in ipairs(kernel.params) do
        list[i] = args[each.name]
        if each.scratch then
            list[i] = mine:alloc(each.bytes)
            if each.ctype == "u32" then self:reach(list[i]:fill(0)) end
        end
    end
    self:reach(self.target.device:launch(loaded, kernel.launch, list))
end

-- A buffer for a family's arg at a shape; of `count` such args one behind the other. Their bytes.
function loader:alloc_arg(family_name, s, arg, count)
    local family = fault.expect(catalog.find(self.target.families, family_name))
    for _, each in ipairs(fault.expect(param.args(family, s))) do
        if each.name == arg then return self:alloc(each.bytes * (count or 1)), each.bytes end
    end
end

-- ---- tensors ----

local function count_read(self, bytes)
    self.bytes = self.bytes + bytes
    self.tell(self.bytes)
end

-- An array of the host, which the next piece of that size uses again: its pages are there.
local function array_of(self, format, count)
    local key = format.name .. count
    self.arrays[key] = self.arrays[key] or self:reach(lathe.array(format.name, count))
    return self.arrays[key]
end

-- Calls take(array, count, at) for the pieces of a region: `count` elements, `most` at most unless
-- one run has more, and how many were before them.
local function each_piece(self, whole, format, most, take)
    local at = 0
    for _, piece in ipairs(region.pieces(whole, most * format.bytes)) do
        local count = piece.width * piece.count // format.bytes
        local array = array_of(self, format, count)
        self.found.weights:gather(piece.name, piece.offset, piece.width, piece.pitch, array)
        take(array, count, at)
        at = at + count
        count_read(self, count * format.bytes)
    end
end

-- Copies the bytes of a region into a buffer.
function loader:upload(whole, buffer, offset)
    each_piece(self, whole, ctype.find("u8"), PIECE, function(array, _, at)
        self:reach(buffer:write(array, offset + at))
    end)
end

-- Copies the numbers of a region in another format, converted on the host.
function loader:convert(whole, from, to, buffer, offset)
    each_piece(self, whole, from, NUMBERS, function(old, count, at)
        local new <close> = self:reach(lathe.array(to.name, count))
        new:copy(old)
        self:reach(buffer:write(new, offset + at * to.bytes))
    end)
end

-- A scale of a part: "weight_scale_2" or "input_scale".
function loader:number(part, which)
    return fault.expect(scales.number(self.found.weights, part.scales[which]))
end

-- Numbers of the host, to be set and written.
function loader:numbers(count) return self:reach(lathe.array("f32", count)) end

-- The same number, so many times.
function loader:write_numbers(buffer, offset, count, value)
    local a <close> = self:numbers(count)
    for i = 0, count - 1 do a:set(i, value) end
    self:reach(buffer:write(a, offset))
end

return loader
