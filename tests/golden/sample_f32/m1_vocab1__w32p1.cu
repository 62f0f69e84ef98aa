/* family sample.f32 rev 1, shape m1_vocab1, variant w32p1, class exact */
// PARTS blocks count a row's candidates into bins of q; the one that comes last looks for where a running sum is
// reached, three times: top-k, top-p, the draw. It narrows the place down by histograms until one candidate is left.
// All that the three can touch is in the first bins: where it fits, a list in shared memory stands for the row.
enum { M = 1, VOCAB = 1, WARPS = 32, PARTS = 1 };
typedef float logit;
enum {
    THREADS = 32 * WARPS, LOAD = 1,
    BINS = 1024, MINE = BINS / THREADS,  // MINE: consecutive bins of a lane
    ROOM = 1024,                         // of the list
    ID_BITS = 22
};
#define REACH 21.0f  // exp(-20.8) * 2^30 is below 1: no candidate is in the last bins
// Rows of either format as floats: one number, or the 16 / sizeof of an aligned load. one_* is load_* of one number.
LT_DEV float number_bf16(const bf16 *p) { return lt_bf16_f32(*p); }
LT_DEV float number_f32(const float *p) { return *p; }
LT_DEV void one_bf16(float *x, const bf16 *p) { x[0] = lt_bf16_f32(*p); }
LT_DEV void one_f32(float *x, const float *p) { x[0] = *p; }

LT_DEV void load_bf16(float *x, const bf16 *p)
{
    const uint4 v = lt_ld128(p);
    const u32 word[4] = {v.x, v.y, v.z, v.w};
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        x[2 * i] = lt_bf16lo_f32(word[i]);
        x[2 * i + 1] = lt_bf16hi_f32(word[i]);
    }
}

LT_DEV void load_f32(float *x, const float *p)
{
    const float4 v = lt_ld128f(p);
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
}

typedef struct { u64 code; u32 weight, bin; } candidate;  // codes ascend in the order of candidates
typedef struct { u64 weight; u32 count; } tally;
typedef struct { tally before, in; u32 bin; } found;
typedef struct { const logit *row; float top, temperature; u64 *code; u32 *weight, *bin; int listed; } source;

// ---- candidates ----

LT_DEV candidate candidate_of(float x, int id, float top, float temperature)
{
    const float q = x >= top ? 0.0f : (top - x) / temperature;
    const u32 bits = x == 0.0f ? 0u : lt_f32_bits(x);
    const u32 descending = bits >> 31 ? bits : ~bits & 0x7fffffffu;
    candidate c;
    c.code = (u64)descending << ID_BITS | (u64)id;
    c.weight = c.bin = 0;
    if (q < REACH) {  // and not NaN
        c.weight = (u32)(int)(lt_exp(-q) * 0x1p30f);
        c.bin = (u32)(int)(q * ((float)BINS / REACH));
    }
    return c;
}

LT_DEV candidate fetch(const source *from, int i)
{
    candidate c;
    if (from->listed < 0) return candidate_of(number_f32(from->row + i), i, from->top, from->temperature);
    c.code = from->code[i];
    c.weight = from->weight[i];
    c.bin = from->bin[i];
    return c;
}

LT_DEV int count_of(const source *from) { return from->listed < 0 ? VOCAB : from->listed; }

// ---- histograms: counts, and weights as low and high words ----

LT_DEV void clear(u32 (*hist)[BINS])
{
    for (int i = threadIdx.x; i < BINS; i += THREADS) hist[0][i] = hist[1][i] = hist[2][i] = 0;
    __syncthreads();
}

LT_DEV void add(u32 *count, u32 *low, u32 *high, u32 n, u32 weight, u32 high_weight)
{
    lt_atomic_add_u32(count, n);
    const u32 old = lt_atomic_add_u32(low, weight);
    high_weight += old + weight < old;
    if (high_weight) lt_atomic_add_u32(high, high_weight);
}

LT_DEV tally tally_of(u32 (*hist)[BINS], int bin)
{
    tally t;
    t.count = hist[0][bin];
    t.weight = (u64)hist[2][bin] << 32 | hist[1][bin];
    return t;
}

