/* family w4a16_gemv rev 2, shape m1_n22_k16, variant l1t1s1g4u2p1b1, class mma.bf16_sums_1x1 */
// Weights are the 16-row operand of m16n8k16, x the columns.
enum { M = 1, N = 22, K = 16, LATE = 1, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, PARTS = 1, BLOCK = 1 };
enum {
    ROWS = M,
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    SEGMENTS = SPLIT * PARTS,     // shares of K
    ALL_TILES = (N + 15) / 16
};
// Scales multiply sums of 16 products. The columns of an mma are two rows of x, each four times: where lane (g, t) has
// the codes of its scale group, only the columns g of that group have x, and zeros stand elsewhere. So lane (g, t)
// gets sums of its own group, and the scales that it has loaded are theirs. Where there is one row, the two columns of
// a group are the two chunks of a unit. ROWS: of x, in all.
enum {
    QUADS = (ROWS + 3) / 4,
    PASSES = (ROWS + 1) / 2,   // over the weights
    EACH = 2,                  // rows of x that a pass takes
    STAGED = ROWS > 1 ? PASSES * EACH : 1,  // rows of x in shared memory  ORDER STAGED
    BOTH = ROWS == 1,          // one operand of x serves both chunks of a unit
    SUMS = 2 * QUADS * 4,      // floats of a lane and tile
    TOTALS = 2 * QUADS
};
// A unit of a tile as pack_nvfp4_tile16 lays it out: 1 KB of codes of two chunks of 64 k, 128 bytes of their scales.
#define FP4_UNSCALE 0x1p20f  // undoes what lt_nvfp4_rows makes too small

LT_DEV void fp4_load_unit(uint4 *w, u32 *scale, const u8 *codes, const e4m3 *scales, size_t unit, int lane)
{
    w[0] = lt_ld128_once(codes + unit * 1024 + lane * 16);
    w[1] = lt_ld128_once(codes + unit * 1024 + 512 + lane * 16);
    *scale = lt_ld32_once(scales + unit * 128 + lane * 4);
}

// The same of unit `unit` behind a tile's first one; codes and scales are this lane's.
LT_DEV void fp4_load_next(uint4 *w, u32 *scale, const u8 *codes, const e4m3 *scales, int unit)
{
    w[0] = lt_ld128_once(codes + unit * 1024);
    w[1] = lt_ld128_once(codes + unit * 1024 + 512);
    *scale = lt_ld32_once(scales + unit * 128);
}

// The A fragments of a chunk's four steps, code * scale * 2^-20: lane (g, t) has rows g and g + 8, k 16t .. 16t + 15.
LT_DEV void fp4_chunk(u32 (*a)[4], uint4 codes, u32 scale)
{
    const u32 word[4] = {codes.x, codes.y, codes.z, codes.w};
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) lt_nvfp4_rows(a[j], word[j], scale);
}

// x gets a factor of 2^64, so that products with codes * 2^-126 are no subnormals, and sums with scale * 2^106 are 2^44
// times too large.
LT_DEV void fp4_lift(u32 *b, u32 factor)
{
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++) b[i] = lt_mul_bf16x2(b[i], factor);
}
#define FP4_LIFT 0x5f805f80u       // 2^64
#define FP4_LIFT_CODES 0x63006300u // 2^71: of values that fp4_expand made 2^7 times too small
#define FP4_UNLIFT 0x1p-44f
// Four lanes t = 0..3 share the sums of two channels and `rows` rows of x, at most QUADS * 4: afterwards lane t has the
// totals of rows t, t + 4, .., mine[2 * quad + channel]. The butterfly 1, 2 gives all four lanes the same bits.
LT_DEV void quads_meet(float *mine, const float *sum, int t, int rows)
{
    LT_UNROLL(QUADS)
    for (int q = 0; q < QUADS; q++) {
        LT_UNROLL(2)
        for (int channel = 0; channel < 2; channel++) {
            LT_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                if (q * 4 + i >= rows) break;
                float v = sum[channel * QUADS * 4 + q * 4 + i];
                v += lt_shfl_xor_f32(0xffffffffu, v, 1);
                v += lt_shfl_xor_f32(0xffffffffu, v, 2);
                if (i == 0 || i == t) mine[2 * q + channel] = v;
            }
        }
    }
}

