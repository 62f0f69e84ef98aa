/* family dsa_topk rev 1, shape m1_k4150_pools8200, variant p2w8, class exact */
// A score is a key of 12, 10 and 10 bits, the smaller the better. Each block of a row counts the first digits of its
// share, puts aside what can be among the K best of all (at least the K best of the share), and adds its counts to the
// row's. The last block finds the digit's bin that holds the K-th best and settles the other digits among that bin's
// candidates. One bit a pool says who has won, so that ids leave in order.
enum { M = 1, K = 4150, POOLS = 8200, PARTS = 2, WARPS = 8 };
enum {
    THREADS = 32 * WARPS,
    POOL = 4,                                // tokens
    PART = 4096,                             // pools that are worth a block
    SHARE = (POOLS + PARTS - 1) / PARTS,     // at most, of a block
    BINS = 4096,
    FINE = 1024,
    LISTED = POOLS < 4096 ? POOLS : 4096,    // candidates of a bin that are kept in shared memory
    WORDS = (POOLS + 31) / 32,
    AHEAD = 4                                // loads of a thread in flight
};
enum { FIRST, SECOND, THIRD };               // digits
#define ALL 0xffffffffu

typedef struct {
    const float *row;    // of so many pools
    int pools;
    u32 *keys, *numbers; // what the row's blocks have put aside: shares of so many
    i32 *counts;
    int parts;
    u32 *won, *tied;     // a bit a pool
    u32 *fine, *finest;  // counts of the second digit in the bin, of the third in the second's
    u32 *list, *listed;  // keys and pools of the bin, when they fit
    u32 bin, second, third, fits;
} selection;

LT_DEV u32 key_of(float score)  // NaN comes last, -0 is +0
{
    const u32 bits = lt_f32_bits(score + 0.0f);
    const u32 key = bits & 0x80000000u ? bits : bits ^ 0x7fffffffu;
    return score == score ? key : ALL;
}

