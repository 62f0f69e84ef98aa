/* family moe_router rev 2, shape m1_n1_topk1_k8, variant p1, class mma.bf16_1x4 */
// A block sums one tile of 16 experts over a part of K and puts what it has; the block with a row's number waits for
// all parts of that row and chooses. There a thread's expert is ranked within its warp, and the best TOPK of each warp
// among each other: a rank is a slot.
enum { M = 1, N = 1, TOPK = 1, K = 8, PARTS = 1 };
enum {
    WARPS = N > 128 ? (N + 31) / 32 : 4,  // of a block: a thread an expert
    THREADS = 32 * WARPS,
    CHUNKS = (K + 31) / 32,
    ALL_TILES = (N + 15) / 16,
    TILES = 1,
    UNROLL = 2,
    HALVES = (M + 7) / 8,
    COUNT = HALVES * 4,                               // sums of a lane
    SPLIT = WARPS,                                    // warps of a tile
    GROUPS = 1,
    SEGMENTS = WARPS * PARTS,
    KEPT = TOPK < 32 ? TOPK : 32,                     // of a warp
    FINALISTS = WARPS * KEPT
};
// Products with tiles of 16 rows of bf16 weights. The template's enum has M, K, CHUNKS, ALL_TILES, TILES of a warp,
// HALVES.
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
// A chunk of 32 k of a tile of 16 rows of bf16 weights by m16n8k16. Lane (g, t) holds rows g and g + 8, k 8t .. 8t + 7;
// x lies the same way, so K is summed in a permuted order that is the same for every row.
LT_DEV void bf16_mma(float (*sum)[4], uint4 *w, u32 (*b)[4])
{
    const uint4 upper = w[0], lower = w[1];
    const u32 a[2][4] = {{upper.x, lower.x, upper.y, lower.y}, {upper.z, lower.z, upper.w, lower.w}};
    LT_UNROLL(2)
    for (int j = 0; j < 2; j++) {
        LT_UNROLL(HALVES)
        for (int h = 0; h < HALVES; h++) lt_mma_m16n8k16_bf16(sum[h], a[j], &b[h][2 * j], sum[h]);
    }
}

LT_DEV void load_weights(uint4 (*w)[2], const bf16 *packed, int tile0, int chunk, int lane)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const int tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
        const bf16 *unit = packed + ((size_t)tile * CHUNKS + chunk) * 512 + lane * 8;
        w[i][0] = lt_ld128_once(unit);
        w[i][1] = lt_ld128_once(unit + 256);
    }
}

LT_DEV uint4 load_row(const bf16 *x, int m, int k)
{
    uint4 v;
    v.x = v.y = v.z = v.w = 0;
    if (m >= M || k >= K) return v;
    if (K % 8 == 0) return lt_ld128(x + (size_t)m * K + k);
    return bf16_load8(x + (size_t)m * K, k, K);
}

LT_DEV void add_chunk(float (*sum)[HALVES][4], uint4 (*w)[2], const bf16 *x, int chunk, int g, int t)
{
    u32 b[HALVES][4];
    LT_UNROLL(HALVES)
    for (int h = 0; h < HALVES; h++) {
        const uint4 row = load_row(x, 8 * h + g, chunk * 32 + t * 8);
        b[h][0] = row.x, b[h][1] = row.y, b[h][2] = row.z, b[h][3] = row.w;
    }
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) bf16_mma(sum[i], w[i], b);
}
// Sums of one K meet: COUNT a lane, of the SPLIT warps of a block, then of the PARTS blocks of a column of the grid.
// Always in ascending K, so that the bits do not depend on who comes last.
LT_DEV void sums_of_warps(float *sum, int warp, int lane)  // share 0 of each group has the total
{
    LT_SHARED2(float, room, WARPS, COUNT * 32);
    LT_UNROLL(COUNT)
    for (int i = 0; i < COUNT; i++) room[warp][i * 32 + lane] = sum[i];
    __syncthreads();
    if (warp % SPLIT != 0) return;
    for (int p = 1; p < SPLIT; p++) {
        LT_UNROLL(COUNT)
        for (int i = 0; i < COUNT; i++) sum[i] += room[warp + p][i * 32 + lane];
    }
}

// partial[part][group][COUNT][32]; arrived[blockIdx.x] counts blocks. True in the block that comes last: its share 0
// has the total.
LT_DEV int sums_of_blocks(float *sum, float *partial, u32 *arrived, int warp, int lane)
{
    const size_t groups = (size_t)gridDim.x * GROUPS, group = blockIdx.x * GROUPS + warp / SPLIT;
    if (warp % SPLIT == 0) {
        LT_UNROLL(COUNT)
        for (int i = 0; i < COUNT; i++) partial[((blockIdx.y * groups + group) * COUNT + i) * 32 + lane] = sum[i];
    }
    if (!lt_last_block(arrived + blockIdx.x, PARTS)) return 0;
    if (warp % SPLIT != 0) return 1;
    for (int p = 0; p < PARTS; p++) {
        LT_UNROLL(COUNT)
        for (int i = 0; i < COUNT; i++) {
            const float other = lt_bits_f32(lt_ld32_fresh(partial + ((p * groups + group) * COUNT + i) * 32 + lane));
            sum[i] = p == 0 ? other : sum[i] + other;
        }
    }
    return 1;
}

