/* family bf16_gemv rev 1, shape m16_n288_k288, variant m0t1s1g4u2p1, class dot_1x1 */
// On the CUDA cores: lane (g, t) holds rows g and g + 8 of a tile, k 8t .. 8t + 7 of a chunk, and multiplies them with
// every row of x; four lanes share a channel.
enum { M = 16, N = 288, K = 288, MMA = 0, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, PARTS = 1 };
enum {
    CHUNKS = (K + 31) / 32,       // of 32 k: 1 KB of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    SEGMENTS = SPLIT * PARTS,     // shares of K
    ALL_TILES = (N + 15) / 16,
    QUADS = (M + 3) / 4,          // lane t of a channel finishes rows t, t + 4, ..
    COUNT = 2 * QUADS,            // sums of a lane
    RESIDENT = 1                  // blocks of a multiprocessor: all registers may be needed
};
// Rows of bf16 activations, and dots on the CUDA cores.
LT_DEV uint4 bf16_load8(const bf16 *row, int k, int columns)  // row[k .. k + 7], zero from `columns` on; any alignment
{
    u32 word[4] = {0, 0, 0, 0};
    for (int i = 0; i < 8; i++)
        if (k + i < columns) word[i / 2] |= (u32)row[k + i].x << i % 2 * 16;
    uint4 v;
    v.x = word[0], v.y = word[1], v.z = word[2], v.w = word[3];
    return v;
}

LT_DEV float bf16_dot2(u32 w, u32 x, float sum)
{
    return fmaf(lt_bf16hi_f32(w), lt_bf16hi_f32(x), fmaf(lt_bf16lo_f32(w), lt_bf16lo_f32(x), sum));
}

LT_DEV float bf16_dot8(uint4 w, uint4 x, float sum)  // in the order of the elements
{
    return bf16_dot2(w.w, x.w, bf16_dot2(w.z, x.z, bf16_dot2(w.y, x.y, bf16_dot2(w.x, x.x, sum))));
}
// Four lanes t = 0..3 share the sums of two channels and `rows` rows of x, at most QUADS * 4: afterwards lane t has the
// totals of rows t, t + 4, .., mine[2 * quad + channel]. The butterfly 1, 2 gives all four lanes the same bits.
LT_DEV void quads_meet(float *mine, const float *sum, int t, int rows)
{
    LT_UNROLL(QUADS)
    for (int q = 0; q < QUADS; q++) {
        LT_UNROLL(2)
        for (int channel = 0; channel < 2; channel++) {
            LT_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                if (q * 4 + i >= rows) break;
                float v = sum[channel * QUADS * 4 + q * 4 + i];
                v += lt_shfl_xor_f32(0xffffffffu, v, 1);
                v += lt_shfl_xor_f32(0xffffffffu, v, 2);
                if (i == 0 || i == t) mine[2 * q + channel] = v;
            }
        }
    }
}

LT_DEV void load_weights(uint4 *w, const bf16 *packed, int tile, int chunk, int lane)
{
    const bf16 *unit = packed + ((size_t)(tile < ALL_TILES ? tile : ALL_TILES - 1) * CHUNKS + chunk) * 512 + lane * 8;
    w[0] = lt_ld128_once(unit);
    w[1] = lt_ld128_once(unit + 256);
}

LT_DEV void add_chunk(float (*sum)[QUADS * 4], uint4 *w, const bf16 *x, int k)
{
    if (k >= K) return;
    LT_UNROLL(M)
    for (int m = 0; m < M; m++) {
        const uint4 row = lt_ld128(x + (size_t)m * K + k);
        sum[0][m] = bf16_dot8(w[0], row, sum[0][m]);
        sum[1][m] = bf16_dot8(w[1], row, sum[1][m]);
    }
}

LT_KERNEL(32 * WARPS, RESIDENT)
bf16_gemv__m16_n288_k288__m0t1s1g4u2p1(bf16 *y, const bf16 *x, const bf16 *w)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile = blockIdx.x * GROUPS + warp / SPLIT;
    const int segment = blockIdx.y * SPLIT + warp % SPLIT;
    const int first = CHUNKS * segment / SEGMENTS, end = CHUNKS * (segment + 1) / SEGMENTS;
    float sum[2][QUADS * 4] = {0}, mine[COUNT];
    uint4 weights[UNROLL][2];

    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++)
        if (first + u < end) load_weights(weights[u], w, tile, first + u, lane);
    lt_pdl_wait();
    lt_pdl_launch();
    for (int chunk = first; chunk < end; chunk += UNROLL) {
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++) {
            if (chunk + u < end) add_chunk(sum, weights[u], x, (chunk + u) * 32 + t * 8);
            if (chunk + u + UNROLL < end) load_weights(weights[u], w, tile, chunk + u + UNROLL, lane);
        }
    }
    quads_meet(mine, &sum[0][0], t, M);
    if (warp % SPLIT != 0) return;
    LT_UNROLL(COUNT)
    for (int i = 0; i < COUNT; i++) {
        const int m = i / 2 * 4 + t, n = tile * 16 + g + i % 2 * 8;
        if (m >= M || n >= N) continue;
        y[(size_t)m * N + n] = lt_f32_bf16(mine[i]);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { bf16_gemv__m16_n288_k288__m0t1s1g4u2p1(*(bf16 **)a[0], *(const bf16 **)a[1], *(const bf16 **)a[2]); }
#endif
