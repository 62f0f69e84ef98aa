/* family mhc_post_pre rev 1, shape m2_h4104, variant s1r2, class slice128 */
// mhc_post of the columns of a block's slice, then mhc_pre of them. comb is balanced in front of the wait: its logits
// were written before the kernel that wrote y began.
enum { M = 2, H = 4104, STEPS = 1, ROWS = 2 };
// What the blocks of a row do together in mhc_pre: dots of the streams with fn and of the streams with each other, put
// where all blocks look for them, so that each can finish its own SLICE columns, still in shared memory. The order of a
// sum depends on SLICE and H alone.
enum {
    STREAMS = 4,
    WARPS = 16,                          // of a block
    THREADS = 32 * WARPS,
    LOADS = STEPS * ((H + 4095) / 4096), // of 64 columns
    SLICE = 64 * LOADS,                  // columns of a block
    SLICES = (H + SLICE - 1) / SLICE,
    MIX = 24,                            // dots: 4 pre, 4 post, 16 comb
    DOTS = 2,                            // of a warp, at most
    PRODUCTS = 10,                       // (a, b), a <= b
    FIRST_PRODUCT = WARPS - PRODUCTS,    // the warp with (0, 0)
    NEEDED = STREAMS + PRODUCTS,         // sums that every block needs, one a warp: pre, then products
    VALUES = MIX + PRODUCTS,             // then post and comb, whose sums the other warps take
    OTHERS = VALUES - NEEDED,
    AT_ONCE = (SLICES + 31) / 32,        // of a sum's parts, a lane
    PARTS = SLICE / 64,                  // of a slice, that a warp finishes: two columns a lane
};
#define RMS_EPS 0x1.4f8b58p-17f
#define HC_EPS 0x1.0c6f7ap-20f

LT_DEV float stream_dot(uint4 w, float4 low, float4 high, float sum)
{
    sum = fmaf(lt_bf16hi_f32(w.x), low.y, fmaf(lt_bf16lo_f32(w.x), low.x, sum));
    sum = fmaf(lt_bf16hi_f32(w.y), low.w, fmaf(lt_bf16lo_f32(w.y), low.z, sum));
    sum = fmaf(lt_bf16hi_f32(w.z), high.y, fmaf(lt_bf16lo_f32(w.z), high.x, sum));
    return fmaf(lt_bf16hi_f32(w.w), high.w, fmaf(lt_bf16lo_f32(w.w), high.z, sum));
}

// Products of streams: (0,0) (0,1) (0,2) (0,3) (1,1) (1,2) (1,3) (2,2) (2,3) (3,3).
LT_DEV int first_of(int q) { return q < 4 ? 0 : q < 7 ? 1 : q < 9 ? 2 : 3; }
LT_DEV int second_of(int q) { return q < 4 ? q : q < 7 ? q - 3 : q < 9 ? q - 5 : q - 6; }

// The dots of one row's slice x: lane (stream, c) holds 8 columns of its stream.
LT_DEV float dot(uint4 *w, const float *x, int lane)
{
    float sum = 0.0f;
    LT_UNROLL(LOADS)
    for (int i = 0; i < LOADS; i++) {
        const float *from = x + lane / 8 * SLICE + 64 * i + lane % 8 * 8;
        sum = stream_dot(w[i], lt_ld128f(from), lt_ld128f(from + 4), sum);
    }
    return sum;
}

LT_DEV float product(const float *x, int q, int lane)
{
    float sum = 0.0f;
    LT_UNROLL(LOADS)
    for (int i = 0; i < LOADS; i++) {
        const int d = 64 * i + lane * 2;
        const float2 u = *(const float2 *)(x + first_of(q) * SLICE + d);
        const float2 v = *(const float2 *)(x + second_of(q) * SLICE + d);
        sum = fmaf(u.y, v.y, fmaf(u.x, v.x, sum));
    }
    return sum;
}

