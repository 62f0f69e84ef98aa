/* family pack_e4m3_tile16 rev 1, shape n704_k288, variant w8, class copy */
// A thread writes one 16-byte piece.
enum { N = 704, K = 288, WARPS = 8 };
enum { CHUNKS = (K + 63) / 64, PIECES = (N + 15) / 16 * CHUNKS * 64 };
// E4M3 rows of activations.
LT_DEV uint4 fp8_load16(const e4m3 *row, int k, int columns)  // row[k .. k + 15], zero from `columns` on; any alignment
{
    u32 word[4] = {0, 0, 0, 0};
    for (int i = 0; i < 16; i++)
        if (k + i < columns) word[i / 4] |= (u32)row[k + i].x << i % 4 * 8;
    uint4 v;
    v.x = word[0], v.y = word[1], v.z = word[2], v.w = word[3];
    return v;
}

LT_KERNEL(32 * WARPS)
pack_e4m3_tile16__n704_k288__w8(e4m3 *w, const e4m3 *w_rows)
{
    const int piece = blockIdx.x * 32 * WARPS + threadIdx.x;
    lt_pdl_wait();
    lt_pdl_launch();
    if (piece >= PIECES) return;
    const int lane = piece % 32, half = piece / 32 % 2, unit = piece / 64;
    const int n = unit / CHUNKS * 16 + half * 8 + lane / 4, k = unit % CHUNKS * 64 + lane % 4 * 16;
    uint4 v;
    v.x = v.y = v.z = v.w = 0;
    if (n < N && k < K) v = lt_ld128_once(w_rows + (size_t)n * K + k);
    lt_st128(w + (size_t)piece * 16, v);
}
#ifndef __CUDACC__
void lt_entry(void **a) { pack_e4m3_tile16__n704_k288__w8(*(e4m3 **)a[0], *(const e4m3 **)a[1]); }
#endif
