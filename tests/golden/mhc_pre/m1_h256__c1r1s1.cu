/* family mhc_pre rev 4, shape m1_h256, variant c1r1s1, class slice256 */
// Blocks of a row take SLICE columns of all streams each, and meet once. Where sets share the dots, none waits for
// another: each writes what no other touches.
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

// A lane's share of a warp's sums over a row's slice x in shared memory: dots, then products. All begin with the stream
// of the warp's number, so that columns are loaded once; a dot's sum of streams is ((0 + 1) + (2 + 3)).
LT_DEV void make_sums(float *sum, uint2 (*w)[STREAMS][STEPS], const float *x, int warp, int lane)
{
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
                part[n] = dot4(&f, columns_of(x, (warp + n) % STREAMS, i, lane), part[n]);
            }
        }
        const float even = (part[0] + part[1]) + (part[2] + part[3]), odd = (part[0] + part[3]) + (part[2] + part[1]);
        sum[j] = warp % 2 ? odd : even;
    }
    LT_UNROLL(PAIRS)
    for (int p = 0; p < PAIRS; p++) {
        const int a = first_of(warp), b = second_of(warp, p);
        sum[DOTS + p] = 0.0f;
        LT_UNROLL(STEPS)
        for (int i = 0; i < STEPS; i++)
            sum[DOTS + p] = dot4(columns_of(x, a, i, lane), columns_of(x, b, i, lane), sum[DOTS + p]);
    }
}

LT_KERNEL(MAKERS, 1)
LT_CLUSTER(SLICES)
mhc_pre__m1_h256__c1r1s1(bf16 *xn, float *post, float *mix, const float *streams, const bf16 *fn, const float *scale, const float *base, const bf16 *norm)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, set = blockIdx.z;
    const int column = blockIdx.x * SLICE, m0 = blockIdx.y * ROWS;
    const int rows = M % ROWS == 0 || M - m0 > ROWS ? ROWS : M - m0;
    LT_DYN_SHARED(float, x);  // [ROWS][STREAMS][SLICE]
    LT_SHARED2(float, parts, ROWS, SLICES * VALUES);
    uint2 w[DOTS][STREAMS][STEPS];

    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) load_fn(w[j], fn, set * SET + warp + j * WARPS, warp, column, lane);
    const int job = warp % JOBS, d0 = job * 64 + lane * 2;  // that this thread finishes
    const int makes_columns = set == 0 && job < PARTS, has_columns = makes_columns && is_inside(column + d0);
    const u32 norm_pair = has_columns ? *(const u32 *)(norm + column + d0) : 0;
    const int k = makes_columns ? lane % STREAMS : other_dot(set, warp, lane);
    const float own_base = k < MIX ? base[k] : 0.0f, own_scale = k < MIX ? scale[part_of(k)] : 0.0f;
    LT_SHARED2(float, own, ROWS, ROOM);
    LT_SHARED1(u64, given, 1);
    meeting meet = {rows, own[0], parts[0], given};
    lt_pdl_wait();
    lt_pdl_launch();
    const int block = blockIdx.y * SLICES + blockIdx.x;
    if (!CLUSTER) meet.turn = next_turn(&meet, block);
    load_streams(x, streams + (size_t)m0 * STREAMS * H, column, rows);
    begin_meeting(&meet, MAKERS - 32);
    wait_for_blocks();
    lt_cp_wait(0);
    __syncthreads();
    LT_UNROLL(1)
    for (int r = 0; r < rows; r++) {
        float sum[MADE_SUMS];
        make_sums(sum, w, x + r * STREAMS * SLICE, warp, lane);
        keep_sums(&meet, sum, r, warp, lane);
    }
    if (SETS == 1) __syncthreads();  // all sums are there
    give_sums(&meet);
    lt_mbar_wait(given, 0);
    LT_UNROLL(1)
    for (int r = warp / JOBS; r < rows && warp < WORKERS; r += WORKERS / JOBS) {
        const int m = m0 + r;
        float total[ROUNDS];
        add_parts(total, parts[r], lane);
        const float logit = logit_of(total, k, own_scale, own_base);
        if (!makes_columns) {
            if (k < MIX) finish_other(post + m * STREAMS, mix + m * 16, k, logit);
            continue;
        }
        const u32 two = finish_columns(x + r * STREAMS * SLICE + d0, norm_pair, total, logit, lane);
        if (has_columns) *(u32 *)(xn + (size_t)m * H + column + d0) = two;
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { mhc_pre__m1_h256__c1r1s1(*(bf16 **)a[0], *(float **)a[1], *(float **)a[2], *(const float **)a[3], *(const bf16 **)a[4], *(const float **)a[5], *(const float **)a[6], *(const bf16 **)a[7]); }
#endif
