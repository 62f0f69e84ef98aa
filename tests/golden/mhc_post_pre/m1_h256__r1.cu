/* family mhc_post_pre rev 2, shape m1_h256, variant r1, class slice128 */
// mhc_post of the columns of a block's slice, then mhc_pre of them. All that y has no part in is done in front of the
// wait: what the site in front wrote was there before the kernel that wrote y began. There x is what comb makes of the
// streams; y then adds its share to the sums, which one row has made before, and to the columns. One warp balances
// comb, and one waits for y.
enum { M = 1, H = 256, ROWS = 1 };
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

// exp of each logit of the rows at mix, over that of the largest of its source. to: shared memory, this warp's.
LT_DEV void exps_of(float *to, const float *mix, int rows, int lane)
{
    LT_UNROLL(1)
    for (int i = lane; i < 16 * rows; i += 32) {
        float four[4];
        const float mine = lt_bits_f32(lt_ld32_fresh(mix + i));
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) four[j] = lt_bits_f32(lt_ld32_fresh(mix + i / 4 * 4 + j));
        const float low = four[1] > four[0] ? four[1] : four[0], high = four[3] > four[2] ? four[3] : four[2];
        to[i] = lt_exp(mine - (high > low ? high : low));
    }
    __syncwarp();
}

// comb of the 16 exps of a row.
LT_DEV void comb_of(float *comb, const float *exps)
{
    float a[16];
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const float4 four = lt_ld128f(exps + 4 * i);
        const float by = reciprocal(four.x + four.y + (four.z + four.w));
        a[4 * i] = fmaf(four.x, by, COMB_EPS), a[4 * i + 1] = fmaf(four.y, by, COMB_EPS);
        a[4 * i + 2] = fmaf(four.z, by, COMB_EPS), a[4 * i + 3] = fmaf(four.w, by, COMB_EPS);
    }
    balance_all(comb, a);
}
enum {
    BALANCER = WARPS, WAITER, THREADS = 32 * (WARPS + 2),
    MAKERS = 32 * WARPS,                           // threads of the other warps
    COLUMNS = (ROWS * SLICE + MAKERS - 1) / MAKERS, // that one of them mixes, at most
    MADE = 1, BALANCED,                             // barriers
};

// comb of all rows, one a lane.
LT_DEV void balance_rows(float (*comb)[16], const float *mix, int rows, int lane)
{
    float all[16];
    exps_of(comb[0], mix, rows, lane);
    if (lane < rows) comb_of(all, comb[lane]);
    __syncwarp();
    LT_UNROLL(16)
    for (int i = 0; i < 16; i++)
        if (lane < rows) comb[lane][i] = all[i];
}

// y of a row's slice.
LT_DEV void load_y(float *to, const bf16 *y, int column, int lane)
{
    uint2 four;
    four.x = four.y = 0;
    if (column + lane * 4 < H) four = *(const uint2 *)(y + column + lane * 4);
    spread((float4 *)(to + lane * 4), &four);
}

// to += by * v
LT_DEV void add_times(float4 *to, float by, const float4 *v)
{
    to->x = fmaf(by, v->x, to->x), to->y = fmaf(by, v->y, to->y);
    to->z = fmaf(by, v->z, to->z), to->w = fmaf(by, v->w, to->w);
}

// A lane's share of a warp's sums without y, and what its columns of y are multiplied with: in a dot the sum over
// streams of gate and fn; in the product of streams a and b, whose columns are x + gate * y, gate of a by x of b and
// the other way round. Gives what the square of y is multiplied with there.
LT_DEV float make_shares(float *sum, float4 *by, uint2 (*w)[STREAMS], const float *x, const float *gate, int warp,
                         int lane)
{
    const float4 *at = (const float4 *)(x + lane * 4);
    LT_UNROLL(DOTS + 1)
    for (int j = 0; j < DOTS + 1; j++) by[j].x = by[j].y = by[j].z = by[j].w = 0.0f;
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) {
        float part[STREAMS];
        LT_UNROLL(STREAMS)
        for (int n = 0; n < STREAMS; n++) {
            float4 f;
            spread(&f, w[j] + n);
            part[n] = dot4(&f, at + n * (SLICE / 4), 0.0f);
            add_times(by + j, gate[n], &f);
        }
        sum[j] = (part[0] + part[1]) + (part[2] + part[3]);
    }
    const int q = warp < FIRST_PRODUCT ? 0 : warp - FIRST_PRODUCT, a = first_of(q), b = second_of(q);
    sum[DOTS] = dot4(at + a * (SLICE / 4), at + b * (SLICE / 4), 0.0f);
    add_times(by + DOTS, gate[a], at + b * (SLICE / 4));
    add_times(by + DOTS, gate[b], at + a * (SLICE / 4));
    return gate[a] * gate[b];
}