LT_DEV tally sum_of(tally a, tally b)
{
    a.count += b.count;
    a.weight += b.weight;
    return a;
}

LT_DEV u64 shuffle(u64 v, int lane)
{
    const u32 low = lt_shfl_u32(0xffffffffu, (u32)v, lane);
    return (u64)lt_shfl_u32(0xffffffffu, (u32)(v >> 32), lane) << 32 | low;
}

// What is in the bins before this lane's; *whole: in all of them.
LT_DEV tally before_mine(u32 (*hist)[BINS], tally *whole)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    LT_SHARED1(u64, warp_weight, WARPS);
    LT_SHARED1(u32, warp_count, WARPS);
    tally mine, upto, sum;
    mine.count = 0;
    mine.weight = 0;
    for (int i = 0; i < MINE; i++) mine = sum_of(mine, tally_of(hist, threadIdx.x * MINE + i));
    upto = mine;
    for (int o = 1; o < 32; o <<= 1) {
        const int from = lane >= o ? lane - o : lane;
        tally other;
        other.count = lt_shfl_u32(0xffffffffu, upto.count, from);
        other.weight = shuffle(upto.weight, from);
        if (lane >= o) upto = sum_of(upto, other);
    }
    if (lane == 31) {
        warp_count[warp] = upto.count;
        warp_weight[warp] = upto.weight;
    }
    __syncthreads();
    sum.count = 0;
    sum.weight = 0;
    LT_UNROLL(4)
    for (int i = 0; i < WARPS; i++) {
        tally other;
        other.count = warp_count[i];
        other.weight = warp_weight[i];
        if (i == warp) {
            upto.count += sum.count - mine.count;
            upto.weight += sum.weight - mine.weight;
        }
        sum = sum_of(sum, other);
    }
    __syncthreads();
    *whole = sum;
    return upto;
}

// The bin where the running count, or the running weight, reaches `need`.
LT_DEV found find(u32 (*hist)[BINS], tally before, u64 need, int by_count)
{
    LT_SHARED1(u64, weights, 2);
    LT_SHARED1(u32, counts, 3);
    for (int i = 0; i < MINE; i++) {
        const tally in = tally_of(hist, threadIdx.x * MINE + i), upto = sum_of(before, in);
        const u64 low = by_count ? before.count : before.weight, high = by_count ? upto.count : upto.weight;
        if (low < need && need <= high) {
            weights[0] = before.weight;
            weights[1] = in.weight;
            counts[0] = before.count;
            counts[1] = in.count;
            counts[2] = threadIdx.x * MINE + i;
        }
        before = upto;
    }
    __syncthreads();
    found f;
    f.before.weight = weights[0];
    f.in.weight = weights[1];
    f.before.count = counts[0];
    f.in.count = counts[1];
    f.bin = counts[2];
    __syncthreads();
    return f;
}

// ---- one candidate of an ordered row ----

// The lowest and the highest code of a bin.
LT_DEV void range_of(const source *from, u32 bin, u64 *low, u64 *high)
{
    LT_SHARED1(u64, lowest, WARPS);
    LT_SHARED1(u64, highest, WARPS);
    u64 least = ~(u64)0, most = 0;
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < count_of(from); i += THREADS) {
        const candidate c = fetch(from, i);
        if (c.weight == 0 || c.bin != bin) continue;
        least = c.code < least ? c.code : least;
        most = c.code > most ? c.code : most;
    }
    for (int o = 16; o > 0; o >>= 1) {
        const u64 a = shuffle(least, threadIdx.x % 32 ^ o), b = shuffle(most, threadIdx.x % 32 ^ o);
        least = a < least ? a : least;
        most = b > most ? b : most;
    }
    if (threadIdx.x % 32 == 0) {
        lowest[threadIdx.x / 32] = least;
        highest[threadIdx.x / 32] = most;
    }
    __syncthreads();
    LT_UNROLL(4)
    for (int i = 0; i < WARPS; i++) {
        least = lowest[i] < least ? lowest[i] : least;
        most = highest[i] > most ? highest[i] : most;
    }
    __syncthreads();
    *low = least;
    *high = most;
}

