/* family dsa_topk rev 1, shape m2_k300_pools16384, variant p4w8, class exact */
// A score is a key of 12, 10 and 10 bits, the smaller the better. The blocks of a row count the first digit together;
// the last one reads the row again and settles the other digits among the scores of the bin that holds the K-th best,
// which it keeps aside when they are few enough. One bit a pool says who has won, so that ids leave in order.
enum { M = 2, K = 300, POOLS = 16384, PARTS = 4, WARPS = 8 };
enum {
    THREADS = 32 * WARPS,
    POOL = 4,                                // tokens
    PART = 1024,                             // candidates that are worth a block
    BINS = 4096,
    FINE = 1024,
    LISTED = POOLS < 4096 ? POOLS : 4096,    // candidates that are kept aside
    WORDS = (POOLS + 31) / 32,
    AHEAD = 8                                // loads of a thread in flight
};
#define ALL 0xffffffffu

LT_DEV u32 key_of(float score)  // NaN comes last, -0 is +0
{
    const u32 bits = lt_f32_bits(score);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return ALL;
    if (bits == 0x80000000u) return 0x7fffffffu;
    return bits & 0x80000000u ? bits : bits ^ 0x7fffffffu;
}

LT_DEV u32 count_bits(u32 v)
{
    v -= v >> 1 & 0x55555555u;
    v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
    return ((v + (v >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

LT_DEV u32 before(u32 mine, u32 *room)  // sum over the threads in front of this one; all call
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 sum = mine;
    LT_UNROLL(5)
    for (int o = 1; o < 32; o *= 2) {
        const u32 other = lt_shfl_u32(ALL, sum, (lane - o) & 31);
        if (lane >= o) sum += other;
    }
    __syncthreads();
    if (lane == 31) room[warp] = sum;
    __syncthreads();
    LT_UNROLL(WARPS)
    for (int w = 0; w < WARPS; w++)
        if (w < warp) sum += room[w];
    return sum - mine;
}

// The bin that holds the rank-th of all that is counted (from 1); rank becomes that within the bin. All call.
LT_DEV u32 find_bin(const u32 *count, int bins, u32 *rank, u32 *room)
{
    const int each = bins / THREADS, first = threadIdx.x * each;
    u32 mine = 0;
    __syncthreads();
    for (int i = 0; i < each; i++) mine += count[first + i];
    u32 sum = before(mine, room);
    if (sum < *rank && *rank <= sum + mine) {
        int bin = first;
        while (sum + count[bin] < *rank) sum += count[bin++];
        room[WARPS] = bin;
        room[WARPS + 1] = *rank - sum;
    }
    __syncthreads();
    *rank = room[WARPS + 1];
    return room[WARPS];
}

LT_DEV void count_digits(u32 *coarse, const float *row, int from, int end)
{
    LT_UNROLL(1)
    for (int p = from + threadIdx.x; p < end; p += THREADS * AHEAD) {
        u32 key[AHEAD];
        LT_UNROLL(AHEAD)
        for (int i = 0; i < AHEAD; i++) key[i] = p + i * THREADS < end ? key_of(row[p + i * THREADS]) : 0;
        LT_UNROLL(AHEAD)
        for (int i = 0; i < AHEAD; i++)
            if (p + i * THREADS < end) lt_atomic_add_u32(coarse + (key[i] >> 20), 1);
    }
}

// What the row's blocks have counted meets; true in the last of them, which has it all.
LT_DEV int counts_meet(u32 *coarse, u32 *sums, u32 *arrived, int parts)
{
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += THREADS)
        if (coarse[i] != 0) lt_atomic_add_u32(sums + i, coarse[i]);
    if (!lt_last_block(arrived, parts)) return 0;
    LT_UNROLL(BINS / THREADS)
    for (int i = threadIdx.x; i < BINS; i += THREADS) {
        coarse[i] = lt_ld32_fresh(sums + i);
        sums[i] = 0;
    }
    return 1;
}

// Who is in a better bin than this one wins; who is in it is counted by the second digit, and listed if list is given.
LT_DEV void read_row(const float *row, int pools, u32 bin, u32 *won, u32 *fine, u32 *list, u32 *listed)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, words = (pools + 31) / 32;
    LT_UNROLL(1)
    for (int w0 = warp; w0 < words; w0 += WARPS * AHEAD) {
        u32 key[AHEAD];
        LT_UNROLL(AHEAD)
        for (int i = 0; i < AHEAD; i++) {
            const int p = 32 * (w0 + i * WARPS) + lane;
            key[i] = p < pools ? key_of(row[p]) : ALL;
        }
        LT_UNROLL(AHEAD)
        for (int i = 0; i < AHEAD; i++) {
            const int w = w0 + i * WARPS, p = 32 * w + lane;
            if (w >= words) break;
            const u32 better = lt_ballot(ALL, p < pools && key[i] >> 20 < bin);
            if (lane == 0) won[w] = better;
            if (p >= pools || key[i] >> 20 != bin) continue;
            lt_atomic_add_u32(fine + (key[i] >> 10 & 1023), 1);
            if (!list) continue;
            const u32 at = lt_atomic_add_u32(listed, 1);
            list[2 * at] = key[i];
            list[2 * at + 1] = p;
        }
    }
}

LT_DEV void set_bit(u32 *words, u32 i) { lt_atomic_add_u32(words + i / 32, 1u << i % 32); }  // a bit that is not set

// The first `rank` of those that tie win too, and all winners leave.
LT_DEV void write_ids(i32 *to, u32 *won, const u32 *tied, u32 rank, int pools, u32 *room)
{
    const int words = (pools + 31) / 32, each = (words + THREADS - 1) / THREADS;
    const int first = threadIdx.x * each, end = first + each < words ? first + each : words;
    u32 ties = 0, wins = 0;
    __syncthreads();
    LT_UNROLL(1)
    for (int w = first; w < end; w++) ties += count_bits(tied[w]);
    u32 taken = before(ties, room);
    LT_UNROLL(1)
    for (int w = first; w < end; w++) {
        LT_UNROLL(1)
        for (u32 bits = tied[w]; bits != 0 && taken < rank; bits &= bits - 1, taken++) won[w] |= bits & (0 - bits);
        wins += count_bits(won[w]);
    }
    u32 at = before(wins, room);
    LT_UNROLL(1)
    for (int w = first; w < end; w++) {
        LT_UNROLL(1)
        for (u32 bits = won[w]; bits != 0; bits &= bits - 1) to[at++] = 32 * w + count_bits((bits & (0 - bits)) - 1);
    }
}

LT_KERNEL(THREADS, 1)
dsa_topk__m2_k300_pools16384__p4w8(i32 *ids, const float *score, const i32 *positions, const i32 *slots, u32 *coarse, u32 *arrived)
{
    const int m = blockIdx.y;
    const float *row = score + (size_t)m * POOLS;
    LT_DYN_SHARED(u32, shared);
    u32 *const bins = shared, *const fine = bins + BINS, *const finest = fine + FINE;
    u32 *const won = finest + FINE, *const tied = won + WORDS, *const list = tied + WORDS;
    LT_SHARED1(u32, room, WARPS + 3);

    for (int i = threadIdx.x; i < BINS + 2 * FINE; i += THREADS) shared[i] = 0;
    for (int i = threadIdx.x; i < WORDS; i += THREADS) tied[i] = 0;
    if (threadIdx.x == 0) room[WARPS + 2] = 0;
    lt_pdl_wait();
    lt_pdl_launch();
    const int position = positions[m];
    int pools = position < 0 ? 0 : (int)(((u32)position + 1) / POOL);
    pools = pools < POOLS ? pools : POOLS;
    if (slots[m] < 0) return;
    if (pools <= K) {
        for (int i = blockIdx.x * THREADS + threadIdx.x; i < K; i += PARTS * THREADS)
            ids[(size_t)m * K + i] = i < pools ? i : -1;
        return;
    }
    int parts = (pools + PART - 1) / PART;
    parts = parts < PARTS ? parts : PARTS;
    if (blockIdx.x >= parts) return;
    const int each = (pools + parts - 1) / parts, from = blockIdx.x * each;
    __syncthreads();
    count_digits(bins, row, from, from + each < pools ? from + each : pools);
    if (!counts_meet(bins, coarse + (size_t)m * BINS, arrived + m, parts)) return;

    u32 rank = K;
    const u32 bin = find_bin(bins, BINS, &rank, room);
    const int is_listed = bins[bin] <= LISTED;
    const int count = is_listed ? bins[bin] : pools;  // that may be in the bin
    read_row(row, pools, bin, won, fine, is_listed ? list : 0, room + WARPS + 2);
    const u32 second = find_bin(fine, FINE, &rank, room);
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < count; i += THREADS) {
        const u32 key = is_listed ? list[2 * i] : key_of(row[i]), pool = is_listed ? list[2 * i + 1] : i;
        if (key >> 20 != bin) continue;
        if ((key >> 10 & 1023) < second) set_bit(won, pool);
        if ((key >> 10 & 1023) == second) lt_atomic_add_u32(finest + (key & 1023), 1);
    }
    const u32 third = find_bin(finest, FINE, &rank, room);
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < count; i += THREADS) {
        const u32 key = is_listed ? list[2 * i] : key_of(row[i]), pool = is_listed ? list[2 * i + 1] : i;
        if (key >> 10 != (bin << 10 | second)) continue;
        if ((key & 1023) < third) set_bit(won, pool);
        if ((key & 1023) == third) set_bit(tied, pool);
    }
    write_ids(ids + (size_t)m * K, won, tied, rank, pools, room);
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_topk__m2_k300_pools16384__p4w8(*(i32 **)a[0], *(const float **)a[1], *(const i32 **)a[2], *(const i32 **)a[3], *(u32 **)a[4], *(u32 **)a[5]); }
#endif
