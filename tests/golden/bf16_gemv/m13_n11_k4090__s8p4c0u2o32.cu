/* family bf16_gemv rev 1, shape m13_n11_k4090, variant s8p4c0u2o32, class mma.bf16_4x8 */
// Few tiles: the K of one is shared by the blocks of a cluster.
enum { M = 13, N = 11, K = 4090, SPLIT = 8, PARTS = 4, CYCLIC = 0, UNROLL = 2, OCCUPANCY = 32 };
enum { TILES = 1 };  // of a warp
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
// Sums of a tile's K that PARTS blocks, a cluster, share: of the SPLIT warps of a block, then, in the first one, of the
// blocks. Always in ascending K. Number m * 16 + n is row m's for channel n of the tile.
enum {
    SUMS = 16 * M,
    PITCH = 20      // words from a row of a warp's sums to the next: no two lanes share a bank
};

// Every thread calls it before it waits for anything; met: a shared word, that of the first block counts what comes.
LT_DEV void meet_begin(u64 *met, int part)
{
    if (part == 0 && threadIdx.x == 0) {
        lt_mbar_init(met, 1);
        lt_mbar_fence();
        lt_mbar_expect(met, 4 * SUMS * PARTS);
    }
    __syncwarp();
    lt_cluster_begin();
}

// True in threads 0 .. SUMS - 1 of the first block: the total of that number.
LT_DEV int meet(float *total, float (*sum)[4], u64 *met, int part)
{
    LT_SHARED2(float, room, SPLIT, M * PITCH);
    LT_SHARED2(float, shares, PARTS, SUMS);
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, four = 4 * threadIdx.x;
    const int at = four / 16 * PITCH + four % 16;
    LT_UNROLL(COUNT)
    for (int i = 0; i < COUNT; i++) {
        const int m = i / 4 * 8 + 2 * t + i % 2;
        if (m < M) room[warp][m * PITCH + g + i / 2 % 2 * 8] = sum[i / 4][i % 4];
    }
    __syncthreads();
    lt_cluster_wait();
    if (four < SUMS) {
        float own[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        LT_UNROLL(SPLIT)
        for (int w = 0; w < SPLIT; w++) {
            const float4 of = lt_ld128f(&room[w][at]);
            own[0] += of.x, own[1] += of.y, own[2] += of.z, own[3] += of.w;
        }
        const uint4 gift = {lt_f32_bits(own[0]), lt_f32_bits(own[1]), lt_f32_bits(own[2]), lt_f32_bits(own[3])};
        lt_cluster_give128(&shares[part][four], 0, gift, met);
    }
    if (part != 0) return 0;
    lt_mbar_wait(met, 0);
    if (threadIdx.x >= SUMS) return 0;
    float all = 0.0f;
    LT_UNROLL(PARTS)
    for (int p = 0; p < PARTS; p++) all += shares[p][threadIdx.x];
    *total = all;
    return 1;
}

LT_KERNEL(32 * WARPS, RESIDENT)
LT_CLUSTER(PARTS)
bf16_gemv__m13_n11_k4090__s8p4c0u2o32(bf16 *y, const bf16 *x, const bf16 *w)
{
    LT_SHARED1(u64, met, 1);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tile = blockIdx.x / PARTS, part = blockIdx.x % PARTS, segment = part * SPLIT + warp;
    float sum[HALVES][4] = {0}, total;
    uint4 weights[UNROLL][2];

    const weight *unit = begin_units(weights, w, tile, segment, lane);
    meet_begin(met, part);
    lt_pdl_wait();
    lt_pdl_launch();
    add_units(sum, weights, unit, x, segment, lane);
    if (!meet(&total, sum, met, part)) return;
    const int m = threadIdx.x / 16, n = tile * 16 + threadIdx.x % 16;
    if (n >= N) return;
    y[(size_t)m * N + n] = lt_f32_bf16(total);
}
#ifndef __CUDACC__
void lt_entry(void **a) { bf16_gemv__m13_n11_k4090__s8p4c0u2o32(*(bf16 **)a[0], *(const bf16 **)a[1], *(const bf16 **)a[2]); }
#endif
