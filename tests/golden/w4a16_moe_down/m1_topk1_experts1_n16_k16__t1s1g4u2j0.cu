/* family w4a16_moe.down rev 1, shape m1_topk1_experts1_n16_k16, variant t1s1g4u2j0, class mma.bf16_1 */
// Weights are the 16-row operand of m16n8k16, slots of one expert the columns; code * scale * 2^-7 is exact in bf16.
// Lane (g, t) holds rows g and g + 8 of a tile, the scale group 16t .. 16t + 15 of each chunk of 64 k; x
// lies the same way, so K is summed in a permuted order, the same for every slot.
enum { M = 1, TOPK = 1, EXPERTS = 1, N = 16, K = 16, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, JOIN = 0 };
enum {
    SLOTS = M * TOPK,
    SHARE = SLOTS / 1,    // slots that read one row of x
    SCALES = 1,  // of an expert: a tensor each
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    PARTS = 1,
    ALL_TILES = N / 16,           // of an expert
    COLUMNS = JOIN ? M : 1,       // slots that one reading serves
    HALVES = (COLUMNS + 7) / 8,   // mma columns hold eight of them
    COUNT = TILES * HALVES * 4,   // sums of a lane
    SMALL = UNROLL * TILES * HALVES <= 2,        // 80 registers, or 96 in a block of 4 warps, are enough
    RESIDENT = SMALL && WARPS < 16 ? 20 / WARPS + (WARPS == 8) : 1  // blocks of a multiprocessor
};
// A unit of a tile as pack_nvfp4_tile16 lays it out: 1 KB of codes of two chunks of 64 k, 128 bytes of their scales.
#define FP4_UNSCALE 0x1p20f  // undoes what lt_nvfp4_rows makes too small

LT_DEV void fp4_load_unit(uint4 *w, u32 *scale, const u8 *codes, const e4m3 *scales, size_t unit, int lane)
{
    w[0] = lt_ld128_once(codes + unit * 1024 + lane * 16);
    w[1] = lt_ld128_once(codes + unit * 1024 + 512 + lane * 16);
    *scale = lt_ld32_once(scales + unit * 128 + lane * 4);
}

// The same of unit `unit` behind a tile's first one; codes and scales are this lane's.
LT_DEV void fp4_load_next(uint4 *w, u32 *scale, const u8 *codes, const e4m3 *scales, int unit)
{
    w[0] = lt_ld128_once(codes + unit * 1024);
    w[1] = lt_ld128_once(codes + unit * 1024 + 512);
    *scale = lt_ld32_once(scales + unit * 128);
}

// The A fragments of a chunk's four steps, code * scale * 2^-20: lane (g, t) has rows g and g + 8, k 16t .. 16t + 15.
LT_DEV void fp4_chunk(u32 (*a)[4], uint4 codes, u32 scale)
{
    const u32 word[4] = {codes.x, codes.y, codes.z, codes.w};
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) lt_nvfp4_rows(a[j], word[j], scale);
}

// x gets a factor of 2^64, so that products with codes * 2^-126 are no subnormals, and sums with scale * 2^106 are 2^44
// times too large.
LT_DEV void fp4_lift(u32 *b, u32 factor)
{
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++) b[i] = lt_mul_bf16x2(b[i], factor);
}
#define FP4_LIFT 0x5f805f80u       // 2^64
#define FP4_LIFT_CODES 0x63006300u // 2^71: of values that fp4_expand made 2^7 times too small
#define FP4_UNLIFT 0x1p-44f

LT_DEV void load_weights(uint4 (*w)[2], u32 *scale, const u8 *codes, const e4m3 *scales, int expert, int tile0,
                         int unit, int lane)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const int tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
        fp4_load_unit(w[i], &scale[i], codes, scales, ((size_t)expert * ALL_TILES + tile) * UNITS + unit, lane);
    }
}

