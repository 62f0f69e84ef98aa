-- Makes a circuit's weights on the device from a checkpoint: uploads rows in pieces, decodes,
-- quantises, absorbs and packs them with the load-time families. Every array is made once; what it
-- was made from is freed at once.
local catalog = require("gen.catalog")
local choice = require("lua.choice")
local ctype = require("gen.ctype")
local fault = require("lua.fault")
local lathe = require("lathe")
local param = require("gen.param")
local scope = require("lua.scope")
local variant = require("gen.variant")

local weights = {}

local PIECE <const> = 16 << 20  -- bytes of host memory for an upload

local function alloc(p, bytes) return fault.reach(p.target.device:alloc(bytes)) end

-- Runs a family's default variant once. args: buffers or { buffer, offset } by name.
local function apply(p, family_name, shape, args)
    local target = p.target
    local family = fault.expect(catalog.find(target.families, family_name))
    local v = variant.kept(family, shape, target.dev)[1]
    if not v then fault.usage(choice.no_variant(family, shape, target.dev)) end
    local kernel = choice.kernel(family, shape, v, target.arch, target.dev)
    local loaded = p.kernels[kernel.name]
    if not loaded then
        loaded = fault.reach(target.device:load(kernel))
        p.kernels[kernel.name] = loaded
    end
    local list, temporary <close> = {}, scope.new()
    for i, each in ipairs(kernel.params) do
        list[i] = args[each.name]
        if each.scratch then
            list[i] = temporary:add(alloc(p, each.bytes))
            if each.ctype == "u32" then fault.reach(list[i]:fill(0)) end
        end
    end
    fault.reach(target.device:launch(loaded, kernel.launch, list))
end

-- Bytes of a family's arg at a shape.
local function bytes_of(p, family_name, shape, arg)
    local family = fault.expect(catalog.find(p.target.families, family_name))
    for _, each in ipairs(fault.expect(param.args(family, shape))) do
        if each.name == arg then return each.bytes end
    end
end

-- Copies a tensor's bytes into a buffer.
local function upload(p, name, bytes, buffer, offset)
    for from = 0, bytes - 1, PIECE do
        local count = math.min(PIECE, bytes - from)
        local piece <close> = fault.reach(lathe.array("u8", count))
        p.found.weights:load(name, from, piece)
        fault.reach(buffer:write(piece, offset + from))
    end
    p.done = p.done + bytes
end

local function elements(part)
    local n = 1
    for _, extent in ipairs(part.shape) do n = n * extent end
    return n
end

-- A small tensor in another format than the file's: element by element on the host.
local function convert(p, part, format, buffer, offset)
    local n = elements(part)
    local from <close> = fault.reach(lathe.array(part.format, n))
    local to <close> = fault.reach(lathe.array(format, n))
    p.found.weights:load(part.name, 0, from)
    for i = 0, n - 1 do to:set(i, from:at(i)) end
    fault.reach(buffer:write(to, offset))
end

local function make_plain(p, weight)
    local size, total, at = ctype.find(weight.format).bytes, 0, 0
    for _, part in ipairs(weight.parts) do total = total + elements(part) end
    local buffer = alloc(p, total * size)
    for _, part in ipairs(weight.parts) do
        if part.format == weight.format then
            upload(p, part.name, elements(part) * size, buffer, at)
        else
            convert(p, part, weight.format, buffer, at)
        end
        at = at + elements(part) * size
    end
    return { data = buffer }
end

local function write_numbers(buffer, offset, count, value)
    local a <close> = fault.reach(lathe.array("f32", count))
    for i = 0, count - 1 do a:set(i, value) end
    fault.reach(buffer:write(a, offset))
end

local function number(p, part, which) return p.found.weights:number(part.scales[which]) end

