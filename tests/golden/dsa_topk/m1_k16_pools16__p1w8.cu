/* family dsa_topk rev 1, shape m1_k16_pools16, variant p1w8, class exact */
// A block has its share of the scores in shared memory. Of every warp's threads the RANK best have a score that is no
// worse than the bound, so that K scores are: what is worse is out, and the few others are held, HELD a thread. Keys,
// the smaller the better, are narrowed to those among which the K-th is, 10 bits at a time, until all of them win or
// are equal; 32 groups of 32 counts are a digit that a warp finds in two steps. One bit a place says who has won, so
// that ids leave in order. What the blocks of a row have selected of their shares is the share of the last one.
enum { M = 1, K = 16, POOLS = 16, PARTS = 1, WARPS = 8 };
enum {
    THREADS = 32 * WARPS,
    POOL = 4,                                           // tokens
    SHARE = ((POOLS + PARTS - 1) / PARTS + 3) / 4 * 4,  // at most, of a block
    UNION = PARTS > 1 ? PARTS * K : 0,                  // of the last one
    STRIP = 4 * THREADS,                                // scores that a block looks at together
    PLACES = ((SHARE > UNION ? SHARE : UNION) + STRIP - 1) / STRIP * STRIP,
    WORDS = PLACES / 32,
    HELD = 8,                                           // a thread stops when it holds more
    RANK = (K + WARPS - 1) / WARPS,
    DIGITS = 4,                                         // of a key
    COUNTS = 33 * 32                                    // 32 groups, then what is in them
};
#define ALL 0xffffffffu

typedef struct {
    float *score;                  // PLACES, NaN behind the share
    u32 *held;                     // places
    u32 *won;                      // a bit a place; then another for those that tie
    u32 (*counts)[COUNTS], *room;  // of a digit, DIGITS times; for what a block shares
    int count, holds;              // of the share; of the thread
    int is_held;                   // not the share itself is looked at
    u32 low, width, rank;          // low .. low + width: among these keys the K-th best is the rank-th
} selection;

LT_DEV u32 key_of(float score)  // NaN comes last, -0 is +0
{
    const u32 bits = lt_f32_bits(score + 0.0f);
    const u32 key = bits & 0x80000000u ? bits : bits ^ 0x7fffffffu;
    return score == score ? key : ALL;
}

LT_DEV float larger(float a, float b) { return a > b ? a : b; }

