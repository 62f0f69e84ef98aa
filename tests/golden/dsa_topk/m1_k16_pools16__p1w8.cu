/* family dsa_topk rev 1, shape m1_k16_pools16, variant p1w8, class exact */
// A thread has EACH scores of its block's share in registers. The K-th best of the share is no worse than the K-th best
// of the threads' best: what is worse than that is out, and the few that are left lie in shared memory, HELD a thread.
// Their keys, the smaller the better, have digits of 12, 12 and 8 bits: one after the other narrows the keys among
// which the K-th is, until all of them win or are equal. One bit a position says who has won, so that ids leave in
// order. What several blocks have selected of their shares is the share of the last one.
enum { M = 1, K = 16, POOLS = 16, PARTS = 1, WARPS = 8 };
enum {
    THREADS = 32 * WARPS,
    POOL = 4,                             // tokens
    SHARE = (POOLS + PARTS - 1) / PARTS,  // at most, of a block
    UNION = PARTS > 1 ? PARTS * K : 0,    // of the last one
    MOST = SHARE > UNION ? SHARE : UNION,
    EACH = (MOST + THREADS - 1) / THREADS,
    WORDS = (MOST + 31) / 32,
    BINS = 4096,
    HELD = 8,
    LOWEST = 0xff8                        // the bin of minus infinity and NaN
};
#define ALL 0xffffffffu

typedef struct {
    const float *row;
    const i32 *names;          // places in the row of the share's positions; 0: they are the positions
    int positions;
    u32 *bins, *won, *tied, *room;
    uint2 *held;               // keys and positions
    int holds, is_held;        // so many are this thread's; all that count are held
    u32 low, width, rank;      // low .. low + width: among these keys the K-th best is the rank-th
    int shift;                 // behind the digit
} selection;

LT_DEV u32 key_of(float score)  // NaN comes last, -0 is +0
{
    const u32 bits = lt_f32_bits(score + 0.0f);
    const u32 key = bits & 0x80000000u ? bits : bits ^ 0x7fffffffu;
    return score == score ? key : ALL;
}

LT_DEV float score_of(u32 key) { return lt_bits_f32(key & 0x80000000u ? key : key ^ 0x7fffffffu); }

LT_DEV float score_at(const selection *s, int at)
{
    return lt_bits_f32(lt_ld32_fresh(s->row + (s->names ? lt_ld32_fresh(s->names + at) : (u32)at)));
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

// The bin that holds the rank-th of all that is counted, from 1; rank becomes that within the bin, and the function
// returns how many are in it. Leaves zeros. All call.
LT_DEV u32 find_bin(u32 *bins, u32 *bin, u32 *rank, u32 *room)
{
    u32 *const mine = bins + threadIdx.x * (BINS / THREADS), count[BINS / THREADS], sum = 0;
    __syncthreads();
    LT_UNROLL(BINS / THREADS)
    for (int i = 0; i < BINS / THREADS; i++) {
        sum += count[i] = mine[i];
        mine[i] = 0;
    }
    u32 below = before(sum, room);
    LT_UNROLL(BINS / THREADS)
    for (int i = 0; i < BINS / THREADS; i++) {
        if (below < *rank && *rank <= below + count[i]) {
            room[WARPS] = threadIdx.x * (BINS / THREADS) + i;
            room[WARPS + 1] = *rank - below;
            room[WARPS + 2] = count[i];
        }
        below += count[i];
    }
    __syncthreads();
    *bin = room[WARPS];
    *rank = room[WARPS + 1];
    return room[WARPS + 2];
}

// Holds what is no worse than the K-th best of the threads' best, where there is such a bound and room enough.
LT_DEV void hold(selection *s)
{
    const float none = lt_bits_f32(ALL);
    float score[EACH], best = lt_bits_f32(0xff800000u);
    u32 bin = LOWEST, rank = K;
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++) {
        const int at = i * THREADS + threadIdx.x;
        score[i] = at < s->positions ? score_at(s, at) : none;
    }
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++) best = score[i] > best ? score[i] : best;
    if (K <= THREADS) {
        lt_atomic_add_u32(s->bins + (key_of(best) >> 20), 1);
        find_bin(s->bins, &bin, &rank, s->room);
    }
    const float bound = bin < LOWEST ? score_of(bin << 20 | 0xfffff) : none;
    s->holds = 0;
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++) {
        if (score[i] >= bound) {
            uint2 one;
            one.x = key_of(score[i]);
            one.y = i * THREADS + threadIdx.x;
            if (s->holds < HELD) s->held[s->holds * THREADS + threadIdx.x] = one;
            s->holds++;
        }
    }
    if (s->holds > HELD || bin >= LOWEST) lt_atomic_add_u32(s->room + WARPS + 3, 1);
    __syncthreads();
    s->is_held = s->room[WARPS + 3] == 0;
}

