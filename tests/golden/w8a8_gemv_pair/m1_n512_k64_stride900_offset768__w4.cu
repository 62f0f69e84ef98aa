/* family w8a8_gemv_pair rev 1, shape m1_n512_k64_stride900_offset768, variant w4, class mma.f16 */
// Block (tiles, slice) quantises the rows of its slice while its weights, a tile a warp, are on their way. Weights are
// the 16-row operand of m16n8k16, as in w8a8_gemv: lane (g, t) holds rows g and g + 8, k 16t .. 16t + 15 of a chunk.
enum { M = 1, N = 512, K = 64, STRIDE = 900, OFFSET = 768, WARPS = 4 };
enum {
    CHUNKS = (K + 63) / 64,  // of 64 k: 1 KB of a tile
    ROW = CHUNKS * 64,       // codes of a row: zeros from K on
    TILES = N / 32,          // of a product
    HALVES = (M + 7) / 8,    // mma columns hold eight rows of x
    WIDE = 0                 // a thread has few values
};
// A block quantises a row of K values: its largest magnitude, then the codes. The row is read twice, the second time
// from L1. The template's enum has K, WARPS, and WIDE: do rows begin at 16 bytes and hold whole loads?

LT_DEV float larger(float a, float b) { return a > b ? a : b; }  // a NaN in a is dropped

LT_DEV float clamped(float v)  // NaN stays NaN
{
    v = v > 448.0f ? 448.0f : v;
    return v < -448.0f ? -448.0f : v;
}

LT_DEV float row_magnitude(const bf16 *row)  // of this thread's share
{
    float amax = 0.0f;
    if (!WIDE) {
        for (int k = threadIdx.x; k < K; k += 32 * WARPS) amax = larger(fabsf(lt_bf16_f32(row[k])), amax);
        return amax;
    }
    for (int k = threadIdx.x * 8; k < K; k += 32 * WARPS * 8) {
        const uint4 v = lt_ld128(row + k);
        const u32 word[4] = {v.x, v.y, v.z, v.w};
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            amax = larger(fabsf(lt_bf16hi_f32(word[i])), larger(fabsf(lt_bf16lo_f32(word[i])), amax));
    }
    return amax;
}

LT_DEV void write_codes(e4m3 *codes, const bf16 *row, float scale)
{
    if (!WIDE) {
        for (int k = threadIdx.x; k < K; k += 32 * WARPS) codes[k] = lt_f32_e4m3(clamped(lt_bf16_f32(row[k]) / scale));
        return;
    }
    for (int k = threadIdx.x * 8; k < K; k += 32 * WARPS * 8) {
        const uint4 v = lt_ld128(row + k);
        const u32 word[4] = {v.x, v.y, v.z, v.w};
        u32 two[4];
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            two[i] = lt_pack_e4m3(clamped(lt_bf16lo_f32(word[i]) / scale), clamped(lt_bf16hi_f32(word[i]) / scale));
        uint2 out;
        out.x = two[0] | two[1] << 16;
        out.y = two[2] | two[3] << 16;
        *(uint2 *)(codes + k) = out;
    }
}

// room: WARPS floats that the block shares.
LT_DEV void quantise_row(e4m3 *codes, float *sx, const bf16 *row, float *room)
{
    float amax = lt_warp_max(row_magnitude(row));
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = amax;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) amax = larger(room[i], amax);
    const float scale = larger(amax / 448.0f, 1e-12f);
    if (threadIdx.x == 0) *sx = scale;
    write_codes(codes, row, scale);
}

LT_DEV void quantise_rows(e4m3 (*codes)[ROW], float *scale, const bf16 *x)
{
    LT_SHARED2(float, room, M, WARPS);
    for (int m = 0; m < M; m++) {
        quantise_row(codes[m], scale + m, x + (size_t)m * STRIDE, room[m]);
        for (int k = K + threadIdx.x; k < ROW; k += 32 * WARPS) codes[m][k] = lt_f32_e4m3(0.0f);
    }
    __syncthreads();
}

LT_DEV void load_codes(u32 (*b)[8], e4m3 (*codes)[ROW], int chunk, int g, int t)
{
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) {
        uint4 row;
        row.x = row.y = row.z = row.w = 0;
        if (8 * h + g < M) row = lt_ld128(codes[8 * h + g] + chunk * 64 + t * 16);
        const u32 word[4] = {row.x, row.y, row.z, row.w};
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            b[h][2 * j] = lt_e4m3x2_f16x2(word[j]);
            b[h][2 * j + 1] = lt_e4m3x2_f16x2(word[j] >> 16);
        }
    }
}

LT_DEV void add_chunk(float (*sum)[4], const uint4 *w, u32 (*b)[8])
{
    const u32 upper[4] = {w[0].x, w[0].y, w[0].z, w[0].w}, lower[4] = {w[1].x, w[1].y, w[1].z, w[1].w};
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        u32 a[4];
        a[0] = lt_e4m3x2_f16x2(upper[j]);
        a[1] = lt_e4m3x2_f16x2(lower[j]);
        a[2] = lt_e4m3x2_f16x2(upper[j] >> 16);
        a[3] = lt_e4m3x2_f16x2(lower[j] >> 16);
        LT_UNROLL(HALVES)
        for (int h = 0; h < HALVES; h++) lt_mma_m16n8k16_f16(sum[h], a, &b[h][2 * j], sum[h]);
    }
}

LT_KERNEL(32 * WARPS)
w8a8_gemv_pair__m1_n512_k64_stride900_offset768__w4(bf16 *y, bf16 *y2, const bf16 *x, const e4m3 *w, const float *sw)
{
    LT_SHARED2(e4m3, codes, M, ROW);
    LT_SHARED1(float, scale, M);
    const int lane = threadIdx.x % 32, tile = blockIdx.x * WARPS + threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int is_second = blockIdx.y, mine = is_second * TILES + (tile < TILES ? tile : TILES - 1);
    bf16 *const to = is_second ? y2 : y;
    float sum[HALVES][4] = {0}, channel[2];
    uint4 weights[CHUNKS][2];
    u32 b[HALVES][8];

    channel[0] = lt_bits_f32(lt_ld32_once(sw + mine * 16 + g));
    channel[1] = lt_bits_f32(lt_ld32_once(sw + mine * 16 + 8 + g));
    LT_UNROLL(CHUNKS)
    for (int c = 0; c < CHUNKS; c++) {
        const e4m3 *unit = w + ((size_t)mine * CHUNKS + c) * 1024 + lane * 16;
        weights[c][0] = lt_ld128_once(unit);
        weights[c][1] = lt_ld128_once(unit + 512);
    }
    lt_pdl_wait();
    lt_pdl_launch();
    quantise_rows(codes, scale, x + OFFSET + is_second * K);
    LT_UNROLL(CHUNKS)
    for (int c = 0; c < CHUNKS; c++) {
        load_codes(b, codes, c, g, t);
        add_chunk(sum, weights[c], b);
    }
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) {
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            const int m = 8 * h + 2 * t + j % 2, n = tile * 16 + g + j / 2 * 8;
            if (m >= M || tile >= TILES) continue;
            to[(size_t)m * (N / 2) + n] = lt_f32_bf16(sum[h][j] * (scale[m] * channel[j / 2]));
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w8a8_gemv_pair__m1_n512_k64_stride900_offset768__w4(*(bf16 **)a[0], *(bf16 **)a[1], *(const bf16 **)a[2], *(const e4m3 **)a[3], *(const float **)a[4]); }
#endif
