"""What peers.py runs: shapes, inputs, formulas that our kernels must agree with, and the peers."""
import collections
import inspect
import math
import statistics

try:
    import torch
except ImportError:  # a dry run needs none
    torch = None

# cold: inputs of which each copy has its own; draws: how inputs are drawn, by name; truth(inputs):
# outputs by name; peers: functions by name, copies of the inputs -> a call for each.
Family = collections.namedtuple("Family", "cold draws truth peers")

# ---- formulas: the truth, and what Inductor makes kernels of ----


def product(x, w):
    return torch.mm(x, w.t())


def product_w8(x, w, sw):  # of one row
    return ((w.float() * x.float()).sum(-1) * sw).to(torch.bfloat16)


def normed(x, w):
    v = x.float()
    rms = torch.rsqrt(v.square().mean(-1, keepdim=True) + 1e-5)
    return (v * rms * w.float()).to(torch.bfloat16)


def gated(x):
    gate, up = x.float().chunk(2, -1)
    gate = torch.nn.functional.silu(gate.clamp(max=10))
    return (gate * up.clamp(-10, 10)).to(torch.bfloat16)


def routed(x, w, bias, factor):
    scores = torch.sigmoid(torch.mm(x, w.t()).float())
    ids = torch.topk(scores + bias, 8).indices
    chosen = scores.gather(-1, ids)
    return chosen / (chosen.sum(-1, keepdim=True) + 1e-20) * factor, ids


def collapsed(streams, fn, scale, base, norm):
    flat = streams.flatten(1)
    rms = torch.rsqrt(flat.square().mean(-1, keepdim=True) + 1e-5)
    m = (flat[:, None] * fn.flatten(1).float()).sum(-1) * rms
    pre = torch.sigmoid(m[:, :4] * scale[0] + base[:4]) + 1e-6
    post = 2 * torch.sigmoid(m[:, 4:8] * scale[1] + base[4:8])
    mix = (m[:, 8:] * scale[2] + base[8:]).unflatten(1, (4, 4))
    return normed((pre[:, :, None] * streams).sum(1), norm), post, mix


def decoded(w, ws):
    """NVFP4 codes, the first in the low half of a byte, times their scales."""
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device="cuda")
    values = torch.cat([values, -values])
    codes = torch.stack([values[(w & 15).long()], values[(w >> 4).long()]], -1).flatten(1)
    return codes * ws.float().repeat_interleave(16, 1)


def highest(score):
    return torch.topk(score, 512, sorted=False).indices


def applied(function, formula, a):
    """function of those of the inputs that the formula takes."""
    return function(*(a[name] for name in inspect.signature(formula).parameters))


# ---- peers ----


def mm(copies, _):
    x, w = copies[0]["x"], copies[0]["w"]
    y = torch.empty(len(x), len(w), device="cuda", dtype=torch.bfloat16)
    return [lambda a=a: torch.mm(a["x"], a["w"].t(), out=y) for a in copies]


def scaled_mm(copies, _):
    """cuBLASLt with a scale a row and a channel. Rows are padded to 16 where fewer are refused."""
    def call(a, x, sx):
        return torch._scaled_mm(x, a["w"].t(), scale_a=sx[:, None], scale_b=a["sw"][None],
                                out_dtype=torch.bfloat16, use_fast_accum=True)
    x, sx = copies[0]["x"], copies[0]["sx"]
    try:
        call(copies[0], x, sx)
    except RuntimeError:
        more = 16 - len(x)
        x = torch.nn.functional.pad(x.view(torch.uint8), (0, 0, 0, more)).view(x.dtype)
        sx = torch.nn.functional.pad(sx, (0, more), value=1)
    return [lambda a=a: call(a, x, sx) for a in copies]


