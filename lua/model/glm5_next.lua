-- glm5_next: from a config to the circuit of operators of one step: families, shapes, which value
-- is which argument, what each weight is made of. Knows no device, no kernel and no buffer.
local wiring = require("lua.model.wiring")

local glm5_next = {}

local PAGE <const> = 64   -- tokens of a cache page: the families' own
local RING <const> = 32   -- raw index rows that are kept: a chunk of 16 and the open pool

local function sizes_of(c, rows, capacity, ranks)
    local pages = (capacity + PAGE - 1) // PAGE
    return {
        M = rows, H = c.hidden, pages = pages, blocks = pages, tokens = capacity, ranks = ranks,
        pools = pages * PAGE // c.index_pool,
        kda = c.kda_heads * c.kda_dim, latent = c.mla_heads * c.kv_rank,
    }
end

-- ---- hyper-connections ----

-- Into a site: what the one in front, if there is one, leaves to do, and the row that it works on.
local function pre(w, layer, site, norm)
    local args = {
        xn = "xn", streams = "/streams",
        fn = w:plain(layer["hc_" .. site .. ".fn"], "bf16"),
        scale = w:plain(layer["hc_" .. site .. ".scale"], "f32"),
        base = w:plain(layer["hc_" .. site .. ".base"], "f32"), norm = w:plain(norm, "bf16"),
    }
    local family = w.before == "embed" and "mhc_pre" or "mhc_post_pre"
    if family == "mhc_pre" then
        args.post, args.mix = "post", "mix"
    else
        args.next_post, args.next_mix = "post", "mix"
        args.post, args.mix, args.y = "^post", "^mix", "^y"
    end
    w:op("MHC", family, { M = w.n.M, H = w.n.H }, args)
end

-- ---- KDA ----

-- All that reads xn is one product: rows of q | k | v | f_a | g_a | b.
local function kda(w, c, layer)
    local n, heads, d = w.n, c.kda_heads, c.kda_dim
    w:gemv("KDA_FRONT", "front", "xn", w.recipe.kda, {
        layer["kda.q"], layer["kda.k"], layer["kda.v"], layer["kda.f_a"], layer["kda.g_a"],
        layer["kda.b"],
    })
    local gates, scales = w:rows({ layer["kda.f_b"], layer["kda.g_b"] }, w.recipe.kda_gates)
    w:op("KDA_RECUR", "kda_decode." .. w.recipe.kda_gates, {
        M = n.M, TOKENS = n.M, HEADS = heads, D = d, N = 2 * n.kda, K = d,
        STRIDE = 3 * n.kda + 2 * d + heads, SLOTS = 1,
    }, {
        y = "gated", x = "front", slots = "/slot", snaps = "/snaps", w = gates, sw = scales,
        state = w:state("state", "f32", { 1, heads, d, d }, 0),
        window = w:state("window", "f32", { 1, 3 * n.kda, 4 }, 0),
        taps = w:plain({ layer["kda.conv_q"], layer["kda.conv_k"], layer["kda.conv_v"] }, "f32"),
        a_log = w:plain(layer["kda.a_log"], "f32"), dt_bias = w:plain(layer["kda.dt_bias"], "f32"),
        norm = w:plain(layer["kda.o_norm"], "bf16"),
    }, "kda_decode")
    w:gemv("KDA_BACK", "y", "gated", w.recipe.kda, { layer["kda.o"] })
end

-- ---- DSA ----

