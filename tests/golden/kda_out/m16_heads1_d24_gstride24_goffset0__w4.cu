/* family kda_out rev 1, shape m16_heads1_d24_gstride24_goffset0, variant w4, class warp */
// A warp a head: lane l has channels l, l + 32, ... All it needs is asked for at once.
enum { M = 16, HEADS = 1, D = 24, GSTRIDE = 24, GOFFSET = 0, WARPS = 4 };
enum { EACH = (D + 31) / 32 };  // channels of a lane

LT_KERNEL(32 * WARPS)
kda_out__m16_heads1_d24_gstride24_goffset0__w4(bf16 *y, const float *o, const bf16 *gate, const bf16 *w)
{
    const int lane = threadIdx.x % 32, head = blockIdx.x * WARPS + threadIdx.x / 32, m = blockIdx.y;
    const int is_live = head < HEADS;
    const float *from = o + ((size_t)m * HEADS + head) * D;
    const bf16 *gates = gate + (size_t)m * GSTRIDE + GOFFSET + head * D;
    float v[EACH] = {0}, factor[EACH] = {0}, sum = 0.0f;

    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++)
        if (lane + 32 * i < D) factor[i] = lt_bf16_f32(w[lane + 32 * i]);
    lt_pdl_wait();
    lt_pdl_launch();
    if (!is_live) return;  // a whole warp
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++) {
        if (lane + 32 * i >= D) continue;
        v[i] = from[lane + 32 * i];
        factor[i] *= lt_sigmoid(lt_bf16_f32(gates[lane + 32 * i]));
    }
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++) sum = fmaf(v[i], v[i], sum);
    const float scale = 1.0f / sqrtf(lt_warp_sum(sum) / (float)D + 1e-5f);
    bf16 *to = y + ((size_t)m * HEADS + head) * D;
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++)
        if (lane + 32 * i < D) to[lane + 32 * i] = lt_f32_bf16(v[i] * scale * factor[i]);
}
#ifndef __CUDACC__
void lt_entry(void **a) { kda_out__m16_heads1_d24_gstride24_goffset0__w4(*(bf16 **)a[0], *(const float **)a[1], *(const bf16 **)a[2], *(const bf16 **)a[3]); }
#endif
