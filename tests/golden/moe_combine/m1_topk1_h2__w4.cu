/* family moe_combine rev 1, shape m1_topk1_h2, variant w4, class slots */
// A thread makes two columns of a row; its loads are in flight together. It takes less time than what the next launch
// does in front of its wait, which therefore begins early.
enum { M = 1, TOPK = 1, H = 2, WARPS = 4 };

LT_KERNEL(32 * WARPS)
moe_combine__m1_topk1_h2__w4(bf16 *y, const bf16 *ed, const float *weights, const bf16 *shared)
{
    const int h = (blockIdx.x * (32 * WARPS) + threadIdx.x) * 2;
    const size_t m = blockIdx.y;
    lt_pdl_launch_ahead();
    lt_pdl_wait();
    if (h >= H) return;
    u32 two[TOPK];
    LT_UNROLL(TOPK)
    for (int k = 0; k < TOPK; k++) two[k] = *(const u32 *)(ed + (m * TOPK + k) * H + h);
    const u32 rest = *(const u32 *)(shared + m * H + h);
    float lo = 0.0f, hi = 0.0f;
    LT_UNROLL(TOPK)
    for (int k = 0; k < TOPK; k++) {
        const float weight = weights[m * TOPK + k];
        lo = fmaf(weight, lt_bf16lo_f32(two[k]), lo);
        hi = fmaf(weight, lt_bf16hi_f32(two[k]), hi);
    }
    *(u32 *)(y + m * H + h) = lt_pack_bf16(lo + lt_bf16lo_f32(rest), hi + lt_bf16hi_f32(rest));
}
#ifndef __CUDACC__
void lt_entry(void **a) { moe_combine__m1_topk1_h2__w4(*(bf16 **)a[0], *(const bf16 **)a[1], *(const float **)a[2], *(const bf16 **)a[3]); }
#endif