// y's share of a warp's sums over a row's slice.
LT_DEV void add_y(float *sum, const float4 *by, float square, const float *y, int lane)
{
    const float4 *v = (const float4 *)(y + lane * 4);
    float4 of_product = by[DOTS];
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) sum[j] = dot4(by + j, v, sum[j]);
    add_times(&of_product, square, v);
    sum[DOTS] = dot4(&of_product, v, sum[DOTS]);
}

LT_KERNEL(THREADS, 1)
mhc_post_pre__m1_h256__r1(bf16 *xn, float *streams, float *next_post, float *next_mix, const float *post, const float *mix, const bf16 *y, const bf16 *fn, const float *scale, const float *base, const bf16 *norm, u32 *sums, u32 *turns)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int column = blockIdx.x * SLICE, m0 = blockIdx.y * ROWS, block = blockIdx.y * SLICES + blockIdx.x;
    const int rows = M % ROWS == 0 || M - m0 > ROWS ? ROWS : M - m0;
    LT_SHARED2(float, x, ROWS, STREAMS * SLICE);
    LT_SHARED2(float, of_y, ROWS, SLICE);
    LT_SHARED2(float, total, ROWS, VALUES);
    LT_SHARED2(float, comb, ROWS, 16);
    LT_SHARED2(float, gate, ROWS, STREAMS);  // post of the site in front
    LT_SHARED1(float, constants, MIX + 3);   // base, and the scales behind it
    LT_SHARED1(u32, turned, 1);
    const int d0 = warp % PARTS * 64 + lane * 2;  // that this thread finishes
    uint2 w[DOTS][STREAMS];
    float sum[DOTS + 1], mine[COLUMNS][STREAMS], square = 0.0f;
    float4 by[DOTS + 1];
    u32 norm_pair = 0;

    if (warp == BALANCER) {
        balance_rows(comb, mix + m0 * 16, rows, lane);
        lt_bar_arrive(BALANCED, MAKERS + 32);
    } else if (warp == WAITER) {
        lt_pdl_wait();
        lt_pdl_launch();
        if (lane == 0) *turned = lt_ld32_fresh(turns + block) + 1;
        LT_UNROLL(1)
        for (int r = 0; r < rows; r++) load_y(of_y[r], y + (size_t)(m0 + r) * H, column, lane);
    } else {
        LT_UNROLL(COLUMNS)
        for (int c = 0; c < COLUMNS; c++) {
            const int i = threadIdx.x + c * MAKERS, r = i / SLICE, d = column + i % SLICE;
            LT_UNROLL(STREAMS)
            for (int n = 0; n < STREAMS; n++) {
                mine[c][n] = 0.0f;
                if (r < rows && d < H)
                    mine[c][n] = lt_bits_f32(lt_ld32_fresh(streams + ((size_t)(m0 + r) * STREAMS + n) * H + d));
            }
        }
        float constant = 0.0f, of_row = 0.0f;  // wait in registers: a load in flight stops nobody
        if (threadIdx.x < MIX + 3) constant = threadIdx.x < MIX ? base[threadIdx.x] : scale[threadIdx.x - MIX];
        if (threadIdx.x < rows * STREAMS) of_row = lt_bits_f32(lt_ld32_fresh(post + m0 * STREAMS + threadIdx.x));
        if (column + d0 < H) norm_pair = *(const u32 *)(norm + column + d0);
        load_fn(w, fn, column, warp, lane);
        if (threadIdx.x < MIX + 3) constants[threadIdx.x] = constant;
        if (threadIdx.x < ROWS * STREAMS) gate[0][threadIdx.x] = of_row;
        lt_bar_sync(BALANCED, MAKERS + 32);
        LT_UNROLL(COLUMNS)
        for (int c = 0; c < COLUMNS; c++) {
            const int i = threadIdx.x + c * MAKERS, r = i / SLICE, d = i % SLICE;
            float mixed[STREAMS];
            if (r >= rows) continue;
            LT_UNROLL(STREAMS)
            for (int j = 0; j < STREAMS; j++) {
                mixed[j] = 0.0f;
                LT_UNROLL(STREAMS)
                for (int n = 0; n < STREAMS; n++) mixed[j] = fmaf(comb[r][n * STREAMS + j], mine[c][n], mixed[j]);
                x[r][j * SLICE + d] = mixed[j];
            }
            LT_UNROLL(STREAMS)
            for (int j = 0; j < STREAMS; j++) mine[c][j] = mixed[j];
        }
        lt_bar_sync(MADE, MAKERS);
        if (ROWS == 1) square = make_shares(sum, by, w, x[0], gate[0], warp, lane);  // else not enough registers
    }
    __syncthreads();
    const u32 turn = *turned;  // of this launch: what others put carries it
    u64 *slots = (u64 *)sums + (size_t)m0 * VALUES * SLICES + blockIdx.x;
    LT_UNROLL(1)
    for (int r = 0; r < rows && warp < WARPS; r++) {
        if (ROWS > 1) square = make_shares(sum, by, w, x[r], gate[r], warp, lane);
        add_y(sum, by, square, of_y[r], lane);
        put_sums(slots + (size_t)r * VALUES * SLICES, sum, turn, warp, lane);
    }
    if (ROWS > 1 && warp < WARPS) lt_bar_sync(MADE, MAKERS);  // all have read x
    LT_UNROLL(COLUMNS)
    for (int c = 0; c < COLUMNS; c++) {
        const int i = threadIdx.x + c * MAKERS, r = i / SLICE, d = i % SLICE;
        if (warp >= WARPS || r >= rows) continue;
        LT_UNROLL(STREAMS)
        for (int j = 0; j < STREAMS; j++) x[r][j * SLICE + d] = mine[c][j] = fmaf(gate[r][j], of_y[r][d], mine[c][j]);
    }
    meet(total, (const u64 *)sums, m0, turn, warp, lane);
    LT_UNROLL(1)
    for (int i = warp; i < rows * PARTS && warp < WARPS; i += WARPS) {
        const int r = i / PARTS, m = m0 + r;
        const size_t at = (size_t)m * H + column + d0;
        const u32 two = finish_columns(next_post + m * STREAMS, next_mix + m * 16, x[r] + d0, norm_pair, total[r],
                                       constants, i % PARTS == 0, lane);
        if (column + d0 < H) *(u32 *)(xn + at) = two;
    }
    LT_UNROLL(COLUMNS)
    for (int c = 0; c < COLUMNS; c++) {
        const int i = threadIdx.x + c * MAKERS, r = i / SLICE, d = column + i % SLICE;
        if (warp >= WARPS || r >= rows || d >= H) continue;
        LT_UNROLL(STREAMS)
        for (int n = 0; n < STREAMS; n++) streams[((size_t)(m0 + r) * STREAMS + n) * H + d] = mine[c][n];
    }
    if (threadIdx.x == 0) turns[block] = turn;
}
#ifndef __CUDACC__
void lt_entry(void **a) { mhc_post_pre__m1_h256__r1(*(bf16 **)a[0], *(float **)a[1], *(float **)a[2], *(float **)a[3], *(const float **)a[4], *(const float **)a[5], *(const bf16 **)a[6], *(const bf16 **)a[7], *(const float **)a[8], *(const float **)a[9], *(const bf16 **)a[10], *(u32 **)a[11], *(u32 **)a[12]); }
#endif
