/* family w4a4_gemv rev 3, shape m1_n22_k16, variant m2l0t1s1g4u2p1b0, class mma.nvf4_1x1 */
// Weights are the 16-row operand of the block-scaled m16n8k64, x the columns. Codes and scales come out of the layout
// that other devices multiply as bf16; the sums are not unscaled, since the mma applies both scales.
enum { M = 1, N = 22, K = 16, MMA = 2, LATE = 0, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, PARTS = 1, BLOCK = 0 };
enum {
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    SEGMENTS = SPLIT * PARTS,     // shares of K
    ALL_TILES = (N + 15) / 16,
    HALVES = (M + 7) / 8,         // mma columns hold eight rows of x
    COUNT = TILES * HALVES * 4    // sums of a lane
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
// Units of pack_nvfp4_tile16 as m16n8k64 takes them. The mma's groups of 16 k are 0, 2, 1, 3 of a chunk's: so the two
// halves of the groups of lanes t and t ^ 1 change hands in one shuffle a row.  ORDER FP4
LT_DEV u32 nvf4_codes4(u32 word, int lower)  // four codes of row g or g + 8
{
    const u32 turned = word << 16 | word >> 16;
    u32 two;  // first and third in the low half's bytes, second and fourth in the high one's
    if (lower) {
        two = (word >> 2 & 0x00070007u) | (word >> 8 & 0x00080008u);
        two |= (word & 0x00030003u) << 8 | (word >> 8 & 0x00040004u) << 8 | (word >> 6 & 0x00080008u) << 8;
    } else {
        two = (word >> 6 & 0x00070007u) | (word >> 12 & 0x00080008u);
        two |= (turned >> 12 & 0x00070007u) << 8 | (word >> 2 & 0x00080008u) << 8;
    }
    return (two | two >> 12) & 0xffff;
}

LT_DEV u32 nvf4_codes8(u32 first, u32 second, int lower)
{
    return nvf4_codes4(first, lower) | nvf4_codes4(second, lower) << 16;
}

LT_DEV void nvf4_chunk(u32 *a, uint4 codes, int t)
{
    LT_UNROLL(2)
    for (int r = 0; r < 2; r++) {
        const u32 lo = nvf4_codes8(codes.x, codes.y, r), hi = nvf4_codes8(codes.z, codes.w, r);
        const u32 got = lt_shfl_xor_u32(0xffffffffu, t % 2 ? lo : hi, 1);
        a[r] = t % 2 ? got : lo;
        a[r + 2] = t % 2 ? hi : got;
    }
}

// Scales as E4M3 again: exponent + 9 and mantissa bits, of which a subnormal's are cut; 249 is NaN.
LT_DEV u32 nvf4_scale(u32 byte)
{
    if (byte >= 24) return byte > 142 ? 0x7f : byte - 16;
    return (8 | (byte & 7)) >> (3 - (byte >> 3));
}

// The scales of a unit's two chunks: of row g in lanes 4g, of row g + 8 in lanes 4g + 1.
LT_DEV void nvf4_scales(u32 *sa, u32 word, int lane)
{
    const u32 own = nvf4_scale(word & 255) | nvf4_scale(word >> 8 & 255) << 8 | nvf4_scale(word >> 16 & 255) << 16 |
                    nvf4_scale(word >> 24) << 24;
    const u32 one = lt_shfl_u32(0xffffffffu, own, lane & 28), two = lt_shfl_u32(0xffffffffu, own, (lane & 28) + 2);
    const u32 three = lt_shfl_u32(0xffffffffu, own, (lane & 28) + 1), four = lt_shfl_u32(0xffffffffu, own, lane | 3);
    LT_UNROLL(2)
    for (int c = 0; c < 2; c++) {
        const u32 i = 2 * c + lane % 2, select = i | (i + 4) << 4;
        sa[c] = lt_byte_perm(one, two, select) & 0xffff;
        sa[c] |= lt_byte_perm(three, four, select) << 16;
    }
}

// Column n's codes and scales of a chunk of row-major x, whose groups end at `end`: zero from there on.
LT_DEV void nvf4_column(u32 *b, u32 *sb, const u8 *x, const e4m3 *xs, size_t at, size_t end, int t)
{
    *sb = 0;
    LT_UNROLL(2)
    for (int h = 0; h < 2; h++) {
        const size_t mine = at + (t / 2 * 2 + h) * 16;
        b[h] = mine < end ? *(const u32 *)(x + mine / 2 + t % 2 * 4) : 0;
    }
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++)
        if (at + i * 16 < end) *sb |= (u32)xs[at / 16 + i].x << (i % 2 * 2 + i / 2) * 8;
}

LT_DEV void load_weights(uint4 (*w)[2], u32 *scale, const u8 *codes, const e4m3 *scales, int tile0, int unit, int lane)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const int tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
        fp4_load_unit(w[i], &scale[i], codes, scales, (size_t)tile * UNITS + unit, lane);
    }
}

LT_DEV void add_unit(float (*sum)[HALVES][4], uint4 (*w)[2], u32 *scale, const u8 *x, const e4m3 *xs, int unit,
                     int lane)
{
    const int g = lane / 4, t = lane % 4;
    u32 b[HALVES][2][2], sb[HALVES][2];
    LT_UNROLL(2 * HALVES)
    for (int i = 0; i < 2 * HALVES; i++) {
        const int m = i / 2 * 8 + g;
        const size_t row = (size_t)m * K, end = m < M ? row + K : 0;
        nvf4_column(b[i / 2][i % 2], &sb[i / 2][i % 2], x, xs, row + unit * 128 + i % 2 * 64, end, t);
    }
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        u32 sa[2];
        nvf4_scales(sa, scale[i], lane);
        LT_UNROLL(2)
        for (int c = 0; c < 2; c++) {
            u32 a[4];
            nvf4_chunk(a, w[i][c], t);
            LT_UNROLL(HALVES)
            for (int h = 0; h < HALVES; h++) lt_mma_m16n8k64_nvf4(sum[i][h], a, b[h][c], sum[i][h], sa[c], sb[h][c]);
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

LT_KERNEL(32 * WARPS, 1)
w4a4_gemv__m1_n22_k16__m2l0t1s1g4u2p1b0(bf16 *y, const u8 *x, const e4m3 *xs, const float *gs, const u8 *w, const e4m3 *ws, const float *sw)
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
            if (unit + u < end) add_unit(sum, weights[u], scale[u], x, xs, unit + u, lane);
            if (unit + u + UNROLL < end) load_weights(weights[u], scale[u], w, ws, tile0, unit + u + UNROLL, lane);
        }
    }
    if (warp % SPLIT != 0) return;
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        LT_UNROLL(HALVES * 4)
        for (int j = 0; j < HALVES * 4; j++) {
            const int m = j / 4 * 8 + 2 * t + j % 2, n = (tile0 + i) * 16 + g + j / 2 % 2 * 8;
            if (m < M && n < N)
                y[(size_t)m * N + n] = lt_f32_bf16(sum[i][j / 4][j % 4] * (gs[m] * channel[i][j / 2 % 2]));
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a4_gemv__m1_n22_k16__m2l0t1s1g4u2p1b0(*(bf16 **)a[0], *(const u8 **)a[1], *(const e4m3 **)a[2], *(const float **)a[3], *(const u8 **)a[4], *(const e4m3 **)a[5], *(const float **)a[6]); }
#endif
