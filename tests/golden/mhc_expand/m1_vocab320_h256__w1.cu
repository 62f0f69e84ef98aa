/* family mhc_expand rev 1, shape m1_vocab320_h256, variant w1, class copy */
// A thread copies eight columns of a row into the four streams.
enum { M = 1, VOCAB = 320, H = 256, WARPS = 1 };
enum { STREAMS = 4 };

LT_KERNEL(32 * WARPS)
mhc_expand__m1_vocab320_h256__w1(float *streams, const i32 *tokens, const bf16 *embed)
{
    const int m = blockIdx.y, d = (blockIdx.x * 32 * WARPS + threadIdx.x) * 8;
    lt_pdl_wait();
    lt_pdl_launch();
    if (d >= H) return;
    const int token = tokens[m];
    uint4 row, low, high;
    row.x = row.y = row.z = row.w = 0;
    if (token >= 0 && token < VOCAB) row = lt_ld128_once(embed + (size_t)token * H + d);
    low.x = row.x << 16, low.y = row.x & 0xffff0000u, low.z = row.y << 16, low.w = row.y & 0xffff0000u;
    high.x = row.z << 16, high.y = row.z & 0xffff0000u, high.z = row.w << 16, high.w = row.w & 0xffff0000u;
    for (int i = 0; i < STREAMS; i++) {
        float *to = streams + ((size_t)m * STREAMS + i) * H + d;
        lt_st128(to, low);
        lt_st128(to + 4, high);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { mhc_expand__m1_vocab320_h256__w1(*(float **)a[0], *(const i32 **)a[1], *(const bf16 **)a[2]); }
#endif
