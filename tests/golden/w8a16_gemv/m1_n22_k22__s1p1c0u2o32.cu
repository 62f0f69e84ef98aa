/* family w8a16_gemv rev 1, shape m1_n22_k22, variant s1p1c0u2o32, class mma.bf16_1x1 */
// Weights are the 16-row operand of m16n8k16: E4M3 is exact in bf16. Of four k in a word the even and the odd ones make
// a pair each, of weights and of x alike.
enum { M = 1, N = 22, K = 22, SPLIT = 1, PARTS = 1, CYCLIC = 0, UNROLL = 2, OCCUPANCY = 32 };
enum {
    CHUNK = 64,  // k of a unit
    TILES = 1    // of a warp
};
typedef e4m3 weight;
typedef bf16 number;
// E4M3 as bf16, exact: sign, exponent and mantissa go to a bf16's sign, lowest exponent and highest mantissa bits: that
// is value * 2^-120, subnormals included; the product with 2^120 sets it right. The code 0x7f (NaN) counts as 480.
LT_DEV u32 fp8_bf16x2(u32 word)  // of bytes 1 and 3
{
    return lt_mul_bf16x2((word & 0x80008000u) | (word >> 4 & 0x07f007f0u), 0x7b807b80u);
}
// Products of weights in tiles of 16 rows with up to 16 rows of x by m16n8k16: how they stream through a warp. A unit
// is CHUNK of K of a tile, 1 KB; lane (g, t) holds its rows g and g + 8 at k CHUNK / 4 * t .., and x lies the same way,
// so K is summed in a permuted order that is the same for every row. The template has CHUNK, TILES, which a warp has
// beside each other and which share what it loads of x, the types `weight` and `number` (of x), and add_chunk.
// Rows of bf16 activations.
LT_DEV uint4 bf16_load8(const bf16 *row, int k, int columns)  // row[k .. k + 7], zero from `columns` on; any alignment
{
    u32 word[4] = {0, 0, 0, 0};
    for (int i = 0; i < 8; i++)
        if (k + i < columns) word[i / 2] |= (u32)row[k + i].x << i % 2 * 16;
    uint4 v;
    v.x = word[0], v.y = word[1], v.z = word[2], v.w = word[3];
    return v;
}
// E4M3 rows of activations.
LT_DEV uint4 fp8_load16(const e4m3 *row, int k, int columns)  // row[k .. k + 15], zero from `columns` on; any alignment
{
    u32 word[4] = {0, 0, 0, 0};
    for (int i = 0; i < 16; i++)
        if (k + i < columns) word[i / 4] |= (u32)row[k + i].x << i % 4 * 8;
    uint4 v;
    v.x = word[0], v.y = word[1], v.z = word[2], v.w = word[3];
    return v;
}
enum {
    CHUNKS = (K + CHUNK - 1) / CHUNK,
    UNIT = 16 * CHUNK,                         // weights
    NEXT_TILE = CHUNKS * UNIT,
    LOAD = 16 / (int)sizeof(number),           // of x at once
    LOADS = CHUNK / 4 / LOAD,                  // for a chunk
    GROUPS = SPLIT < 4 ? 4 / SPLIT : 1,        // of warps in a block, each with tiles of its own
    WARPS = SPLIT * GROUPS,                    // of a block
    RESIDENT = OCCUPANCY / WARPS,              // blocks of a multiprocessor
    SEGMENTS = SPLIT * PARTS,                  // shares of K
    STEP = CYCLIC ? SEGMENTS : 1,              // from a chunk of a share to its next
    EVEN = CHUNKS % (SEGMENTS * UNROLL) == 0,  // every share is a whole number of turns of the loop
    ALL_TILES = (N + 15) / 16,
    HALVES = (M + 7) / 8,                      // mma columns hold eight rows of x
    COUNT = HALVES * 4,                        // sums of a lane and a tile
    AHEAD = LOADS == 1 && (HALVES == 2 || UNROLL == 4)  // is x asked for as early as the weights that meet it?
};

LT_DEV void add_chunk(float (*sum)[4], uint4 *weights, uint4 (*rows)[LOADS]);

LT_DEV int first_chunk(int segment) { return CYCLIC ? segment : CHUNKS * segment / SEGMENTS; }

LT_DEV int count_chunks(int segment)
{
    if (EVEN) return CHUNKS / SEGMENTS;
    if (CYCLIC) return (CHUNKS - segment + SEGMENTS - 1) / SEGMENTS;
    return CHUNKS * (segment + 1) / SEGMENTS - first_chunk(segment);
}

LT_DEV void load_unit(uint4 *weights, const weight *unit)
{
    weights[0] = lt_ld128_once(unit);
    weights[1] = lt_ld128_once(unit + UNIT / 2);
}

// Begins with the first turn's units; returns where a lane finds its part of the first one. Tiles behind the last one
// are the last ones again.
LT_DEV const weight *begin_units(uint4 (*weights)[2], const weight *w, int tile, int segment, int lane)
{
    const size_t from = tile < ALL_TILES ? tile : ALL_TILES - TILES;
    const weight *unit = w + (from * CHUNKS + first_chunk(segment)) * UNIT + lane * (CHUNK / 4);
    LT_UNROLL(UNROLL * TILES)
    for (int i = 0; i < UNROLL * TILES; i++)
        if (EVEN || i / TILES < count_chunks(segment))
            load_unit(weights[i], unit + i / TILES * STEP * UNIT + i % TILES * NEXT_TILE);
    return unit;
}

