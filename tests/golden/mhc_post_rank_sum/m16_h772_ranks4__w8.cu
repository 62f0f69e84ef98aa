/* family mhc_post_rank_sum rev 1, shape m16_h772_ranks4, variant w8, class ascending */
// A thread owns four columns of a row: it reads their four streams, then writes them. Sources in ascending order.
enum { M = 16, H = 772, RANKS = 4, WARPS = 8 };
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
mhc_post_rank_sum__m16_h772_ranks4__w8(float *streams, bf16 *y, const float *post, const float *comb, const bf16 *parts)
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
    float4 part[RANKS];
    LT_UNROLL(RANKS)
    for (int r = 0; r < RANKS; r++) part[r] = load_bf16(parts + (size_t)r * M * H + at);
    value = part[0];
    LT_UNROLL(RANKS)
    for (int r = 1; r < RANKS; r++) value = plus_times(value, 1.0f, part[r]);
    uint2 rounded;
    rounded.x = lt_pack_bf16(value.x, value.y), rounded.y = lt_pack_bf16(value.z, value.w);
    *(uint2 *)(y + at) = rounded;
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
void lt_entry(void **a) { mhc_post_rank_sum__m16_h772_ranks4__w8(*(float **)a[0], *(bf16 **)a[1], *(const float **)a[2], *(const float **)a[3], *(const bf16 **)a[4]); }
#endif
