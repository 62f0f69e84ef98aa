/* family mhc_post_pre rev 3, shape m1_h256, variant c1r1s1, class slice256 */
// mhc_post of the columns of a block's slice, then mhc_pre of them. All that y has no part in is done in front of the
// wait: what the site in front wrote was there before the kernel that wrote y began. There x is what comb makes of the
// streams; y then adds its share to the sums, which one row has made before, and to the columns. One warp balances
// comb, one waits for y, one writes the streams: with one set that which balances. Where sets share the dots, none
// waits for another, in whatever order they run: all read the streams in place, and the last block that has read a
// slice writes it.
enum { M = 1, H = 256, CLUSTER = 1, ROWS = 1, SETS = 1 };
// What the blocks of a row do together in mhc_pre: dots of the streams with fn and of the streams with each other. Each
// block gets all blocks' sums, so that it can finish its own SLICE columns, still in shared memory. The order of a sum
// depends on H alone. One cluster, or blocks that are none, make all dots of a row, or SETS clusters share them: each
// has all of the streams and their products, the first set the dots of pre, which finish columns, each other four of
// post or comb.
// 1 / x of a normal positive x to the last place or so: a guess within 5.1 %, whose error is taken to the 4th power and
// then squared. No branch, unlike the division, so that four of them overlap.
LT_DEV float reciprocal(float x)
{
    float y = lt_bits_f32(0x7ef311c3u - lt_f32_bits(x));
    const float e = fmaf(-x, y, 1.0f);
    y = fmaf(fmaf(y, e, y), e * e, fmaf(y, e, y));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}
enum {
    STREAMS = 4,
    MIX = 24,                         // dots: 4 pre, 4 post, 16 comb
    WARPS = SETS > 1 ? 4 : 12,        // of a block, that make sums
    MAKERS = 32 * WARPS,              // their threads
    STEP = 128,                       // columns: four a lane
    STEPS = 2,
    SLICE = STEP * STEPS,             // columns of a block
    SLICES = (H + SLICE - 1) / SLICE, // blocks of a row, at most 16
    SET = MIX / SETS,                 // dots of a block
    DOTS = SET / WARPS,               // of a warp: each WARPS behind the one before; behind them its products
    PRODUCTS = 10,                    // of streams
    PAIRS = (PRODUCTS + WARPS - 1) / WARPS, // products of a warp, numbered as its dots
    MADE_SUMS = DOTS + PAIRS,         // by a warp
    PARTS = SLICE / 64,               // of a slice, that a warp finishes: two columns a lane
};
#define RMS_EPS 0x1.4f8b58p-17f
#define HC_EPS 0x1.0c6f7ap-20f

LT_DEV int is_inside(int d) { return H % SLICE == 0 || d < H; }

// Products of streams: (0,0) (1,1) (2,2) (3,3) (0,1) (1,2) (2,3) (3,0) (0,2) (1,3), the last two again. A warp begins
// all of its with the same stream.
LT_DEV int first_of(int warp) { return warp % STREAMS; }
LT_DEV int second_of(int warp, int p) { return (warp + p + (WARPS > STREAMS ? warp / STREAMS : 0)) % STREAMS; }
LT_DEV int product_of(int a, int b) { return b - a == 3 ? STREAMS + b : (b - a) * STREAMS + a; }  // a <= b

LT_DEV void spread(float4 *to, const uint2 *four)
{
    to->x = lt_bits_f32(four->x << 16), to->y = lt_bits_f32(four->x & 0xffff0000u);
    to->z = lt_bits_f32(four->y << 16), to->w = lt_bits_f32(four->y & 0xffff0000u);
}

LT_DEV float dot4(const float4 *a, const float4 *b, float sum)
{
    return fmaf(a->w, b->w, fmaf(a->z, b->z, fmaf(a->y, b->y, fmaf(a->x, b->x, sum))));
}

