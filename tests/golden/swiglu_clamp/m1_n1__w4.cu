/* family swiglu_clamp rev 1, shape m1_n1, variant w4, class exact */
// A thread makes 8 values of a row, or one where N is no multiple of 8.
enum { M = 1, N = 1, WARPS = 4 };
// SwiGLU with clamps, of one value and of two, without the branches of a division: others wait for each of them.
// x / y of a normal positive y, whose inverse is normal too, as a division rounds it but where y has a mantissa of ones
// alone; without the branch that a division has. -0 stays -0.
// 1 / x of a normal positive x to the last place or so: a guess within 5.1 %, whose error is taken to the 4th power and
// then squared. No branch, unlike the division, so that four of them overlap.
LT_DEV float reciprocal(float x)
{
    float y = lt_bits_f32(0x7ef311c3u - lt_f32_bits(x));
    const float e = fmaf(-x, y, 1.0f);
    y = fmaf(fmaf(y, e, y), e * e, fmaf(y, e, y));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}
LT_DEV float divided(float x, float y)
{
    const float by = reciprocal(y), quotient = x * by;
    return fmaf(fmaf(y, quotient, -x), -by, quotient);
}

// lt_silu; what is below the least x that lt_exp tells apart counts as that one, -2.6e-37.
LT_DEV float silu(float x)
{
    x = x < -88.72283f ? -88.72283f : x;
    return divided(x, 0x1p-32f + lt_exp(-x) * 0x1p-32f) * 0x1p-32f;  // so the inverse of what divides is normal
}

LT_DEV float activated(float gate, float up)  // NaN stays NaN
{
    gate = gate > 10.0f ? 10.0f : gate;
    up = up > 10.0f ? 10.0f : up;
    return silu(gate) * (up < -10.0f ? -10.0f : up);
}

LT_DEV u32 two_activated(u32 gate, u32 up)
{
    return lt_pack_bf16(activated(lt_bf16lo_f32(gate), lt_bf16lo_f32(up)),
                        activated(lt_bf16hi_f32(gate), lt_bf16hi_f32(up)));
}

LT_KERNEL(32 * WARPS)
swiglu_clamp__m1_n1__w4(bf16 *y, const bf16 *x)
{
    const size_t i = ((size_t)blockIdx.x * (32 * WARPS) + threadIdx.x) * 1;
    lt_pdl_wait();
    lt_pdl_launch();
    if (i >= (size_t)M * N) return;
    const bf16 *gate = x + i / N * N + i;  // row i / N of 2 * N
    y[i] = lt_f32_bf16(activated(lt_bf16_f32(*gate), lt_bf16_f32(gate[N])));
}
#ifndef __CUDACC__
void lt_entry(void **a) { swiglu_clamp__m1_n1__w4(*(bf16 **)a[0], *(const bf16 **)a[1]); }
#endif
