/* family bf16_gemv_f32 rev 1, shape m1_n4_k256, variant m1t1s4g1u2p1, class mma.bf16_1x4 */
// Weights are the 16-row operand of m16n8k16: TILES of them a warp, a share of K.
enum { M = 1, N = 4, K = 256, MMA = 1, TILES = 1, SPLIT = 4, GROUPS = 1, UNROLL = 2, PARTS = 1 };
enum {
    CHUNKS = (K + 31) / 32,       // of 32 k: 1 KB of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    SEGMENTS = SPLIT * PARTS,     // shares of K
    ALL_TILES = (N + 15) / 16,
    HALVES = (M + 7) / 8,         // mma columns hold eight rows of x
    COUNT = TILES * HALVES * 4,   // sums of a lane
    RESIDENT = UNROLL * TILES * HALVES <= 2 ? 32 / WARPS : 1  // blocks of a multiprocessor: 64 registers are enough
};
// Products with tiles of 16 rows of bf16 weights by m16n8k16. Lane (g, t) holds rows g and g + 8, k 8t .. 8t + 7 of a
// chunk; x lies the same way, so K is summed in a permuted order that is the same for every row. The template's enum
// has M, K, CHUNKS, ALL_TILES, TILES of a warp, HALVES.
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

LT_DEV void load_weights(uint4 (*w)[2], const bf16 *packed, int tile0, int chunk, int lane)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const int tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
        const bf16 *unit = packed + ((size_t)tile * CHUNKS + chunk) * 512 + lane * 8;
        w[i][0] = lt_ld128_once(unit);
        w[i][1] = lt_ld128_once(unit + 256);
    }
}

LT_DEV uint4 load_row(const bf16 *x, int m, int k)
{
    uint4 v;
    v.x = v.y = v.z = v.w = 0;
    if (m >= M || k >= K) return v;
    if (K % 8 == 0) return lt_ld128(x + (size_t)m * K + k);
    return bf16_load8(x + (size_t)m * K, k, K);
}

LT_DEV void add_chunk(float (*sum)[HALVES][4], uint4 (*w)[2], const bf16 *x, int chunk, int g, int t)
{
    u32 b[HALVES][4];
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) {
        const uint4 row = load_row(x, 8 * h + g, chunk * 32 + t * 8);
        b[h][0] = row.x, b[h][1] = row.y, b[h][2] = row.z, b[h][3] = row.w;
    }
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const uint4 upper = w[i][0], lower = w[i][1];
        const u32 a[2][4] = {{upper.x, lower.x, upper.y, lower.y}, {upper.z, lower.z, upper.w, lower.w}};
        LT_UNROLL(2)
        for (int j = 0; j < 2; j++) {
            LT_UNROLL(HALVES)
            for (int h = 0; h < HALVES; h++) lt_mma_m16n8k16_bf16(sum[i][h], a[j], &b[h][2 * j], sum[i][h]);
        }
    }
}
// Sums of one K meet: COUNT a lane, of the SPLIT warps of a block, then of the PARTS blocks of a column of the grid.
// Always in ascending K, so that the bits do not depend on who comes last.
LT_DEV void sums_of_warps(float *sum, int warp, int lane)  // share 0 of each group has the total
{
    LT_SHARED2(float, room, WARPS, COUNT * 32);
    LT_UNROLL(COUNT)
    for (int i = 0; i < COUNT; i++) room[warp][i * 32 + lane] = sum[i];
    __syncthreads();
    if (warp % SPLIT != 0) return;
    for (int p = 1; p < SPLIT; p++) {
        LT_UNROLL(COUNT)
        for (int i = 0; i < COUNT; i++) sum[i] += room[warp + p][i * 32 + lane];
    }
}

// partial[part][group][COUNT][32]; arrived[blockIdx.x] counts blocks. True in the block that comes last: its share 0
// has the total.
LT_DEV int sums_of_blocks(float *sum, float *partial, u32 *arrived, int warp, int lane)
{
    const size_t groups = (size_t)gridDim.x * GROUPS, group = blockIdx.x * GROUPS + warp / SPLIT;
    if (warp % SPLIT == 0) {
        LT_UNROLL(COUNT)
        for (int i = 0; i < COUNT; i++) partial[((blockIdx.y * groups + group) * COUNT + i) * 32 + lane] = sum[i];
    }
    if (!lt_last_block(arrived + blockIdx.x, PARTS)) return 0;
    if (warp % SPLIT != 0) return 1;
    for (int p = 0; p < PARTS; p++) {
        LT_UNROLL(COUNT)
        for (int i = 0; i < COUNT; i++) {
            const float other = lt_bits_f32(lt_ld32_fresh(partial + ((p * groups + group) * COUNT + i) * 32 + lane));
            sum[i] = p == 0 ? other : sum[i] + other;
        }
    }
    return 1;
}

LT_KERNEL(32 * WARPS, RESIDENT)
bf16_gemv_f32__m1_n4_k256__m1t1s4g1u2p1(float *y, const bf16 *x, const bf16 *w)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile0 = (blockIdx.x * GROUPS + warp / SPLIT) * TILES;
    const int segment = blockIdx.y * SPLIT + warp % SPLIT;
    const int first = CHUNKS * segment / SEGMENTS, end = CHUNKS * (segment + 1) / SEGMENTS;
    float sum[TILES][HALVES][4] = {0};
    uint4 weights[UNROLL][TILES][2];

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
    sums_of_warps(&sum[0][0][0], warp, lane);
    if (warp % SPLIT != 0) return;
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        LT_UNROLL(HALVES)
        for (int h = 0; h < HALVES; h++) {
            LT_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                const int m = 8 * h + 2 * t + j % 2, n = (tile0 + i) * 16 + g + j / 2 * 8;
                if (m >= M || n >= N) continue;
                y[(size_t)m * N + n] = (sum[i][h][j]);
            }
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { bf16_gemv_f32__m1_n4_k256__m1t1s4g1u2p1(*(float **)a[0], *(const bf16 **)a[1], *(const bf16 **)a[2]); }
#endif
