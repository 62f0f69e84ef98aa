/* family mhc_post rev 1, shape m1_h256, variant w2, class ascending */
// A thread owns four columns of a row: it reads their four streams, then writes them. Sources in ascending order.
enum { M = 1, H = 256, WARPS = 2 };
enum { STREAMS = 4 };

LT_DEV float4 times(float by, float4 v)
{
    v.x *= by, v.y *= by, v.z *= by, v.w *= by;
    return v;
}

LT_DEV float4 plus_times(float4 sum, float by, float4 v)
{
    sum.x = fmaf(by, v.x, sum.x), sum.y = fmaf(by, v.y, sum.y);
    sum.z = fmaf(by, v.z, sum.z), sum.w = fmaf(by, v.w, sum.w);
    return sum;
}

LT_DEV float4 load_bf16(const bf16 *from)
{
    const uint2 two = *(const uint2 *)from;
    float4 v;
    v.x = lt_bf16lo_f32(two.x), v.y = lt_bf16hi_f32(two.x), v.z = lt_bf16lo_f32(two.y), v.w = lt_bf16hi_f32(two.y);
    return v;
}

LT_KERNEL(32 * WARPS)
mhc_post__m1_h256__w2(float *streams, const float *post, const float *comb, const bf16 *y)
{
    const int m = blockIdx.y, d = (blockIdx.x * 32 * WARPS + threadIdx.x) * 4;
    const size_t at = (size_t)m * H + d;
    float *mine = streams + (size_t)m * STREAMS * H + d;
    float4 old[STREAMS], share[STREAMS], value;
    lt_pdl_wait();
    lt_pdl_launch();
    if (d >= H) return;
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) old[i] = lt_ld128f(mine + (size_t)i * H);
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) share[i] = lt_ld128f(comb + (m * STREAMS + i) * STREAMS);
    const float4 of_y = lt_ld128f(post + m * STREAMS);
    value = load_bf16(y + at);
    LT_UNROLL(STREAMS)
    for (int j = 0; j < STREAMS; j++) {
        const float by[STREAMS] = {of_y.x, of_y.y, of_y.z, of_y.w};
        float4 sum = times(by[j], value);
        LT_UNROLL(STREAMS)
        for (int i = 0; i < STREAMS; i++) {
            const float from[STREAMS] = {share[i].x, share[i].y, share[i].z, share[i].w};
            sum = plus_times(sum, from[j], old[i]);
        }
        *(float4 *)(mine + (size_t)j * H) = sum;
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { mhc_post__m1_h256__w2(*(float **)a[0], *(const float **)a[1], *(const float **)a[2], *(const bf16 **)a[3]); }
#endif
