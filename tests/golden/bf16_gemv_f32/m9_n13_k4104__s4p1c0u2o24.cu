/* family bf16_gemv_f32 rev 1, shape m9_n13_k4104, variant s4p1c0u2o24, class mma.bf16_1x4 */
// A tile has the warps of one block, or some of them.
enum { M = 9, N = 13, K = 4104, SPLIT = 4, PARTS = 1, CYCLIC = 0, UNROLL = 2, OCCUPANCY = 24 };
enum { TILES = UNROLL == 1 ? 2 : 1 };  // of a warp
// Units of bf16 weights with rows of bf16 (units.cut): weights are the 16-row operand of m16n8k16.
enum { CHUNK = 32 };  // k of a unit
typedef bf16 weight;
typedef bf16 number;
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
// A chunk of 32 k of a tile of 16 rows of bf16 weights by m16n8k16. Lane (g, t) holds rows g and g + 8, k 8t .. 8t + 7;
// x lies the same way, so K is summed in a permuted order that is the same for every row.
LT_DEV void bf16_mma(float (*sum)[4], uint4 *w, u32 (*b)[4])
{
    const uint4 upper = w[0], lower = w[1];
    const u32 a[2][4] = {{upper.x, lower.x, upper.y, lower.y}, {upper.z, lower.z, upper.w, lower.w}};
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) lt_mma_m16n8k16_bf16_run(sum[h], a[0], b[h], 2);
}

LT_DEV void add_chunk(float (*sum)[4], uint4 *weights, uint4 (*rows)[LOADS])
{
    u32 b[HALVES][4];
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) {
        const uint4 row = rows[h][0];
        b[h][0] = row.x, b[h][1] = row.y, b[h][2] = row.z, b[h][3] = row.w;
    }
    bf16_mma(sum, weights, b);
}
// Sums of one K meet, and the threads of a block divide the totals of its tiles: first those of the SPLIT warps of a
// group, then those of the PARTS blocks of a column of the grid. Always in ascending K, so that the bits do not depend
// on who comes last. A thread has its channel's totals of the rows own_row(0), own_row(1), ..; those < M count.
enum {
    WIDTH = 16 * TILES * GROUPS,          // channels of a block
    OWN_STEP = 32 * WARPS / WIDTH,        // from a row of a thread to its next
    OWN = (M + OWN_STEP - 1) / OWN_STEP,  // rows of a thread
    PAIRS = (M + 1) / 2                   // of rows: 32 sums of a tile each
};

LT_DEV int own_row(int i) { return threadIdx.x / WIDTH + i * OWN_STEP; }
LT_DEV int own_channel(void) { return blockIdx.x * WIDTH + threadIdx.x % WIDTH; }

// Where a tile's sum of row m and channel n lies among those of a warp: a lane's four lie together, and neither lanes
// that put theirs nor threads that take one meet at a bank.
LT_DEV int place(int m, int n) { return m / 2 * 32 + (n % 8 ^ m / 2 * 2 % 8) * 4 + n / 8 * 2 + m % 2; }

LT_DEV void totals_of_warps(float *total, float (*sum)[4])
{
    LT_SHARED2(float, room, TILES * WARPS, PAIRS * 32);  // tile by tile, a row for each of its warps
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, n = threadIdx.x % 16;
    LT_UNROLL(TILES * HALVES)
    for (int i = 0; i < TILES * HALVES; i++) {
        const int m = i % HALVES * 8 + 2 * t, share = (warp / SPLIT * TILES + i / HALVES) * SPLIT + warp % SPLIT;
        const uint4 four = {lt_f32_bits(sum[i][0]), lt_f32_bits(sum[i][1]), lt_f32_bits(sum[i][2]),
                            lt_f32_bits(sum[i][3])};
        if (m < M) lt_st128(&room[share][place(m, g)], four);
    }
    __syncthreads();
    const int first = threadIdx.x % WIDTH / 16 * SPLIT;
    LT_UNROLL(OWN)
    for (int i = 0; i < OWN; i++) {
        if (own_row(i) >= M) continue;
        const int at = place(own_row(i), n);
        total[i] = room[first][at];
        LT_UNROLL(SPLIT)
        for (int p = 1; p < SPLIT; p++) total[i] += room[first + p][at];
    }
}

// partial[part][block][row][channel]; arrived[blockIdx.x] counts blocks. True in the block that comes last.
LT_DEV int totals_of_blocks(float *total, float *partial, u32 *arrived)
{
    LT_UNROLL(OWN)
    for (int i = 0; i < OWN; i++)
        if (own_row(i) < M)
            partial[((blockIdx.y * gridDim.x + blockIdx.x) * M + own_row(i)) * WIDTH + threadIdx.x % WIDTH] = total[i];
    if (!lt_last_block(arrived + blockIdx.x, PARTS)) return 0;
    LT_UNROLL(OWN)
    for (int i = 0; i < OWN; i++) {
        const float *from = partial + (blockIdx.x * M + own_row(i)) * WIDTH + threadIdx.x % WIDTH;
        if (own_row(i) >= M) continue;
        for (int p = 0; p < PARTS; p++) {
            const float other = lt_bits_f32(lt_ld32_fresh(from + (size_t)p * gridDim.x * M * WIDTH));
            total[i] = p == 0 ? other : total[i] + other;
        }
    }
    return 1;
}

LT_KERNEL(32 * WARPS, RESIDENT)
bf16_gemv_f32__m9_n13_k4104__s4p1c0u2o24(float *y, const bf16 *x, const bf16 *w)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tile = (blockIdx.x * GROUPS + warp / SPLIT) * TILES, segment = warp % SPLIT;
    float sum[TILES * HALVES][4] = {0}, total[OWN] = {0};
    uint4 weights[UNROLL * TILES][2];

    const weight *unit = begin_units(weights, w, tile, segment, lane);
    lt_pdl_wait();
    lt_pdl_launch();
    add_units(sum, weights, unit, x, segment, lane);
    totals_of_warps(total, sum);
    const int n = own_channel();
    LT_UNROLL(OWN)
    for (int i = 0; i < OWN; i++) {
        const int m = own_row(i);
        if (m >= M || n >= N) continue;
        y[(size_t)m * N + n] = (total[i]);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { bf16_gemv_f32__m9_n13_k4104__s4p1c0u2o24(*(float **)a[0], *(const bf16 **)a[1], *(const bf16 **)a[2]); }
#endif
