/* family w4a4_act_quant.static rev 1, shape m16_k1552, variant w8, class exact */
// A lane has two values, eight lanes a group of 16; rows lie one behind the other.
enum { M = 16, K = 1552, WARPS = 8 };
// Values to E2M1 codes and an E4M3 scale of 16, by eight lanes of two values each: few values a lane, because what a
// lane does for one waits for itself. A NaN counts towards no maximum.
LT_DEV float larger(float a, float b) { return a > b ? a : b; }  // a NaN in a is dropped

// A whole warp calls. Values `at` and the next of arrays that lie one behind the other; nothing is written outside.
LT_DEV void nvfp4_quantise(u8 *q, e4m3 *qs, size_t at, u32 two, float gs, float over_gs, int is_inside)
{
    const float low = lt_bf16lo_f32(two), high = lt_bf16hi_f32(two);
    float amax = larger(fabsf(high), larger(fabsf(low), 0.0f));
    LT_UNROLL(3)
    for (int i = 1; i < 8; i *= 2) amax = larger(lt_shfl_xor_f32(0xffffffffu, amax, i), amax);
    const e4m3 scale = lt_f32_e4m3(amax * (1.0f / 6.0f) * over_gs);
    const float s = lt_e4m3_f32(scale), inverse = s > 0.0f ? 1.0f / (s * gs) : 0.0f;
    if (!is_inside) return;
    q[at / 2] = (u8)(lt_f32_e2m1(low * inverse) | lt_f32_e2m1(high * inverse) << 4);
    if (at % 16 == 0) qs[at / 16] = scale;
}

LT_KERNEL(32 * WARPS)
w4a4_act_quant_static__m16_k1552__w8(u8 *q, e4m3 *qs, float *gs, const bf16 *x, const float *input_scale)
{
    const size_t i = ((size_t)blockIdx.x * (32 * WARPS) + threadIdx.x) * 2;
    const int is_inside = i < (size_t)M * K;
    const float scale = *input_scale, over = 1.0f / scale;
    lt_pdl_wait();
    lt_pdl_launch();
    const u32 two = is_inside ? *(const u32 *)(x + i) : 0;
    nvfp4_quantise(q, qs, i, two, scale, over, is_inside);
    if (is_inside && i % K == 0) gs[i / K] = scale;
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a4_act_quant_static__m16_k1552__w8(*(u8 **)a[0], *(e4m3 **)a[1], *(float **)a[2], *(const bf16 **)a[3], *(const float **)a[4]); }
#endif