// fn of a dot, of the slice that begins at `column`, from stream `first` on.
LT_DEV void load_fn(uint2 (*w)[STEPS], const bf16 *fn, int k, int first, int column, int lane)
{
    const u32 from = k * STREAMS * H + column + lane * 4;
    LT_UNROLL(STREAMS * STEPS)
    for (int i = 0; i < STREAMS * STEPS; i++) {
        const int d = i % STEPS * STEP, n = (first + i / STEPS) % STREAMS;
        w[0][i].x = w[0][i].y = 0;
        if (is_inside(column + d + lane * 4)) w[0][i] = lt_ld64_once(fn + (from + n * H) + d);
    }
}

// A slice of the streams of rows, by copies that this thread waits for: a register's load would wait for fn, too.
LT_DEV void load_streams(float *to, const float *streams, int column, int rows)
{
    uint4 zero;
    zero.x = zero.y = zero.z = zero.w = 0;
    LT_UNROLL(1)
    for (int i = threadIdx.x * 4; i < rows * STREAMS * SLICE; i += MAKERS * 4) {
        const int d = column + i % SLICE;
        if (is_inside(d)) lt_cp_async16(to + i, streams + (size_t)(i / SLICE) * H + d);
        else lt_st128(to + i, zero);
    }
    lt_cp_commit();
}

// Four columns of stream n of a row's slice x, a lane's of the step i.
LT_DEV const float4 *columns_of(const float *x, int n, int i, int lane)
{
    return (const float4 *)(x + n * SLICE + i * STEP + lane * 4);
}
// One cluster makes all dots of a row. mhc_memory.cut has the same names for blocks that are none.
// One cluster, or blocks that are none, make all dots of a row. A block's sums: pre and products, which all need, then
// post and comb, of which a block finishes EACH.
enum {
    NEEDED = STREAMS + PRODUCTS,
    OTHERS = MIX - STREAMS,
    EACH = (OTHERS + SLICES - 1) / SLICES,
    SUMS = NEEDED + OTHERS,           // of a block, in this order
    VALUES = (NEEDED + EACH + 3) / 4 * 4, // that a block gets of each
    ROOM = VALUES + (SLICES - 1) * EACH, // for SUMS, and for what nobody looks at behind them
    JOBS = PARTS + 1,                 // of a row, a warp each: these, and then its post and mix
};

// Where a dot that a block finishes and a product lie in VALUES.
LT_DEV int dot_at(int k) { return k < STREAMS ? k : k + PRODUCTS - (int)blockIdx.x * EACH; }
LT_DEV int product_at(int q) { return STREAMS + q; }

// The dot of post or comb that a lane finishes; MIX: none.
LT_DEV int other_dot(int set, int warp, int lane)
{
    const int other = (int)blockIdx.x * EACH + lane;
    return lane < EACH && other < OTHERS ? STREAMS + other : MIX;
}

// A warp's sums of a row among those of the block: half of the lanes go on with each dot, a quarter with the product.
LT_DEV void keep_own(float *own, const float *sum, int warp, int lane)
{
    const int low = lane < 16, has_dot = lane % 16 < 8;
    const float dot = (low ? sum[0] : sum[1]) + lt_shfl_xor_f32(0xffffffffu, low ? sum[1] : sum[0], 16);
    const float product = sum[DOTS] + lt_shfl_xor_f32(0xffffffffu, sum[DOTS], 16);
    float all = (has_dot ? dot : product) + lt_shfl_xor_f32(0xffffffffu, has_dot ? product : dot, 8);
    LT_UNROLL(3)
    for (int i = 4; i > 0; i /= 2) all += lt_shfl_xor_f32(0xffffffffu, all, i);
    if (lane == 0) own[warp < STREAMS ? warp : warp + PRODUCTS] = all;
    if (lane == 8 && warp < PRODUCTS) own[warp + STREAMS] = all;
    if (lane == 16) own[warp + WARPS + PRODUCTS] = all;
}

