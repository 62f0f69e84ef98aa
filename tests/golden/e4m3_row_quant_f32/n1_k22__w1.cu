/* family e4m3_row_quant.f32 rev 1, shape n1_k22, variant w1, class exact */
// One block a row: the largest magnitude, then the codes. The row is read twice, the second time from the caches.
enum { N = 1, K = 22, WARPS = 1 };
typedef float weight;
enum { THREADS = 32 * WARPS, LOAD = 16 / sizeof(weight) };
// Rows of either format as floats: one number, or the 16 / sizeof of an aligned load. one_* is load_* of one number.
LT_DEV float number_bf16(const bf16 *p) { return lt_bf16_f32(*p); }
LT_DEV float number_f32(const float *p) { return *p; }
LT_DEV void one_bf16(float *x, const bf16 *p) { x[0] = lt_bf16_f32(*p); }
LT_DEV void one_f32(float *x, const float *p) { x[0] = *p; }

LT_DEV void load_bf16(float *x, const bf16 *p)
{
    const uint4 v = lt_ld128(p);
    const u32 word[4] = {v.x, v.y, v.z, v.w};
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        x[2 * i] = lt_bf16lo_f32(word[i]);
        x[2 * i + 1] = lt_bf16hi_f32(word[i]);
    }
}

LT_DEV void load_f32(float *x, const float *p)
{
    const float4 v = lt_ld128f(p);
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
}

LT_DEV float larger(float a, float b) { return a > b ? a : b; }  // a NaN in a is dropped

LT_DEV float clamped(float v)  // NaN stays NaN
{
    v = v > 448.0f ? 448.0f : v;
    return v < -448.0f ? -448.0f : v;
}

LT_KERNEL(THREADS)
e4m3_row_quant_f32__n1_k22__w1(e4m3 *q, float *sw, const float *w)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const weight *row = w + (size_t)blockIdx.x * K;
    e4m3 *codes = q + (size_t)blockIdx.x * K;
    LT_SHARED1(float, room, WARPS);
    float amax = 0.0f;

    lt_pdl_wait();
    lt_pdl_launch();
    for (int k = threadIdx.x; k < K; k += THREADS) amax = larger(fabsf(number_f32(row + k)), amax);
    amax = lt_warp_max(amax);
    if (lane == 0) room[warp] = amax;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) amax = larger(room[i], amax);
    const float scale = larger(amax / 448.0f, 1e-12f);
    if (threadIdx.x == 0) sw[blockIdx.x] = scale;
    for (int k = threadIdx.x; k < K; k += THREADS) codes[k] = lt_f32_e4m3(clamped(number_f32(row + k) / scale));
}
#ifndef __CUDACC__
void lt_entry(void **a) { e4m3_row_quant_f32__n1_k22__w1(*(e4m3 **)a[0], *(float **)a[1], *(const float **)a[2]); }
#endif