// The sums of this slice are put where all blocks look for them. to: of the row and slice.
LT_DEV void put_sums(u64 *to, uint4 (*w)[LOADS], const float *x, u32 turn, int warp, int lane)
{
    float sum[DOTS + 1] = {0};
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) sum[j] = dot(w[j], x, lane);
    if (warp >= FIRST_PRODUCT) sum[DOTS] = product(x, warp - FIRST_PRODUCT, lane);
    LT_UNROLL(DOTS + 1)
    for (int j = 0; j < DOTS + 1; j++) sum[j] = lt_warp_sum(sum[j]);
    if (lane != 0) return;
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) {
        const int k = warp + j * WARPS, value = k < STREAMS ? k : k + PRODUCTS;
        if (k < MIX) lt_put(to + value * SLICES, lt_f32_bits(sum[j]), turn);
    }
    if (warp >= FIRST_PRODUCT)
        lt_put(to + (STREAMS + warp - FIRST_PRODUCT) * SLICES, lt_f32_bits(sum[DOTS]), turn);
}

// One value of rows m0 .. m0 + ROWS - 1, summed over all slices.
LT_DEV void take_sums(float *sum, const u64 *from, int m0, int value, u32 turn, int lane)
{
    u64 got[ROWS][AT_ONCE];
    int missing;
    do {
        missing = 0;
        LT_UNROLL(ROWS)
        for (int r = 0; r < ROWS; r++) {
            LT_UNROLL(AT_ONCE)
            for (int i = 0; i < AT_ONCE; i++) {
                const int s = lane + 32 * i;
                got[r][i] = 0;
                if (m0 + r >= M || s >= SLICES) continue;
                got[r][i] = lt_peek(from + ((size_t)(m0 + r) * VALUES + value) * SLICES + s);
                missing |= (u32)(got[r][i] >> 32) != turn;
            }
        }
    } while (lt_look_again(missing));
    LT_UNROLL(ROWS)
    for (int r = 0; r < ROWS; r++) {
        sum[r] = 0.0f;
        LT_UNROLL(AT_ONCE)
        for (int i = 0; i < AT_ONCE; i++) sum[r] += lt_bits_f32((u32)got[r][i]);
        sum[r] = lt_warp_sum(sum[r]);
    }
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

// This warp's rows of fn, of the slice that begins at `column`.
LT_DEV void load_fn(uint4 (*w)[LOADS], const bf16 *fn, int column, int warp, int lane)
{
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) {
        LT_UNROLL(LOADS)
        for (int i = 0; i < LOADS; i++) {
            const int k = warp + j * WARPS, d = column + 64 * i + lane % 8 * 8;
            w[j][i].x = w[j][i].y = w[j][i].z = w[j][i].w = 0;
            if (d < H && k < MIX) w[j][i] = lt_ld128_once(fn + ((size_t)k * STREAMS + lane / 8) * H + d);
        }
    }
}

// From the slices of rows m0 on, x, to the sums over all slices that this block needs. slots: [M][VALUES][SLICES].
LT_DEV void meet(float (*total)[VALUES], u64 *slots, float (*x)[STREAMS * SLICE], uint4 (*w)[LOADS], int m0, u32 turn,
                 int warp, int lane)
{
    LT_UNROLL(1)
    for (int r = 0; r < ROWS && m0 + r < M; r++)
        put_sums(slots + (size_t)(m0 + r) * VALUES * SLICES + blockIdx.x, w, x[r], turn, warp, lane);
    LT_UNROLL(1)
    for (int n = 0; warp < NEEDED ? n < 1 : other_sum(warp - NEEDED + 2 * n) < OTHERS; n++) {
        const int value = warp < NEEDED ? warp : NEEDED + other_sum(warp - NEEDED + 2 * n);
        float sum[ROWS];
        take_sums(sum, slots, m0, value, turn, lane);
        LT_UNROLL(ROWS)
        for (int r = 0; r < ROWS; r++)
            if (lane == 0) total[r][value] = sum[r];
    }
    __syncthreads();
}
// comb of a row by one warp: softmax over each row of the 4 x 4 logits, then Sinkhorn's balancing. Every lane goes
// through all of it: two passes are 60 instructions, and no lane waits for another.
enum { PASSES = 20 };
#define COMB_EPS 0x1.0c6f7ap-20f

// 1 / x of a normal positive x to the last place or so: a guess within 5.1 %, whose error is taken to the 4th power and
// then squared. No branch, unlike the division, so that four of them overlap.
LT_DEV float reciprocal(float x)
{
    float y = lt_bits_f32(0x7ef311c3u - lt_f32_bits(x));
    const float e = fmaf(-x, y, 1.0f);
    y = fmaf(fmaf(y, e, y), e * e, fmaf(y, e, y));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}

