/* family moe_router rev 4, shape m1_n1_topk1_k8, variant p1, class mma.bf16_1x4 */
// A block sums one tile of 16 experts over a part of K and puts what it has; the block with a row's number waits for
// all parts of that row and chooses. There a thread has an expert: SETS sets of them have a best one each, and the
// least of these bounds the choice. A warp ranks those of its experts that are not below: a rank is a slot.
enum { M = 1, N = 1, TOPK = 1, K = 8, PARTS = 1 };
enum {
    CHOOSERS = N > 128 ? (N + 31) / 32 : 4,      // warps of a block: a thread an expert
    THREADS = 32 * CHOOSERS,
    SETS = TOPK > 16 ? 32 : TOPK > 8 ? 16 : TOPK > 4 ? 8 : 4,
    BOUNDS = 3,                                  // ways to make sets
    RANKED = 4,                                  // experts that a warp ranks at once
    SPLIT = CHOOSERS < 8 ? 4 : 8,                // of a part of K: warps that multiply
    CYCLIC = 0,
    EACH = ((K + 31) / 32 + SPLIT * PARTS - 1) / (SPLIT * PARTS),  // chunks of a warp, or one less
    UNROLL = EACH < 4 ? EACH : 4,                // of them in flight
    TILES = 1,                                   // of a warp
    OCCUPANCY = 32
};
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
// x / y of a normal positive y, whose inverse is normal too, as a division rounds it but where y has a mantissa of ones
// alone; without the branch that a division has. -0 stays -0.
// 1 / x of a normal positive x to the last place or so: a guess within 5.1 %, whose error is taken to the 4th power and
// then squared. No branch, unlike the division, so that four of them overlap.
LT_DEV float reciprocal(float x)
{
    float y = lt_bits_f32(0x7ef311c3u - lt_f32_bits(x));
    const float e = fmaf(-x, y, 1.0f);
    y = fmaf(fmaf(y, e, y), e * e, fmaf(y, e, y));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}
LT_DEV float divided(float x, float y)
{
    const float by = reciprocal(y), quotient = x * by;
    return fmaf(fmaf(y, quotient, -x), -by, quotient);
}

// Of a power of two, at most 16: the second half onto the first, until one is left.
LT_DEV float add_halves(float *part, int count)
{
    LT_UNROLL(4)
    for (int n = count / 2; n > 0; n /= 2) {
        LT_UNROLL(8)
        for (int i = 0; i < n; i++) part[i] += part[i + n];
    }
    return part[0];
}

// The warps' sums meet, and are put.
LT_DEV void put_sums(u64 *slots, float (*sum)[4], int tile, int part, u32 turn)
{
    LT_SHARED2(float, room, SPLIT, 16 * M);
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const u32 n = tile * 16 + threadIdx.x % 16;  // that this thread puts
    LT_UNROLL(COUNT)
    for (int i = 0; i < COUNT; i++) {
        const int m = i / 4 * 8 + 2 * t + i % 2;
        if (m < M && warp < SPLIT) room[warp][16 * m + g + i / 2 % 2 * 8] = sum[i / 4][i % 4];
    }
    __syncthreads();
    LT_UNROLL(1)
    for (int from = 0; from < 16 * M; from += THREADS) {
        const u32 i = from + threadIdx.x;
        if (i >= 16 * M || (N % 16 != 0 && n >= N)) break;
        float all[SPLIT];
        LT_UNROLL(SPLIT)
        for (int s = 0; s < SPLIT; s++) all[s] = room[s][i];
        lt_put(slots + (i / 16 * PARTS + part) * N + n, lt_f32_bits(add_halves(all, SPLIT)), turn);
    }
}

LT_DEV u32 order_of(float choice)  // ascends with the choice, which is never -0; NaN is lowest
{
    const u32 bits = lt_f32_bits(choice);
    return choice == choice ? bits ^ ((u32)((i32)bits >> 31) | 0x80000000u) : 0;
}

LT_DEV u32 larger(u32 a, u32 b) { return a > b ? a : b; }

// The sum of all parts. A warp looks until none of its lanes misses one, so that it stays together.
LT_DEV float take_logit(const u64 *from, u32 turn)
{
    u64 got[PARTS];
    int missing;
    do {
        u32 wrong = 0;
        LT_UNROLL(PARTS)
        for (int p = 0; p < PARTS; p++) {
            got[p] = lt_peek(from + (size_t)p * N);
            wrong |= (u32)(got[p] >> 32) ^ turn;
        }
        missing = lt_ballot(0xffffffffu, wrong != 0) != 0;
    } while (lt_look_again(missing));
    float sum[PARTS];
    LT_UNROLL(PARTS)
    for (int p = 0; p < PARTS; p++) sum[p] = lt_bits_f32((u32)got[p]);
    return add_halves(sum, PARTS);
}

// By a quarter of 1 + exp(-x), which may be as large as floats are.
LT_DEV float sigmoid(float x) { return 0.25f * divided(1.0f, fmaf(0.25f, lt_exp(-x), 0.25f)); }

// Sets of 32 / SETS lanes, those whose numbers differ in some bits: the least of the sets' best ones bounds the choice,
// as TOPK experts or more are not below it.
LT_DEV u32 least_best(u32 best, int first)
{
    LT_UNROLL(3)
    for (int n = 32 / SETS, bits = first; n > 1; n /= 2) {
        best = larger(best, lt_shfl_xor_u32(0xffffffffu, best, bits));
        bits = bits > 1 ? bits / 2 : 16;
    }
    return lt_redux_min(best);
}