LT_DEV void load_row(u32 *b, const bf16 *x, size_t at, int is_there)  // 16 values
{
    uint4 lo, hi;
    lo.x = lo.y = lo.z = lo.w = 0;
    hi = lo;
    if (is_there) {
        lo = lt_ld128(x + at);
        hi = lt_ld128(x + at + 8);
    }
    b[0] = lo.x, b[1] = lo.y, b[2] = lo.z, b[3] = lo.w;
    b[4] = hi.x, b[5] = hi.y, b[6] = hi.z, b[7] = hi.w;
}

LT_DEV void add_unit(float (*sum)[HALVES][4], uint4 (*w)[2], u32 *scale, u32 (*b)[2][8])
{
    LT_UNROLL(2)
    for (int c = 0; c < 2; c++) {
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++) {
            u32 a[4][4];
            fp4_chunk(a, w[i][c], scale[i] >> 16 * c);
            LT_UNROLL(HALVES)
            for (int h = 0; h < HALVES; h++) lt_mma_m16n8k16_bf16_run(sum[i][h], a[0], b[h][c], 4);
        }
    }
}

LT_KERNEL(32 * WARPS, RESIDENT)
w4a16_moe_down__m1_topk1_experts1_n16_k16__t1s1g4u2j0(bf16 *y, const bf16 *x, const i32 *ids, const u8 *w, const e4m3 *ws, const float *sw)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile0 = (blockIdx.x * GROUPS + warp / SPLIT) * TILES, share = warp % SPLIT;
    const int first = UNITS * share / SPLIT, end = UNITS * (share + 1) / SPLIT;

    lt_pdl_wait();
    lt_pdl_launch();
    const int expert = ids[blockIdx.y];
    const i32 list[1] = {(i32)blockIdx.y};
    const int live = 1;
    if (expert < 0 || expert >= EXPERTS) return;
    for (int from = 0; from < live; from += COLUMNS) {  // once, but where a row chose the expert twice
        const i32 *slots = list + from;
        const int columns = live - from < COLUMNS ? live - from : COLUMNS;
        float sum[TILES][HALVES][4] = {0}, channel[TILES];
        uint4 weights[UNROLL][TILES][2];
        u32 scale[UNROLL][TILES];
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++)
            if (first + u < end) load_weights(weights[u], scale[u], w, ws, expert, tile0, first + u, lane);
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++) {
            const int tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
            channel[i] = sw[expert * SCALES + tile * SCALES / ALL_TILES];
        }
        for (int unit = first; unit < end; unit += UNROLL) {
            LT_UNROLL(UNROLL)
            for (int u = 0; u < UNROLL; u++) {
                if (unit + u < end) {
                    u32 b[HALVES][2][8];
                    LT_UNROLL(2 * HALVES)
                    for (int i = 0; i < 2 * HALVES; i++) {
                        const int m = i / 2 * 8 + g, k = (unit + u) * 128 + i % 2 * 64 + t * 16;
                        const size_t row = m < columns ? slots[m] / SHARE : 0;
                        load_row(b[i / 2][i % 2], x, row * K + k, m < columns && k < K);
                    }
                    add_unit(sum, weights[u], scale[u], b);
                }
                if (unit + u + UNROLL < end)
                    load_weights(weights[u], scale[u], w, ws, expert, tile0, unit + u + UNROLL, lane);
            }
        }
        if (share != 0) continue;
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++) {
            LT_UNROLL(HALVES * 4)
            for (int j = 0; j < HALVES * 4; j++) {
                const int m = j / 4 * 8 + 2 * t + j % 2, n = (tile0 + i) * 16 + g + j / 2 % 2 * 8;
                if (m >= columns || n >= N) continue;
                y[(size_t)slots[m] * N + n] = lt_f32_bf16(sum[i][j / 4][j % 4] * FP4_UNSCALE * channel[i]);
            }
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a16_moe_down__m1_topk1_experts1_n16_k16__t1s1g4u2j0(*(bf16 **)a[0], *(const bf16 **)a[1], *(const i32 **)a[2], *(const u8 **)a[3], *(const e4m3 **)a[4], *(const float **)a[5]); }
#endif
