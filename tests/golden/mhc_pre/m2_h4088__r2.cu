/* family mhc_pre rev 3, shape m2_h4088, variant r2, class slice128 */
// Blocks of a row take SLICE columns of all streams each, and meet once.
enum { M = 2, H = 4088, ROWS = 2 };
// What the blocks of a row do together in mhc_pre: dots of the streams with fn and of the streams with each other, put
// where all blocks look for them, so that each can finish its own SLICE columns, still in shared memory. The order of a
// sum depends on H alone.
enum {
    STREAMS = 4,
    WARPS = 16,                       // of a block, that make sums
    SLICE = 128,                      // columns of a block: four a lane
    SLICES = (H + SLICE - 1) / SLICE, // at most 32: a sum's parts, one a lane
    MIX = 24,                         // dots: 4 pre, 4 post, 16 comb
    DOTS = 2,                         // of a warp, at most; behind them its product
    PRODUCTS = 10,                    // (a, b), a <= b
    FIRST_PRODUCT = WARPS - PRODUCTS, // the warp with (0, 0)
    NEEDED = STREAMS + PRODUCTS,      // sums that every block needs, one a warp: pre, then products
    VALUES = MIX + PRODUCTS,          // then post and comb, whose sums the other warps take
    OTHERS = VALUES - NEEDED,
    PARTS = SLICE / 64,               // of a slice, that a warp finishes: two columns a lane
};
#define RMS_EPS 0x1.4f8b58p-17f
#define HC_EPS 0x1.0c6f7ap-20f

// Products of streams: (0,0) (0,1) (0,2) (0,3) (1,1) (1,2) (1,3) (2,2) (2,3) (3,3).
LT_DEV int first_of(int q) { return q < 4 ? 0 : q < 7 ? 1 : q < 9 ? 2 : 3; }
LT_DEV int second_of(int q) { return q < 4 ? q : q < 7 ? q - 3 : q < 9 ? q - 5 : q - 6; }

// This warp's rows of fn, of the slice that begins at `column`.
LT_DEV void load_fn(uint2 (*w)[STREAMS], const bf16 *fn, int column, int warp, int lane)
{
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) {
        LT_UNROLL(STREAMS)
        for (int n = 0; n < STREAMS; n++) {
            const int k = warp + j * WARPS, d = column + lane * 4;
            w[j][n].x = w[j][n].y = 0;
            if (d < H && k < MIX) w[j][n] = lt_ld64_once(fn + ((size_t)k * STREAMS + n) * H + d);
        }
    }
}

LT_DEV void spread(float4 *to, const uint2 *four)
{
    to->x = lt_bits_f32(four->x << 16), to->y = lt_bits_f32(four->x & 0xffff0000u);
    to->z = lt_bits_f32(four->y << 16), to->w = lt_bits_f32(four->y & 0xffff0000u);
}

LT_DEV float dot4(const float4 *a, const float4 *b, float sum)
{
    return fmaf(a->w, b->w, fmaf(a->z, b->z, fmaf(a->y, b->y, fmaf(a->x, b->x, sum))));
}

// A lane's share of a warp's sums over a row's slice x in shared memory: dots, then the product.
LT_DEV void make_sums(float *sum, uint2 (*w)[STREAMS], const float *x, int warp, int lane)
{
    const float4 *at = (const float4 *)(x + lane * 4);
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) {
        float part[STREAMS];
        LT_UNROLL(STREAMS)
        for (int n = 0; n < STREAMS; n++) {
            float4 f;
            spread(&f, w[j] + n);
            part[n] = dot4(&f, at + n * (SLICE / 4), 0.0f);
        }
        sum[j] = (part[0] + part[1]) + (part[2] + part[3]);
    }
    const int q = warp < FIRST_PRODUCT ? 0 : warp - FIRST_PRODUCT;
    sum[DOTS] = dot4(at + first_of(q) * (SLICE / 4), at + second_of(q) * (SLICE / 4), 0.0f);
}