// The candidate where the running count or weight of the row reaches `need`; *upto: the running weight there.
LT_DEV u64 pick(const source *from, u32 (*first)[BINS], tally before, u64 need, int by_count, u64 *upto)
{
    LT_SHARED2(u32, hist, 3, BINS);
    LT_SHARED1(u64, picked, 1);
    found f = find(first, before, need, by_count);
    const u32 bin = f.bin;
    u64 low = 0, high = ~(u64)0, passed = f.before.weight;
    need -= by_count ? f.before.count : f.before.weight;
    if (f.in.count > 1) range_of(from, bin, &low, &high);
    while (f.in.count > 1) {
        tally whole;
        int shift = 0;
        while ((high - low) >> shift >= BINS) shift++;
        clear(hist);
        LT_UNROLL(1)
        for (int i = threadIdx.x; i < count_of(from); i += THREADS) {
            const candidate c = fetch(from, i);
            if (c.weight == 0 || c.code < low || c.code > high) continue;
            const int digit = (int)((c.code - low) >> shift);
            add(&hist[0][digit], &hist[1][digit], &hist[2][digit], 1, c.weight, 0);
        }
        __syncthreads();
        f = find(hist, before_mine(hist, &whole), need, by_count);
        need -= by_count ? f.before.count : f.before.weight;
        passed += f.before.weight;
        low += (u64)f.bin << shift;
        if (high - low > ((u64)1 << shift) - 1) high = low + (((u64)1 << shift) - 1);
    }
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < count_of(from); i += THREADS) {
        const candidate c = fetch(from, i);
        if (c.weight > 0 && c.bin == bin && c.code >= low && c.code <= high) picked[0] = c.code;
    }
    __syncthreads();
    low = picked[0];
    __syncthreads();
    *upto = passed + f.in.weight;
    return low;
}

// Lists the candidates of bins from .. to.
LT_DEV void make_list(source *to, u32 from_bin, u32 to_bin)
{
    LT_SHARED1(u32, filled, 1);
    if (threadIdx.x == 0) filled[0] = 0;
    __syncthreads();
    LT_UNROLL(16 / LOAD)
    for (int i = threadIdx.x * LOAD; i < VOCAB; i += THREADS * LOAD) {
        float x[LOAD];
        one_f32(x, to->row + i);
        LT_UNROLL(LOAD)
        for (int j = 0; j < LOAD; j++) {
            const candidate c = candidate_of(x[j], i + j, to->top, to->temperature);
            if (c.weight == 0 || c.bin < from_bin || c.bin > to_bin) continue;
            const u32 at = lt_atomic_add_u32(filled, 1);
            to->code[at] = c.code;
            to->weight[at] = c.weight;
            to->bin[at] = c.bin;
        }
    }
    __syncthreads();
    to->listed = (int)filled[0];
}

// ---- the row ----

