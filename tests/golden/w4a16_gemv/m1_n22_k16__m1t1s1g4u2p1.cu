/* family w4a16_gemv rev 1, shape m1_n22_k16, variant m1t1s1g4u2p1, class mma.bf16_1x1 */
// Weights are the 16-row operand of m16n8k16: code * scale * 2^-7 is exact in bf16. Lane (g, t) holds rows g and g +
// 8, the scale group 16t .. 16t + 15 of each chunk of 64 k; x lies the same way, so K is summed in a permuted order,
// the same for every row.
enum { M = 1, N = 22, K = 16, MMA = 1, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, PARTS = 1 };
enum {
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    SEGMENTS = SPLIT * PARTS,     // shares of K
    ALL_TILES = (N + 15) / 16,
    HALVES = (M + 7) / 8,         // mma columns hold eight rows of x
    COUNT = TILES * HALVES * 4,   // sums of a lane
    RESIDENT = UNROLL * TILES * HALVES <= 2 ? 32 / WARPS : 1  // blocks of a multiprocessor: 64 registers are enough
};
// NVFP4 as pack_nvfp4_tile16 lays it out: a 32-bit word is the A fragment of one m16n8k16, four codes of row g and
// four of row g + 8. Each 16-bit half keeps a code for each of the four registers, sign and magnitude bits at
//   register 0: 15, 8-6    1: 12, 5-3    2: 9, 2-0    3: 14, 13 11 10
// so that a shift and a mask put them on a bf16's sign, lowest exponent and highest mantissa bits.  ORDER FP4
LT_DEV void fp4_fragment(u32 *a, u32 word)  // a[i] = codes * 2^-126, exact (subnormals included)
{
    a[0] = word & 0x81c081c0u;
    a[1] = word << 3 & 0x81c081c0u;
    a[2] = word << 6 & 0x81c081c0u;
    a[3] = (word << 1 & 0x80008000u) | (word >> 5 & 0x01000100u) | (word >> 4 & 0x00c000c0u);
}

// The low byte is a scale as exponent + 9 and three mantissa bits: scale * 2^119 as both halves of a bf16x2. The
// product with a fragment is code * scale * 2^-7, exact in bf16; FP4_UNSCALE undoes the 2^-7.
LT_DEV u32 fp4_scale(u32 byte) { return (byte & 255) * 0x00100010u + 0x76807680u; }
#define FP4_UNSCALE 128.0f

LT_DEV void load_weights(uint4 (*w)[2], u32 *scale, const u8 *codes, const e4m3 *scales, int tile0, int unit, int lane)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const int tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
        const size_t at = (size_t)tile * UNITS + unit;
        w[i][0] = lt_ld128_once(codes + at * 1024 + lane * 16);
        w[i][1] = lt_ld128_once(codes + at * 1024 + 512 + lane * 16);
        scale[i] = lt_ld32_once(scales + at * 128 + lane * 4);
    }
}

LT_DEV void load_row(u32 *b, const bf16 *x, int m, int k)  // 16 values, zero outside M and K
{
    uint4 lo, hi;
    lo.x = lo.y = lo.z = lo.w = 0;
    hi = lo;
    if (m < M && k < K) {
        lo = lt_ld128(x + (size_t)m * K + k);
        hi = lt_ld128(x + (size_t)m * K + k + 8);
    }
    b[0] = lo.x, b[1] = lo.y, b[2] = lo.z, b[3] = lo.w;
    b[4] = hi.x, b[5] = hi.y, b[6] = hi.z, b[7] = hi.w;
}

LT_DEV void add_unit(float (*sum)[HALVES][4], uint4 (*w)[2], u32 *scale, const bf16 *x, int unit, int g, int t)
{
    u32 b[HALVES][2][8];
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) {
        load_row(b[h][0], x, 8 * h + g, unit * 128 + t * 16);
        load_row(b[h][1], x, 8 * h + g, unit * 128 + 64 + t * 16);
    }
    LT_UNROLL(2)
    for (int c = 0; c < 2; c++) {
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++) {
            const u32 upper = fp4_scale(scale[i] >> 16 * c), lower = fp4_scale(scale[i] >> (16 * c + 8));
            const u32 word[4] = {w[i][c].x, w[i][c].y, w[i][c].z, w[i][c].w};
            LT_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                u32 a[4];
                fp4_fragment(a, word[j]);
                a[0] = lt_mul_bf16x2(a[0], upper);
                a[1] = lt_mul_bf16x2(a[1], lower);
                a[2] = lt_mul_bf16x2(a[2], upper);
                a[3] = lt_mul_bf16x2(a[3], lower);
                LT_UNROLL(HALVES)
                for (int h = 0; h < HALVES; h++) lt_mma_m16n8k16_bf16(sum[i][h], a, &b[h][c][2 * j], sum[i][h]);
            }
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
w4a16_gemv__m1_n22_k16__m1t1s1g4u2p1(bf16 *y, const bf16 *x, const u8 *w, const e4m3 *ws, const float *sw)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile0 = (blockIdx.x * GROUPS + warp / SPLIT) * TILES;
    const int segment = blockIdx.y * SPLIT + warp % SPLIT;
    const int first = UNITS * segment / SEGMENTS, end = UNITS * (segment + 1) / SEGMENTS;
    float sum[TILES][HALVES][4] = {0};
    float channel[TILES][2];
    uint4 weights[UNROLL][TILES][2];
    u32 scale[UNROLL][TILES];

    load_channels(&channel[0][0], sw, tile0, g);
    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++)
        if (first + u < end) load_weights(weights[u], scale[u], w, ws, tile0, first + u, lane);
    lt_pdl_wait();
    lt_pdl_launch();
    for (int unit = first; unit < end; unit += UNROLL) {
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++) {
            if (unit + u < end) add_unit(sum, weights[u], scale[u], x, unit + u, g, t);
            if (unit + u + UNROLL < end) load_weights(weights[u], scale[u], w, ws, tile0, unit + u + UNROLL, lane);
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
                if (m < M && n < N) y[(size_t)m * N + n] = lt_f32_bf16(sum[i][h][j] * FP4_UNSCALE * channel[i][j / 2]);
            }
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a16_gemv__m1_n22_k16__m1t1s1g4u2p1(*(bf16 **)a[0], *(const bf16 **)a[1], *(const u8 **)a[2], *(const e4m3 **)a[3], *(const float **)a[4]); }
#endif