// A warp's sums are put where all blocks look for them. to: of the row and slice.
LT_DEV void put_sums(u64 *to, const float *sum, u32 turn, int warp, int lane)
{
    float of_all[DOTS + 1];
    LT_UNROLL(DOTS + 1)
    for (int j = 0; j < DOTS + 1; j++) of_all[j] = lt_warp_sum(sum[j]);
    if (lane != 0) return;
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) {
        const int k = warp + j * WARPS, value = k < STREAMS ? k : k + PRODUCTS;
        if (k < MIX) lt_put(to + value * SLICES, lt_f32_bits(of_all[j]), turn);
    }
    if (warp >= FIRST_PRODUCT)
        lt_put(to + (STREAMS + warp - FIRST_PRODUCT) * SLICES, lt_f32_bits(of_all[DOTS]), turn);
}

// One value of rows m0 .. m0 + ROWS - 1, summed over all slices.
LT_DEV void take_sums(float *sum, const u64 *from, int m0, int value, u32 turn, int lane)
{
    u64 got[ROWS];
    int missing;
    do {
        missing = 0;
        LT_UNROLL(ROWS)
        for (int r = 0; r < ROWS; r++) {
            got[r] = 0;
            if (m0 + r >= M || lane >= SLICES) continue;
            got[r] = lt_peek(from + ((size_t)(m0 + r) * VALUES + value) * SLICES + lane);
            missing |= (u32)(got[r] >> 32) != turn;
        }
    } while (lt_look_again(missing));
    LT_UNROLL(ROWS)
    for (int r = 0; r < ROWS; r++) sum[r] = lt_warp_sum(lt_bits_f32((u32)got[r]));
}

// 1 / sqrt(x) of a normal positive x to the last place or so, from a guess within 3.5 %: a third of the time of a
// square root and a division. 0 of infinity.
LT_DEV float over_root(float x)
{
    float y = lt_bits_f32(0x5f375a86u - (lt_f32_bits(x) >> 1));
    LT_UNROLL(3)
    for (int i = 0; i < 3; i++) y = y * fmaf(-0.5f * x * y, y, 1.5f);
    return x > 0x1.fffffep127f ? 0.0f : y;
}

LT_DEV float row_scale(const float *total)  // 1 / rms of a row's streams
{
    const float *gram = total + STREAMS;
    return over_root((gram[0] + gram[4] + gram[7] + gram[9]) * (1.0f / (STREAMS * H)) + RMS_EPS);
}

// 1 / rms of the collapsed row, from the products of its streams.
LT_DEV float collapsed_scale(const float *gram, const float *pre)
{
    float squares = 0.0f, twice = 0.0f;
    LT_UNROLL(PRODUCTS)
    for (int q = 0; q < PRODUCTS; q++) {
        const float both = pre[first_of(q)] * pre[second_of(q)];
        if (first_of(q) == second_of(q)) squares = fmaf(both, gram[q], squares);
        if (first_of(q) != second_of(q)) twice = fmaf(both, gram[q], twice);
    }
    squares = fmaf(2.0f, twice, squares);
    squares = squares < 0.0f ? 0.0f : squares;  // streams that cancel
    return over_root(squares * (1.0f / H) + RMS_EPS);
}

// Of the sums that not every block needs, which one block finishes: two, in two warps, and as many again as there are
// too few blocks.
LT_DEV int other_sum(int n) { return 2 * (int)blockIdx.x + n % 2 + n / 2 * 2 * SLICES; }

// A warp makes two columns a lane of a row: x in shared memory, two of norm. Lane k has the gate k of pre; the lanes
// behind them what this block finishes of post and mix, in the first warp of a row. The scales lie behind base.
LT_DEV u32 finish_columns(float *post, float *mix, const float *x, u32 norm, const float *total, const float *base,
                          int is_first, int lane)
{
    const float by = row_scale(total);
    const int other = lane < STREAMS ? 0 : other_sum(lane - STREAMS), is_other = lane >= STREAMS && other < OTHERS;
    const int k = is_other ? STREAMS + other : lane % STREAMS, part = k / STREAMS < 2 ? k / STREAMS : 2;
    const float logit = fmaf(total[is_other ? k + PRODUCTS : k] * by, base[MIX + part], base[k]);
    const float gate = lt_sigmoid(logit);
    if (is_first && is_other && part == 1) post[k - STREAMS] = 2.0f * gate;
    if (is_first && is_other && part == 2) mix[k - 2 * STREAMS] = logit;
    float pre[STREAMS], low = 0.0f, high = 0.0f;
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) pre[i] = lt_shfl_f32(0xffffffffu, gate, i) + HC_EPS;
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) {
        const float2 two = *(const float2 *)(x + i * SLICE);
        low = fmaf(pre[i], two.x, low), high = fmaf(pre[i], two.y, high);
    }
    const float over = collapsed_scale(total + STREAMS, pre);
    return lt_pack_bf16(low * over * lt_bf16lo_f32(norm), high * over * lt_bf16hi_f32(norm));
}

