/* family bf16_moe.gate_up rev 1, shape m1_topk1_experts1_n32_k8, variant t1s1g4u2j0, class mma.bf16_1 */
// Weights are the 16-row operand of m16n8k16, slots of one expert the columns. Lane (g, t) holds rows g and g + 8 of a
// tile, k 8t .. 8t + 7 of each chunk; x lies the same way, so K is summed in a permuted order, the same for every slot.
enum { M = 1, TOPK = 1, EXPERTS = 1, N = 32, K = 8, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, JOIN = 0 };
enum {
    SLOTS = M * TOPK,
    SHARE = SLOTS / 1,    // slots that read one row of x
    CHUNKS = (K + 31) / 32,       // of 32 k: 1 KB of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    PARTS = 1,
    ALL_TILES = N / 16,           // of an expert
    COLUMNS = JOIN ? M : 1,       // slots that one reading serves
    HALVES = (COLUMNS + 7) / 8,   // mma columns hold eight of them
    COUNT = TILES * HALVES * 4,   // sums of a lane
    RESIDENT = UNROLL * TILES * HALVES <= 2 && WARPS < 16 ? 24 / WARPS : 1  // blocks of a multiprocessor
};
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
// With join: how many slots chose an expert, found by the block of the first of them; list[i] is the i-th, for the
// block once it has met at a barrier. 0 where an earlier slot chose it or it is none. The same in every warp.
LT_DEV int moe_slots(i32 *list, const i32 *ids, int slot, int warp, int lane)
{
    i32 id[(SLOTS + 31) / 32];
    int count = 0, earlier = 0;
    LT_UNROLL(8)
    for (int i = 0; i < (SLOTS + 31) / 32; i++) id[i] = i * 32 + lane < SLOTS ? ids[i * 32 + lane] : -1;
    const i32 expert = ids[slot];
    if (expert < 0 || expert >= EXPERTS) return 0;
    LT_UNROLL(8)
    for (int i = 0; i < (SLOTS + 31) / 32; i++) {
        const u32 all = lt_ballot(0xffffffffu, id[i] == expert);
        const u32 mine = all & ((1u << lane) - 1);
        if (warp == 0 && id[i] == expert) list[count + lt_popc(mine)] = i * 32 + lane;
        if (i < slot / 32) earlier |= all != 0;
        if (i == slot / 32) earlier |= (all & ((1u << slot % 32) - 1)) != 0;
        count += lt_popc(all);
    }
    return earlier ? 0 : count;
}

LT_DEV void load_weights(uint4 (*w)[2], const bf16 *packed, int expert, int tile0, int chunk, int lane)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const int tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
        const bf16 *unit = packed + (((size_t)expert * ALL_TILES + tile) * CHUNKS + chunk) * 512 + lane * 8;
        w[i][0] = lt_ld128_once(unit);
        w[i][1] = lt_ld128_once(unit + 256);
    }
}

LT_DEV void load_row(u32 *b, const bf16 *x, size_t at, int is_there)  // 8 values
{
    uint4 v;
    v.x = v.y = v.z = v.w = 0;
    if (is_there) v = lt_ld128(x + at);
    b[0] = v.x, b[1] = v.y, b[2] = v.z, b[3] = v.w;
}

LT_DEV void add_chunk(float (*sum)[HALVES][4], uint4 (*w)[2], u32 (*b)[4])
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const uint4 upper = w[i][0], lower = w[i][1];
        const u32 a[2][4] = {{upper.x, lower.x, upper.y, lower.y}, {upper.z, lower.z, upper.w, lower.w}};
        LT_UNROLL(HALVES)
        for (int h = 0; h < HALVES; h++) lt_mma_m16n8k16_bf16_run(sum[i][h], a[0], b[h], 2);
    }
}

LT_KERNEL(32 * WARPS, RESIDENT)
bf16_moe_gate_up__m1_topk1_experts1_n32_k8__t1s1g4u2j0(bf16 *y, const bf16 *x, const i32 *ids, const bf16 *w)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile0 = (blockIdx.x * GROUPS + warp / SPLIT) * TILES, share = warp % SPLIT;
    const int first = CHUNKS * share / SPLIT, end = CHUNKS * (share + 1) / SPLIT;

    lt_pdl_wait();
    lt_pdl_launch();
    const int expert = ids[blockIdx.y];
    if (!JOIN && (expert < 0 || expert >= EXPERTS)) return;
    LT_SHARED1(i32, joined, SLOTS);
    const i32 own = blockIdx.y, *const list = JOIN ? joined : &own;
    const int live = JOIN ? moe_slots(joined, ids, blockIdx.y, warp, lane) : 1;
    if (live == 0) return;
    for (int from = 0; from < live; from += COLUMNS) {  // once, but where a row chose the expert twice
        const i32 *slots = list + from;
        const int columns = live - from < COLUMNS ? live - from : COLUMNS;
        float sum[TILES][HALVES][4] = {0};
        uint4 weights[UNROLL][TILES][2];
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++)
            if (first + u < end) load_weights(weights[u], w, expert, tile0, first + u, lane);
        if (JOIN) __syncthreads();  // the list is there, and nobody reads the last columns' sums
        for (int chunk = first; chunk < end; chunk += UNROLL) {
            LT_UNROLL(UNROLL)
            for (int u = 0; u < UNROLL; u++) {
                if (chunk + u < end) {
                    u32 b[HALVES][4];
                    LT_UNROLL(HALVES)
                    for (int h = 0; h < HALVES; h++) {
                        const int m = h * 8 + g, k = (chunk + u) * 32 + t * 8;
                        const size_t row = m < columns ? slots[m] / SHARE : 0;
                        load_row(b[h], x, row * K + k, m < columns && k < K);
                    }
                    add_chunk(sum, weights[u], b);
                }
                if (chunk + u + UNROLL < end)
                    load_weights(weights[u], w, expert, tile0, chunk + u + UNROLL, lane);
            }
        }
        if (SPLIT > 1) sums_of_warps(&sum[0][0][0], warp, lane);
        if (share != 0) continue;
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++) {
            LT_UNROLL(HALVES * 4)
            for (int j = 0; j < HALVES * 4; j++) {
                const int m = j / 4 * 8 + 2 * t + j % 2, n = (tile0 + i) * 16 + g + j / 2 % 2 * 8;
                if (m >= columns || n >= N) continue;
                y[(size_t)slots[m] * N + n] = lt_f32_bf16(sum[i][j / 4][j % 4]);
            }
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { bf16_moe_gate_up__m1_topk1_experts1_n32_k8__t1s1g4u2j0(*(bf16 **)a[0], *(const bf16 **)a[1], *(const i32 **)a[2], *(const bf16 **)a[3]); }
#endif
