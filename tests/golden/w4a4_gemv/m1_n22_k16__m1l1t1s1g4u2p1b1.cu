/* family w4a4_gemv rev 1, shape m1_n22_k16, variant m1l1t1s1g4u2p1b1, class mma.bf16_sums_1x1 */
// Weights are the 16-row operand of m16n8k16, x the columns, as bf16: exact. Lane (g, t) holds rows g and g + 8 of a
// tile, the scale group 16t .. 16t + 15 of each chunk of 64 k; x lies the same way, so K is summed in a permuted order,
// the same for every row.
enum { M = 1, N = 22, K = 16, MMA = 1, LATE = 1, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, PARTS = 1, BLOCK = 1 };
enum {
    ROWS = M,
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    SEGMENTS = SPLIT * PARTS,     // shares of K
    ALL_TILES = (N + 15) / 16,
    WIDE = UNITS * 128,           // of a row in shared memory
    STRIDE = WIDE + 8,
    LOADS = UNROLL * TILES,       // units in flight of a warp
    RESIDENT = (M <= 2 && LOADS <= 2 ? 24 : M <= 4 && LOADS <= 4 ? 16 : WARPS) / WARPS  // blocks: registers for them
};
// Scales multiply sums of 16 products. The columns of an mma are two rows of x, each four times: where lane (g, t) has
// the codes of its scale group, only the columns g of that group have x, and zeros stand elsewhere. So lane (g, t)
// gets sums of its own group, and the scales that it has loaded are theirs. Where there is one row, the two columns of
// a group are the two chunks of a unit. ROWS: of x, in all.
enum {
    QUADS = (ROWS + 3) / 4,
    PASSES = (ROWS + 1) / 2,   // over the weights
    EACH = 2,                  // rows of x that a pass takes
    STAGED = ROWS > 1 ? PASSES * EACH : 1,  // rows of x in shared memory  ORDER STAGED
    SUMS = 2 * QUADS * 4,      // floats of a lane and tile
    TOTALS = 2 * QUADS
};
// A unit of a tile as pack_nvfp4_tile16 lays it out: 1 KB of codes of two chunks of 64 k, 128 bytes of their scales.
// NVFP4 as pack_nvfp4_tile16 lays it out: a 32-bit word is the A fragment of one m16n8k16, four codes of row g and
// four of row g + 8. Each 16-bit half keeps a code for each of the four registers, sign and magnitude bits at
//   register 0: 15, 8-6    1: 11, 4-2    2: 5, 14-12 of the other half    3: 9, 10 1 0
// so that one shift or rotation, for register 3 two, and a mask put them on a bf16's sign, lowest exponent and highest
// mantissa bits.  ORDER FP4
LT_DEV void fp4_fragment(u32 *a, u32 word)  // a[i] = codes * 2^-126, exact (subnormals included)
{
    a[0] = word & 0x81c081c0u;
    a[1] = word << 4 & 0x81c081c0u;
    a[2] = (word << 10 | word >> 22) & 0x81c081c0u;
    a[3] = (word << 6 & 0x80c080c0u) | (word >> 2 & 0x01000100u);
}

// The low byte is a scale as exponent + 9 and three mantissa bits: scale * 2^106 as both halves of a bf16x2. The
// product with a fragment is code * scale * 2^-20, exact in bf16; FP4_UNSCALE undoes the 2^-20.
LT_DEV u32 fp4_scale(u32 byte) { return (byte & 255) * 0x00100010u + 0x70007000u; }
#define FP4_UNSCALE 0x1p20f

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
    const u32 upper = fp4_scale(scale), lower = fp4_scale(scale >> 8);
    const u32 word[4] = {codes.x, codes.y, codes.z, codes.w};
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        fp4_fragment(a[j], word[j]);
        a[j][0] = lt_mul_bf16x2(a[j][0], upper);
        a[j][1] = lt_mul_bf16x2(a[j][1], lower);
        a[j][2] = lt_mul_bf16x2(a[j][2], upper);
        a[j][3] = lt_mul_bf16x2(a[j][3], lower);
    }
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

LT_DEV int fp4_row(int g) { return ROWS == 1 ? 0 : g % 2; }  // of a pass, that lane (g, t) gives
LT_DEV int fp4_gives(int c, int g, int t) { return ROWS == 1 ? g == 2 * t + c : g / 2 == t; }  // does it, for chunk c?
LT_DEV int fp4_sum_row(int j, int t) { return j / 2 * 4 + t; }
LT_DEV int fp4_sum_channel(int j) { return j % 2; }  // 0: row g of the tile, 1: row g + 8