LT_DEV void set_bit(u32 *words, u32 i) { lt_atomic_add_u32(words + i / 32, 1u << i % 32); }  // a bit that is not set

LT_DEV void count_digit(const selection *s, u32 key)
{
    if (key - s->low <= s->width) lt_atomic_add_u32(s->bins + ((key - s->low) >> s->shift), 1);
}

LT_DEV void mark(const selection *s, u32 key, u32 position)
{
    if (key < s->low) set_bit(s->won, position);
    if (key - s->low <= s->width) set_bit(s->tied, position);
}

LT_DEV void visit(const selection *s, int is_last)  // counts a digit of all that is left, in the end marks it
{
    const int count = s->is_held ? s->holds * THREADS : s->positions;
    LT_UNROLL(1)
    for (int at = threadIdx.x; at < count; at += THREADS) {
        uint2 one;
        one.y = at;
        if (s->is_held)
            one = s->held[at];
        else
            one.x = key_of(score_at(s, at));
        if (is_last)
            mark(s, one.x, one.y);
        else
            count_digit(s, one.x);
    }
}

// Bits of the K best and of those that tie for the last of their places; all call.
LT_DEV void select(selection *s)
{
    u32 bin, in_bin;
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < WORDS; i += THREADS) s->won[i] = s->tied[i] = 0;
    if (threadIdx.x == 0) s->room[WARPS + 3] = 0;
    hold(s);
    s->low = 0;
    s->width = ALL;
    s->rank = K;
    LT_UNROLL(1)
    for (s->shift = 20;; s->shift = s->shift == 20 ? 8 : 0) {
        visit(s, 0);
        in_bin = find_bin(s->bins, &bin, &s->rank, s->room);
        s->low += bin << s->shift;
        s->width = (1u << s->shift) - 1;
        if (in_bin == s->rank || s->shift == 0) break;
    }
    visit(s, 1);
    __syncthreads();
}

// The first `rank` of those that tie win too, and all winners leave, plus `first`.
LT_DEV void write_winners(i32 *to, const selection *s, int first)
{
    const int words = (s->positions + 31) / 32, each = (words + THREADS - 1) / THREADS;
    const int from = threadIdx.x * each, end = from + each < words ? from + each : words;
    u32 ties = 0, wins = 0;
    LT_UNROLL(1)
    for (int w = from; w < end; w++) ties += count_bits(s->tied[w]);
    u32 taken = before(ties, s->room);
    LT_UNROLL(1)
    for (int w = from; w < end; w++) {
        LT_UNROLL(1)
        for (u32 bits = s->tied[w]; bits != 0 && taken < s->rank; bits &= bits - 1, taken++)
            s->won[w] |= bits & (0 - bits);
        wins += count_bits(s->won[w]);
    }
    u32 at = before(wins, s->room);
    LT_UNROLL(1)
    for (int w = from; w < end; w++) {
        LT_UNROLL(1)
        for (u32 bits = s->won[w]; bits != 0; bits &= bits - 1) {
            const u32 position = 32 * w + count_bits((bits & (0 - bits)) - 1);
            to[at++] = s->names ? (i32)lt_ld32_fresh(s->names + position) : (i32)position + first;
        }
    }
}

LT_KERNEL(THREADS, 1)
dsa_topk__m1_k16_pools16__p1w8(i32 *ids, const float *score, const i32 *positions, const i32 *slots)
{
    const int m = blockIdx.y, part = blockIdx.x;
    LT_DYN_SHARED(uint2, held);
    LT_SHARED1(u32, bins, BINS);
    LT_SHARED1(u32, room, WARPS + 4);
    const int position = positions[m], slot = slots[m];
    selection s;
    s.row = score + (size_t)m * POOLS;
    s.names = 0;
    s.held = held;
    s.bins = bins;
    s.won = (u32 *)(held + HELD * THREADS);
    s.tied = s.won + WORDS;
    s.room = room;

    LT_UNROLL(BINS / THREADS)
    for (int i = threadIdx.x; i < BINS; i += THREADS) bins[i] = 0;
    __syncthreads();
    lt_pdl_wait();
    lt_pdl_launch();
    int pools = position < 0 ? 0 : (int)(((u32)position + 1) / POOL);
    pools = pools < POOLS ? pools : POOLS;
    if (slot < 0) return;
    if (pools <= K) {
        for (int i = part * THREADS + threadIdx.x; i < K; i += PARTS * THREADS)
            ids[(size_t)m * K + i] = i < pools ? i : -1;
        return;
    }
    const int parts = (pools + SHARE - 1) / SHARE, each = (pools + parts - 1) / parts, from = part * each;
    if (part >= parts) return;
    s.row += from;
    s.positions = from + each < pools ? each : pools - from;
    select(&s);
    write_winners(ids + (size_t)m * K, &s, 0);
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_topk__m1_k16_pools16__p1w8(*(i32 **)a[0], *(const float **)a[1], *(const i32 **)a[2], *(const i32 **)a[3]); }
#endif
