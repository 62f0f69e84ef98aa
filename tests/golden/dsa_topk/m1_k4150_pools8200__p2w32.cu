/* family dsa_topk rev 2, shape m1_k4150_pools8200, variant p2w32, class exact */
// A row's scores lie in the registers of a cluster's threads, as keys: the larger the better. What RANK threads of each
// full warp reach bounds the K-th best from below; from there on digits of 8 bits narrow the keys among which it is,
// until all of them win or are equal. Counts of a digit go to all blocks of the cluster, so that each knows how many of
// the winners are in front of its own and writes their ids in order.
enum { M = 1, K = 4150, POOLS = 8200, PARTS = 2, WARPS = 32 };
enum {
    THREADS = 32 * WARPS,
    POOL = 4,                                                             // tokens
    STRIP = 4 * THREADS,                                                  // scores that a block loads together
    LOADS = (POOLS + PARTS * STRIP - 1) / (PARTS * STRIP),
    EACH = 4 * LOADS,
    SHARE = EACH * THREADS,                                               // of a block
    RANK = (K + PARTS * WARPS - 1) / (PARTS * WARPS),
    DIGIT = 8,
    BINS = 1 << DIGIT,
    OWN = BINS / 32,                                                      // of a lane
    MOST_DIGITS = 4,
    SENDS = BINS / 8                                                      // of 16 bytes, a digit's counts
};
#define ALL 0xffffffffu

LT_DEV u32 key_of(float score)  // NaN is 0, -0 is +0
{
    const u32 bits = lt_f32_bits(score + 0.0f);
    const u32 key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return score == score ? key : 0;
}

LT_DEV u32 larger(u32 a, u32 b) { return a > b ? a : b; }

typedef struct {
    u32 most, width, rank;   // most - width .. most: among these keys the K-th best is the rank-th
    u32 in_range;            // how many those are, once a digit is known
    u32 before, before_in;   // in blocks in front: better keys, and those of the range
} range;

// The range in front of all digits.
LT_DEV range bound(const u32 *key, u32 (*bounds)[2], u32 (*ends)[4], u64 *here, int pools)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int whole = pools / SHARE, rest = (pools - whole * SHARE) / 128;
    const int full = whole * WARPS + (rest < WARPS ? rest : WARPS);  // warps whose first strip is
    const int is_full = blockIdx.x * SHARE + (warp + 1) * 128 <= pools;
    const int votes = full == PARTS * WARPS ? RANK : full > 0 ? (K + full - 1) / full : 33;
    u32 best = 0;
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++) best = larger(best, key[i]);
    const u32 most = lt_redux_max(best);
    u32 least = most;
    if (votes == 32) {
        least = lt_redux_min(best);
    } else if (votes < 32) {
        LT_UNROLL(1)
        for (int v = 1; v < votes; v++) {
            const u32 who = lt_ballot(ALL, best == least);
            if (lane == lt_ffs(who) - 1) best = 0;
            least = lt_redux_max(best);
        }
    } else {  // too few: the least of all
        const int there = pools - (int)(blockIdx.x * SHARE + threadIdx.x * 4);
        least = ALL;
        LT_UNROLL(EACH)
        for (int i = 0; i < EACH; i++) least = i / 4 * STRIP + i % 4 < there && key[i] < least ? key[i] : least;
        least = lt_redux_min(least);
    }
    if (lane == 0) {
        bounds[warp][0] = is_full || votes > 32 ? least : ALL;
        bounds[warp][1] = most;
    }
    __syncthreads();
    range r;
    if (PARTS > 1) {
        if (warp == 0) {
            const u32 a = lt_redux_min(lane < WARPS ? bounds[lane][0] : ALL);
            const u32 b = lt_redux_max(lane < WARPS ? bounds[lane][1] : 0);
            uint4 v;
            v.x = v.z = a;
            v.y = v.w = b;
            if (lane < PARTS) lt_cluster_give128(ends[blockIdx.x], lane, v, here);
        }
        lt_mbar_wait(here, 0);
        least = lt_redux_min(ends[lane % PARTS][0]);
        r.most = lt_redux_max(ends[lane % PARTS][1]);
    } else {
        least = lt_redux_min(bounds[lane % WARPS][0]);
        r.most = lt_redux_max(bounds[lane % WARPS][1]);
    }
    r.width = r.most - least;
    r.rank = K;
    r.in_range = 0;
    r.before = r.before_in = 0;
    return r;
}

// The digit of all keys in the range.
LT_DEV void count(u32 *counts, const u32 *key, range r, int shift)
{
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++) {
        const u32 at = r.most - key[i];
        if (at <= r.width) lt_atomic_add_u32(counts + (at >> shift), 1);
    }
}