-- Latents and raw index rows of what `qkv_a` has behind the queries' part.
local function dsa_keys(w, c, layer, stride)
    local n, d = w.n, c.index_dim
    local latent, index = c.q_rank, c.q_rank + c.kv_rank
    w:op("DSA_PROJ", "mla_latent_write", {
        M = n.M, D = c.kv_rank, STRIDE = stride, OFFSET = latent, SLOTS = 1, PAGES = n.pages,
        BLOCKS = n.blocks,
    }, {
        cache = w:state("latent", "e4m3", { n.blocks, PAGE, c.kv_rank }), x = "qkv_a",
        w = w:plain(layer["dsa.kv_a_norm"], "bf16"), positions = "/positions", slots = "/slots",
        block_table = "/block_table",
    })
    w:op("DSA_INDEXER", "dsa_index_store", {
        M = n.M, D = d, STRIDE = stride, OFFSET = index, GATE = index + d, SLOTS = 1, RING = RING,
    }, {
        raw = w:state("raw", "bf16", { 1, RING, 2, d }), x = "qkv_a",
        w = w:plain(layer["index.norm_w"], "bf16"), b = w:plain(layer["index.norm_b"], "bf16"),
        positions = "/positions", slots = "/slots",
    })
    w:op("DSA_SELECT", "dsa_pool_keys",
        { M = n.M, D = d, RING = RING, SLOTS = 1, PAGES = n.pages, BLOCKS = n.blocks }, {
            pooled = w:state("pooled", "f16", { n.blocks, 2, PAGE // c.index_pool, d }),
            scale = w:state("scale", "f32", { n.blocks, PAGE // c.index_pool }),
            raw = w:state("raw"), ape = w:plain(layer["index.ape"], "f32"),
            positions = "/positions", slots = "/slots", block_table = "/block_table",
        })
end

local function dsa_selection(w, c, layer)
    local n, k = w.n, c.index_topk // c.index_pool
    w:gemv("DSA_INDEXER", "iq", "qan", "bf16 f32", { layer["index.q"] })
    w:gemv("DSA_INDEXER", "iw", "xn", "bf16 f32", { layer["index.heads"] })
    w:op("DSA_SELECT", "dsa_scores", {
        M = n.M, TOKENS = n.M, HEADS = c.index_heads, D = c.index_dim, POOLS = n.pools, SLOTS = 1,
        PAGES = n.pages, BLOCKS = n.blocks,
    }, {
        score = "score", iq = "iq", iw = "iw", pooled = w:state("pooled"), scale = w:state("scale"),
        positions = "/positions", slots = "/slots", block_table = "/block_table",
    })
    w:op("DSA_SELECT", "dsa_topk", { M = n.M, K = k, POOLS = n.pools },
        { ids = "pools", score = "score", positions = "/positions", slots = "/slots" })
    w:op("DSA_SELECT", "dsa_expand", { M = n.M, K = k },
        { ids = "selected", pools = "pools", positions = "/positions", slots = "/slots" })
    return c.index_topk + c.index_pool - 1
end

-- One product makes rows of q_a | kv_a | index.k | index.gate.
local function dsa(w, c, layer)
    local n = w.n
    local stride = c.q_rank + c.kv_rank + 2 * c.index_dim
    w:gemv("DSA_PROJ", "qkv_a", "xn", w.recipe.dsa, {
        layer["dsa.q_a"], layer["dsa.kv_a"], layer["index.k"], layer["index.gate"],
    })
    w:op("DSA_PROJ", "rms_norm.part", { M = n.M, K = c.q_rank, STRIDE = stride },
        { y = "qan", x = "qkv_a", w = w:plain(layer["dsa.q_a_norm"], "bf16") })
    dsa_keys(w, c, layer, stride)
    w:gemv("DSA_PROJ", "q", "qan", w.recipe.dsa, w:absorbed("q", layer["dsa.kv_b"],
        layer["dsa.q_b"], c))
    local width = dsa_selection(w, c, layer)
    w:op("DSA_ATTEND", "mla_decode", {
        M = n.M, HEADS = c.mla_heads, D = c.kv_rank, QK = c.qk_dim, WIDTH = width, SLOTS = 1,
        PAGES = n.pages, BLOCKS = n.blocks,
    }, {
        y = "o", q = "q", cache = w:state("latent"), ids = "selected", positions = "/positions",
        slots = "/slots", block_table = "/block_table",
    })
    w:gemv("DSA_PROJ", "y", "o", w.recipe.dsa, w:absorbed("o", layer["dsa.kv_b"],
        layer["dsa.o"], c))
end

-- ---- feed-forward ----

local function dense(w, layer)
    w:swiglu("MLP_DENSE", "a", "xn", w.recipe.dense, { layer["mlp.gate"], layer["mlp.up"] })
    w:gemv("MLP_DENSE", "y", "a", w.recipe.dense, { layer["mlp.down"] })
end

-- Neighbours that do not depend on each other, where there are any: the weights of a launch are
-- asked for before the one in front ends. Those of the experts are for chosen ones, so in front of
-- such a product stands another launch than the router.
local function moe(w, c, layer)
    local n, k = w.n, c.experts_topk
    w:swiglu("MOE_SHARED", "s_a", "xn", w.recipe.shared,
        { layer["shared.gate"], layer["shared.up"] })
    w:op("MOE_ROUTER", "moe_router", { M = n.M, N = c.experts, TOPK = k, K = n.H }, {
        ids = "ids", weights = "weights", x = "xn", factor = "/routed_scale",
        w = w:rows({ layer["router.weight"] }, "bf16"), bias = w:plain(layer["router.bias"], "f32"),
    })
    w:gemv("MOE_SHARED", "s_y", "s_a", w.recipe.shared, { layer["shared.down"] })
    w:experts_swiglu("MOE_EXPERTS", "a", "xn", c,
        { layer["experts.gate"], layer["experts.up"] }, { layer["experts.down"] })
    w:experts("MOE_EXPERTS", "down", "a", c, { layer["experts.down"] })
    w:op("MOE_COMBINE", "moe_combine", { M = n.M, TOPK = k, H = n.H },
        { y = "y", ed = "down", weights = "weights", shared = "s_y" })
end

-- ---- the whole ----

local function head(w, c, model)
    local n = w.n
    w:enter("head")
    w:op("MHC_POST", "mhc_post", { M = n.M, H = n.H },
        { streams = "/streams", post = "^post", mix = "^mix", y = "^y" })
    w:op("MHC_POST", "mhc_head", { M = n.M, H = n.H }, { h = "h", streams = "/streams" })
    w:op("NORM", "rms_norm", { M = n.M, K = n.H },
        { y = "/hidden", x = "h", w = w:plain(model.norm, "bf16") })
    w:gemv("HEAD", "/logits", "/hidden", "bf16 f32", { model.head })
    w:op("HEAD", "argmax.f32", { M = n.M, VOCAB = c.head_rows },
        { best = "/best", top = "/top", logits = "/logits" })
end

-- The circuit of one step of M rows of one sequence, with room for `capacity` tokens. found: a
-- rank's, as split.take gives it. Fields: ops, weights, states (wiring.lua), n (sizes).
function glm5_next.circuit(found, formats, rows, capacity)
    local c, model = found.config, found.model
    local w = wiring.new(formats, sizes_of(c, rows, capacity, found.ranks))
    w:enter("embed")
    w:op("HEAD", "mhc_expand", { M = rows, VOCAB = c.vocab, H = c.hidden },
        { streams = "/streams", tokens = "/tokens", embed = w:plain(model.embed, "bf16") })
    for i, kind in ipairs(c.kinds) do
        local layer = found.layers[i - 1]
        w:enter(("L%02d.attn"):format(i - 1))
        pre(w, layer, "attn", layer.input_norm)
        if kind == "kda" then kda(w, c, layer) else dsa(w, c, layer) end
        w:partial()  -- the last product of a mixer or an FFN: of this rank's heads or columns alone
        w:enter(("L%02d.ffn"):format(i - 1))
        pre(w, layer, "ffn", layer.post_norm)
        if c.ffns[i] == "dense" then dense(w, layer) else moe(w, c, layer) end
        w:partial()
    end
    head(w, c, model)
    return w
end

return glm5_next