// Which of a block's sums is value v of block `rank`.
LT_DEV int sum_of(int v, int rank)
{
    const int i = v < NEEDED ? v : v + rank * EACH;
    return i < SUMS ? i : 0;
}
// The blocks of a row are a cluster: each gives the others what they need of its sums, into their shared memory.
typedef struct {
    int rows;
    float *own;    // [ROWS][ROOM]: sums of this block, where they meet there before it gives them
    float *parts;  // [ROWS][SLICES][VALUES]: of all blocks
    u64 *given;    // an mbarrier: have they come?
    u32 turn;      // none: what comes is of this launch
} meeting;

LT_DEV void expect_gifts(const meeting *meet)  // one thread
{
    lt_mbar_init(meet->given, 1);
    lt_mbar_fence();
    lt_mbar_expect(meet->given, meet->rows * SLICES * VALUES * 4);
}

LT_DEV void wait_for_blocks(void) { lt_cluster_wait(); }  // until all have begun
LT_DEV u32 next_turn(const meeting *meet, int block) { return 0; }

// Thread `first` says what will come; all clear what give_sums reads behind a block's sums.
LT_DEV void begin_meeting(const meeting *meet, int first)
{
    if (threadIdx.x == first) expect_gifts(meet);
    LT_UNROLL(ROWS)
    for (int r = 0; r < ROWS; r++)
        if (threadIdx.x < ROOM - SUMS) meet->own[r * ROOM + SUMS + threadIdx.x] = 0.0f;
    lt_cluster_begin();
}

LT_DEV void keep_sums(const meeting *meet, const float *sum, int r, int warp, int lane)
{
    keep_own(meet->own + r * ROOM, sum, warp, lane);
}

// Four values of a row to one block a thread. Where `given` says that all have come, parts has those of all blocks.
LT_DEV void give_sums(const meeting *meet)
{
    const u32 rank = threadIdx.x % SLICES, v = threadIdx.x / SLICES * 4;
    const float *const low = meet->own + v + (v < NEEDED ? 0 : rank * EACH);
    const float *const high = meet->own + v + (v + 2 < NEEDED ? 0 : rank * EACH);
    LT_UNROLL(1)
    for (int r = 0; r < meet->rows && v < VALUES; r++) {
        uint4 four;
        four.x = lt_f32_bits(low[r * ROOM]), four.y = lt_f32_bits(low[r * ROOM + 1]);
        four.z = lt_f32_bits(high[r * ROOM + 2]), four.w = lt_f32_bits(high[r * ROOM + 3]);
        lt_cluster_give128(meet->parts + (r * SLICES + blockIdx.x) * VALUES + v, rank, four, meet->given);
    }
}
// What the blocks of a row make of the sums that they have got.
enum {
    ROUNDS = (VALUES + 15) / 16,   // of 16 lanes that add a value each
    HALF = 8,                      // of the slices, at most
    WORKERS = WARPS / JOBS * JOBS, // warps that finish a row: each the same of every row
};

// The values of a row, summed over all blocks by one warp: value v in total[v / 16] of the lanes v % 16 + 0 and + 16.
LT_DEV void add_parts(float *total, const float *parts, int lane)
{
    LT_UNROLL(ROUNDS)
    for (int i = 0; i < ROUNDS; i++) {
        const int v = i * 16 + lane % 16;
        const float *const from = parts + (v < VALUES ? v : 0);
        float part[HALF];
        LT_UNROLL(HALF)
        for (int j = 0; j < HALF; j++) {
            const int rank = 2 * j + lane / 16;
            part[j] = rank < SLICES ? from[rank * VALUES] : 0.0f;
        }
        LT_UNROLL(3)
        for (int n = HALF / 2; n > 0; n /= 2) {
            LT_UNROLL(4)
            for (int j = 0; j < n; j++) part[j] += part[j + n];
        }
        total[i] = part[0] + lt_shfl_xor_f32(0xffffffffu, part[0], 16);
    }
}