// The sums over all slices that this block needs, of rows m0 .. m0 + ROWS - 1. slots: [M][VALUES][SLICES].
LT_DEV void meet(float (*total)[VALUES], const u64 *slots, int m0, u32 turn, int warp, int lane)
{
    LT_UNROLL(1)
    for (int n = 0; warp < NEEDED ? n < 1 : warp < WARPS && other_sum(warp - NEEDED + 2 * n) < OTHERS; n++) {
        const int value = warp < NEEDED ? warp : NEEDED + other_sum(warp - NEEDED + 2 * n);
        float sum[ROWS];
        take_sums(sum, slots, m0, value, turn, lane);
        LT_UNROLL(ROWS)
        for (int r = 0; r < ROWS; r++)
            if (lane == 0) total[r][value] = sum[r];
    }
    __syncthreads();
}
enum { THREADS = 32 * WARPS };

LT_KERNEL(THREADS, 1)
mhc_pre__m2_h4088__r2(bf16 *xn, float *post, float *mix, const float *streams, const bf16 *fn, const float *scale, const float *base, const bf16 *norm, u32 *sums, u32 *turns)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int column = blockIdx.x * SLICE, m0 = blockIdx.y * ROWS, block = blockIdx.y * SLICES + blockIdx.x;
    LT_SHARED2(float, x, ROWS, STREAMS * SLICE);
    LT_SHARED2(float, total, ROWS, VALUES);
    LT_SHARED1(float, constants, MIX + 3);  // base, and the scales behind it
    uint2 w[DOTS][STREAMS];

    load_fn(w, fn, column, warp, lane);
    float constant = 0.0f;  // waits in a register: a load in flight stops nobody
    if (threadIdx.x < MIX + 3) constant = threadIdx.x < MIX ? base[threadIdx.x] : scale[threadIdx.x - MIX];
    const int d0 = warp % PARTS * 64 + lane * 2;  // that this thread finishes
    const u32 norm_pair = column + d0 < H ? *(const u32 *)(norm + column + d0) : 0;
    lt_pdl_wait();
    lt_pdl_launch();
    const u32 turn = lt_ld32_fresh(turns + block) + 1;  // of this launch: what others put carries it
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < ROWS * STREAMS * SLICE; i += THREADS) {
        const int d = column + i % SLICE, at = m0 * STREAMS + i / SLICE;  // of all streams
        x[0][i] = d < H && at < M * STREAMS ? streams[(size_t)at * H + d] : 0.0f;
    }
    if (threadIdx.x < MIX + 3) constants[threadIdx.x] = constant;
    __syncthreads();
    LT_UNROLL(1)
    for (int r = 0; r < ROWS && m0 + r < M; r++) {
        float sum[DOTS + 1];
        make_sums(sum, w, x[r], warp, lane);
        put_sums((u64 *)sums + (size_t)(m0 + r) * VALUES * SLICES + blockIdx.x, sum, turn, warp, lane);
    }
    meet(total, (const u64 *)sums, m0, turn, warp, lane);
    LT_UNROLL(1)
    for (int i = warp; i < ROWS * PARTS && m0 + i / PARTS < M; i += WARPS) {
        const int r = i / PARTS, m = m0 + r;
        const u32 two = finish_columns(post + m * STREAMS, mix + m * 16, x[r] + d0, norm_pair, total[r], constants,
                                       i % PARTS == 0, lane);
        if (column + d0 < H) *(u32 *)(xn + (size_t)m * H + column + d0) = two;
    }
    if (threadIdx.x == 0) turns[block] = turn;
}
#ifndef __CUDACC__
void lt_entry(void **a) { mhc_pre__m2_h4088__r2(*(bf16 **)a[0], *(float **)a[1], *(float **)a[2], *(const float **)a[3], *(const bf16 **)a[4], *(const float **)a[5], *(const float **)a[6], *(const bf16 **)a[7], *(u32 **)a[8], *(u32 **)a[9]); }
#endif