-- The rows of one part as bf16, from row `row` of a staging buffer on.
local function stage_bf16(p, part, staging, row)
    local n, k = part.shape[1], part.shape[2]
    if part.format == "bf16" then
        return upload(p, part.name, 2 * n * k, staging, 2 * row * k)
    end
    local mine <close> = scope.new()
    local codes, scales = mine:add(alloc(p, n * k // 2)), mine:add(alloc(p, n * k // 16))
    local scale = mine:add(alloc(p, 4))
    upload(p, part.name, n * k // 2, codes, 0)
    upload(p, part.scales.weight_scale, n * k // 16, scales, 0)
    write_numbers(scale, 0, 1, number(p, part, "weight_scale_2"))
    apply(p, "nvfp4_dequant", { N = n, K = k },
        { y = { staging, 2 * row * k }, codes = codes, scales = scales, scale = scale })
end

local function stacked_rows(parts)
    local rows = 0
    for _, part in ipairs(parts) do rows = rows + part.shape[1] end
    return rows, parts[1].shape[2]
end

local function stage_rows(p, parts, mine)
    local n, k = stacked_rows(parts)
    local staging, row = mine:add(alloc(p, 2 * n * k)), 0
    for _, part in ipairs(parts) do
        stage_bf16(p, part, staging, row)
        row = row + part.shape[1]
    end
    return staging, { N = n, K = k }
end

-- The absorbed matrix in bf16 or f32.
local function stage_absorbed(p, parts, format, mine)
    local kv_b, other = parts[1], parts[2]
    local a, b = mine:add(alloc(p, 2 * elements(kv_b))), mine:add(alloc(p, 2 * elements(other)))
    upload(p, kv_b.name, 2 * elements(kv_b), a, 0)
    upload(p, other.name, 2 * elements(other), b, 0)
    local is_q, width = parts.which == "q", parts.heads * parts.latent
    local shape = is_q and { N = width, K = other.shape[2] } or { N = other.shape[1], K = width }
    local staging = mine:add(alloc(p, (format == "f32" and 4 or 2) * shape.N * shape.K))
    local args = { w = staging, kv_b = a, [is_q and "q_b" or "o_proj"] = b }
    local sizes = { HEADS = parts.heads, D = parts.dim, LATENT = parts.latent }
    if is_q then sizes.K = shape.K else sizes.N = shape.N end
    apply(p, "dsa_absorb." .. parts.which .. (format == "f32" and "" or "_bf16"), sizes, args)
    return staging, shape
end

local function pack_bf16(p, staging, shape)
    local w = alloc(p, bytes_of(p, "pack_bf16_tile16", shape, "w"))
    apply(p, "pack_bf16_tile16", shape, { w = w, w_rows = staging })
    return { w = w }
end

local function pack_e4m3(p, staging, shape, format)
    local mine <close> = scope.new()
    local q, sw = mine:add(alloc(p, shape.N * shape.K)), alloc(p, 4 * shape.N)
    apply(p, "e4m3_row_quant." .. format, shape, { q = q, sw = sw, w = staging })
    local w = alloc(p, bytes_of(p, "pack_e4m3_tile16", shape, "w"))
    apply(p, "pack_e4m3_tile16", shape, { w = w, w_rows = q })
    return { w = w, sw = sw }
end

-- The NVFP4 rows of one part, stored or quantised, from row `row` of stacked buffers on.
local function stage_nvfp4(p, part, to, row)
    local n, k = part.shape[1], part.shape[2]
    local codes_at, scales_at = row * k // 2, row * k // 16
    if part.format == "nvfp4" then
        upload(p, part.name, n * k // 2, to.codes, codes_at)
        upload(p, part.scales.weight_scale, n * k // 16, to.scales, scales_at)
        if to.sw then write_numbers(to.sw, 4 * row, n, number(p, part, "weight_scale_2")) end
        return
    end
    local mine <close> = scope.new()
    local rows, scale = mine:add(alloc(p, 2 * n * k)), mine:add(alloc(p, 4))
    upload(p, part.name, 2 * n * k, rows, 0)
    apply(p, "nvfp4_amax", { N = n, K = k }, { scale = scale, w = rows })
    apply(p, "nvfp4_quant", { N = n, K = k }, {
        codes = { to.codes, codes_at }, scales = { to.scales, scales_at },
        sw = { to.sw, 4 * row }, w = rows, scale = scale,
    })
end

-- One scalar for the launch: the largest input_scale of its weights.
local function input_scale(p, parts)
    local largest = 0
    for _, part in ipairs(parts) do
        if not part.scales then
            fault.usage(("tensor '%s': is BF16, and this recipe multiplies it with NVFP4 "
                .. "activations, whose scale only an NVFP4 weight has (take --recipe reference)")
                :format(part.name))
        end
        largest = math.max(largest, number(p, part, "input_scale"))
    end
    local buffer = alloc(p, 4)
    write_numbers(buffer, 0, 1, largest)
    return buffer
end

local function make_nvfp4(p, weight)
    local n, k = stacked_rows(weight.parts)
    local mine <close> = scope.new()
    local to = { codes = mine:add(alloc(p, n * k // 2)), scales = mine:add(alloc(p, n * k // 16)),
        sw = alloc(p, 4 * n) }
    local row = 0
    for _, part in ipairs(weight.parts) do
        stage_nvfp4(p, part, to, row)
        row = row + part.shape[1]
    end
    local shape = { N = n, K = k }
    local made = { sw = to.sw }
    made.w = alloc(p, bytes_of(p, "pack_nvfp4_tile16", shape, "w"))
    made.ws = alloc(p, bytes_of(p, "pack_nvfp4_tile16", shape, "ws"))
    apply(p, "pack_nvfp4_tile16", shape,
        { w = made.w, ws = made.ws, w_rows = to.codes, ws_rows = to.scales })
    if weight.format == "w4a4" then made.input_scale = input_scale(p, weight.parts) end
    return made
end

-- Experts one after the other, of each gate's rows, then up's; or down's.
local function make_experts(p, weight)
    local lists, all = weight.more, {}
    local count, k = #lists[1] + 1, lists[1][0].shape[2]
    local n = #lists * lists[1][0].shape[1]
    local mine <close> = scope.new()
    local to = { codes = mine:add(alloc(p, count * n * k // 2)),
        scales = mine:add(alloc(p, count * n * k // 16)) }
    local sw = alloc(p, 4 * count * #lists)
    for e = 0, count - 1 do
        for i, list in ipairs(lists) do
            local part = list[e]
            if part.format ~= "nvfp4" then
                fault.usage(("tensor '%s': is BF16 (experts are served in NVFP4)"):format(
                    part.name))
            end
            stage_nvfp4(p, part, to, e * n + (i - 1) * part.shape[1])
            write_numbers(sw, 4 * (e * #lists + i - 1), 1, number(p, part, "weight_scale_2"))
            all[#all + 1] = part
        end
    end
    local shape = { EXPERTS = count, N = n, K = k }
    local made, packer = { sw = sw }, "pack_nvfp4_tile16_experts"
    made.w, made.ws = alloc(p, bytes_of(p, packer, shape, "w")),
        alloc(p, bytes_of(p, packer, shape, "ws"))
    apply(p, packer, shape, { w = made.w, ws = made.ws, w_rows = to.codes, ws_rows = to.scales })
    if weight.format == "w4a4" then made.input_scale = input_scale(p, all) end
    return made
end

local function make(p, weight)
    if weight.kind == "plain" then return make_plain(p, weight) end
    if weight.kind == "experts" then return make_experts(p, weight) end
    if weight.format == "w4a16" or weight.format == "w4a4" then return make_nvfp4(p, weight) end
    local mine <close> = scope.new()
    local wanted = weight.format == "w8a8" and "e4m3" or "bf16"
    if weight.more.which then
        local format = wanted == "e4m3" and "f32" or "bf16"
        local staging, shape = stage_absorbed(p, weight.more, format, mine)
        if wanted == "e4m3" then return pack_e4m3(p, staging, shape, format) end
        return pack_bf16(p, staging, shape)
    end
    local staging, shape = stage_rows(p, weight.parts, mine)
    if wanted == "e4m3" then return pack_e4m3(p, staging, shape, "bf16") end
    return pack_bf16(p, staging, shape)
end

-- Arrays by name of each weight of the circuit, by the weight. tell(done, count, bytes) is called
-- after each.
function weights.make(target, found, list, tell)
    local p = { target = target, found = found, kernels = {}, done = 0 }
    local made = {}
    for i, weight in ipairs(list) do
        made[weight] = make(p, weight)
        tell(i, #list, p.done)
    end
    for _, kernel in pairs(p.kernels) do kernel:free() end
    return made
end

return weights