// Value v; each lane may want another one.
LT_DEV float value_of(const float *total, int v)
{
    float value = 0.0f;
    LT_UNROLL(ROUNDS)
    for (int i = 0; i < ROUNDS; i++) {
        const float of_round = lt_shfl_f32(0xffffffffu, total[i], v % 16);
        if (v / 16 == i) value = of_round;
    }
    return value;
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
    float squares = value_of(total, product_at(0));
    LT_UNROLL(STREAMS - 1)
    for (int n = 1; n < STREAMS; n++) squares += value_of(total, product_at(n));
    return over_root(squares * (1.0f / (STREAMS * H)) + RMS_EPS);
}

// 1 / rms of the collapsed row, from the products of its streams.
LT_DEV float collapsed_scale(const float *total, const float *pre)
{
    float squares = 0.0f, twice = 0.0f;
    LT_UNROLL(STREAMS * STREAMS)
    for (int i = 0; i < STREAMS * STREAMS; i++) {
        const int a = i / STREAMS, b = i % STREAMS;
        if (a == b) squares = fmaf(pre[a] * pre[a], value_of(total, product_at(a)), squares);
        if (a < b) twice = fmaf(pre[a] * pre[b], value_of(total, product_at(product_of(a, b))), twice);
    }
    squares = fmaf(2.0f, twice, squares);
    squares = squares < 0.0f ? 0.0f : squares;  // streams that cancel
    return over_root(squares * (1.0f / H) + RMS_EPS);
}

// 1 / (1 + exp(-x)) to the last place or so, and no less than exp(-86).
LT_DEV float gate_of(float x) { return reciprocal(1.0f + lt_exp(x < -86.0f ? 86.0f : -x)); }

LT_DEV int part_of(int k) { return k < STREAMS ? 0 : k < 2 * STREAMS ? 1 : 2; }  // of scale

LT_DEV float logit_of(const float *total, int k, float scale, float base)
{
    return fmaf(value_of(total, dot_at(k)) * row_scale(total), scale, base);
}

// A warp makes two columns a lane of a row: x in shared memory, two of norm. Lane k has the logit k of pre.
LT_DEV u32 finish_columns(const float *x, u32 norm, const float *total, float logit, int lane)
{
    const float gate = gate_of(logit);
    float pre[STREAMS], low = 0.0f, high = 0.0f;
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) pre[i] = lt_shfl_f32(0xffffffffu, gate, i) + HC_EPS;
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) {
        const float2 two = *(const float2 *)(x + i * SLICE);
        low = fmaf(pre[i], two.x, low), high = fmaf(pre[i], two.y, high);
    }
    const float over = collapsed_scale(total, pre);
    return lt_pack_bf16(low * over * lt_bf16lo_f32(norm), high * over * lt_bf16hi_f32(norm));
}

LT_DEV void finish_other(float *post, float *mix, int k, float logit)
{
    if (k < 2 * STREAMS) post[k - STREAMS] = 2.0f * gate_of(logit);
    else mix[k - 2 * STREAMS] = logit;
}
// comb of a row by one warp: softmax over each row of the 4 x 4 logits, then Sinkhorn's balancing. A lane goes through
// all of it: a pass over rows and columns is 60 instructions, and no lane waits for another.
enum { PASSES = 20, ROUND = 3 };  // whole rounds of passes behind the first two: a loop costs 20 cycles
#define COMB_EPS 0x1.0c6f7ap-20f

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