LT_DEV void fp4_steps(u32 (*a)[4], uint4 codes, u32 scale, int c)
{
    const u32 word[4] = {codes.x, codes.y, codes.z, codes.w};
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) fp4_fragment(a[j], word[j]);
}

// Scale number i of a word, times 2^106.
LT_DEV float fp4_scale_f32(u32 word, int i)
{
    return lt_bits_f32(((i < 3 ? word << (20 - 8 * i) : word >> 4) & 0x0ff00000u) | 0x70000000u);
}

LT_DEV void fp4_add(float *sum, u32 (*a)[4], u32 *b, u32 scale, int c, int pass)
{
    float group[4] = {0};
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) lt_mma_m16n8k16_bf16(group, a[j], b + 2 * j, group);
    LT_UNROLL(2)
    for (int channel = 0; channel < 2; channel++) {
        const float factor = fp4_scale_f32(scale, 2 * c + channel);
        float *own = sum + channel * QUADS * 4 + 2 * pass;
        if (ROWS == 1) own[0] = fmaf(group[2 * channel + c], factor, own[0]);
        if (ROWS > 1) own[0] = fmaf(group[2 * channel], factor, own[0]);
        if (ROWS > 1) own[1] = fmaf(group[2 * channel + 1], factor, own[1]);
    }
}

LT_DEV void fp4_meet(float *total, const float *sum, int t) { quads_meet(total, sum, t, ROWS); }
// NVFP4 rows of activations as bf16: b[i] = values 2i, 2i + 1 of a group, code * scale * 2^-7, exact. A scale's sign is
// ignored, as the block-scaled mma does.
#define FP4_UNSCALE_ROW 128.0f

LT_DEV void fp4_expand(u32 *b, uint2 codes, e4m3 scale)
{
    const u32 factor = lt_byte_perm(lt_f32_bits(lt_ue4m3_f32(scale.x) * 0x1p119f), 0, 0x3232);  // both halves
    LT_UNROLL(2)
    for (int h = 0; h < 2; h++) {
        const u32 even = h ? codes.y : codes.x, odd = even >> 4;
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const u32 two = lt_byte_perm(even, odd, 0x4400 + 0x1111 * i);  // a half: its code and a neighbour, twice
            b[4 * h + i] = lt_mul_bf16x2((two << 4 & 0x80008000u) | (two << 6 & 0x01c001c0u), factor);
        }
    }
}

LT_DEV void fp4_expand16(u32 *b, const u8 *codes, const e4m3 *scales, size_t at)  // values at .. at + 15
{
    fp4_expand(b, *(const uint2 *)(codes + at / 2), scales[at / 16]);
}
// Rows of x in shared memory: WIDE bf16 each, STRIDE apart, so that eight lanes' 16 bytes lie in different banks.
LT_DEV void staged_put16(bf16 *rows, int row, int k, const u32 *b)
{
    uint4 lo, hi;
    lo.x = b[0], lo.y = b[1], lo.z = b[2], lo.w = b[3];
    hi.x = b[4], hi.y = b[5], hi.z = b[6], hi.w = b[7];
    lt_st128(rows + row * STRIDE + k, lo);
    lt_st128(rows + row * STRIDE + k + 8, hi);
}

LT_DEV void staged_get16(u32 *b, const bf16 *rows, int row, int k)
{
    const uint4 lo = lt_ld128(rows + row * STRIDE + k), hi = lt_ld128(rows + row * STRIDE + k + 8);
    b[0] = lo.x, b[1] = lo.y, b[2] = lo.z, b[3] = lo.w;
    b[4] = hi.x, b[5] = hi.y, b[6] = hi.z, b[7] = hi.w;
}

LT_DEV void load_weights(uint4 (*w)[2], u32 *scale, const u8 **codes, const e4m3 **scales, int unit)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) fp4_load_next(w[i], &scale[i], codes[i], scales[i], unit);
}

LT_DEV void zero16(u32 *b)
{
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++) b[i] = 0;
}

LT_DEV void fetch_row(u32 *b, const u8 *x, const e4m3 *xs, int m, int k)  // 16 values of memory, zero from K on
{
    zero16(b);
    if (k >= K) return;
    fp4_expand16(b, x, xs, (size_t)m * K + k);
    if (LATE) fp4_lift(b, FP4_LIFT_CODES);
}

