-- What a circuit is made of: operators in order, the weights that they read and how those are made
-- from a checkpoint's tensors, states. A value's name is local to its site ("L03.attn.xn"); one
-- that begins with "/" belongs to the whole step, one with "^" to the site in front.
local wiring = {}

-- recipe: format by kind of weight; n: sizes (M rows, ..)
function wiring.new(recipe, n)
    return setmetatable({
        recipe = recipe, n = n, ops = {}, weights = {}, by_weight = {}, states = {}, by_state = {},
        quantised = {}, at = "",
    }, { __index = wiring })
end

-- Where the operators that follow belong: "L03.attn".
function wiring:enter(at) self.before, self.at, self.quantised = self.at, at, {} end

function wiring:name(value)
    local first = value:sub(1, 1)
    if first == "/" then return value end
    if first == "^" then return self.before .. "." .. value:sub(2) end
    return self.at .. "." .. value
end

-- args: of the family, by name: values by their local names, weights and states as these are given.
function wiring:op(section, family, shape, args, label)
    local named = {}
    for arg, value in pairs(args) do
        named[arg] = type(value) == "string" and self:name(value) or value
    end
    self.ops[#self.ops + 1] = {
        site = self.at .. "." .. (label or family), section = section, family = family,
        shape = shape, args = named,
    }
end