LT_DEV u32 order_of(float choice)  // ascends with the choice; NaN is lowest, zeros are equal
{
    const u32 bits = lt_f32_bits(choice);
    if (choice != choice) return 0;
    if (bits == 0x80000000u) return bits;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// How many of keys[first], keys[first + step], .. beat mine.
LT_DEV u32 count_better(const u64 *keys, int first, int count, int step, u64 mine)
{
    u32 rank = 0;
    LT_UNROLL(8)
    for (int i = first; i < count; i += step) rank += keys[i] > mine;
    return rank;
}

LT_DEV void put_sums(u64 *slots, const float *sum, int tile, int part, u32 turn, int g, int t)
{
    LT_UNROLL(COUNT)
    for (int i = 0; i < COUNT; i++) {
        const int m = i / 4 * 8 + 2 * t + i % 2, n = tile * 16 + g + i / 2 % 2 * 8;
        if (m < M && n < N) lt_put(slots + ((size_t)m * N + n) * PARTS + part, lt_f32_bits(sum[i]), turn);
    }
}

LT_DEV float take_logit(const u64 *from, u32 turn)  // parts in ascending K
{
    u64 got[PARTS];
    int missing;
    do {
        missing = 0;
        LT_UNROLL(PARTS)
        for (int p = 0; p < PARTS; p++) {
            got[p] = lt_peek(from + p);
            missing |= (u32)(got[p] >> 32) != turn;
        }
    } while (lt_look_again(missing));
    float sum = lt_bits_f32((u32)got[0]);
    LT_UNROLL(PARTS)
    for (int p = 1; p < PARTS; p++) sum += lt_bits_f32((u32)got[p]);
    return sum;
}

// The whole block. bias: this thread's. A key is a choice, and the lower id of equal ones.
LT_DEV void choose(i32 *ids, float *weights, const u64 *slots, u32 turn, float bias, float factor)
{
    LT_SHARED1(float, score, THREADS);
    LT_SHARED1(u64, keys, THREADS);
    LT_SHARED1(u64, best, FINALISTS);
    LT_SHARED1(float, chosen, TOPK);
    const int e = threadIdx.x, warp = e / 32;
    score[e] = e < N ? lt_sigmoid(take_logit(slots + (size_t)e * PARTS, turn)) : 0.0f;
    const u32 order = e < N ? order_of(score[e] + bias) : 0;  // what lies behind the experts beats none
    const u64 mine = (u64)order << 32 | ~(u32)e;
    keys[e] = mine;
    __syncwarp();
    const u32 rank = count_better(keys + 32 * warp, 0, 32, 1, mine);
    if (rank < KEPT) best[warp * KEPT + rank] = mine;
    __syncthreads();
    for (int i = e; i < (4 * FINALISTS + 31) / 32 * 32; i += THREADS) {  // four lanes for each
        const u64 key = i < 4 * FINALISTS ? best[i / 4] : 0;
        u32 slot = count_better(best, i % 4, FINALISTS, 4, key);
        slot += lt_shfl_xor_u32(0xffffffffu, slot, 1);
        slot += lt_shfl_xor_u32(0xffffffffu, slot, 2);
        if (i % 4 != 0 || i >= 4 * FINALISTS || slot >= TOPK) continue;
        ids[slot] = (i32)~(u32)key;
        chosen[slot] = score[~(u32)key];
    }
    __syncthreads();
    if (e >= TOPK) return;
    float sum = 0.0f;
    for (int k = 0; k < TOPK; k++) sum += chosen[k];
    weights[e] = chosen[e] / (sum + 1e-20f) * factor;
}

LT_KERNEL(THREADS)
moe_router__m1_n1_topk1_k8__p1(i32 *ids, float *weights, const bf16 *x, const bf16 *w, const float *bias, const float *factor, u32 *sums, u32 *turns)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile = blockIdx.x, part = blockIdx.y, block = part * ALL_TILES + tile;
    const int segment = part * WARPS + warp;
    const int first = CHUNKS * segment / SEGMENTS, end = CHUNKS * (segment + 1) / SEGMENTS;
    float sum[TILES][HALVES][4] = {0};
    uint4 weights_of[UNROLL][TILES][2];
    u64 *slots = (u64 *)sums;

    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++)
        if (first + u < end) load_weights(weights_of[u], w, tile, first + u, lane);
    const float own_bias = block < M && threadIdx.x < N ? bias[threadIdx.x] : 0.0f, scale = *factor;
    lt_pdl_wait();
    lt_pdl_launch();
    const u32 turn = lt_ld32_fresh(turns + block) + 1;  // of this launch: what others put carries it
    for (int chunk = first; chunk < end; chunk += UNROLL) {
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++) {
            if (chunk + u < end) add_chunk(sum, weights_of[u], x, chunk + u, g, t);
            if (chunk + u + UNROLL < end) load_weights(weights_of[u], w, tile, chunk + u + UNROLL, lane);
        }
    }
    sums_of_warps(&sum[0][0][0], warp, lane);
    if (warp == 0) put_sums(slots, &sum[0][0][0], tile, part, turn, g, t);
    LT_UNROLL(1)
    for (int m = block; m < M; m += ALL_TILES * PARTS) {
        if (m != block) __syncthreads();
        choose(ids + m * TOPK, weights + m * TOPK, slots + (size_t)m * N * PARTS, turn, own_bias, scale);
    }
    __syncthreads();
    if (threadIdx.x == 0) turns[block] = turn;
}
#ifndef __CUDACC__
void lt_entry(void **a) { moe_router__m1_n1_topk1_k8__p1(*(i32 **)a[0], *(float **)a[1], *(const bf16 **)a[2], *(const bf16 **)a[3], *(const float **)a[4], *(const float **)a[5], *(u32 **)a[6], *(u32 **)a[7]); }
#endif