def int4(copies, _):
    """Groups of 128; channels are padded to whole 32."""
    x, n = copies[0]["x"], -(-len(copies[0]["w"]) // 32) * 32
    groups = x.shape[1] // 128
    scales = torch.rand(groups, n, 2, device="cuda").to(torch.bfloat16)
    packed = [torch.randint(-2**31, 2**31 - 1, (n // 8, groups, 32, 4), device="cuda",
                            dtype=torch.int32) for _ in copies]
    return [lambda w=w: torch.ops.aten._weight_int4pack_mm(x, w, 128, scales) for w in packed]


def inductor(formula):
    """The best of Inductor's kernels; its search is not timed."""
    def peer(copies, _):
        torch._dynamo.reset()
        best = torch.compile(formula, mode="max-autotune-no-cudagraphs", dynamic=False)
        return [lambda a=a: applied(best, formula, a) for a in copies]
    return peer


# Channels of a program, k at once, warps, stages.
ONE_ROW = ((1, 1024, 2, 2), (1, 2048, 4, 2), (2, 1024, 4, 2), (2, 2048, 4, 2), (4, 512, 4, 2),
           (4, 1024, 4, 2), (8, 512, 4, 2), (8, 1024, 8, 2), (16, 256, 4, 2))
ROWS = ((16, 256, 4, 3), (16, 512, 4, 3), (32, 256, 4, 3), (32, 256, 4, 4), (32, 512, 8, 3),
        (64, 128, 4, 4), (64, 256, 8, 3), (128, 64, 4, 5), (128, 128, 8, 3))


def triton_product(copies, replay):
    """Of all configurations that which is fastest on these copies in a graph."""
    import peers_triton
    x, w = copies[0]["x"].to(torch.bfloat16), copies[0]["w"]
    (m, k), n, scaled = x.shape, len(w), "sw" in copies[0]
    y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    kernel, choices = (peers_triton.gemv, ONE_ROW) if m == 1 else (peers_triton.gemm, ROWS)

    def calls(bn, bk, warps, stages):
        def call(a):
            kernel[(-(-n // bn),)](x, a["w"], a.get("sw", x), y, m, n, k, SCALED=scaled, BN=bn,
                                   BK=bk, num_warps=warps, num_stages=stages)
            return y
        return [lambda a=a: call(a) for a in copies]

    def us(choice):
        try:
            return statistics.median(replay(calls(*choice)))
        except Exception:  # it asks for more than a multiprocessor has
            torch.cuda.synchronize()
            return math.inf
    return calls(*min(choices, key=us))


def rms_norm(copies, _):
    return [lambda a=a: torch.nn.functional.rms_norm(a["x"], a["w"].shape, a["w"], 1e-5)
            for a in copies]


def topk(copies, _):
    return [lambda a=a: torch.topk(a["score"], 512, sorted=False) for a in copies]


def searches(peer):
    """Does a peer try so many kernels that it takes seconds a shape? Such ones run with one row."""
    return peer.startswith("Inductor")


# ---- families and shapes ----


def linear(a):
    return {"y": a["x"].float() @ a["w"].float().t()}


BF16 = Family(("w",), {"x": "normal", "w": "normal"}, linear,
              {"torch.mm": mm, "Triton": triton_product, "Inductor": inductor(product)})
W8 = {"Triton w8a16": triton_product, "Inductor w8a16": inductor(product_w8)}
FAMILIES = {
    "bf16_gemv": BF16,
    "bf16_gemv_f32": BF16,
    "w8a16_gemv": Family(("w",), {"x": "normal", "w": "bytes", "sw": "unit"},
                         lambda a: {"y": linear(a)["y"] * a["sw"]}, W8),
    "w8a8_gemv": Family(("w",), {"x": "bytes", "sx": "unit", "w": "bytes", "sw": "unit"},
                        lambda a: {"y": linear(a)["y"] * a["sx"][:, None] * a["sw"]},
                        {"torch._scaled_mm": scaled_mm, **W8}),
    "w4a16_gemv": Family(("w", "ws"), {"x": "normal", "w": "codes", "ws": "scales", "sw": "unit"},
                         lambda a: {"y": a["x"].float() @ decoded(a["w"], a["ws"]).t() * a["sw"]},
                         {"torch int4": int4}),
    "rms_norm": Family(("w",), {"x": "normal", "w": "normal"},
                       lambda a: {"y": applied(normed, normed, a)},
                       {"F.rms_norm": rms_norm, "Inductor": inductor(normed)}),
    "swiglu_clamp": Family(("x",), {"x": "normal"}, lambda a: {"y": gated(a["x"])},
                           {"Inductor": inductor(gated)}),
    "mhc_pre": Family(("fn",), {"streams": "normal", "fn": "small", "scale": "unit",
                                "base": "normal", "norm": "normal"},
                      lambda a: dict(zip(("xn", "post", "mix"), applied(collapsed, collapsed, a))),
                      {"Inductor": inductor(collapsed)}),
    "moe_router": Family(("w",), {"x": "normal", "w": "small", "bias": "unit", "factor": "unit"},
                         lambda a: {"weights": routed(a["x"].float(), a["w"].float(), a["bias"],
                                                      a["factor"])[0]},
                         {"Inductor": inductor(routed)}),
    "dsa_topk": Family(("score",), {"score": "normal", "positions": "last", "slots": "zeros"},
                       lambda a: {"ids": highest(a["score"]).sort().values},
                       {"torch.topk": topk}),  # cupy.argpartition cannot be captured
}
SIZES = {"rms_norm": "K", "swiglu_clamp": "N", "mhc_pre": "H", "moe_router": ("N", "TOPK", "K"),
         "dsa_topk": ("K", "POOLS")}  # besides M; others have N and K
SHAPES = (
    ("w4a16_gemv", 8726, 4096), ("w4a16_gemv", 24896, 4096), ("w4a16_gemv", 4096, 2816),
    ("w4a16_gemv", 4096, 8192), ("w4a16_gemv", 1536, 4096),
    ("w8a8_gemv", 4096, 11264), ("w8a8_gemv", 11264, 1536), ("w8a8_gemv", 2304, 4096),
    ("w8a8_gemv", 4096, 32768), ("w8a8_gemv", 32768, 1536), ("w8a16_gemv", 51619, 4096),
    ("bf16_gemv_f32", 51648, 4096), ("bf16_gemv_f32", 288, 4096), ("bf16_gemv", 4096, 8192),
    ("bf16_gemv", 4096, 11264), ("bf16_gemv", 11264, 1536),
    ("rms_norm", 4096), ("swiglu_clamp", 2048), ("mhc_pre", 4096), ("moe_router", 288, 8, 4096),
    ("dsa_topk", 512, 2048), ("dsa_topk", 512, 32768),
)


def sizes_of(name, shape, rows):
    return {"M": rows, **dict(zip(SIZES.get(name, "NK"), shape))}


def peers_of(name, rows):
    return {peer: make for peer, make in FAMILIES[name].peers.items()
            if rows == 1 or not searches(peer)}


# ---- inputs ----

# The first code, the end, and the bits that stay.
CODES = {"scales": (40, 72, 255), "codes": (0, 256, 255), "bytes": (0, 256, 247)}


def draw(kind, extents, dtype, sizes):
    """One input on the GPU. Codes of e4m3 are those without NaN, scales from 0.25 to 3.75."""
    if kind in ("normal", "small"):
        return (torch.randn(extents, device="cuda") * (1 if kind == "normal" else 0.02)).to(dtype)
    if kind == "unit":
        return torch.rand(extents, device="cuda")
    if kind == "last":
        return torch.full(extents, 4 * sizes["POOLS"] - 1, device="cuda", dtype=dtype)
    if kind == "zeros":
        return torch.zeros(extents, device="cuda", dtype=dtype)
    first, end, mask = CODES[kind]
    codes = torch.randint(first, end, extents, device="cuda", dtype=torch.uint8)
    return (codes & mask).view(dtype)