-- What the last operator wrote is this rank's part of a sum over all ranks.
function wiring:partial()
    if self.n.ranks > 1 then self.ops[#self.ops].partial = self.n.ranks end
end

-- "NAME", "NAME[22:43]" of rows, "NAME[,704:1408]" of columns.
local function part_text(part)
    local slice = part.slice
    if not slice then return part.name end
    return ("%s[%s%d:%d]"):format(part.name, slice.axis == 2 and "," or "", slice.from, slice.to)
end

local function key_of(kind, parts, format)
    local names = {}
    for i, part in ipairs(parts) do names[i] = part_text(part) end
    return ("%s %s %s"):format(kind, format, table.concat(names, "+"))
end

-- A weight of this kind; the same one again where it was asked for before. kind: which rows, and
-- "halves" where those of gate and of up share tiles; experts: of stacked ones, for each part of an
-- expert the list of those of all experts, from 0.
function wiring:weight(kind, parts, format, experts)
    local key = key_of(kind, parts, format)
    local found = self.by_weight[key]
    if found then return found end
    found = { key = key, kind = kind, parts = parts, format = format, experts = experts }
    self.by_weight[key], self.weights[#self.weights + 1] = found, found
    return found
end

-- One array of a weight: "w", "ws", "sw"; "data" of a plain one.
local function array_of(weight, name) return { weight = weight, name = name } end

-- Stacked rows of parts, held in this format, and their scales where it has any.
function wiring:rows(parts, format)
    local weight = self:weight("rows", parts, format)
    return array_of(weight, "w"), format ~= "bf16" and array_of(weight, "sw") or nil
end

-- A tensor as it is, or several behind each other, as bf16 or f32.
function wiring:plain(parts, format)
    if parts.name then parts = { parts } end
    return array_of(self:weight("plain", parts, format), "data")
end

-- A buffer that lives as long as the sequence; fill: its first bytes, 0xff where nothing is said.
function wiring:state(name, ctype, extents, fill)
    local key = self:name(name)
    local found = self.by_state[key]
    if found then return found end
    found = { is = "state", key = key, ctype = ctype, extents = extents, fill = fill }
    self.by_state[key], self.states[#self.states + 1] = found, found
    return found
end

-- The absorbed matrix of MLA that stands for q_b (which = "q") or o.
function wiring:absorbed(which, kv_b, other, c)
    return { which = which, kv_b, other, heads = c.mla_heads, dim = c.qk_dim, latent = c.kv_rank }
end

local function rows_of(parts)
    if parts.which == "q" then return parts.heads * parts.latent, parts[2].shape[2] end
    if parts.which == "o" then return parts[2].shape[1], parts.heads * parts.latent end
    local rows = 0
    for _, part in ipairs(parts) do rows = rows + part.shape[1] end
    return rows, parts[1].shape[2]
end

-- Families that quantise what these write. shape: of theirs; drops: what nobody reads then.
local TO_NVFP4 <const> = {
    mhc_post_pre = {
        family = "mhc_post_pre_quant", shape = function(s) return { M = s.M, H = s.H } end,
    },
    swiglu_clamp = {
        family = "w4a4_swiglu_quant", shape = function(s) return { M = s.M, K = s.N } end,
        drops = "y",
    },
}
local TO_E4M3 <const> = { ["rms_norm.part"] = "rms_norm.part_e4m3" }

-- The operator that wrote x, a name in the plan.
function wiring:writer(x)
    for i = #self.ops, 1, -1 do
        local op = self.ops[i]
        if op.args.xn == x or op.args.y == x then return op end
    end
end

-- x as E4M3 with a scale a row, by the operator that wrote it or by one of its own; once for all
-- products that read it.
function wiring:quantise_e4m3(section, x, k)
    local q, sx = x .. ".e4m3", x .. ".scale"
    if self.quantised[x] then return q, sx end
    self.quantised[x] = true
    local op = self:writer(self:name(x))
    local family = op and TO_E4M3[op.family]
    if family then
        op.family, op.args.q, op.args.sx = family, self:name(q), self:name(sx)
    else
        self:op(section, "w8a8_act_quant", { M = self.n.M, K = k }, { q = q, sx = sx, x = x },
            x .. ".quant")
    end
    return q, sx
end

-- Has the checkpoint a scale for the input of each of these weights? A BF16 one has none.
local function has_input_scale(parts)
    for _, part in pairs(parts) do
        if part.format ~= "nvfp4" then return false end
    end
    return true
end

-- x as NVFP4, by the operator that wrote it or by one of its own, under the global scale that the
-- weights' checkpoint gives for this product; where it gives none, under one of each row. Nothing
-- where x was made so.
function wiring:quantise_nvfp4(section, x, rows, k, weight)
    local q, qs, gs = x .. ".nvfp4", x .. ".scales", x .. ".gs"
    if self.quantised[q] then return q, qs, gs end
    local input_scale = weight.has_input_scale and array_of(weight, "input_scale") or nil
    local op = self:writer(self:name(x))
    local how = op and TO_NVFP4[op.family]
    if input_scale and how then
        op.family, op.shape, op.args.input_scale = how.family, how.shape(op.shape), input_scale
        op.args.q, op.args.qs, op.args.gs = self:name(q), self:name(qs), self:name(gs)
        if how.drops then op.args[how.drops] = nil end
    else
        self:op(section, "w4a4_act_quant." .. (input_scale and "static" or "dynamic"),
            { M = rows, K = k }, { q = q, qs = qs, gs = gs, x = x, input_scale = input_scale },
            x .. ".quant")
    end
    return q, qs, gs
end

-- The weight of stacked experts, of each of which it has these parts.
function wiring:expert_weight(kind, parts)
    local weight = self:weight(kind, { parts[1][0] }, self.recipe.experts, parts)
    weight.has_input_scale = has_input_scale(parts[1])  -- an FFN's weights have one format
    return weight
end

-- What a product of the chosen experts reads, by name, and its shape.
function wiring:experts_read(section, x, c, kind, parts)
    local first, is_down = parts[1][0], #parts == 1
    local n, k = #parts * first.shape[1], first.shape[2]
    local shape = { M = self.n.M, TOPK = c.experts_topk, EXPERTS = c.experts, N = n, K = k }
    local weight = self:expert_weight(kind, parts)
    local args = { x = x, ids = "ids", w = array_of(weight, "w") }
    if weight.format ~= "bf16" then
        args.ws, args.sw = array_of(weight, "ws"), array_of(weight, "sw")
    end
    if weight.format == "w4a4" then
        local rows = is_down and shape.M * shape.TOPK or shape.M
        args.x, args.xs, args.gs = self:quantise_nvfp4(section, x, rows, k, weight)
    end
    return args, shape
end

-- The products of the chosen experts: gate and up of each token's row, or down of each slot's.
function wiring:experts(section, y, x, c, parts)
    local args, shape = self:experts_read(section, x, c, "experts", parts)
    args.y = y
    self:op(section, self.recipe.experts .. (#parts == 1 and "_moe.down" or "_moe.gate_up"), shape,
        args, y)
end

-- y = SwiGLU of the chosen experts' gate and up, as their down reads it: where the checkpoint gives
-- that input a scale, the product itself makes it NVFP4.
function wiring:experts_swiglu(section, y, x, c, parts, down)
    local weight = self:expert_weight("experts", down)
    if weight.format == "w4a4" and weight.has_input_scale then
        local args, shape = self:experts_read(section, x, c, "experts halves", parts)
        args.q, args.qs, args.qgs = y .. ".nvfp4", y .. ".scales", y .. ".gs"
        args.input_scale = array_of(weight, "input_scale")
        self.quantised[args.q] = true
        return self:op(section, "w4a4_moe.swiglu", shape, args, y)
    end
    self:experts(section, y .. ".gate_up", x, c, parts)
    self:op(section, "swiglu_clamp", { M = self.n.M * c.experts_topk, N = parts[1][0].shape[1] },
        { y = y, x = y .. ".gate_up" }, y .. ".swiglu")
end

-- y = x times the stacked rows of parts, whose weights are held in this format: "bf16", "bf16 f32"
-- (f32 out), "w4a16", "w4a4", "w8a8".
function wiring:gemv(section, y, x, format, parts)
    local n, k = rows_of(parts)
    local shape = { M = self.n.M, N = n, K = k }
    local kind = parts.which and "absorbed " .. parts.which or "rows"
    local held = format:match("^%S+")
    local weight = self:weight(kind, parts, held)
    local w, ws = array_of(weight, "w"), array_of(weight, "ws")
    local sw = array_of(weight, "sw")
    if format == "bf16" or format == "bf16 f32" then
        local family = format == "bf16" and "bf16_gemv" or "bf16_gemv_f32"
        return self:op(section, family, shape, { y = y, x = x, w = w }, y)
    elseif format == "w4a16" then
        return self:op(section, "w4a16_gemv", shape, { y = y, x = x, w = w, ws = ws, sw = sw }, y)
    end
    if format == "w4a4" then
        weight.has_input_scale = has_input_scale(parts)
        local q, xs, gs = self:quantise_nvfp4(section, x, self.n.M, k, weight)
        return self:op(section, "w4a4_gemv", shape,
            { y = y, x = q, xs = xs, gs = gs, w = w, ws = ws, sw = sw }, y)
    end
    local q, sx = self:quantise_e4m3(section, x, k)
    self:op(section, "w8a8_gemv", shape, { y = y, x = q, sx = sx, w = w, sw = sw }, y)
end

-- y = SwiGLU of x times gate and up, two parts: one operator where its family has such a product.
function wiring:swiglu(section, y, x, format, parts)
    local n, k = rows_of(parts)
    if format == "w4a16" then
        local weight = self:weight("halves", parts, format)
        return self:op(section, "w4a16_gemv_swiglu", { M = self.n.M, N = n, K = k }, {
            y = y, x = x, w = array_of(weight, "w"), ws = array_of(weight, "ws"),
            sw = array_of(weight, "sw"),
        }, y)
    end
    self:gemv(section, y .. ".gate_up", x, format, parts)
    self:op(section, "swiglu_clamp", { M = self.n.M, N = n // 2 }, { y = y, x = y .. ".gate_up" },
        y .. ".swiglu")
end

return wiring