// The highest of the bounds of BOUNDS ways to make sets.
LT_DEV u32 bound_choice(u32 (*orders)[32], int lane)
{
    u32 best = 0, bound = 0;
    LT_UNROLL(CHOOSERS)
    for (int w = 0; w < CHOOSERS; w++) best = larger(best, orders[w][lane]);
    LT_UNROLL(BOUNDS)
    for (int i = 0; i < BOUNDS; i++) bound = larger(bound, least_best(best, i == 0 ? 16 : i == 1 ? 4 : 1));
    return bound;
}

// How many keys beat this lane's, if that is one of the warp's RANKED from `first` on. A row of keys has one of each
// warp, and behind a row without any there is none: 64 keys are compared at once.
LT_DEV int rank_keys(const u64 *keys, const u64 *ranked, int first, int place)
{
    const u64 *from = keys + threadIdx.x % 32;
    int rank = 0, more;
    LT_UNROLL(1)
    do {
        const u64 left = from[0], right = from[32];
        u32 above_left = 0, above_right = 0;
        LT_UNROLL(RANKED)
        for (int r = 0; r < RANKED; r++) {
            const u64 key = ranked[(first + r) * CHOOSERS];
            const u32 on_left = lt_ballot(0xffffffffu, left > key), on_right = lt_ballot(0xffffffffu, right > key);
            if (place == first + r) above_left = on_left, above_right = on_right;
        }
        rank += lt_popc(above_left) + lt_popc(above_right);
        more = lt_ballot(0xffffffffu, (u32)right != 0) >> (32 - CHOOSERS) != 0;  // is there one in the last row?
        from += 64;
    } while (more);
    return rank;
}

// The whole block. bias: this thread's. A key is a choice, and the lower id of equal ones.
LT_DEV void choose(i32 *ids, float *weights, const u64 *slots, u32 turn, float bias, float factor)
{
    LT_SHARED2(u32, orders, CHOOSERS, 32);
    LT_SHARED1(u64, keys, THREADS + 64 + (TOPK + 1) / 2);
    float *const chosen = (float *)(keys + THREADS + 64);  // an address less is asked for
    const int e = threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int is_expert = N == THREADS || e < N;
    keys[e] = 0;  // beats none
    if (e < 64) keys[THREADS + e] = 0;
    const float own = sigmoid(take_logit(slots + (is_expert ? e : 0), turn));
    const u32 order = is_expert ? order_of(own + bias) : 0;
    orders[warp][lane] = order;
    __syncthreads();
    const u32 bound = bound_choice(orders, lane);
    const int is_listed = is_expert && order >= bound;
    const u32 listed = lt_ballot(0xffffffffu, is_listed);
    const int place = lt_popc(listed & ((1u << lane) - 1)), count = lt_popc(listed);
    if (is_listed) keys[place * CHOOSERS + warp] = (u64)order << 32 | ~(u32)e;
    __syncthreads();
    LT_UNROLL(1)
    for (int first = 0; first < count; first += RANKED) {
        const int slot = rank_keys(keys, keys + warp, first, place);
        if (!is_listed || place < first || place >= first + RANKED || slot >= TOPK) continue;
        ids[slot] = e;
        chosen[slot] = own;
    }
    __syncthreads();
    if (e >= 32) return;
    float sum = chosen[0];
    LT_UNROLL(TOPK)
    for (int k = 1; k < TOPK; k++) sum += chosen[k];
    if (lane < TOPK) weights[lane] = divided(chosen[lane], sum + 1e-20f) * factor;
}

LT_KERNEL(THREADS, 2)
moe_router__m1_n1_topk1_k8__p1(i32 *ids, float *weights, const bf16 *x, const bf16 *w, const float *bias, const float *factor, u32 *sums, u32 *turns)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tile = blockIdx.x, part = blockIdx.y;
    const u32 block = part * ALL_TILES + tile;
    const int segment = part * SPLIT + (warp < SPLIT ? warp : SPLIT - 1);  // without a branch; the rest is not taken
    float sum[HALVES][4] = {0}, own_bias = 0.0f, scale = 0.0f;
    uint4 of[UNROLL][2];
    u64 *slots = (u64 *)sums;

    const weight *unit = begin_units(of, w, tile, segment, lane);
    lt_pdl_wait();
    lt_pdl_launch();
    const u32 turn = lt_ld32_fresh(turns + block) + 1;  // of this launch: what others put carries it
    if (block < M) {
        own_bias = lt_bits_f32(lt_ld32_once(bias + (threadIdx.x < N ? threadIdx.x : 0)));
        scale = lt_bits_f32(lt_ld32_once(factor));
    }
    add_units(sum, of, unit, x, segment, lane);
    put_sums(slots, sum, tile, part, turn);
    LT_UNROLL(1)
    for (u32 m = block; m < M; m += ALL_TILES * PARTS) {
        if (m != block) __syncthreads();
        choose(ids + m * TOPK, weights + m * TOPK, slots + m * N * PARTS, turn, own_bias, scale);
    }
    if (threadIdx.x == THREADS - 1) turns[block] = turn;  // no thread of the block looks any more
}
#ifndef __CUDACC__
void lt_entry(void **a) { moe_router__m1_n1_topk1_k8__p1(*(i32 **)a[0], *(float **)a[1], *(const bf16 **)a[2], *(const bf16 **)a[3], *(const float **)a[4], *(const float **)a[5], *(u32 **)a[6], *(u32 **)a[7]); }
#endif
