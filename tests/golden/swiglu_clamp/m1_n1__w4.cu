/* family swiglu_clamp rev 1, shape m1_n1, variant w4, class exact */
// A thread makes 8 values of a row, or one where N is no multiple of 8.
enum { M = 1, N = 1, WARPS = 4 };
// SwiGLU with clamps, of one value and of two.
LT_DEV float activated(float gate, float up)  // NaN stays NaN
{
    gate = gate > 10.0f ? 10.0f : gate;
    up = up > 10.0f ? 10.0f : up;
    return lt_silu(gate) * (up < -10.0f ? -10.0f : up);
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