// Rows by their sums of columns, times the product of these, which it gives; then the columns' sums.
LT_DEV float divide_rows(float *row, float *sum, const float *column, const float *a)
{
    weigh(sum, column, a, 4, 1);
    const float product = others(row, sum);
    weigh(sum, row, a, 1, 4);
    return product;
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
    product = divide_rows(row, sum, column, a);
    LT_UNROLL(1)
    for (int pass = 2; pass < PASSES; pass += ROUND) {
        LT_UNROLL(ROUND)
        for (int i = 0; i < ROUND; i++) {
            divide(column, product, sum);
            product = divide_rows(row, sum, column, a);
        }
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

// comb of all rows' exps, in their place, one a lane.
LT_DEV void balance_rows(float (*comb)[16], int rows, int lane)
{
    float all[16];
    if (lane < rows) comb_of(all, comb[lane]);
    __syncwarp();
    LT_UNROLL(16)
    for (int i = 0; i < 16; i++)
        if (lane < rows) comb[lane][i] = all[i];
}
// Values to E2M1 codes and an E4M3 scale of 16, by lanes that share them. A NaN counts towards no maximum.
LT_DEV float larger(float a, float b) { return a > b ? a : b; }  // a NaN in a is dropped

LT_DEV float nvfp4_amax(u32 two, float amax)
{
    return larger(fabsf(lt_bf16hi_f32(two)), larger(fabsf(lt_bf16lo_f32(two)), amax));
}

LT_DEV e4m3 nvfp4_scale(float amax, float over_gs) { return lt_f32_e4m3(amax * (1.0f / 6.0f) * over_gs); }

LT_DEV float nvfp4_inverse(e4m3 scale, float gs)
{
    const float s = lt_e4m3_f32(scale);
    return s > 0.0f ? 1.0f / (s * gs) : 0.0f;
}

LT_DEV u32 nvfp4_codes(u32 two, float inverse)  // a byte
{
    return lt_f32_e2m1(lt_bf16lo_f32(two) * inverse) | lt_f32_e2m1(lt_bf16hi_f32(two) * inverse) << 4;
}

// Two lanes have a group: eight values each. The scale, in both; their codes.
LT_DEV e4m3 nvfp4_pair(u32 *codes, const u32 *word, float gs, float over_gs)
{
    float amax = 0.0f;
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) amax = nvfp4_amax(word[i], amax);
    amax = larger(lt_shfl_xor_f32(0xffffffffu, amax, 1), amax);
    const e4m3 scale = nvfp4_scale(amax, over_gs);
    const float inverse = nvfp4_inverse(scale, gs);
    *codes = 0;
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) *codes |= nvfp4_codes(word[i], inverse) << i * 8;
    return scale;
}
enum {
    QUANTISES = 0, // are codes of xn wanted, too?
    BALANCER = WARPS, WAITER, WRITER = SETS > 1 ? WAITER + 1 : BALANCER,
    THREADS = 32 * (SETS > 1 ? WARPS + 3 : WARPS + 2), TWO = 32 * (WAITER + 1), ONE = 32 * (WARPS + 1),
    COLUMNS = (ROWS * SLICE + MAKERS - 1) / MAKERS, // that a maker mixes, at most
    MADE = 1, BALANCED, READ, READY, MOVED,         // barriers: of makers, of TWO with them, of ONE
};

// What comb makes of the streams of a column, in their place.
LT_DEV void mix_column(float *x, const float *comb)
{
    float old[STREAMS];
    LT_UNROLL(STREAMS)
    for (int n = 0; n < STREAMS; n++) old[n] = x[n * SLICE];
    LT_UNROLL(STREAMS)
    for (int j = 0; j < STREAMS; j++) {
        float mixed = 0.0f;
        LT_UNROLL(STREAMS)
        for (int n = 0; n < STREAMS; n++) mixed = fmaf(comb[n * STREAMS + j], old[n], mixed);
        x[j * SLICE] = mixed;
    }
}

// y of a slice of rows, as f32: all is asked for before any is waited for.
LT_DEV void load_y(float (*to)[SLICE], const bf16 *y, int column, int rows, int lane)
{
    uint2 four[ROWS * STEPS];
    LT_UNROLL(ROWS * STEPS)
    for (int i = 0; i < ROWS * STEPS; i++) {
        const int r = i / STEPS, d = column + i % STEPS * STEP + lane * 4;
        four[i].x = four[i].y = 0;
        if (r < rows && is_inside(d)) four[i] = *(const uint2 *)(y + (size_t)r * H + d);
    }
    LT_UNROLL(ROWS * STEPS)
    for (int i = 0; i < ROWS * STEPS; i++) spread((float4 *)(to[i / STEPS] + i % STEPS * STEP + lane * 4), &four[i]);
}

