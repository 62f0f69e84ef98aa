-- Makes a circuit's weights on the device from a checkpoint: uploads rows, decodes, quantises,
-- absorbs and packs them with the load-time families. Every array is made once; what it was made
-- from is freed at once, and of stacked experts there is one such at a time.
local ctype = require("gen.ctype")
local loader = require("lua.plan.loader")
local region = require("lua.plan.region")

local weights = {}

local function elements(part)
    local n = 1
    for _, extent in ipairs(part.shape) do n = n * extent end
    return n
end

-- Rows and columns of parts that are stacked.
local function shape_of(parts)
    local rows = 0
    for _, part in ipairs(parts) do rows = rows + part.shape[1] end
    return { N = rows, K = parts[1].shape[2] }
end

-- Calls stage(part, row) for each part and the row that it begins at.
local function each_part(parts, stage)
    local row = 0
    for _, part in ipairs(parts) do
        stage(part, row)
        row = row + part.shape[1]
    end
end

-- ---- tensors as they are ----

local function make_plain(p, weight)
    local to, total, at = ctype.find(weight.format), 0, 0
    for _, part in ipairs(weight.parts) do total = total + elements(part) end
    local buffer = p:alloc(total * to.bytes)
    for _, part in ipairs(weight.parts) do
        local from = ctype.find(part.format)
        local bytes = region.of(part, part.name, from.bytes, 1)
        if from == to then
            p:upload(bytes, buffer, at)
        else
            p:convert(bytes, from, to, buffer, at)
        end
        at = at + elements(part) * to.bytes
    end
    return { data = buffer }
end

-- ---- rows in bf16 ----

local function upload_bf16(p, part, buffer, offset)
    p:upload(region.of(part, part.name, 2, 1), buffer, offset)
end

