"""Products of rows and weights in Triton: y[m,n] = sum over k of x[m,k] * w[n,k], in bf16. w is
bf16, or e4m3 with a scale a channel (SCALED)."""
import triton
import triton.language as tl


@triton.jit
def gemv(x, w, sw, y, m, n, k, SCALED: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One row, without tensor cores."""
    channel = tl.program_id(0) * BN + tl.arange(0, BN)
    at = tl.arange(0, BK)
    sums = tl.zeros((BN, BK), tl.float32)
    for first in range(0, k, BK):
        inside = first + at < k
        weights = tl.load(w + channel[:, None] * k + (first + at)[None, :],
                          mask=(channel < n)[:, None] & inside[None, :], other=0.0,
                          eviction_policy="evict_first")
        row = tl.load(x + first + at, mask=inside, other=0.0)
        sums += weights.to(tl.float32) * row.to(tl.float32)[None, :]
    total = tl.sum(sums, 1)
    if SCALED:
        total *= tl.load(sw + channel, mask=channel < n, other=0.0)
    tl.store(y + channel, total.to(tl.bfloat16), mask=channel < n)


@triton.jit
def gemm(x, w, sw, y, m, n, k, SCALED: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Up to 16 rows."""
    channel = tl.program_id(0) * BN + tl.arange(0, BN)
    row = tl.arange(0, 16)
    at = tl.arange(0, BK)
    total = tl.zeros((16, BN), tl.float32)
    for first in range(0, k, BK):
        inside = (first + at < k)[None, :]
        rows = tl.load(x + row[:, None] * k + (first + at)[None, :],
                       mask=(row < m)[:, None] & inside, other=0.0)
        weights = tl.load(w + channel[:, None] * k + (first + at)[None, :],
                          mask=(channel < n)[:, None] & inside, other=0.0,
                          eviction_policy="evict_first")
        total = tl.dot(rows, tl.trans(weights.to(tl.bfloat16)), total)
    if SCALED:
        total *= tl.load(sw + channel, mask=channel < n, other=0.0)[None, :]
    tl.store(y + row[:, None] * n + channel[None, :], total.to(tl.bfloat16),
             mask=(row < m)[:, None] & (channel < n)[None, :])