LT_DEV u32 count_bits(u32 v)
{
    v -= v >> 1 & 0x55555555u;
    v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
    return ((v + (v >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

LT_DEV u32 sum_up_to(u32 mine)  // over the lanes up to this one
{
    const int lane = threadIdx.x % 32;
    LT_UNROLL(5)
    for (int o = 1; o < 32; o *= 2) {
        const u32 other = lt_shfl_u32(ALL, mine, (lane - o) & 31);
        mine += lane >= o ? other : 0;
    }
    return mine;
}

LT_DEV u32 before(u32 mine, u32 *room)  // sum over the threads in front of this one; all call
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 sum = sum_up_to(mine);
    __syncthreads();
    if (lane == 31) room[warp] = sum;
    __syncthreads();
    const u32 warps = sum_up_to(lane < WARPS ? room[lane] : 0);
    const u32 others = lt_shfl_u32(ALL, warps, (warp - 1) & 31);
    return sum - mine + (warp > 0 ? others : 0);
}

// The bin that holds the rank-th of all that is counted (from 1); rank becomes that within the bin. All call.
LT_DEV u32 find_bin(const u32 *count, int bins, u32 *rank, u32 *room)
{
    const int each = bins / THREADS, first = threadIdx.x * each;
    u32 mine = 0;
    __syncthreads();
    LT_UNROLL(2)
    for (int i = 0; i < each; i++) {
        if (each % 4 != 0) mine += count[first + i];
        if (each % 4 == 0 && i % 4 == 0) {
            const uint4 four = lt_ld128(count + first + i);
            mine += four.x + four.y + four.z + four.w;
        }
    }
    u32 sum = before(mine, room);
    if (sum < *rank && *rank <= sum + mine) {
        int bin = first;
        LT_UNROLL(1)
        while (sum + count[bin] < *rank) sum += count[bin++];
        room[WARPS] = bin;
        room[WARPS + 1] = *rank - sum;
    }
    __syncthreads();
    *rank = room[WARPS + 1];
    return room[WARPS];
}

LT_DEV void set_bit(u32 *words, u32 i) { lt_atomic_add_u32(words + i / 32, 1u << i % 32); }  // a bit that is not set

LT_DEV void consider(const selection *s, int digit, u32 key, u32 pool)
{
    const u32 prefix = s->bin << 10 | s->second;
    if (digit == FIRST) {
        if (key >> 20 < s->bin) set_bit(s->won, pool);
        if (key >> 20 == s->bin) {
            lt_atomic_add_u32(s->fine + (key >> 10 & 1023), 1);
            if (s->fits) {
                const u32 at = lt_atomic_add_u32(s->listed, 1);
                s->list[2 * at] = key;
                s->list[2 * at + 1] = pool;
            }
        }
    } else if (digit == SECOND && key >> 20 == s->bin) {
        if (key >> 10 < prefix) set_bit(s->won, pool);
        if (key >> 10 == prefix) lt_atomic_add_u32(s->finest + (key & 1023), 1);
    } else if (digit == THIRD && key >> 10 == prefix) {
        if ((key & 1023) < s->third) set_bit(s->won, pool);
        if ((key & 1023) == s->third) set_bit(s->tied, pool);
    }
}

LT_DEV void count_digits(u32 *bins, const float *row, int from, int end)
{
    LT_UNROLL(1)
    for (int p = from + threadIdx.x; p < end; p += THREADS * AHEAD) {
        float v[AHEAD];
        LT_UNROLL(AHEAD)
        for (int i = 0; i < AHEAD; i++) v[i] = row[p + i * THREADS < end ? p + i * THREADS : p];
        LT_UNROLL(AHEAD)
        for (int i = 0; i < AHEAD; i++)
            if (p + i * THREADS < end) lt_atomic_add_u32(bins + (key_of(v[i]) >> 20), 1);
    }
}

// The share's pools up to the bin, and their counts, for the row's last block.
LT_DEV void put_aside(const selection *s, int part, const u32 *bins, u32 *sums, int from, int end, u32 *count)
{
    LT_UNROLL(1)
    for (int p = from + threadIdx.x; p < end; p += THREADS * AHEAD) {
        float v[AHEAD];
        LT_UNROLL(AHEAD)
        for (int i = 0; i < AHEAD; i++) v[i] = s->row[p + i * THREADS < end ? p + i * THREADS : p];
        LT_UNROLL(AHEAD)
        for (int i = 0; i < AHEAD; i++) {
            const u32 key = key_of(v[i]);
            if (p + i * THREADS < end && key >> 20 <= s->bin) {
                const size_t at = (size_t)part * SHARE + lt_atomic_add_u32(count, 1);
                s->keys[at] = key;
                s->numbers[at] = p + i * THREADS;
            }
        }
    }
    LT_UNROLL(1)
    for (u32 i = threadIdx.x; i <= s->bin; i += THREADS)
        if (bins[i] != 0) lt_atomic_add_u32(sums + i, bins[i]);
}

LT_DEV void take_counts(u32 *bins, u32 *sums)  // and leaves zeros
{
    LT_UNROLL(BINS / THREADS)
    for (int i = threadIdx.x; i < BINS; i += THREADS) bins[i] = lt_ld32_fresh(sums + i);
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < BINS; i += THREADS) sums[i] = 0;
}

// All that the blocks have put aside: a few warps take the share of each block.
LT_DEV void visit_all(const selection *s, int digit)
{
    const int warp = threadIdx.x / 32, team = WARPS / s->parts > 0 ? WARPS / s->parts : 1;
    LT_UNROLL(1)
    for (int part = warp / team; part < s->parts; part += WARPS / team) {
        const int count = lt_ld32_fresh(s->counts + part);
        LT_UNROLL(1)
        for (int i0 = threadIdx.x % 32 + warp % team * 32; i0 < count; i0 += team * 32 * AHEAD) {
            u32 key[AHEAD], number[AHEAD];
            LT_UNROLL(AHEAD)
            for (int i = 0; i < AHEAD; i++) {
                const size_t at = (size_t)part * SHARE + (i0 + i * team * 32 < count ? i0 + i * team * 32 : i0);
                key[i] = lt_ld32_fresh(s->keys + at);
                number[i] = lt_ld32_fresh(s->numbers + at);
            }
            LT_UNROLL(AHEAD)
            for (int i = 0; i < AHEAD; i++)
                if (i0 + i * team * 32 < count) consider(s, digit, key[i], number[i]);
        }
    }
}

LT_DEV void visit(const selection *s, int digit, int in_bin)  // all, or those of the bin
{
    if (!s->fits) {
        visit_all(s, digit);
        return;
    }
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < in_bin; i += THREADS) consider(s, digit, s->list[2 * i], s->list[2 * i + 1]);
}

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
dsa_topk__m1_k4150_pools8200__p2w8(i32 *ids, const float *score, const i32 *positions, const i32 *slots, i32 *candidates, i32 *counts, u32 *coarse, u32 *arrived)
{
    const int m = blockIdx.y, part = blockIdx.x;
    const float *row = score + (size_t)m * POOLS;
    LT_DYN_SHARED(u32, shared);
    LT_SHARED1(u32, room, WARPS + 4);
    u32 *const bins = shared, rank = K;
    selection s;
    s.row = row;
    s.fine = bins + BINS;
    s.finest = s.fine + FINE;
    s.won = s.finest + FINE;
    s.tied = s.won + WORDS;
    s.list = s.tied + WORDS;
    s.listed = room + WARPS + 2;
    s.second = s.third = 0;

    LT_UNROLL(1)
    for (int i = threadIdx.x; i < BINS + 2 * FINE + 2 * WORDS; i += THREADS) shared[i] = 0;
    if (threadIdx.x < 2) room[WARPS + 2 + threadIdx.x] = 0;
    lt_pdl_wait();
    lt_pdl_launch();
    const int position = positions[m], slot = slots[m];
    int pools = position < 0 ? 0 : (int)(((u32)position + 1) / POOL);
    pools = pools < POOLS ? pools : POOLS;
    if (slot < 0) return;
    if (pools <= K) {
        for (int i = part * THREADS + threadIdx.x; i < K; i += PARTS * THREADS)
            ids[(size_t)m * K + i] = i < pools ? i : -1;
        return;
    }
    int parts = (pools + PART - 1) / PART;
    parts = parts < PARTS ? parts : PARTS;
    if (part >= parts) return;
    s.pools = pools;
    s.parts = parts;
    const int each = (pools + parts - 1) / parts, from = part * each, end = from + each < pools ? from + each : pools;
    __syncthreads();
    count_digits(bins, row, from, end);
    s.keys = (u32 *)candidates + (size_t)m * 2 * PARTS * SHARE;
    s.numbers = s.keys + (size_t)PARTS * SHARE;
    s.counts = counts + (size_t)m * PARTS;
    rank = end - from < K ? end - from : K;
    s.bin = find_bin(bins, BINS, &rank, room);
    put_aside(&s, part, bins, coarse + (size_t)m * BINS, from, end, room + WARPS + 3);
    __syncthreads();
    if (threadIdx.x == 0) s.counts[part] = room[WARPS + 3];
    if (!lt_last_block(arrived + m, parts)) return;
    take_counts(bins, coarse + (size_t)m * BINS);
    rank = K;
    s.bin = find_bin(bins, BINS, &rank, room);
    const int in_bin = bins[s.bin];
    s.fits = in_bin <= LISTED;
    visit_all(&s, FIRST);
    s.second = find_bin(s.fine, FINE, &rank, room);
    visit(&s, SECOND, in_bin);
    s.third = find_bin(s.finest, FINE, &rank, room);
    visit(&s, THIRD, in_bin);
    write_ids(ids + (size_t)m * K, s.won, s.tied, rank, pools, room);
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_topk__m1_k4150_pools8200__p2w8(*(i32 **)a[0], *(const float **)a[1], *(const i32 **)a[2], *(const i32 **)a[3], *(i32 **)a[4], *(i32 **)a[5], *(u32 **)a[6], *(u32 **)a[7]); }
#endif