-- Codes, two a byte, and scales, one of 16, to a pair of buffers, from row `row` on.
local function upload_nvfp4(p, part, codes, scales, row)
    local k = part.shape[2]
    p:upload(region.of(part, part.name, 1, 2), codes, row * k // 2)
    p:upload(region.of(part, part.scales.weight_scale, 1, 16), scales, row * k // 16)
end

-- The rows of one part as bf16, from row `row` of a buffer on.
local function stage_bf16(p, part, to, row)
    local n, k = part.shape[1], part.shape[2]
    if part.format == "bf16" then return upload_bf16(p, part, to, 2 * row * k) end
    local mine <close> = p:temporary()
    local codes, scales, scale = mine:alloc(n * k // 2), mine:alloc(n * k // 16), mine:alloc(4)
    upload_nvfp4(p, part, codes, scales, 0)
    p:write_numbers(scale, 0, 1, p:number(part, "weight_scale_2"))
    p:apply("nvfp4_dequant", { N = n, K = k },
        { y = { to, 2 * row * k }, codes = codes, scales = scales, scale = scale })
end

local function stage_rows(p, parts, mine)
    local s = shape_of(parts)
    local rows = mine:alloc(2 * s.N * s.K)
    each_part(parts, function(part, row) stage_bf16(p, part, rows, row) end)
    return rows, s
end

-- The absorbed matrix in bf16 or f32.
local function stage_absorbed(p, parts, format, mine)
    local kv_b, other = parts[1], parts[2]
    local a, b = mine:alloc(2 * elements(kv_b)), mine:alloc(2 * elements(other))
    upload_bf16(p, kv_b, a, 0)
    upload_bf16(p, other, b, 0)
    local is_q, width = parts.which == "q", parts.heads * parts.latent
    local s = is_q and { N = width, K = other.shape[2] } or { N = other.shape[1], K = width }
    local rows = mine:alloc((format == "f32" and 4 or 2) * s.N * s.K)
    p:apply("dsa_absorb." .. parts.which .. (format == "f32" and "" or "_bf16"), {
        HEADS = parts.heads, D = parts.dim, LATENT = parts.latent, K = is_q and s.K or nil,
        N = not is_q and s.N or nil,
    }, { w = rows, kv_b = a, [is_q and "q_b" or "o_proj"] = b })
    return rows, s
end

local function pack_bf16(p, rows, s)
    local w = p:alloc_arg("pack_bf16_tile16", s, "w")
    p:apply("pack_bf16_tile16", s, { w = w, w_rows = rows })
    return { w = w }
end

-- format: of the rows.
local function pack_e4m3(p, rows, s, format)
    local mine <close> = p:temporary()
    local q, sw = mine:alloc(s.N * s.K), p:alloc(4 * s.N)
    p:apply("e4m3_row_quant." .. format, s, { q = q, sw = sw, w = rows })
    local w = p:alloc_arg("pack_e4m3_tile16", s, "w")
    p:apply("pack_e4m3_tile16", s, { w = w, w_rows = q })
    return { w = w, sw = sw }
end

local function make_rows(p, weight)
    local mine <close> = p:temporary()
    local is_e4m3 = weight.format == "w8a8"
    local format, rows, s = "bf16"
    if weight.parts.which then
        if is_e4m3 then format = "f32" end
        rows, s = stage_absorbed(p, weight.parts, format, mine)
    else
        rows, s = stage_rows(p, weight.parts, mine)
    end
    if is_e4m3 then return pack_e4m3(p, rows, s, format) end
    return pack_bf16(p, rows, s)
end

-- ---- NVFP4 ----

local PACKERS <const> = {  -- by kind of weight
    rows = "pack_nvfp4_tile16", halves = "pack_nvfp4_tile16_halves",
    experts = "pack_nvfp4_tile16_experts",
    ["experts halves"] = "pack_nvfp4_tile16_experts_halves",
}

-- One part quantised; its scale2 goes to sw = { buffer, offset }, for each row or once.
local function quantise(p, part, to, row, sw, is_each_row)
    local n, k = part.shape[1], part.shape[2]
    local mine <close> = p:temporary()
    local rows = mine:alloc(2 * n * k)
    local scale = is_each_row and mine:alloc(4) or sw
    upload_bf16(p, part, rows, 0)
    p:apply("nvfp4_amax", { N = n, K = k }, { scale = scale, w = rows })
    p:apply("nvfp4_quant", { N = n, K = k }, {
        codes = { to.codes, row * k // 2 }, scales = { to.scales, row * k // 16 },
        sw = is_each_row and sw or mine:alloc(4 * n), w = rows, scale = scale,
    })
end

-- The NVFP4 rows of one part, stored or quantised, from row `row` of a pair of buffers on.
local function stage_nvfp4(p, part, to, row, sw)
    if part.format == "bf16" then return quantise(p, part, to, row, sw, true) end
    upload_nvfp4(p, part, to.codes, to.scales, row)
    p:write_numbers(sw[1], sw[2], part.shape[1], p:number(part, "weight_scale_2"))
end

local function alloc_nvfp4(s, mine)
    return { codes = mine:alloc(s.N * s.K // 2), scales = mine:alloc(s.N * s.K // 16) }
end

-- One scalar for a launch: the largest input_scale of its weights.
local function input_scale(p, lists)
    local largest = 0
    for _, parts in ipairs(lists) do
        for _, part in ipairs(parts) do
            largest = math.max(largest, p:number(part, "input_scale"))
        end
    end
    local buffer = p:alloc(4)
    p:write_numbers(buffer, 0, 1, largest)
    return buffer
end

local function make_nvfp4(p, weight)
    local mine <close> = p:temporary()
    local s, packer = shape_of(weight.parts), PACKERS[weight.kind]
    local to, made = alloc_nvfp4(s, mine), { sw = p:alloc(4 * s.N) }
    each_part(weight.parts, function(part, row)
        stage_nvfp4(p, part, to, row, { made.sw, 4 * row })
    end)
    made.w, made.ws = p:alloc_arg(packer, s, "w"), p:alloc_arg(packer, s, "ws")
    p:apply(packer, s, { w = made.w, ws = made.ws, w_rows = to.codes, ws_rows = to.scales })
    if weight.has_input_scale then made.input_scale = input_scale(p, { weight.parts }) end
    return made
end

-- ---- stacked experts ----

-- The parts of each expert: gate and up, or down.
local function parts_by_expert(lists)
    local all = {}
    for e = 0, #lists[1] do
        all[e + 1] = {}
        for i, list in ipairs(lists) do all[e + 1][i] = list[e] end
    end
    return all
end

local function shape_of_expert(parts)
    local s = shape_of(parts)
    s.EXPERTS = 1
    return s
end

local function make_experts_bf16(p, experts)
    local s, packer = shape_of_expert(experts[1]), "pack_bf16_tile16_experts"
    local w, bytes = p:alloc_arg(packer, s, "w", #experts)
    for i, parts in ipairs(experts) do
        local mine <close> = p:temporary()
        p:apply(packer, s, { w = { w, (i - 1) * bytes }, w_rows = (stage_rows(p, parts, mine)) })
    end
    return { w = w }
end

-- The experts' parts have one format.
local function make_experts_nvfp4(p, experts, packer, has_input_scale)
    local mine <close> = p:temporary()
    local s, count = shape_of_expert(experts[1]), #experts
    local is_stored, tensors = experts[1][1].format ~= "bf16", count * #experts[1]
    local to, made = alloc_nvfp4(s, mine), { sw = p:alloc(4 * tensors) }
    local sw <close> = p:numbers(tensors)
    local w, bytes = p:alloc_arg(packer, s, "w", count)
    local ws, scale_bytes = p:alloc_arg(packer, s, "ws", count)
    local tensor = 0
    for i, parts in ipairs(experts) do
        each_part(parts, function(part, row)
            if is_stored then
                upload_nvfp4(p, part, to.codes, to.scales, row)
                sw:set(tensor, p:number(part, "weight_scale_2"))
            else
                quantise(p, part, to, row, { made.sw, 4 * tensor }, false)
            end
            tensor = tensor + 1
        end)
        p:apply(packer, s, {
            w = { w, (i - 1) * bytes }, ws = { ws, (i - 1) * scale_bytes }, w_rows = to.codes,
            ws_rows = to.scales,
        })
    end
    if is_stored then p:reach(made.sw:write(sw)) end
    made.w, made.ws = w, ws
    if has_input_scale then made.input_scale = input_scale(p, experts) end
    return made
end

local function make_experts(p, weight)
    local experts = parts_by_expert(weight.experts)
    if weight.format == "bf16" then return make_experts_bf16(p, experts) end
    return make_experts_nvfp4(p, experts, PACKERS[weight.kind], weight.has_input_scale)
end

local function make(p, weight)
    p:enter(("weight '%s'"):format(weight.parts[1].name))
    if weight.kind == "plain" then return make_plain(p, weight) end
    if weight.kind:find("^experts") then return make_experts(p, weight) end
    if weight.format == "w4a16" or weight.format == "w4a4" then return make_nvfp4(p, weight) end
    return make_rows(p, weight)
end

-- Arrays by name of each weight of the circuit, by the weight. tell(done, count, bytes) is called
-- often, with the bytes read. known: what loader.new takes.
function weights.make(target, found, list, known, tell)
    local made, done = {}, 0
    local p <close> = loader.new(target, found, known,
        function(bytes) tell(done, #list, bytes) end)
    for i, weight in ipairs(list) do
        made[weight] = make(p, weight)
        p:drop()
        done = i
        tell(done, #list, p.bytes)
    end
    return made
end

return weights