// Sends pairs of counts to all blocks.
LT_DEV void send(u32 (*pairs)[BINS / 2], const u32 *counts, u64 *here)
{
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < PARTS * SENDS; i += THREADS) {
        const int from = i % SENDS;
        const uint4 a = lt_ld128(counts + from * 8), b = lt_ld128(counts + from * 8 + 4);
        uint4 v;
        v.x = a.x | a.y << 16;
        v.y = a.z | a.w << 16;
        v.z = b.x | b.y << 16;
        v.w = b.z | b.w << 16;
        lt_cluster_give128(&pairs[blockIdx.x][from * 4], i / SENDS, v, here);
    }
}

// Narrows the range to the bin of the rank-th: says which one that is, which rank it has there, how many keys are there
// and, of the blocks in front, how many are better and how many there. A warp calls.
LT_DEV void narrow(u32 *result, const u32 *counts, u32 (*pairs)[BINS / 2], u32 rank)
{
    const int lane = threadIdx.x % 32;
    u32 mine[OWN] = {0}, front[OWN] = {0}, sum = 0, front_sum = 0;
    if (PARTS > 1) {
        LT_UNROLL(PARTS)
        for (int p = 0; p < PARTS; p++) {
            LT_UNROLL(OWN)
            for (int i = 0; i < OWN; i++) {
                const u32 two = pairs[p][lane * (OWN / 2) + i / 2];
                front[i] = p == (int)blockIdx.x ? mine[i] : front[i];
                mine[i] += i % 2 ? two >> 16 : two & 0xffff;
            }
        }
    } else {
        LT_UNROLL(OWN)
        for (int i = 0; i < OWN; i++) mine[i] = counts[lane * OWN + i];
    }
    LT_UNROLL(OWN)
    for (int i = 0; i < OWN; i++) {
        sum += mine[i];
        front_sum += front[i];
    }
    u32 all = sum, up_to = sum;
    LT_UNROLL(5)
    for (int o = 1; o < 32; o *= 2) {
        const u32 other = lt_shfl_xor_u32(ALL, all, o);
        up_to += lane & o ? other : 0;
        all += other;
    }
    const int first = lt_ffs(lt_ballot(ALL, up_to >= rank)) - 1;
    u32 before = PARTS > 1 ? lt_redux_add(lane < first ? front_sum : 0) : 0;
    u32 better = up_to - sum, left = rank - better, in_bin = mine[0], in_front = front[0];
    int bin = lane * OWN;
    LT_UNROLL(OWN)
    for (int i = 0; i < OWN - 1; i++) {
        better += mine[i];
        const int is_past = better < rank;
        bin += is_past;
        left = is_past ? rank - better : left;
        before += is_past ? front[i] : 0;
        in_bin = is_past ? mine[i + 1] : in_bin;
        in_front = is_past ? front[i + 1] : in_front;
    }
    if (lane == first) {
        result[0] = bin;
        result[1] = left;
        result[2] = in_bin;
        result[3] = before;
        result[4] = in_front;
    }
}

// How many of the keys that `bits` names are in front of the thread's j-th four, in at[j]; all call.
LT_DEV void count_in_front(u32 *at, u32 bits, u32 (*sums)[WARPS])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 in_front = (1u << lane) - 1;
    LT_UNROLL(LOADS)
    for (int j = 0; j < LOADS; j++) {
        u32 sum = 0;
        at[j] = 0;
        LT_UNROLL(4)
        for (int c = 0; c < 4; c++) {
            const u32 who = lt_ballot(ALL, bits >> (4 * j + c) & 1);
            at[j] += lt_popc(who & in_front);
            sum += lt_popc(who);
        }
        if (lane == 0) sums[j][warp] = sum;
    }
    __syncthreads();
    u32 base = 0;
    LT_UNROLL(LOADS)
    for (int j = 0; j < LOADS; j++) {
        const u32 of = lane < WARPS ? sums[j][lane] : 0;
        at[j] += base + lt_redux_add(lane < warp ? of : 0);
        if (LOADS > 1) base += lt_redux_add(of);
    }
}

// Ids of the winners, of those that tie the first, in order.
LT_DEV void write_winners(i32 *to, const u32 *key, range r, u32 (*sums)[WARPS], int from)
{
    const int all_win = r.in_range == r.rank;
    const u32 least = r.most - (all_win ? r.width : 0), front = r.before_in < r.rank ? r.before_in : r.rank;
    u32 won = 0, at[LOADS];
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++) won |= key[i] >= least ? 1u << i : 0;
    if (!all_win) {
        u32 tied = 0;
        LT_UNROLL(EACH)
        for (int i = 0; i < EACH; i++) tied |= key[i] == least ? 1u << i : 0;
        count_in_front(at, tied, sums + LOADS);
        LT_UNROLL(EACH)
        for (int i = 0; i < EACH; i++) {
            if (tied >> i & 1 && r.before_in + at[i / 4]++ >= r.rank) won &= ~(1u << i);
        }
    }
    count_in_front(at, won, sums);
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++)
        if (won >> i & 1) to[r.before + front + at[i / 4]++] = from + i / 4 * STRIP + (int)threadIdx.x * 4 + i % 4;
}