LT_DEV uint4 load_row(const number *row, int left)  // `left` numbers from here are in K, what follows counts as zero
{
    uint4 none;
    none.x = none.y = none.z = none.w = 0;
    if (K % CHUNK == 0) return lt_ld128(row);
    if (K % LOAD == 0) return left > 0 ? lt_ld128(row) : none;
    return sizeof *row == 2 ? bf16_load8((const bf16 *)row, 0, left) : fp8_load16((const e4m3 *)row, 0, left);
}

LT_DEV void load_rows(uint4 (*rows)[LOADS], const number **row, int k, int left)
{
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) {
        LT_UNROLL(LOADS)
        for (int i = 0; i < LOADS; i++) rows[h][i] = load_row(row[h] + k + i * LOAD, left - k - i * LOAD);
    }
}

// The whole share, from what begin_units left: HALVES sums a tile. Columns behind the last row of x have its numbers;
// nobody takes theirs. Where a turn has little of x, the assembler copies the weights that came and asks for the next
// ones before these meet x. For that it has no registers where a turn has much of x, which is asked for ahead there.
LT_DEV void add_units(float (*sum)[4], uint4 (*weights)[2], const weight *unit, const number *x, int segment, int lane)
{
    const int count = count_chunks(segment), k = first_chunk(segment) * CHUNK + lane % 4 * (CHUNK / 4);
    const number *row[HALVES];
    uint4 rows[UNROLL][HALVES][LOADS];
    int left = K - k;
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) {
        const int m = 8 * h + lane / 4;
        row[h] = x + (size_t)(m < M ? m : M - 1) * K + k;
    }
    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++)
        if (AHEAD && (EVEN || u < count)) load_rows(rows[u], row, u * STEP * CHUNK, left);
    LT_UNROLL(1)
    for (int c = 0; c < count; c += UNROLL) {
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++)
            if (!AHEAD && (EVEN || c + u < count)) load_rows(rows[u], row, u * STEP * CHUNK, left);
        unit += UNROLL * STEP * UNIT;
        LT_UNROLL(HALVES)
        for (int h = 0; h < HALVES; h++) row[h] += UNROLL * STEP * CHUNK;
        left -= UNROLL * STEP * CHUNK;
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++) {
            const int more = (EVEN ? c : c + u) + UNROLL < count;
            LT_UNROLL(TILES)
            for (int i = 0; i < TILES; i++) {
                uint4 *own = weights[u * TILES + i];
                if (EVEN || c + u < count) add_chunk(sum + i * HALVES, own, rows[u]);
                if (more) load_unit(own, unit + u * STEP * UNIT + i * NEXT_TILE);
            }
            if (AHEAD && more) load_rows(rows[u], row, u * STEP * CHUNK, left);
        }
    }
}
// Scales of rows g and g + 8 of a tile, asked for before the weights: at the end they would cost a trip to memory.
LT_DEV void load_channels(float *channel, const float *sw, int tile, int g)
{
    LT_UNROLL(2)
    for (int i = 0; i < 2; i++) {
        const int n = tile * 16 + i * 8 + g;
        channel[i] = lt_bits_f32(lt_ld32_once(sw + (n < N ? n : N - 1)));
    }
}

LT_DEV void add_chunk(float (*sum)[4], uint4 *weights, uint4 (*rows)[LOADS])
{
    u32 b[HALVES][8];
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) {
        LT_UNROLL(LOADS)
        for (int i = 0; i < LOADS; i++) {
            const uint4 row = rows[h][i];
            b[h][4 * i] = lt_byte_perm(row.x, row.y, 0x5410);
            b[h][4 * i + 1] = lt_byte_perm(row.x, row.y, 0x7632);
            b[h][4 * i + 2] = lt_byte_perm(row.z, row.w, 0x5410);
            b[h][4 * i + 3] = lt_byte_perm(row.z, row.w, 0x7632);
        }
    }
    const u32 upper[4] = {weights[0].x, weights[0].y, weights[0].z, weights[0].w};
    const u32 lower[4] = {weights[1].x, weights[1].y, weights[1].z, weights[1].w};
    u32 a[4][4];
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        a[j][0] = fp8_bf16x2(upper[j] << 8);
        a[j][1] = fp8_bf16x2(lower[j] << 8);
        a[j][2] = fp8_bf16x2(upper[j]);
        a[j][3] = fp8_bf16x2(lower[j]);
    }
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) lt_mma_m16n8k16_bf16_run(sum[h], a[0], b[h], 4);
}

LT_KERNEL(32 * WARPS, RESIDENT)
w8a16_gemv__m1_n22_k22__s1p1c0u2o32(bf16 *y, const bf16 *x, const e4m3 *w, const float *sw)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile = blockIdx.x * GROUPS + warp / SPLIT;
    const int segment = blockIdx.y * SPLIT + warp % SPLIT;
    float sum[HALVES][4] = {0};
    float channel[2];
    uint4 weights[UNROLL][2];

    load_channels(channel, sw, tile, g);
    const weight *unit = begin_units(weights, w, tile, segment, lane);
    lt_pdl_wait();
    lt_pdl_launch();
    add_units(sum, weights, unit, x, segment, lane);
    if (warp % SPLIT != 0) return;
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) {
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            const int m = 8 * h + 2 * t + j % 2, n = tile * 16 + g + j / 2 * 8;
            if (m < M && n < N) y[(size_t)m * N + n] = lt_f32_bf16(sum[h][j] * channel[j / 2]);
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w8a16_gemv__m1_n22_k22__s1p1c0u2o32(*(bf16 **)a[0], *(const bf16 **)a[1], *(const e4m3 **)a[2], *(const float **)a[3]); }
#endif
