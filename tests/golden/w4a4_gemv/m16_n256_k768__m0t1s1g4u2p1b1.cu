/* family w4a4_gemv rev 1, shape m16_n256_k768, variant m0t1s1g4u2p1b1, class dot_1x1 */
// On the CUDA cores: lane (g, t) holds rows g and g + 8 of a tile, one scale group of each chunk, and multiplies them
// with every row of x; four lanes share a channel. Both sides are bf16, code * scale * 2^-7, exact.
enum { M = 16, N = 256, K = 768, MMA = 0, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, PARTS = 1, BLOCK = 1 };
enum {
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    SEGMENTS = SPLIT * PARTS,     // shares of K
    ALL_TILES = (N + 15) / 16,
    QUADS = (M + 3) / 4,          // lane t of a channel finishes rows t, t + 4, ..
    COUNT = 2 * QUADS,            // sums of a lane
    WIDE = UNITS * 128,           // of a row in shared memory
    STRIDE = WIDE + 8
};
// A unit of a tile as pack_nvfp4_tile16 lays it out: 1 KB of codes of two chunks of 64 k, 128 bytes of their scales.
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

LT_DEV void fp4_load_unit(uint4 *w, u32 *scale, const u8 *codes, const e4m3 *scales, size_t unit, int lane)
{
    w[0] = lt_ld128_once(codes + unit * 1024 + lane * 16);
    w[1] = lt_ld128_once(codes + unit * 1024 + 512 + lane * 16);
    *scale = lt_ld32_once(scales + unit * 128 + lane * 4);
}

// The A fragments of a chunk's four steps, code * scale * 2^-7: lane (g, t) has rows g and g + 8, k 16t .. 16t + 15.
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
// NVFP4 rows of activations as bf16: b[i] = values 2i, 2i + 1 of a group, code * scale * 2^-7, exact. A scale's sign is
// ignored, as the block-scaled mma does.
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
    tile = tile < ALL_TILES ? tile : ALL_TILES - 1;
    fp4_load_unit(w, scale, codes, scales, (size_t)tile * UNITS + unit, lane);
}

LT_DEV void add_chunk(float (*sum)[QUADS * 4], uint4 codes, u32 scale, const bf16 *rows, const u8 *x, const e4m3 *xs,
                      int k)
{
    u32 a[4][4];
    if (k >= K) return;
    fp4_chunk(a, codes, scale);
    LT_UNROLL(M)
    for (int m = 0; m < M; m++) {
        u32 b[8];
        staged_get16(b, rows, m, k);
        LT_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            LT_UNROLL(2)
            for (int r = 0; r < 2; r++) {
                const u32 two = a[i / 2][i % 2 * 2 + r];
                sum[r][m] = fmaf(lt_bf16lo_f32(two), lt_bf16lo_f32(b[i]), sum[r][m]);
                sum[r][m] = fmaf(lt_bf16hi_f32(two), lt_bf16hi_f32(b[i]), sum[r][m]);
            }
        }
    }
}

LT_KERNEL(32 * WARPS, 1)
w4a4_gemv__m16_n256_k768__m0t1s1g4u2p1b1(bf16 *y, const u8 *x, const e4m3 *xs, const float *gs, const u8 *w, const e4m3 *ws, const float *sw)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile = blockIdx.x * GROUPS + warp / SPLIT;
    const int segment = blockIdx.y * SPLIT + warp % SPLIT;
    const int first = UNITS * segment / SEGMENTS, end = UNITS * (segment + 1) / SEGMENTS;
    float sum[2][QUADS * 4] = {0}, mine[COUNT];
    uint4 weights[UNROLL][2];
    u32 scale[UNROLL];
    LT_DYN_SHARED(bf16, rows);

    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++)
        if (first + u < end) load_weights(weights[u], &scale[u], w, ws, tile, first + u, lane);
    lt_pdl_wait();
    lt_pdl_launch();
    for (int i = threadIdx.x; i < M * (K / 16); i += 32 * WARPS) {
        const int m = i / (K / 16), k = i % (K / 16) * 16;
        u32 b[8];
        fp4_expand16(b, x, xs, (size_t)m * K + k);
        staged_put16(rows, m, k, b);
    }
    __syncthreads();
    for (int unit = first; unit < end; unit += UNROLL) {
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++) {
            if (unit + u < end) {
                add_chunk(sum, weights[u][0], scale[u], rows, x, xs, (unit + u) * 128 + t * 16);
                add_chunk(sum, weights[u][1], scale[u] >> 16, rows, x, xs, (unit + u) * 128 + 64 + t * 16);
            }
            if (unit + u + UNROLL < end) load_weights(weights[u], &scale[u], w, ws, tile, unit + u + UNROLL, lane);
        }
    }
    quads_meet(mine, &sum[0][0], t);
    if (warp % SPLIT != 0) return;
    LT_UNROLL(COUNT)
    for (int i = 0; i < COUNT; i++) {
        const int m = i / 2 * 4 + t, n = tile * 16 + g + i % 2 * 8;
        if (m >= M || n >= N) continue;
        const float total = mine[i] * (FP4_UNSCALE * FP4_UNSCALE);
        y[(size_t)m * N + n] = lt_f32_bf16(total * (gs[m] * sw[n]));
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a4_gemv__m16_n256_k768__m0t1s1g4u2p1b1(*(bf16 **)a[0], *(const u8 **)a[1], *(const e4m3 **)a[2], *(const float **)a[3], *(const u8 **)a[4], *(const e4m3 **)a[5], *(const float **)a[6]); }
#endif