// A slice of the streams of rows, by a warp.
LT_DEV void store_streams(float *streams, const float *x, int column, int rows, int lane)
{
    LT_UNROLL(8)
    for (u32 i = lane * 4; i < rows * STREAMS * SLICE; i += 128) {
        const int d = column + i % SLICE;
        if (is_inside(d)) lt_st128(streams + (size_t)(i / SLICE) * H + d, lt_ld128(x + i));
    }
}

// to += by * v
LT_DEV void add_times(float4 *to, float by, const float4 *v)
{
    to->x = fmaf(by, v->x, to->x), to->y = fmaf(by, v->y, to->y);
    to->z = fmaf(by, v->z, to->z), to->w = fmaf(by, v->w, to->w);
}

// A lane's share of a warp's sums without y, and what its columns of y are multiplied with: in a dot the sum over
// streams of gate and fn; in the product of streams a and b, whose columns are x + gate * y, gate of a by x of b and
// the other way round. square: what the square of y is multiplied with there.
LT_DEV void make_shares(float *sum, float *square, float4 (*by)[STEPS], uint2 (*w)[STREAMS][STEPS], const float *x,
                        const float *gate, int warp, int lane)
{
    LT_UNROLL(MADE_SUMS * STEPS)
    for (int i = 0; i < MADE_SUMS * STEPS; i++) by[0][i].x = by[0][i].y = by[0][i].z = by[0][i].w = 0.0f;
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) {
        float part[STREAMS];
        LT_UNROLL(STREAMS)
        for (int n = 0; n < STREAMS; n++) {
            part[n] = 0.0f;
            LT_UNROLL(STEPS)
            for (int i = 0; i < STEPS; i++) {
                float4 f;
                spread(&f, &w[j][n][i]);
                part[n] = dot4(&f, columns_of(x, n, i, lane), part[n]);
                add_times(&by[j][i], gate[n], &f);
            }
        }
        sum[j] = (part[0] + part[1]) + (part[2] + part[3]);
    }
    LT_UNROLL(PAIRS)
    for (int p = 0; p < PAIRS; p++) {
        const int one = first_of(warp), other = second_of(warp, p), k = DOTS + p;
        const int a = one < other ? one : other, b = one < other ? other : one;
        sum[k] = 0.0f;
        LT_UNROLL(STEPS)
        for (int i = 0; i < STEPS; i++) {
            const float4 *const u = columns_of(x, a, i, lane), *const v = columns_of(x, b, i, lane);
            sum[k] = dot4(u, v, sum[k]);
            add_times(&by[k][i], gate[a], v);
            add_times(&by[k][i], gate[b], u);
        }
        square[p] = gate[a] * gate[b];
    }
}

// y's share of a warp's sums over a row's slice.
LT_DEV void add_y(float *sum, const float *square, float4 (*by)[STEPS], const float *y, int lane)
{
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        const float4 *const v = (const float4 *)(y + i * STEP + lane * 4);
        LT_UNROLL(MADE_SUMS)
        for (int k = 0; k < MADE_SUMS; k++) {
            float4 of_y = by[k][i];
            if (k >= DOTS) add_times(&of_y, square[k - DOTS], v);
            sum[k] = dot4(&of_y, v, sum[k]);
        }
    }
}

typedef struct {  // of xn, as NVFP4, and what their scales need: zeros where they are not wanted
    u8 *q;
    e4m3 *qs;
    float *gs;
    const float *input_scale;
} codes;

// Eight lanes quantise 16 columns, two each; lane 0 of them writes the scale. at: of `two` in xn; of_all: gs, 1 / gs.
LT_DEV void quantise(const codes *to, size_t at, u32 two, const float *of_all, int is_inside, int lane)
{
    u8 *const q = to->q + at / 2;
    e4m3 *const qs = to->qs + at / 16;
    const float gs = of_all[0], over_gs = of_all[1];
    float amax = nvfp4_amax(two, 0.0f);
    LT_UNROLL(3)
    for (int i = 1; i < 8; i *= 2) amax = larger(lt_shfl_xor_f32(0xffffffffu, amax, i), amax);
    const e4m3 of_group = nvfp4_scale(amax, over_gs);
    if (!is_inside) return;
    *q = (u8)nvfp4_codes(two, nvfp4_inverse(of_group, gs));
    if (lane % 8 == 0) *qs = of_group;
}

