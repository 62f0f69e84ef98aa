/* family w8a16_gemv rev 1, shape m1_n22_k22, variant m1t1s1g4u2p1, class mma.bf16_1x1 */
// Weights are the 16-row operand of m16n8k16: E4M3 is exact in bf16. Lane (g, t) holds rows g and g + 8, k 16t .. 16t +
// 15 of a chunk. Of four k in a word the even and the odd ones make a pair each, of weights and of x alike, so K is
// summed in a permuted order that is the same for every row.
enum { M = 1, N = 22, K = 22, MMA = 1, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, PARTS = 1 };
enum {
    CHUNKS = (K + 63) / 64,       // of 64 k: 1 KB of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    SEGMENTS = SPLIT * PARTS,     // shares of K
    ALL_TILES = (N + 15) / 16,
    HALVES = (M + 7) / 8,         // mma columns hold eight rows of x
    COUNT = TILES * HALVES * 4,   // sums of a lane
    RESIDENT = UNROLL * TILES * HALVES <= 2 ? 32 / WARPS : 1  // blocks of a multiprocessor: 64 registers are enough
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
// E4M3 as bf16, exact: sign, exponent and mantissa go to a bf16's sign, lowest exponent and highest mantissa bits: that
// is value * 2^-120, subnormals included; the product with 2^120 sets it right. The code 0x7f (NaN) counts as 480.
LT_DEV u32 fp8_bf16x2(u32 word)  // of bytes 1 and 3
{
    return lt_mul_bf16x2((word & 0x80008000u) | (word >> 4 & 0x07f007f0u), 0x7b807b80u);
}

LT_DEV void load_weights(uint4 (*w)[2], const e4m3 *packed, int tile0, int chunk, int lane)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const int tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
        const e4m3 *unit = packed + ((size_t)tile * CHUNKS + chunk) * 1024 + lane * 16;
        w[i][0] = lt_ld128_once(unit);
        w[i][1] = lt_ld128_once(unit + 512);
    }
}

LT_DEV uint4 load_row(const bf16 *x, int m, int k)
{
    uint4 v;
    v.x = v.y = v.z = v.w = 0;
    if (m >= M || k >= K) return v;
    return bf16_load8(x + (size_t)m * K, k, K);
}

LT_DEV void add_chunk(float (*sum)[HALVES][4], uint4 (*w)[2], const bf16 *x, int chunk, int g, int t)
{
    u32 b[HALVES][8];
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) {
        LT_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            const uint4 row = load_row(x, 8 * h + g, chunk * 64 + t * 16 + 8 * i);
            b[h][4 * i] = lt_byte_perm(row.x, row.y, 0x5410);
            b[h][4 * i + 1] = lt_byte_perm(row.x, row.y, 0x7632);
            b[h][4 * i + 2] = lt_byte_perm(row.z, row.w, 0x5410);
            b[h][4 * i + 3] = lt_byte_perm(row.z, row.w, 0x7632);
        }
    }
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const u32 upper[4] = {w[i][0].x, w[i][0].y, w[i][0].z, w[i][0].w};
        const u32 lower[4] = {w[i][1].x, w[i][1].y, w[i][1].z, w[i][1].w};
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            u32 a[4];
            a[0] = fp8_bf16x2(upper[j] << 8);
            a[1] = fp8_bf16x2(lower[j] << 8);
            a[2] = fp8_bf16x2(upper[j]);
            a[3] = fp8_bf16x2(lower[j]);
            LT_UNROLL(HALVES)
            for (int h = 0; h < HALVES; h++) lt_mma_m16n8k16_bf16(sum[i][h], a, &b[h][2 * j], sum[i][h]);
        }
    }
}

// Scales of rows g and g + 8 of each tile, asked for before the weights: at the end they would cost a trip to memory.
LT_DEV void load_channels(float *channel, const float *sw, int tile0, int g)
{
    LT_UNROLL(2 * TILES)
    for (int i = 0; i < 2 * TILES; i++) {
        const int n = tile0 * 16 + i * 8 + g;
        channel[i] = lt_bits_f32(lt_ld32_once(sw + (n < N ? n : N - 1)));
    }
}

LT_KERNEL(32 * WARPS, RESIDENT)
w8a16_gemv__m1_n22_k22__m1t1s1g4u2p1(bf16 *y, const bf16 *x, const e4m3 *w, const float *sw)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile0 = (blockIdx.x * GROUPS + warp / SPLIT) * TILES;
    const int segment = blockIdx.y * SPLIT + warp % SPLIT;
    const int first = CHUNKS * segment / SEGMENTS, end = CHUNKS * (segment + 1) / SEGMENTS;
    float sum[TILES][HALVES][4] = {0};
    float channel[TILES][2];
    uint4 weights[UNROLL][TILES][2];

    load_channels(&channel[0][0], sw, tile0, g);
    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++)
        if (first + u < end) load_weights(weights[u], w, tile0, first + u, lane);
    lt_pdl_wait();
    lt_pdl_launch();
    for (int chunk = first; chunk < end; chunk += UNROLL) {
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++) {
            if (chunk + u < end) add_chunk(sum, weights[u], x, chunk + u, g, t);
            if (chunk + u + UNROLL < end) load_weights(weights[u], w, tile0, chunk + u + UNROLL, lane);
        }
    }
    if (warp % SPLIT != 0) return;
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        LT_UNROLL(HALVES)
        for (int h = 0; h < HALVES; h++) {
            LT_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                const int m = 8 * h + 2 * t + j % 2, n = (tile0 + i) * 16 + g + j / 2 * 8;
                if (m < M && n < N) y[(size_t)m * N + n] = lt_f32_bf16(sum[i][h][j] * channel[i][j / 2]);
            }
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w8a16_gemv__m1_n22_k22__m1t1s1g4u2p1(*(bf16 **)a[0], *(const bf16 **)a[1], *(const e4m3 **)a[2], *(const float **)a[3]); }
#endif
