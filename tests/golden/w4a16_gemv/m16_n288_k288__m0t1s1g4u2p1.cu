/* family w4a16_gemv rev 1, shape m16_n288_k288, variant m0t1s1g4u2p1, class dot_1x1 */
// On the CUDA cores: lane (g, t) holds rows g and g + 8 of a tile, one scale group of each chunk, and multiplies them
// with every row of x; four lanes share a channel.
enum { M = 16, N = 288, K = 288, MMA = 0, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, PARTS = 1 };
enum {
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    SEGMENTS = SPLIT * PARTS,     // shares of K
    ALL_TILES = (N + 15) / 16,
    QUADS = (M + 3) / 4,          // lane t of a channel finishes rows t, t + 4, ..
    COUNT = 2 * QUADS,            // sums of a lane
    RESIDENT = 1                  // blocks of a multiprocessor: all registers may be needed
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
// Four lanes t = 0..3 share the sums of two channels and QUADS * 4 rows of x: afterwards lane t has the totals of rows
// t, t + 4, .., mine[2 * quad + channel]. The butterfly 1, 2 gives all four lanes the same bits.
LT_DEV void quads_meet(float *mine, const float *sum, int t)
{
    LT_UNROLL(QUADS)
    for (int q = 0; q < QUADS; q++) {
        LT_UNROLL(2)
        for (int channel = 0; channel < 2; channel++) {
            LT_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                float v = sum[channel * QUADS * 4 + q * 4 + i];
                v += lt_shfl_xor_f32(0xffffffffu, v, 1);
                v += lt_shfl_xor_f32(0xffffffffu, v, 2);
                if (i == 0 || i == t) mine[2 * q + channel] = v;
            }
        }
    }
}

LT_DEV void load_weights(uint4 *w, u32 *scale, const u8 *codes, const e4m3 *scales, int tile, int unit, int lane)
{
    const size_t at = (size_t)(tile < ALL_TILES ? tile : ALL_TILES - 1) * UNITS + unit;
    w[0] = lt_ld128_once(codes + at * 1024 + lane * 16);
    w[1] = lt_ld128_once(codes + at * 1024 + 512 + lane * 16);
    *scale = lt_ld32_once(scales + at * 128 + lane * 4);
}

LT_DEV void unpack(float (*w)[16], uint4 codes, u32 scale)  // of rows g and g + 8
{
    const u32 upper = fp4_scale(scale), lower = fp4_scale(scale >> 8);
    const u32 word[4] = {codes.x, codes.y, codes.z, codes.w};
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        u32 a[4];
        fp4_fragment(a, word[j]);
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const u32 two = lt_mul_bf16x2(a[i], i % 2 ? lower : upper);
            w[i % 2][4 * j + i / 2 * 2] = lt_bf16lo_f32(two);
            w[i % 2][4 * j + i / 2 * 2 + 1] = lt_bf16hi_f32(two);
        }
    }
}

LT_DEV void add_chunk(float (*sum)[QUADS * 4], uint4 codes, u32 scale, const bf16 *x, int k)
{
    float w[2][16];
    if (k >= K) return;
    unpack(w, codes, scale);
    LT_UNROLL(M)
    for (int m = 0; m < M; m++) {
        LT_UNROLL(2)
        for (int half = 0; half < 2; half++) {
            const uint4 row = lt_ld128(x + (size_t)m * K + k + 8 * half);
            const u32 word[4] = {row.x, row.y, row.z, row.w};
            LT_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                LT_UNROLL(2)
                for (int r = 0; r < 2; r++) {
                    sum[r][m] = fmaf(w[r][8 * half + 2 * j], lt_bf16lo_f32(word[j]), sum[r][m]);
                    sum[r][m] = fmaf(w[r][8 * half + 2 * j + 1], lt_bf16hi_f32(word[j]), sum[r][m]);
                }
            }
        }
    }
}

LT_KERNEL(32 * WARPS, RESIDENT)
w4a16_gemv__m16_n288_k288__m0t1s1g4u2p1(bf16 *y, const bf16 *x, const u8 *w, const e4m3 *ws, const float *sw)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile = blockIdx.x * GROUPS + warp / SPLIT;
    const int segment = blockIdx.y * SPLIT + warp % SPLIT;
    const int first = UNITS * segment / SEGMENTS, end = UNITS * (segment + 1) / SEGMENTS;
    float sum[2][QUADS * 4] = {0}, mine[COUNT];
    uint4 weights[UNROLL][2];
    u32 scale[UNROLL];

    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++)
        if (first + u < end) load_weights(weights[u], &scale[u], w, ws, tile, first + u, lane);
    lt_pdl_wait();
    lt_pdl_launch();
    for (int unit = first; unit < end; unit += UNROLL) {
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++) {
            if (unit + u < end) {
                add_chunk(sum, weights[u][0], scale[u], x, (unit + u) * 128 + t * 16);
                add_chunk(sum, weights[u][1], scale[u] >> 16, x, (unit + u) * 128 + 64 + t * 16);
            }
            if (unit + u + UNROLL < end) load_weights(weights[u], &scale[u], w, ws, tile, unit + u + UNROLL, lane);
        }
    }
    quads_meet(mine, &sum[0][0], t);
    if (warp % SPLIT != 0) return;
    LT_UNROLL(COUNT)
    for (int i = 0; i < COUNT; i++) {
        const int m = i / 2 * 4 + t, n = tile * 16 + g + i % 2 * 8;
        if (m < M && n < N) y[(size_t)m * N + n] = lt_f32_bf16(mine[i] * FP4_UNSCALE * sw[n]);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a16_gemv__m16_n288_k288__m0t1s1g4u2p1(*(bf16 **)a[0], *(const bf16 **)a[1], *(const u8 **)a[2], *(const e4m3 **)a[3], *(const float **)a[4]); }
#endif