LT_DEV int fp4_staged(int rows) { return ROWS > 1 ? (rows + 1) / EACH * EACH : 1; }  // the last pass has a row of zeros
LT_DEV int fp4_row(int g) { return ROWS == 1 ? 0 : g % 2; }  // of a pass, that lane (g, t) gives
LT_DEV int fp4_gives(int g, int t, int rows) { return g / 2 == t; }  // does it?
LT_DEV int fp4_chunk_of(int c, int g) { return BOTH ? g % 2 : c; }  // whose x it gives
LT_DEV int fp4_sum_row(int j, int t) { return j / 2 * 4 + t; }
LT_DEV int fp4_sum_channel(int j) { return j % 2; }  // 0: row g of the tile, 1: row g + 8

LT_DEV void fp4_steps(u32 (*a)[4], uint4 codes, u32 scale, int c)
{
    const u32 word[4] = {codes.x, codes.y, codes.z, codes.w};
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) lt_nvfp4_codes(a[j], word[j]);
}

// Scale number i of a word, times 2^106.
LT_DEV float fp4_scale_f32(u32 word, int i)
{
    return lt_bits_f32(((i < 3 ? word << (20 - 8 * i) : word >> 4) & 0x0ff00000u) | 0x70000000u);
}

LT_DEV void fp4_add(float *sum, u32 (*a)[4], u32 *b, u32 scale, int c, int pass)
{
    float group[4] = {0};
    lt_mma_m16n8k16_bf16_run(group, a[0], b, 4);
    LT_UNROLL(2)
    for (int channel = 0; channel < 2; channel++) {
        const float factor = fp4_scale_f32(scale, 2 * c + channel);
        float *own = sum + channel * QUADS * 4 + 2 * pass;
        if (ROWS == 1) own[0] = fmaf(group[2 * channel + c], factor, own[0]);
        if (ROWS > 1) own[0] = fmaf(group[2 * channel], factor, own[0]);
        if (ROWS > 1) own[1] = fmaf(group[2 * channel + 1], factor, own[1]);
    }
}

LT_DEV void fp4_meet(float *total, const float *sum, int t) { quads_meet(total, sum, t, ROWS); }
typedef struct { const bf16 *x; int rows; } x_rows;
typedef struct { uint4 lo, hi; } x_raw;

LT_DEV x_raw x_ask(const x_rows *x, int row, int k)
{
    x_raw got = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    if (row >= M || k >= K) return got;
    got.lo = lt_ld128(x->x + (size_t)row * K + k), got.hi = lt_ld128(x->x + (size_t)row * K + k + 8);
    return got;
}

LT_DEV void x_bf16(u32 *b, x_raw raw)
{
    b[0] = raw.lo.x, b[1] = raw.lo.y, b[2] = raw.lo.z, b[3] = raw.lo.w;
    b[4] = raw.hi.x, b[5] = raw.hi.y, b[6] = raw.hi.z, b[7] = raw.hi.w;
    if (LATE) fp4_lift(b, FP4_LIFT);
}

// Products of rows of x with the TILES tiles of a warp, NVFP4 weights. Lane (g, t) holds rows g and g + 8 of a tile and
// the scale group 16t .. 16t + 15 of each chunk of 64 k; x lies the same way, so K is summed in a permuted order, the
// same for every row. The template says what x is: x_rows, and x_raw, 16 values of a row as they lie in memory;
// x_ask(x, row, k) asks for them, zeros behind the last row and from K on; x_bf16(b, raw) makes them bf16.

enum {
    LOADS = UNROLL * TILES,
    // warps of a multiprocessor that find registers; there are more where they share one K
    HELD = ROWS == 1 && SPLIT > 1 && UNITS >= 4 * SPLIT && LOADS == 2 ? 24 : ROWS <= 4 && LOADS <= 4 ? 16 : WARPS,
    RESIDENT = HELD / WARPS,               // blocks
    WIDE = UNITS * 128,                    // of a row in shared memory
    STRIDE = WIDE + 8,                     // eight lanes' 16 bytes lie in different banks
    THREADS = 32 * WARPS,
    PLACES = STAGED * (WIDE / 16),         // groups of 16 in shared memory at most; zeros stand behind them
    AT_ONCE = PLACES > THREADS ? 2 : 1     // that a thread asks for before it stores one
};

// ---- weights: UNROLL units are on their way while as many are multiplied ----

LT_DEV int fp4_first(int share, int shares) { return UNITS * share / shares; }  // unit of a share of K

// Units of a share. For one row a constant where it can be: then no branches stand between units, and they take more
// registers.
LT_DEV int fp4_count(int share, int shares)
{
    if (ROWS == 1 && UNITS % shares == 0) return UNITS / shares;
    return fp4_first(share + 1, shares) - fp4_first(share, shares);
}

