/* family w4a16_moe.gate_up rev 1, shape m1_topk1_experts1_n32_k16, variant t1s1g4u2j0, class mma.bf16_1 */
// Weights are the 16-row operand of m16n8k16, slots of one expert the columns; code * scale * 2^-7 is exact in bf16.
// Lane (g, t) holds rows g and g + 8 of a tile, the scale group 16t .. 16t + 15 of each chunk of 64 k; x
// lies the same way, so K is summed in a permuted order, the same for every slot.
enum { M = 1, TOPK = 1, EXPERTS = 1, N = 32, K = 16, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, JOIN = 0 };
enum {
    SLOTS = M * TOPK,
    SHARE = SLOTS / 1,    // slots that read one row of x
    SCALES = 2,  // of an expert: a tensor each
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    PARTS = 1,
    ALL_TILES = N / 16,           // of an expert
    COLUMNS = JOIN ? M : 1,       // slots that one reading serves
    HALVES = (COLUMNS + 7) / 8,   // mma columns hold eight of them
    COUNT = TILES * HALVES * 4,   // sums of a lane
    SMALL = UNROLL * TILES * HALVES <= 2,        // 80 registers, or 96 in a block of 4 warps, are enough
    RESIDENT = SMALL && WARPS < 16 ? 20 / WARPS + (WARPS == 8) : 1  // blocks of a multiprocessor
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

LT_DEV void load_weights(uint4 (*w)[2], u32 *scale, const u8 *codes, const e4m3 *scales, int expert, int tile0,
                         int unit, int lane)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const int tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
        fp4_load_unit(w[i], &scale[i], codes, scales, ((size_t)expert * ALL_TILES + tile) * UNITS + unit, lane);
    }
}

LT_DEV void load_row(u32 *b, const bf16 *x, size_t at, int is_there)  // 16 values
{
    uint4 lo, hi;
    lo.x = lo.y = lo.z = lo.w = 0;
    hi = lo;
    if (is_there) {
        lo = lt_ld128(x + at);
        hi = lt_ld128(x + at + 8);
    }
    b[0] = lo.x, b[1] = lo.y, b[2] = lo.z, b[3] = lo.w;
    b[4] = hi.x, b[5] = hi.y, b[6] = hi.z, b[7] = hi.w;
}

LT_DEV void add_unit(float (*sum)[HALVES][4], uint4 (*w)[2], u32 *scale, u32 (*b)[2][8])
{
    LT_UNROLL(2)
    for (int c = 0; c < 2; c++) {
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++) {
            u32 a[4][4];
            fp4_chunk(a, w[i][c], scale[i] >> 16 * c);
            LT_UNROLL(HALVES)
            for (int h = 0; h < HALVES; h++) lt_mma_m16n8k16_bf16_run(sum[i][h], a[0], b[h][c], 4);
        }
    }
}

LT_KERNEL(32 * WARPS, RESIDENT)
w4a16_moe_gate_up__m1_topk1_experts1_n32_k16__t1s1g4u2j0(bf16 *y, const bf16 *x, const i32 *ids, const u8 *w, const e4m3 *ws, const float *sw)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile0 = (blockIdx.x * GROUPS + warp / SPLIT) * TILES, share = warp % SPLIT;
    const int first = UNITS * share / SPLIT, end = UNITS * (share + 1) / SPLIT;

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
        float sum[TILES][HALVES][4] = {0}, channel[TILES];
        uint4 weights[UNROLL][TILES][2];
        u32 scale[UNROLL][TILES];
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++)
            if (first + u < end) load_weights(weights[u], scale[u], w, ws, expert, tile0, first + u, lane);
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++) {
            const int tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
            channel[i] = sw[expert * SCALES + tile * SCALES / ALL_TILES];
        }
        if (JOIN) __syncthreads();  // the list is there, and nobody reads the last columns' sums
        for (int unit = first; unit < end; unit += UNROLL) {
            LT_UNROLL(UNROLL)
            for (int u = 0; u < UNROLL; u++) {
                if (unit + u < end) {
                    u32 b[HALVES][2][8];
                    LT_UNROLL(2 * HALVES)
                    for (int i = 0; i < 2 * HALVES; i++) {
                        const int m = i / 2 * 8 + g, k = (unit + u) * 128 + i % 2 * 64 + t * 16;
                        const size_t row = m < columns ? slots[m] / SHARE : 0;
                        load_row(b[i / 2][i % 2], x, row * K + k, m < columns && k < K);
                    }
                    add_unit(sum, weights[u], scale[u], b);
                }
                if (unit + u + UNROLL < end)
                    load_weights(weights[u], scale[u], w, ws, expert, tile0, unit + u + UNROLL, lane);
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
                y[(size_t)slots[m] * N + n] = lt_f32_bf16(sum[i][j / 4][j % 4] * FP4_UNSCALE * channel[i]);
            }
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a16_moe_gate_up__m1_topk1_experts1_n32_k16__t1s1g4u2j0(*(bf16 **)a[0], *(const bf16 **)a[1], *(const i32 **)a[2], *(const u8 **)a[3], *(const e4m3 **)a[4], *(const float **)a[5]); }
#endif