// Sums over j of other[j] * a[i,j], strides of i and j in a.
LT_DEV void weigh(float *sum, const float *other, const float *a, int i_step, int j_step)
{
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        sum[i] = a[i * i_step] * other[0];
        LT_UNROLL(3)
        for (int j = 1; j < 4; j++) sum[i] = fmaf(a[i * i_step + j * j_step], other[j], sum[i]);
    }
}

// 1 / x of four, times the product of all, which it gives: of each the other three.
LT_DEV float others(float *of, const float *x)
{
    const float p = x[0] * x[1], q = x[2] * x[3];
    of[0] = x[1] * q, of[1] = x[0] * q, of[2] = x[3] * p, of[3] = x[2] * p;
    return p * q;
}

// by / x of four, but for a factor near 1 that they share: each is its partner over their product p, which a guess
// within 5.1 % stands for; what the guess leaves of p, near 1, goes to the other two.
LT_DEV void divide(float *of, float by, const float *x)
{
    const float p = x[0] * x[1], q = x[2] * x[3];
    const float over_p = lt_bits_f32(0x7ef311c3u - lt_f32_bits(p)), over_q = lt_bits_f32(0x7ef311c3u - lt_f32_bits(q));
    const float left_p = p * over_p, left_q = q * over_q;
    of[0] = by * x[1] * over_p * left_q, of[1] = by * x[0] * over_p * left_q;
    of[2] = by * x[3] * over_q * left_p, of[3] = by * x[2] * over_q * left_p;
}

// comb[i,j] = row[i] * a[i,j] * column[j]. A pass divides by sums, and what all its quotients share falls out of the
// next one: rows are products instead, columns take what those are too large by back, but for a factor near 1, and only
// the first and the last columns are divided. Eps counts in the first pass, whose sums can be as small; from then on it
// is 1e-6 of each.
LT_DEV void balance_all(float *comb, const float *a)
{
    float row[4], column[4], sum[4], product;
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) column[j] = reciprocal(a[j] + a[4 + j] + (a[8 + j] + a[12 + j]) + COMB_EPS);
    LT_UNROLL(1)
    for (int pass = 1; pass < PASSES; pass++) {
        weigh(sum, column, a, 4, 1);
        product = others(row, sum);
        weigh(sum, row, a, 1, 4);
        divide(column, product, sum);
    }
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) column[j] = reciprocal(sum[j]) * (1.0f - COMB_EPS);
    LT_UNROLL(16)
    for (int i = 0; i < 16; i++) comb[i] = row[i / 4] * a[i] * column[i % 4];
}

// Lane 4 i + j: exp of the logit, over that of the largest of its row.
LT_DEV float exp_of(const float *mix, int lane)
{
    float row[4];
    const float mine = lt_bits_f32(lt_ld32_fresh(mix + lane % 16));
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) row[j] = lt_bits_f32(lt_ld32_fresh(mix + lane % 16 / 4 * 4 + j));
    const float low = row[1] > row[0] ? row[1] : row[0], high = row[3] > row[2] ? row[3] : row[2];
    return lt_exp(mine - (high > low ? high : low));
}

// comb of the logits at mix: all 16 in every lane. room: 16 floats of shared memory, this warp's.
LT_DEV void comb_of(float *comb, const float *mix, float *room, int lane)
{
    float a[16];
    const float mine = exp_of(mix, lane);
    if (lane < 16) room[lane] = mine;
    __syncwarp();
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const float4 four = lt_ld128f(room + 4 * i);
        const float by = reciprocal(four.x + four.y + (four.z + four.w));
        a[4 * i] = fmaf(four.x, by, COMB_EPS), a[4 * i + 1] = fmaf(four.y, by, COMB_EPS);
        a[4 * i + 2] = fmaf(four.z, by, COMB_EPS), a[4 * i + 3] = fmaf(four.w, by, COMB_EPS);
    }
    balance_all(comb, a);
}

// comb and post of the site in front, a warp a row.
LT_DEV void balance_rows(float (*comb)[16], float (*of_y)[STREAMS], const float *mix, const float *post, int m0,
                         int warp, int lane)
{
    float all[16];
    if (warp >= ROWS || m0 + warp >= M) return;
    const float gate = lt_bits_f32(lt_ld32_fresh(post + (m0 + warp) * STREAMS + lane % STREAMS));
    comb_of(all, mix + (m0 + warp) * 16, comb[warp], lane);
    __syncwarp();
    LT_UNROLL(16)
    for (int i = 0; i < 16; i++)
        if (lane == 0) comb[warp][i] = all[i];
    if (lane < STREAMS) of_y[warp][lane] = gate;
}