LT_KERNEL(THREADS, CLUSTER && ROWS == 1 ? 2 : 1)  // few registers, so that it begins beside the kernel in front
LT_CLUSTER(SLICES)
mhc_post_pre__m1_h256__c1r1s1(bf16 *xn, float *streams, float *next_post, float *next_mix, const float *post, const float *mix, const bf16 *y, const bf16 *fn, const float *scale, const float *base, const bf16 *norm)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, set = blockIdx.z;
    const int column = blockIdx.x * SLICE, m0 = blockIdx.y * ROWS;
    const int rows = M % ROWS == 0 || M - m0 > ROWS ? ROWS : M - m0;
    LT_DYN_SHARED(float, x);  // [ROWS][STREAMS][SLICE]
    LT_SHARED2(float, of_y, ROWS, SLICE);
    LT_SHARED2(float, parts, ROWS, SLICES * VALUES);
    LT_SHARED2(float, comb, ROWS, 16);
    LT_SHARED2(float, gate, ROWS, STREAMS);  // post of the site in front
    LT_SHARED1(float, scales, MIX + 1);      // of each dot, and of none
    LT_SHARED1(float, bases, MIX + 1);
    LT_SHARED1(float, of_all, 2);            // input_scale, and 1 over it
    LT_SHARED1(u32, turned, 1);              // of blocks that are no cluster: the turn of this launch
    const int block = blockIdx.y * SLICES + blockIdx.x;
    LT_SHARED2(float, own, ROWS, ROOM);
    LT_SHARED1(u64, given, 1);
    meeting meet = {rows, own[0], parts[0], given};
    const codes to = {0, 0, 0, 0};
    const int job = warp % JOBS, d0 = job * 64 + lane * 2;  // that this thread finishes
    const int makes_columns = set == 0 && job < PARTS, has_columns = makes_columns && is_inside(column + d0);
    const int k = makes_columns ? lane % STREAMS : other_dot(set, warp, lane);
    uint2 w[DOTS][STREAMS][STEPS];
    float4 by[MADE_SUMS][STEPS];
    float sum[MADE_SUMS], square[PAIRS];
    float own_base = 0.0f, own_scale = 0.0f, of_post = 0.0f, of_input = 0.0f;  // the waiter's, on their way
    u32 norm_pair = 0;

    if (warp == BALANCER) {
        exps_of(comb[0], mix + m0 * 16, rows, lane);
    } else if (warp == WAITER) {
        if (lane < MIX) own_scale = scale[part_of(lane)], own_base = base[lane];
        if (lane < rows * STREAMS) of_post = lt_bits_f32(lt_ld32_fresh(post + m0 * STREAMS + lane));
        if (QUANTISES) of_input = *to.input_scale;
    } else if (warp < WARPS) {
        LT_UNROLL(DOTS)
        for (int j = 0; j < DOTS; j++) load_fn(w[j], fn, set * SET + warp + j * WARPS, 0, column, lane);
        load_streams(x, streams + (size_t)m0 * STREAMS * H, column, rows);
        if (has_columns) norm_pair = *(const u32 *)(norm + column + d0);
    }
    begin_meeting(&meet, 32 * WAITER);
    if (warp == BALANCER) {
        balance_rows(comb, rows, lane);
        lt_bar_arrive(BALANCED, TWO);
        wait_for_blocks();
    } else if (warp == WAITER) {
        wait_for_blocks();
        if (lane <= MIX) scales[lane] = own_scale, bases[lane] = own_base;
        if (lane < rows * STREAMS) gate[0][lane] = of_post;
        if (QUANTISES && lane == 0) of_all[0] = of_input, of_all[1] = 1.0f / of_input;
        lt_bar_arrive(BALANCED, TWO);
        lt_pdl_wait();
        lt_pdl_launch();
        if (!CLUSTER && lane == 0) *turned = next_turn(&meet, block);
        load_y(of_y, y + (size_t)m0 * H, column, rows, lane);
        lt_bar_arrive(READY, ONE);
    } else if (warp == WRITER) {
        wait_for_blocks();
        lt_bar_sync(READ, ONE);
        lt_pdl_wait();  // no kernel in front counts any more
    } else {
        wait_for_blocks();
        lt_cp_wait(0);
        if (SETS > 1) lt_bar_arrive(READ, ONE);
        lt_bar_sync(BALANCED, TWO);
        LT_UNROLL(COLUMNS)
        for (int c = 0; c < COLUMNS; c++) {
            const int i = threadIdx.x + c * MAKERS, r = i / SLICE;
            if (r < rows) mix_column(x + r * STREAMS * SLICE + i % SLICE, comb[r]);
        }
        lt_bar_sync(MADE, MAKERS);
        if (ROWS == 1) make_shares(sum, square, by, w, x, gate[0], warp, lane);  // else not enough registers
        lt_bar_sync(READY, ONE);
    }
    if (warp == WRITER) {
        const int writes = 1;
        lt_bar_sync(MOVED, ONE);
        if (writes) store_streams(streams + (size_t)m0 * STREAMS * H, x, column, rows, lane);
        if (QUANTISES && set == 0 && column == 0 && lane < rows) to.gs[m0 + lane] = of_all[0];
    }
    if (warp >= WARPS) return;
    if (!CLUSTER) meet.turn = *turned;
    LT_UNROLL(1)
    for (int r = 0; r < rows; r++) {
        if (ROWS > 1) make_shares(sum, square, by, w, x + r * STREAMS * SLICE, gate[r], warp, lane);
        add_y(sum, square, by, of_y[r], lane);
        keep_sums(&meet, sum, r, warp, lane);
    }
    lt_bar_sync(MADE, MAKERS);  // all sums are there, all have read x
    give_sums(&meet);
    LT_UNROLL(COLUMNS)
    for (int c = 0; c < COLUMNS; c++) {
        const int i = threadIdx.x + c * MAKERS, r = i / SLICE, d = i % SLICE;
        if (r >= rows) continue;
        LT_UNROLL(STREAMS)
        for (int j = 0; j < STREAMS; j++)
            x[(r * STREAMS + j) * SLICE + d] = fmaf(gate[r][j], of_y[r][d], x[(r * STREAMS + j) * SLICE + d]);
    }
    lt_bar_arrive(MOVED, ONE);
    lt_bar_sync(MADE, MAKERS);
    lt_mbar_wait(given, 0);
    LT_UNROLL(1)
    for (int r = warp / JOBS; r < rows && warp < WORKERS; r += WORKERS / JOBS) {
        const int m = m0 + r;
        const size_t at = (size_t)m * H + column + d0;
        float total[ROUNDS];
        add_parts(total, parts[r], lane);
        const float logit = logit_of(total, k, scales[k], bases[k]);
        if (!makes_columns) {
            if (k < MIX) finish_other(next_post + m * STREAMS, next_mix + m * 16, k, logit);
            continue;
        }
        const u32 two = finish_columns(x + r * STREAMS * SLICE + d0, norm_pair, total, logit, lane);
        if (has_columns) *(u32 *)(xn + at) = two;
        if (QUANTISES) quantise(&to, at, two, of_all, has_columns, lane);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { mhc_post_pre__m1_h256__c1r1s1(*(bf16 **)a[0], *(float **)a[1], *(float **)a[2], *(float **)a[3], *(const float **)a[4], *(const float **)a[5], *(const bf16 **)a[6], *(const bf16 **)a[7], *(const float **)a[8], *(const float **)a[9], *(const bf16 **)a[10]); }
#endif