LT_DEV u64 mix(u64 x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

LT_DEV u64 random32(u64 seed, int position)
{
    return mix(mix(seed + 0x9e3779b97f4a7c15ull) + ((u64)position + 1) * 0x9e3779b97f4a7c15ull) >> 32;
}

LT_DEV u64 share(u64 part, u64 weight)  // part / 2^32 of it, rounded down
{
    return part * (weight >> 32) + (part * (weight & 0xffffffffu) >> 32);
}

LT_DEV u64 needed(float p, u64 weight)
{
    const u64 need = share(p > 0.0f ? (u64)(u32)(int)(p * 0x1p31f) * 2 : 0, weight);
    return need ? need : 1;
}

LT_DEV void count_part(u32 (*hist)[BINS], const source *from, int part)
{
    LT_UNROLL(8 / LOAD)
    for (int i = (part * THREADS + threadIdx.x) * LOAD; i < VOCAB; i += PARTS * THREADS * LOAD) {
        float x[LOAD];
        one_f32(x, from->row + i);
        LT_UNROLL(LOAD)
        for (int j = 0; j < LOAD; j++) {
            const candidate c = candidate_of(x[j], i + j, from->top, from->temperature);
            if (c.weight > 0) add(&hist[0][c.bin], &hist[1][c.bin], &hist[2][c.bin], 1, c.weight, 0);
        }
    }
    __syncthreads();
}

LT_DEV int draw(source *from, u32 (*first)[BINS], int best, int k, float p, u64 random)
{
    tally whole;
    const tally before = before_mine(first, &whole);
    if (whole.count == 0) return best;
    const int has_k = k >= 1 && (u32)k < whole.count, has_p = p < 1.0f;
    u64 weight = whole.weight;
    const u64 outer = has_k ? (u64)k : has_p ? needed(p, weight) : share(random, weight) + 1;
    const found f = find(first, before, outer, has_k);  // the later picks end no later
    const int all = has_k || has_p;                     // and may begin at the front
    if ((all ? f.before.count : 0) + f.in.count <= ROOM) make_list(from, all ? 0 : f.bin, f.bin);
    u64 code = 0;
    LT_UNROLL(1)
    for (int stage = has_k ? 0 : has_p ? 1 : 2; stage < 3; stage++) {  // top-k, top-p, the draw
        if (stage == 1 && !has_p) continue;
        const u64 need = stage == 0 ? (u64)k : stage == 1 ? needed(p, weight) : share(random, weight) + 1;
        code = pick(from, first, before, need, stage == 0, &weight);
    }
    return (int)(code & (((u64)1 << ID_BITS) - 1));
}

LT_KERNEL(THREADS)
sample_f32__m1_vocab1__w32p1(i32 *token, const float *logits, const i32 *best, const float *top, const float *temperature, const i32 *top_k, const float *top_p, const u32 *seeds, const i32 *positions, u32 *bins, u32 *arrived)
{
    const int row = blockIdx.y;
    LT_SHARED2(u32, first, 3, BINS);
    LT_SHARED1(u64, list_code, ROOM);
    LT_SHARED1(u32, list_weight, ROOM);
    LT_SHARED1(u32, list_bin, ROOM);
    u32 *mine = bins + (size_t)row * 3 * BINS;

    lt_pdl_wait();
    lt_pdl_launch();
    if (positions[row] < 0) return;
    if (!(temperature[row] > 0.0f) || best[row] < 0) {
        if (blockIdx.x == 0 && threadIdx.x == 0) token[row] = best[row];
        return;
    }
    source from;
    from.row = logits + (size_t)row * VOCAB;
    from.top = top[row];
    from.temperature = temperature[row];
    from.code = list_code;
    from.weight = list_weight;
    from.bin = list_bin;
    from.listed = -1;

    clear(first);
    count_part(first, &from, blockIdx.x);
    for (int i = threadIdx.x; i < BINS; i += THREADS)
        if (first[0][i]) add(mine + i, mine + BINS + i, mine + 2 * BINS + i, first[0][i], first[1][i], first[2][i]);
    if (!lt_last_block(arrived + row, PARTS)) return;
    for (int i = threadIdx.x; i < 3 * BINS; i += THREADS) {
        first[i / BINS][i % BINS] = lt_ld32_fresh(mine + i);
        mine[i] = 0;

    }
    __syncthreads();
    const u64 seed = (u64)seeds[2 * row + 1] << 32 | seeds[2 * row];
    const int chosen = draw(&from, first, best[row], top_k[row], top_p[row], random32(seed, positions[row]));
    if (threadIdx.x == 0) token[row] = chosen;
}
#ifndef __CUDACC__
void lt_entry(void **a) { sample_f32__m1_vocab1__w32p1(*(i32 **)a[0], *(const float **)a[1], *(const i32 **)a[2], *(const float **)a[3], *(const float **)a[4], *(const i32 **)a[5], *(const float **)a[6], *(const u32 **)a[7], *(const i32 **)a[8], *(u32 **)a[9], *(u32 **)a[10]); }
#endif