// Column d of the slice x of a row: what its streams become.
LT_DEV void mix_column(float *x, const float *streams, const bf16 *y, const float *comb, const float *of_y, int d)
{
    float old[STREAMS];
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) old[i] = streams[(size_t)i * H];
    const float value = lt_bf16_f32(*y);
    LT_UNROLL(STREAMS)
    for (int j = 0; j < STREAMS; j++) {
        float sum = of_y[j] * value;
        LT_UNROLL(STREAMS)
        for (int i = 0; i < STREAMS; i++) sum = fmaf(comb[i * STREAMS + j], old[i], sum);
        x[j * SLICE + d] = sum;
    }
}

LT_KERNEL(THREADS, 2)
mhc_post_pre__m2_h4104__s1r2(bf16 *xn, float *streams, float *next_post, float *next_mix, const float *post, const float *mix, const bf16 *y, const bf16 *fn, const float *scale, const float *base, const bf16 *norm, u32 *sums, u32 *turns)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int column = blockIdx.x * SLICE, m0 = blockIdx.y * ROWS, block = blockIdx.y * SLICES + blockIdx.x;
    LT_SHARED2(float, x, ROWS, STREAMS * SLICE);
    LT_SHARED2(float, total, ROWS, VALUES);
    LT_SHARED2(float, comb, ROWS, 16);
    LT_SHARED2(float, of_y, ROWS, STREAMS);
    LT_SHARED1(float, constants, MIX + 3);  // base, and the scales behind it
    uint4 weights[DOTS][LOADS];

    load_fn(weights, fn, column, warp, lane);
    float constant = 0.0f;  // waits in a register: a load in flight stops nobody
    if (threadIdx.x < MIX + 3) constant = threadIdx.x < MIX ? base[threadIdx.x] : scale[threadIdx.x - MIX];
    const int d0 = warp % PARTS * 64 + lane * 2;  // that this thread finishes
    const u32 norm_pair = column + d0 < H ? *(const u32 *)(norm + column + d0) : 0;
    balance_rows(comb, of_y, mix, post, m0, warp, lane);
    if (threadIdx.x < MIX + 3) constants[threadIdx.x] = constant;
    __syncthreads();
    lt_pdl_wait();
    lt_pdl_launch();
    const u32 turn = lt_ld32_fresh(turns + block) + 1;  // of this launch: what others put carries it
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < ROWS * SLICE; i += THREADS) {
        const int r = i / SLICE, d = i % SLICE, m = m0 + r;
        if (column + d < H && m < M)
            mix_column(x[r], streams + (size_t)m * STREAMS * H + column + d, y + (size_t)m * H + column + d, comb[r],
                       of_y[r], d);
        else
            for (int j = 0; j < STREAMS; j++) x[r][j * SLICE + d] = 0.0f;
    }
    __syncthreads();
    meet(total, (u64 *)sums, x, weights, m0, turn, warp, lane);
    LT_UNROLL(1)
    for (int i = warp; i < ROWS * PARTS && m0 + i / PARTS < M; i += WARPS) {
        const int r = i / PARTS, m = m0 + r;
        const size_t at = (size_t)m * H + column + d0;
        const u32 two = finish_columns(next_post + m * STREAMS, next_mix + m * 16, x[r] + d0, norm_pair, total[r],
                                       constants, i % PARTS == 0, lane);
        if (column + d0 < H) *(u32 *)(xn + at) = two;
    }
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < ROWS * STREAMS * SLICE; i += THREADS) {
        const int d = column + i % SLICE, at = m0 * STREAMS + i / SLICE;
        if (d < H && at < M * STREAMS) streams[(size_t)at * H + d] = x[0][i];
    }
    if (threadIdx.x == 0) turns[block] = turn;
}
#ifndef __CUDACC__
void lt_entry(void **a) { mhc_post_pre__m2_h4104__s1r2(*(bf16 **)a[0], *(float **)a[1], *(float **)a[2], *(float **)a[3], *(const float **)a[4], *(const float **)a[5], *(const bf16 **)a[6], *(const bf16 **)a[7], *(const float **)a[8], *(const float **)a[9], *(const bf16 **)a[10], *(u32 **)a[11], *(u32 **)a[12]); }
#endif