LT_DEV u32 count_bits(u32 v)
{
    v -= v >> 1 & 0x55555555u;
    v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
    return ((v + (v >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

LT_DEV u32 sum_up_to(u32 mine)  // over the lanes up to this one
{
    u32 all = mine;
    LT_UNROLL(5)
    for (int o = 1; o < 32; o *= 2) {
        const u32 other = lt_shfl_xor_u32(ALL, all, o);
        mine += threadIdx.x & o ? other : 0;
        all += other;
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
    const u32 warps = sum_up_to(lane < WARPS ? room[lane] : 0), others = lt_shfl_u32(ALL, warps, (warp - 1) & 31);
    return sum - mine + (warp > 0 ? others : 0);
}

LT_DEV void set_bit(u32 *words, u32 i) { lt_atomic_add_u32(words + i / 32, 1u << i % 32); }  // a bit that is not set

LT_DEV float best_of_mine(const selection *s)
{
    float best = lt_bits_f32(0xff800000u);
    LT_UNROLL(2)
    for (int at = threadIdx.x * 4; at - (int)threadIdx.x * 4 < s->count; at += STRIP) {
        const float4 v = lt_ld128f(s->score + at);
        best = larger(v.x, larger(v.y, larger(v.z, larger(v.w, best))));
    }
    return best;
}

LT_DEV float sort_lanes(float v)  // the largest in lane 0
{
    const int lane = threadIdx.x % 32;
    LT_UNROLL(5)
    for (int size = 2; size <= 32; size *= 2) {
        LT_UNROLL(5)
        for (int o = size / 2; o > 0; o /= 2) {
            const float other = lt_shfl_xor_f32(ALL, v, o);
            const int takes_larger = ((lane & o) == 0) == ((lane & size) == 0 || size == 32);
            v = takes_larger == (other > v) ? other : v;
        }
    }
    return v;
}

// What is no worse than the bound; all call. Minus infinity bounds nothing, for NaN is behind it.
LT_DEV void hold(selection *s)
{
    const float sorted = sort_lanes(best_of_mine(s));
    float *const bounds = (float *)s->room;
    if (threadIdx.x % 32 == (RANK - 1) % 32) bounds[threadIdx.x / 32] = sorted;
    if (threadIdx.x % 32 == 0) bounds[WARPS + threadIdx.x / 32] = sorted;
    __syncthreads();
    const int one = threadIdx.x % 32 % WARPS;
    const float least = 0.0f - lt_warp_max(0.0f - bounds[one]), most = lt_warp_max(bounds[WARPS + one]);
    u32 *next = s->held + threadIdx.x;
    LT_UNROLL(1)
    for (int at = threadIdx.x * 4; at - (int)threadIdx.x * 4 < s->count; at += STRIP) {
        const float4 v = lt_ld128f(s->score + at);
        const float score[4] = {v.x, v.y, v.z, v.w};
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            if (score[i] >= least) {
                *next = at + i;
                next += THREADS;
            }
        }
        if (next - s->held >= (HELD + 1) * THREADS) break;
    }
    s->holds = (int)(next - s->held) / THREADS;
    if (s->holds > HELD || least == lt_bits_f32(0xff800000u)) lt_atomic_add_u32(s->room + 2 * WARPS, 1);
    __syncthreads();
    s->is_held = s->room[2 * WARPS] == 0;
    if (s->is_held) {
        s->low = key_of(most);
        s->width = key_of(least) - s->low;
    }
}

// Counts the digit behind `shift` of all that is left; where `is_last`, says who has won.
LT_DEV void visit(const selection *s, u32 *counts, int shift, int is_last)
{
    const int end = s->is_held ? s->holds * THREADS : s->count;
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < end; i += THREADS) {
        const u32 place = s->is_held ? s->held[i] : (u32)i, key = key_of(s->score[place]), at = key - s->low;
        if (is_last) {
            if (key < s->low) set_bit(s->won, place);
            if (at <= s->width) set_bit(s->won + (s->rank ? WORDS : 0), place);
        } else if (at <= s->width) {
            lt_atomic_add_u32(counts + (at >> shift >> 5), 1);
            lt_atomic_add_u32(counts + 32 + (at >> shift), 1);
        }
    }
}

// Narrows the keys to the digit's bin of the rank-th and returns how many are in it. Each warp does.
LT_DEV u32 narrow(selection *s, const u32 *counts, int shift)
{
    u32 bin = 0, in_bin = 0;
    int at = 0;
    LT_UNROLL(1)
    for (int step = 0; step < 2; step++) {
        const u32 mine = counts[at + threadIdx.x % 32], sum = sum_up_to(mine);
        const int first = count_bits(lt_ballot(ALL, sum < s->rank)) & 31;
        s->rank -= lt_shfl_u32(ALL, sum - mine, first);
        in_bin = lt_shfl_u32(ALL, mine, first);
        bin = bin * 32 + first;
        at = 32 + first * 32;
    }
    s->low += bin << shift;
    s->width = (1u << shift) - 1;
    return in_bin;
}

// Bits of the K best; all call. Where only the first `rank` of those that tie win, rank is not 0.
LT_DEV void select(selection *s)
{
    u32 in_bin;
    s->low = 0;
    s->width = ALL;
    s->rank = K;
    s->is_held = 0;
    if (K <= THREADS && s->count > HELD * THREADS) hold(s);
    LT_UNROLL(1)
    for (int digit = 0;; digit++) {
        const int log2 = (int)(lt_f32_bits((float)s->width) >> 23) - 127, shift = log2 > 9 ? log2 - 9 : 0;
        visit(s, s->counts[digit], shift, 0);
        __syncthreads();
        in_bin = narrow(s, s->counts[digit], shift);
        if (in_bin == s->rank || shift == 0) break;
    }
    if (in_bin == s->rank) s->rank = 0;
    visit(s, 0, 0, 1);
    __syncthreads();
}

// The first `rank` of those that tie win too, and all winners leave, as `names` calls them or plus `first`.
LT_DEV void write_winners(i32 *to, const selection *s, const i32 *names, int first)
{
    const int words = (s->count + 31) / 32, each = (words + THREADS - 1) / THREADS;
    const int from = threadIdx.x * each, end = from + each < words ? from + each : words;
    u32 wins = 0;
    if (s->rank != 0) {
        u32 ties = 0;
        LT_UNROLL(1)
        for (int w = from; w < end; w++) ties += count_bits(s->won[WORDS + w]);
        u32 taken = before(ties, s->room);
        LT_UNROLL(1)
        for (int w = from; w < end; w++) {
            LT_UNROLL(1)
            for (u32 bits = s->won[WORDS + w]; bits != 0 && taken < s->rank; bits &= bits - 1, taken++)
                s->won[w] |= bits & (0 - bits);
        }
    }
    LT_UNROLL(1)
    for (int w = from; w < end; w++) wins += count_bits(s->won[w]);
    u32 at = before(wins, s->room);
    LT_UNROLL(1)
    for (int w = from; w < end; w++) {
        LT_UNROLL(1)
        for (u32 bits = s->won[w]; bits != 0; bits &= bits - 1) {
            const u32 place = 32 * w + count_bits((bits & (0 - bits)) - 1);
            to[at++] = names ? (i32)lt_ld32_fresh(names + place) : (i32)place + first;
        }
    }
}

// NaN behind the share, zeros where bits and digits are counted.
LT_DEV void clear(const selection *s)
{
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < DIGITS * COUNTS; i += THREADS) s->counts[0][i] = 0;
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < 2 * WORDS; i += THREADS) s->won[i] = 0;
    if (threadIdx.x == 0) s->room[2 * WARPS] = 0;
}

LT_DEV void end_share(const selection *s)
{
    const int end = (s->count + STRIP - 1) / STRIP * STRIP;
    LT_UNROLL(1)
    for (int i = s->count + threadIdx.x; i < end; i += THREADS) s->score[i] = lt_bits_f32(ALL);
    __syncthreads();
}

LT_KERNEL(THREADS, 1)
dsa_topk__m1_k16_pools16__p1w8(i32 *ids, const float *score, const i32 *positions, const i32 *slots)
{
    const int m = blockIdx.y, part = blockIdx.x, position = positions[m], slot = slots[m];
    const float *row = score + (size_t)m * POOLS;
    i32 *const to = ids + (size_t)m * K;
    LT_DYN_SHARED(float, scores);
    LT_SHARED2(u32, counts, DIGITS, COUNTS);
    LT_SHARED1(u32, room, 2 * WARPS + 1);
    LT_SHARED1(u64, landed, 1);
    selection s;
    s.score = scores;
    s.held = (u32 *)(scores + PLACES);
    s.won = s.held + (HELD + 4) * THREADS;
    s.counts = counts;
    s.room = room;
    clear(&s);
    if (threadIdx.x == 0) {
        lt_mbar_init(landed, 1);
        lt_mbar_fence();
    }
    __syncthreads();
    lt_pdl_wait();
    lt_pdl_launch();
    int pools = position < 0 ? 0 : (int)(((u32)position + 1) / POOL);
    pools = pools < POOLS ? pools : POOLS;
    if (slot < 0) return;
    if (pools <= K) {
        for (int i = part * THREADS + threadIdx.x; i < K; i += PARTS * THREADS) to[i] = i < pools ? i : -1;
        return;
    }
    const int parts = (pools + SHARE - 1) / SHARE, each = ((pools + parts - 1) / parts + 3) / 4 * 4;
    const int from = part * each;
    if (part >= parts) return;
    s.count = from + each < pools ? each : pools - from;
    if (threadIdx.x == 0) {
        const u32 bytes = (s.count + 3) / 4 * 16;
        lt_mbar_expect(landed, bytes);
        lt_bulk_load(scores, row + from, bytes, landed);
    }
    lt_mbar_wait(landed, 0);
    end_share(&s);
    select(&s);
    write_winners(to, &s, 0, 0);
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_topk__m1_k16_pools16__p1w8(*(i32 **)a[0], *(const float **)a[1], *(const i32 **)a[2], *(const i32 **)a[3]); }
#endif