LT_DEV void stage_rows(bf16 *rows, const u8 *x, const e4m3 *xs)  // by the whole block; zeros behind the last row
{
    for (int i = threadIdx.x; i <= STAGED * (WIDE / 16); i += 32 * WARPS) {
        const int m = i / (WIDE / 16), k = i % (WIDE / 16) * 16;
        u32 b[8];
        fetch_row(b, x, xs, m, m < M ? k : K);
        staged_put16(rows, m, k, b);
    }
}

LT_DEV void add_unit(float (*sum)[SUMS], uint4 (*w)[2], u32 *scale, const bf16 *rows, const int *at, const int *next,
                     const u8 *x, const e4m3 *xs, int unit, int g, int t)
{
    LT_UNROLL(2)
    for (int c = 0; c < 2; c++) {
        u32 a[TILES][4][4];
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++) fp4_steps(a[i], w[i][c], scale[i], c);
        LT_UNROLL(PASSES)
        for (int p = 0; p < PASSES; p++) {
            u32 b[8];
            if (BLOCK) {
                staged_get16(b, rows, p * EACH * (next[c] != 0), at[c]);
            } else {
                const int m = p * EACH + fp4_row(g);
                fetch_row(b, x, xs, m, m < M && fp4_gives(c, g, t) ? unit * 128 + c * 64 + t * 16 : K);
            }
            LT_UNROLL(TILES)
            for (int i = 0; i < TILES; i++) fp4_add(sum[i], a[i], b, scale[i], c, p);
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
w4a4_gemv__m1_n22_k16__m1l1t1s1g4u2p1b1(bf16 *y, const u8 *x, const e4m3 *xs, const float *gs, const u8 *w, const e4m3 *ws, const float *sw)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile0 = (blockIdx.x * GROUPS + warp / SPLIT) * TILES;
    const int segment = blockIdx.y * SPLIT + warp % SPLIT;
    const int first = UNITS * segment / SEGMENTS, end = UNITS * (segment + 1) / SEGMENTS;
    float sum[TILES][SUMS] = {0}, total[TILES][TOTALS];
    int at[2], next[2];  // where this lane's x of a chunk lies, and how far that of the next unit is: zeros do not end
    float channel[TILES][2];
    uint4 weights[UNROLL][TILES][2];
    u32 scale[UNROLL][TILES];
    LT_DYN_SHARED(bf16, rows);

    const u8 *codes[TILES];
    const e4m3 *scales[TILES];

    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const size_t tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
        codes[i] = w + (tile * UNITS + first) * 1024 + lane * 16;
        scales[i] = ws + (tile * UNITS + first) * 128 + lane * 4;
    }
    load_channels(&channel[0][0], sw, tile0, g);
    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++)
        if (first + u < end) load_weights(weights[u], scale[u], codes, scales, u);
    lt_pdl_wait();
    lt_pdl_launch();
    if (BLOCK) {
        stage_rows(rows, x, xs);
        __syncthreads();
    }
    LT_UNROLL(2)
    for (int c = 0; c < 2; c++) {
        next[c] = fp4_gives(c, g, t) ? 128 : 0;
        at[c] = next[c] ? fp4_row(g) * STRIDE + first * 128 + c * 64 + t * 16 : STAGED * STRIDE;
    }
    for (int unit = first; unit < end; unit += UNROLL) {
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++) {
            if (unit + u < end) add_unit(sum, weights[u], scale[u], rows, at, next, x, xs, unit + u, g, t);
            at[0] += next[0], at[1] += next[1];
            if (unit + u + UNROLL < end) load_weights(weights[u], scale[u], codes, scales, UNROLL + u);
        }
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++) codes[i] += UNROLL * 1024, scales[i] += UNROLL * 128;
    }
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) fp4_meet(total[i], sum[i], t);
    if (warp % SPLIT != 0) return;
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        LT_UNROLL(TOTALS)
        for (int j = 0; j < TOTALS; j++) {
            const int m = fp4_sum_row(j, t), half = fp4_sum_channel(j), n = (tile0 + i) * 16 + g + half * 8;
            const float unscale = LATE ? FP4_UNLIFT : FP4_UNSCALE * FP4_UNSCALE_ROW;
            if (m < M && n < N) y[(size_t)m * N + n] = lt_f32_bf16(total[i][j] * unscale * (gs[m] * channel[i][half]));
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a4_gemv__m1_n22_k16__m1l1t1s1g4u2p1b1(*(bf16 **)a[0], *(const u8 **)a[1], *(const e4m3 **)a[2], *(const float **)a[3], *(const u8 **)a[4], *(const e4m3 **)a[5], *(const float **)a[6]); }
#endif