typedef struct {
    uint4 word[UNROLL][TILES][2];
    u32 scale[UNROLL][TILES];
} fp4_batch;

typedef struct {
    const u8 *codes[TILES];                // this lane's, of the unit behind the batch
    const e4m3 *scales[TILES];
    fp4_batch next;
} fp4_stream;

LT_DEV void fp4_ask(fp4_stream *s, int count)  // for the next UNROLL units, of which `count` are left
{
    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++) {
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++)
            if (u < count) fp4_load_next(s->next.word[u][i], &s->next.scale[u][i], s->codes[i], s->scales[i], u);
    }
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) s->codes[i] += UNROLL * 1024, s->scales[i] += UNROLL * 128;
}

// Asks for the first units of `count` from `first` on, of tiles tile0 .. tile0 + TILES - 1 of ALL_TILES.
LT_DEV void fp4_begin(fp4_stream *s, const u8 *w, const e4m3 *ws, int tile0, int first, int count, int lane)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const size_t tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
        s->codes[i] = w + (tile * UNITS + first) * 1024 + lane * 16;
        s->scales[i] = ws + (tile * UNITS + first) * 128 + lane * 4;
    }
    fp4_ask(s, count);
}

// ---- rows of x in shared memory ----

// Groups of 16 numbers of x in shared memory, whose rows are STRIDE apart.
LT_DEV void stage_put16(bf16 *rows, int row, int k, const u32 *b)
{
    uint4 lo, hi;
    lo.x = b[0], lo.y = b[1], lo.z = b[2], lo.w = b[3];
    hi.x = b[4], hi.y = b[5], hi.z = b[6], hi.w = b[7];
    lt_st128(rows + row * STRIDE + k, lo);
    lt_st128(rows + row * STRIDE + k + 8, hi);
}

LT_DEV void stage_get16(u32 *b, const bf16 *at)
{
    const uint4 lo = lt_ld128(at), hi = lt_ld128(at + 8);
    b[0] = lo.x, b[1] = lo.y, b[2] = lo.z, b[3] = lo.w;
    b[4] = hi.x, b[5] = hi.y, b[6] = hi.z, b[7] = hi.w;
}

LT_DEV int stage_places(const x_rows *x) { return fp4_staged(x->rows) * (WIDE / 16); }  // that are needed

LT_DEV void stage_ask(x_raw *got, const x_rows *x, int from)  // the thread's groups from, from + THREADS ..
{
    LT_UNROLL(AT_ONCE)
    for (int i = 0; i < AT_ONCE; i++) {
        const int place = from + i * THREADS;
        got[i] = x_ask(x, place < stage_places(x) ? place / (WIDE / 16) : ROWS, place % (WIDE / 16) * 16);
    }
}

LT_DEV void stage_put(bf16 *rows, const x_raw *got, const x_rows *x, int from)
{
    LT_UNROLL(AT_ONCE)
    for (int i = 0; i < AT_ONCE; i++) {
        const int place = from + i * THREADS;
        u32 b[8];
        x_bf16(b, got[i]);
        if (place < stage_places(x)) stage_put16(rows, place / (WIDE / 16), place % (WIDE / 16) * 16, b);
    }
}

// The block brings x; got: what stage_ask(got, x, threadIdx.x) asked for.
LT_DEV void stage(bf16 *rows, x_raw *got, const x_rows *x)
{
    const u32 zeros[8] = {0};
    stage_put(rows, got, x, threadIdx.x);
    for (int from = threadIdx.x + AT_ONCE * THREADS; from < stage_places(x); from += AT_ONCE * THREADS) {
        stage_ask(got, x, from);
        stage_put(rows, got, x, from);
    }
    if (threadIdx.x == THREADS - 1) stage_put16(rows, STAGED, 0, zeros);
    __syncthreads();
}

// ---- products ----

// place: of this lane's x of the first row and chunk; step: how far that of the next unit is. Zeros do not end.
// count: of rows that x may have.
LT_DEV void fp4_unit(float (*sum)[SUMS], uint4 (*word)[2], const u32 *scale, const bf16 *rows, int place, int step,
                     const x_rows *x, int count, int unit, int g, int t)
{
    u32 b[8];
    LT_UNROLL(2)
    for (int c = 0; c < 2; c++) {
        u32 a[TILES][4][4];
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++) fp4_steps(a[i], word[i][c], scale[i], c);
        LT_UNROLL(PASSES)
        for (int p = 0; p < PASSES; p++) {
            if (p * EACH >= count) break;
            if (c == 0 || !BOTH) {
                const int row = fp4_gives(g, t, x->rows) ? p * EACH + fp4_row(g) : ROWS;
                if (BLOCK) stage_get16(b, rows + place + (step ? p * EACH * STRIDE + c * 64 : 0));
                else x_bf16(b, x_ask(x, row, unit * 128 + fp4_chunk_of(c, g) * 64 + t * 16));
            }
            LT_UNROLL(TILES)
            for (int i = 0; i < TILES; i++) fp4_add(sum[i], a[i], b, scale[i], c, p);
        }
    }
}

