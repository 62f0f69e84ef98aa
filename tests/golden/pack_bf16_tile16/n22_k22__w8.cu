/* family pack_bf16_tile16 rev 1, shape n22_k22, variant w8, class copy */
// A thread writes one 16-byte piece.
enum { N = 22, K = 22, WARPS = 8 };
enum { ROWS = 22, CHUNKS = (K + 31) / 32, PIECES = (ROWS + 15) / 16 * CHUNKS * 64 };
// Rows of bf16 activations.
LT_DEV uint4 bf16_load8(const bf16 *row, int k, int columns)  // row[k .. k + 7], zero from `columns` on; any alignment
{
    u32 word[4] = {0, 0, 0, 0};
    for (int i = 0; i < 8; i++)
        if (k + i < columns) word[i / 2] |= (u32)row[k + i].x << i % 2 * 16;
    uint4 v;
    v.x = word[0], v.y = word[1], v.z = word[2], v.w = word[3];
    return v;
}

LT_KERNEL(32 * WARPS)
pack_bf16_tile16__n22_k22__w8(bf16 *w, const bf16 *w_rows)
{
    const int piece = blockIdx.x * 32 * WARPS + threadIdx.x;
    lt_pdl_wait();
    lt_pdl_launch();
    if (piece >= PIECES) return;
    const int lane = piece % 32, half = piece / 32 % 2, unit = piece / 64;
    const int n = unit / CHUNKS * 16 + half * 8 + lane / 4, k = unit % CHUNKS * 32 + lane % 4 * 8;
    uint4 v;
    v.x = v.y = v.z = v.w = 0;
    if (n < ROWS) v = bf16_load8(w_rows + (size_t)n * K, k, K);
    lt_st128(w + (size_t)piece * 8, v);
}
#ifndef __CUDACC__
void lt_entry(void **a) { pack_bf16_tile16__n22_k22__w8(*(bf16 **)a[0], *(const bf16 **)a[1]); }
#endif
