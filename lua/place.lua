-- A case's inputs on a device: row-major as they are, weights through the packer of their layout.
local arch = require("gen.arch")
local catalog = require("gen.catalog")
local choice = require("lua.choice")
local fault = require("lua.fault")
local lathe = require("lathe")
local scope = require("lua.scope")
local variant = require("gen.variant")

local place = {}

local function upload(p, device, array, mine)
    local buffer = mine:add(fault.reach(device:alloc(p.bytes)))
    fault.reach(buffer:write(array))
    return buffer
end

-- The consumer's sizes that the packer knows too.
local function packer_shape(packer, c)
    local s = {}
    for _, size in ipairs(packer.shape) do
        s[size] = c.shape[size]
        if not s[size] then
            fault.usage(("%s: its packer %s needs the size %s"):format(
                c.family.name, packer.name, size))
        end
    end
    local served, why = packer.serves(s)
    if not served then fault.usage(("%s: not served: %s"):format(packer.name, why)) end
    return s
end

-- The buffers of a packer's launch; what it writes is added to the consumer's.
local function packer_buffers(target, c, kernel, buffers, mine, temporary)
    local list = {}
    for i, p in ipairs(kernel.params) do
        local array = c.inputs[p.name] or c.inputs[p.name:match("^(.*)_rows$")]
        if p.out then
            list[i] = mine:add(fault.reach(target.device:alloc(p.bytes)))
            buffers[p.name] = list[i]
        elseif p.scratch then
            list[i] = temporary:add(fault.reach(target.device:alloc(p.bytes)))
        elseif array then
            list[i] = upload(p, target.device, array, temporary)
        else
            fault.usage(("%s: %s has no arg for its packer's '%s'"):format(
                kernel.name, c.family.name, p.name))
        end
    end
    return list
end

local function pack(target, c, layout, buffers, mine)
    local packer = fault.expect(catalog.packer(target.families, layout))
    local s = packer_shape(packer, c)
    local v = variant.default(packer, s, target.dev)
    if not v then fault.usage(choice.no_variant(packer, s, target.dev)) end
    local kernel = choice.kernel(packer, s, v, target.arch, target.dev)
    local temporary <close> = scope.new()
    local list = packer_buffers(target, c, kernel, buffers, mine, temporary)
    local loaded = temporary:add(fault.reach(target.device:load(kernel)))
    fault.reach(target.device:launch(loaded, kernel.launch, list))
end

local PLACED <const> = {
    __index = { free = function(placed) placed.mine:free() end },
    __close = function(placed) placed.mine:free() end,
}

-- target: device, dev (facts for gen/), arch, families, is_cpu. left: CPU buffers begin at a page.
-- shared: buffers by name that are there already and outlive this. Fields: case, target, left,
-- buffers (by name).
function place.new(target, c, left, shared)
    local mine, buffers, packed = scope.new(), {}, {}
    local placed = setmetatable({
        case = c, target = target, left = left, buffers = buffers, mine = mine,
    }, PLACED)
    if target.is_cpu then fault.reach(target.device:play({ order = 0, left = left })) end
    for _, p in ipairs(c.args) do
        if shared and shared[p.name] then
            buffers[p.name] = shared[p.name]
        elseif p.layout and not p.out and not packed[p.layout] then
            pack(target, c, p.layout, buffers, mine)
            packed[p.layout] = true
        elseif not p.layout and not p.out then
            buffers[p.name] = upload(p, target.device, c.inputs[p.name], mine)
        end
    end
    return placed
end

-- The same inputs but for those that choose (ids, tokens), which are drawn with another seed. It
-- ends before `placed`.
function place.again(placed, seed)
    local mine, buffers = scope.new(), {}
    for name, buffer in pairs(placed.buffers) do buffers[name] = buffer end
    for _, p in ipairs(placed.case.args) do
        if p.ctype == "i32" and not p.out then
            local array = placed.case:draw_again(p, seed)
            buffers[p.name] = upload(p, placed.target.device, array, mine)
        end
    end
    return setmetatable({
        case = placed.case, target = placed.target, left = placed.left, buffers = buffers,
        mine = mine,
    }, PLACED)
end

-- Opens a device by name; the target of place.new, of plans (is_apart: memory.place) and sessions.
-- key: whose records count. families: a catalog, or nil. arch_name: whose text it runs, sms: chosen
-- for how many multiprocessors; only the CPU device plays another device than itself.
function place.open(name, families, arch_name, sms)
    fault.expect(lathe.prepare())
    families = families or choice.catalog()
    local device, info, dev = choice.device(name)
    local is_cpu, own, key = info.name == "cpu", info.arch, info.key
    if arch_name and is_cpu then
        own, key = arch.on_cpu(choice.arch(arch_name)), choice.key(arch_name, sms or 1)
        dev = arch.device(own, sms or 1)
    elseif arch_name and choice.arch(arch_name) ~= own then
        fault.usage(("--arch: %s runs %s (--device cpu plays %s)"):format(
            info.name, own, arch_name))
    end
    return {
        device = device, info = info, dev = dev, arch = own, key = key, is_cpu = is_cpu,
        is_apart = is_cpu, families = families,
    }
end

return place