// total: of the `count` units from `first` on, that fp4_begin began; rows: of x, where the block brought it.
LT_DEV void fp4_products(float (*total)[TOTALS], fp4_stream *s, const bf16 *rows, const x_rows *x, int first,
                         int count, int lane)
{
    const int g = lane / 4, t = lane % 4, step = fp4_gives(g, t, x->rows) ? 128 : 0;
    int place = step ? fp4_row(g) * STRIDE + first * 128 + fp4_chunk_of(0, g) * 64 + t * 16 : STAGED * STRIDE;
    float sum[TILES][SUMS] = {0};
    LT_UNROLL(1)
    for (int unit = 0; unit < count; unit += UNROLL) {
        fp4_batch now = s->next;
        fp4_ask(s, count - unit - UNROLL);
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++) {
            if (unit + u < count)
                fp4_unit(sum, now.word[u], now.scale[u], rows, place, step, x, x->rows, first + unit + u, g, t);
            place += step;
        }
    }
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) fp4_meet(total[i], sum[i], t);
}
// What a lane does with its sums of a tile: rows of a tile are channels of y, rows of w.
enum { HALVES = 1, WIDTH = N };  // rows g and g + 8 of a tile, one or both, make a number of y; of a row of y

LT_DEV int fp4_channel(int tile, int half, int g) { return tile * 16 + half * 8 + g; }

LT_DEV bf16 fp4_y(const float *sum) { return lt_f32_bf16(sum[0]); }

LT_DEV void fp4_put(bf16 *y, const float *total, const float *channel, float unscale, int tile, int g, int t)
{
    LT_UNROLL(TOTALS)
    for (int j = 0; j < TOTALS; j++) {
        const int m = fp4_sum_row(j, t), half = fp4_sum_channel(j), n = fp4_channel(tile, half, g);
        if (m < M && n < N) y[(size_t)m * N + n] = lt_f32_bf16(total[j] * unscale * channel[half]);
    }
}

// Scales of rows g and g + 8 of each tile, asked for before the weights: at the end they would cost a trip to memory.
LT_DEV void load_channels(float *channel, const float *sw, int tile0, int g)
{
    LT_UNROLL(2 * TILES)
    for (int i = 0; i < 2 * TILES; i++) {
        const int n = fp4_channel(tile0 + i / 2, i % 2, g);
        channel[i] = lt_bits_f32(lt_ld32_once(sw + (n < N ? n : N - 1)));
    }
}

LT_KERNEL(32 * WARPS, RESIDENT)
w4a16_gemv__m1_n22_k16__l1t1s1g4u2p1b1(bf16 *y, const bf16 *x, const u8 *w, const e4m3 *ws, const float *sw)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile0 = (blockIdx.x * GROUPS + warp / SPLIT) * TILES;
    const int segment = blockIdx.y * SPLIT + warp % SPLIT;
    const int first = fp4_first(segment, SEGMENTS), count = fp4_count(segment, SEGMENTS);
    const x_rows from = {x, M};
    fp4_stream weights;
    float total[TILES][TOTALS], channel[TILES][2];
    LT_DYN_SHARED(bf16, rows);

    load_channels(&channel[0][0], sw, tile0, g);
    fp4_begin(&weights, w, ws, tile0, first, count, lane);
    lt_pdl_wait();
    lt_pdl_launch();
    if (BLOCK) {
        x_raw got[AT_ONCE];
        stage_ask(got, &from, threadIdx.x);
        stage(rows, got, &from);
    }
    fp4_products(total, &weights, rows, &from, first, count, lane);
    if (warp % SPLIT != 0) return;
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++)
        fp4_put(y, total[i], channel[i], LATE ? FP4_UNLIFT : FP4_UNSCALE, tile0 + i, g, t);
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a16_gemv__m1_n22_k16__l1t1s1g4u2p1b1(*(bf16 **)a[0], *(const bf16 **)a[1], *(const u8 **)a[2], *(const e4m3 **)a[3], *(const float **)a[4]); }
#endif
