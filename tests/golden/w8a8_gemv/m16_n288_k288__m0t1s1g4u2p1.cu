/* family w8a8_gemv rev 1, shape m16_n288_k288, variant m0t1s1g4u2p1, class dot_1x1 */
// On the CUDA cores: lane (g, t) holds rows g and g + 8 of a tile, k 16t .. 16t + 15 of a chunk, and multiplies them
// with every row of x; four lanes share a channel.
enum { M = 16, N = 288, K = 288, MMA = 0, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, PARTS = 1 };
enum {
    CHUNKS = (K + 63) / 64,       // of 64 k: 1 KB of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    SEGMENTS = SPLIT * PARTS,     // shares of K
    ALL_TILES = (N + 15) / 16,
    QUADS = (M + 3) / 4,          // lane t of a channel finishes rows t, t + 4, ..
    COUNT = 2 * QUADS,            // sums of a lane
    RESIDENT = 1                  // blocks of a multiprocessor: all registers may be needed
};
// E4M3 rows of activations, and dots on the CUDA cores.
LT_DEV uint4 fp8_load16(const e4m3 *row, int k, int columns)  // row[k .. k + 15], zero from `columns` on; any alignment
{
    u32 word[4] = {0, 0, 0, 0};
    for (int i = 0; i < 16; i++)
        if (k + i < columns) word[i / 4] |= (u32)row[k + i].x << i % 4 * 8;
    uint4 v;
    v.x = word[0], v.y = word[1], v.z = word[2], v.w = word[3];
    return v;
}

LT_DEV float fp8_dot4(u32 w, u32 x, float sum)  // in the order of the bytes
{
    const u32 w0 = lt_e4m3x2_f16x2(w), w1 = lt_e4m3x2_f16x2(w >> 16);
    const u32 x0 = lt_e4m3x2_f16x2(x), x1 = lt_e4m3x2_f16x2(x >> 16);
    sum = fmaf(lt_f16lo_f32(w0), lt_f16lo_f32(x0), sum);
    sum = fmaf(lt_f16hi_f32(w0), lt_f16hi_f32(x0), sum);
    sum = fmaf(lt_f16lo_f32(w1), lt_f16lo_f32(x1), sum);
    return fmaf(lt_f16hi_f32(w1), lt_f16hi_f32(x1), sum);
}

LT_DEV float fp8_dot16(uint4 w, uint4 x, float sum)
{
    return fp8_dot4(w.w, x.w, fp8_dot4(w.z, x.z, fp8_dot4(w.y, x.y, fp8_dot4(w.x, x.x, sum))));
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

LT_DEV void load_weights(uint4 *w, const e4m3 *packed, int tile, int chunk, int lane)
{
    const e4m3 *unit = packed + ((size_t)(tile < ALL_TILES ? tile : ALL_TILES - 1) * CHUNKS + chunk) * 1024 + lane * 16;
    w[0] = lt_ld128_once(unit);
    w[1] = lt_ld128_once(unit + 512);
}

LT_DEV void add_chunk(float (*sum)[QUADS * 4], uint4 *w, const e4m3 *x, int k)
{
    if (k >= K) return;
    LT_UNROLL(M)
    for (int m = 0; m < M; m++) {
        const uint4 row = lt_ld128(x + (size_t)m * K + k);
        sum[0][m] = fp8_dot16(w[0], row, sum[0][m]);
        sum[1][m] = fp8_dot16(w[1], row, sum[1][m]);
    }
}

LT_KERNEL(32 * WARPS, RESIDENT)
w8a8_gemv__m16_n288_k288__m0t1s1g4u2p1(bf16 *y, const e4m3 *x, const float *sx, const e4m3 *w, const float *sw)
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
            if (chunk + u < end) add_chunk(sum, weights[u], x, (chunk + u) * 64 + t * 16);
            if (chunk + u + UNROLL < end) load_weights(weights[u], w, tile, chunk + u + UNROLL, lane);
        }
    }
    quads_meet(mine, &sum[0][0], t, M);
    if (warp % SPLIT != 0) return;
    LT_UNROLL(COUNT)
    for (int i = 0; i < COUNT; i++) {
        const int m = i / 2 * 4 + t, n = tile * 16 + g + i % 2 * 8;
        if (m < M && n < N) y[(size_t)m * N + n] = lt_f32_bf16(mine[i] * sx[m] * sw[n]);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w8a8_gemv__m16_n288_k288__m0t1s1g4u2p1(*(bf16 **)a[0], *(const e4m3 **)a[1], *(const float **)a[2], *(const e4m3 **)a[3], *(const float **)a[4]); }
#endif
