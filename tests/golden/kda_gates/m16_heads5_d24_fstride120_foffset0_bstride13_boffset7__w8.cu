/* family kda_gates rev 1, shape m16_heads5_d24_fstride120_foffset0_bstride13_boffset7, variant w8, class one */
// A thread a channel; the first of each head's also makes its beta. What the model fixes for every layer, -5, is here.
enum { M = 16, HEADS = 5, D = 24, FSTRIDE = 120, FOFFSET = 0, BSTRIDE = 13, BOFFSET = 7, WARPS = 8 };
enum { THREADS = 32 * WARPS };

LT_KERNEL(THREADS)
kda_gates__m16_heads5_d24_fstride120_foffset0_bstride13_boffset7__w8(float *g, float *beta, const bf16 *f, const bf16 *b, const float *a_log, const float *dt_bias)
{
    const int c = blockIdx.x * THREADS + threadIdx.x, m = blockIdx.y, head = c / D;
    const int is_live = c < HEADS * D;
    const float rate = is_live ? lt_exp(a_log[head]) : 0.0f, bias = is_live ? dt_bias[c] : 0.0f;

    lt_pdl_wait();
    lt_pdl_launch();
    if (!is_live) return;
    const float v = lt_bf16_f32(f[(size_t)m * FSTRIDE + FOFFSET + c]) + bias;
    g[(size_t)m * HEADS * D + c] = -5.0f * lt_sigmoid(rate * v);
    if (c % D == 0) beta[m * HEADS + head] = lt_sigmoid(lt_bf16_f32(b[(size_t)m * BSTRIDE + BOFFSET + head]));
}
#ifndef __CUDACC__
void lt_entry(void **a) { kda_gates__m16_heads5_d24_fstride120_foffset0_bstride13_boffset7__w8(*(float **)a[0], *(float **)a[1], *(const bf16 **)a[2], *(const bf16 **)a[3], *(const float **)a[4], *(const float **)a[5]); }
#endif