LT_KERNEL(THREADS, 1)
LT_CLUSTER(PARTS)
dsa_topk__m1_k4150_pools8200__p2w32(i32 *ids, const float *score, const i32 *positions, const i32 *slots)
{
    const int m = blockIdx.y, part = blockIdx.x, position = positions[m], slot = slots[m];
    const float *row = score + (size_t)m * POOLS;
    i32 *const to = ids + (size_t)m * K;
    LT_SHARED2(u32, counts, MOST_DIGITS, BINS);
    LT_SHARED2(u32, bounds, WARPS, 2);
    LT_SHARED2(u32, ends, PARTS, 4);
    LT_SHARED2(u32, sums, 2 * LOADS, WARPS);
    LT_SHARED2(u32, result, MOST_DIGITS, 8);
    LT_SHARED2(u32, room, MOST_DIGITS * PARTS, BINS / 2);
    LT_SHARED1(u64, here, 1 + MOST_DIGITS);  // what the bounds, and the counts of a digit, come to
    u32 key[EACH];
    if (PARTS > 1) {
        if (threadIdx.x == 0) {
            for (int i = 0; i <= MOST_DIGITS; i++) lt_mbar_init(here + i, 1);
            lt_mbar_fence();
            for (int i = 0; i <= MOST_DIGITS; i++) lt_mbar_expect(here + i, 16 * PARTS * (i ? SENDS : 1));
        }
        lt_cluster_begin();
    }
    lt_pdl_wait();
    lt_pdl_launch();
    const int from = part * SHARE;
    float4 v[LOADS];
    LT_UNROLL(LOADS)
    for (int j = 0; j < LOADS; j++) {
        const int at = from + j * STRIP + threadIdx.x * 4;
        v[j].x = v[j].y = v[j].z = v[j].w = 0.0f;
        if (at < POOLS) v[j] = lt_ld128f(row + at);
    }
    for (int i = threadIdx.x; i < MOST_DIGITS * BINS; i += THREADS) counts[0][i] = 0;
    int pools = position < 0 ? 0 : (int)(((u32)position + 1) / POOL);
    pools = pools < POOLS ? pools : POOLS;
    if (PARTS > 1) lt_cluster_wait();
    if (slot < 0) return;
    if (pools <= K) {
        for (int i = part * THREADS + threadIdx.x; i < K; i += PARTS * THREADS) to[i] = i < pools ? i : -1;
        return;
    }
    LT_UNROLL(LOADS)
    for (int j = 0; j < LOADS; j++) {
        const int at = from + j * STRIP + threadIdx.x * 4;
        key[4 * j] = at < pools ? key_of(v[j].x) : 0;
        key[4 * j + 1] = at + 1 < pools ? key_of(v[j].y) : 0;
        key[4 * j + 2] = at + 2 < pools ? key_of(v[j].z) : 0;
        key[4 * j + 3] = at + 3 < pools ? key_of(v[j].w) : 0;
    }
    range r = bound(key, bounds, ends, here, pools);
    LT_UNROLL(1)
    for (int digit = 0;; digit++) {
        const int log2 = 31 - lt_clz(r.width | 1), shift = log2 > DIGIT - 1 ? log2 - (DIGIT - 1) : 0;
        count(counts[digit], key, r, shift);
        __syncthreads();
        if (PARTS > 1) {
            send(room + digit * PARTS, counts[digit], here + 1 + digit);
            if (threadIdx.x < 32) lt_mbar_wait(here + 1 + digit, 0);
        }
        if (threadIdx.x < 32) narrow(result[digit], counts[digit], room + digit * PARTS, r.rank);
        __syncthreads();
        const u32 bin = result[digit][0], left = r.width - (bin << shift), most = (1u << shift) - 1;
        r.most -= bin << shift;
        r.width = left < most ? left : most;
        r.rank = result[digit][1];
        r.in_range = result[digit][2];
        r.before += result[digit][3];
        r.before_in = result[digit][4];
        if (r.in_range == r.rank || shift == 0) break;
    }
    write_winners(to, key, r, sums, from);
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_topk__m1_k4150_pools8200__p2w32(*(i32 **)a[0], *(const float **)a[1], *(const i32 **)a[2], *(const i32 **)a[3]); }
#endif
