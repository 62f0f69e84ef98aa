/* family w4a16_gemv rev 2, shape m16_n72_k1072, variant l0t1s2g8u1p1b2, class mma.bf16_codes_1x2 */
// Weights are the 16-row operand of m16n8k16, x the columns; the blocks of a cluster share K.
enum { M = 16, N = 72, K = 1072, LATE = 0, TILES = 1, SPLIT = 2, GROUPS = 8, UNROLL = 1, PARTS = 1, BLOCK = 2 };
enum {
    ROWS = M,
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    ALL_TILES = (N + 15) / 16,
    HELD = 24                     // warps of a multiprocessor that find registers
};
// One chain of mma: a chunk's four steps, one after the other.
// Where scales multiply codes (fp4_codes.cut, fp4_steps.cut): code * scale * 2^-20 is exact in bf16. The columns of an
// mma are eight rows of x, ROWS in all.
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

enum {
    PASSES = (ROWS + 7) / 8,   // over the weights
    EACH = 8,                  // rows of x that a pass takes
    STAGED = PASSES > 1 ? PASSES * EACH : ROWS,  // rows of x in shared memory  ORDER STAGED
    BOTH = 0,                  // each chunk of a unit has its own operand of x
    TOTALS = PASSES * 4        // floats of a lane and tile
};

LT_DEV int fp4_staged(int rows) { return PASSES > 1 ? (rows + 7) / EACH * EACH : rows; }
LT_DEV int fp4_row(int g) { return g; }                                         // of a pass, that lane (g, t) gives
LT_DEV int fp4_gives(int g, int t, int rows) { return PASSES > 1 || g < rows; }  // does it?
LT_DEV int fp4_chunk_of(int c, int g) { return c; }  // whose x it gives
LT_DEV int fp4_sum_row(int j, int t) { return j / 4 * 8 + 2 * t + j % 2; }
LT_DEV int fp4_sum_channel(int j) { return j / 2 % 2; }  // 0: row g of the tile, 1: row g + 8

LT_DEV void fp4_steps(u32 (*a)[4], uint4 codes, u32 scale, int c) { fp4_chunk(a, codes, scale >> 16 * c); }
enum { SUMS = TOTALS };

LT_DEV void fp4_add(float *sum, u32 (*a)[4], u32 *b, u32 scale, int c, int pass)
{
    lt_mma_m16n8k16_bf16_run(sum + 4 * pass, a[0], b, 4);
}

LT_DEV void fp4_meet(float *total, const float *sum, int t)
{
    LT_UNROLL(SUMS)
    for (int j = 0; j < SUMS; j++) total[j] = sum[j];
}
// Products of rows of x with a tile a warp, NVFP4 weights, where each block of a cluster has a share of K: its part of
// x is in shared memory once for WARPS tiles. Lane (g, t) holds rows g and g + 8 of a tile and the scale group
// 16t .. 16t + 15 of each chunk of 64 k; x lies the same way. Sums are those of fp4_product.cut, bit for bit. Each
// block finishes some of the tiles, whose sums it gets from the others.
enum {
    WARPS = GROUPS,                        // of a block, each with a tile
    THREADS = 32 * WARPS,
    EVEN = UNITS % SPLIT == 0,
    WIDE = (UNITS + SPLIT - 1) / SPLIT * 128,  // of a row in shared memory
    STRIDE = WIDE + 8,                     // eight lanes' 16 bytes lie in different banks
    GIFTS = PASSES,                        // of 16 bytes, of a lane
    ROOM = (WARPS + SPLIT - 1) / SPLIT * SPLIT * GIFTS * 32
};

LT_DEV int share_first(int share) { return UNITS * share / SPLIT; }  // unit of a share of K

LT_DEV int share_count(int share)
{
    return EVEN ? UNITS / SPLIT : share_first(share + 1) - share_first(share);
}

// ---- weights: UNROLL units are on their way while as many are multiplied ----

typedef struct {
    uint4 word[UNROLL][2];
    u32 scale[UNROLL];
} share_batch;

typedef struct {
    const u8 *codes;                       // this lane's, of the unit behind the batch
    const e4m3 *scales;
    share_batch next;
} share_stream;

LT_DEV void share_ask(share_stream *s, int count)  // for the next UNROLL units, of which `count` are left
{
    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++)
        if (u < count) fp4_load_next(s->next.word[u], &s->next.scale[u], s->codes, s->scales, u);
    s->codes += UNROLL * 1024, s->scales += UNROLL * 128;
}

// Asks for the first of the `count` units from `first` on of a tile; one behind the last is the last.
LT_DEV void share_begin(share_stream *s, const u8 *w, const e4m3 *ws, int tile, int first, int count, int lane)
{
    const size_t unit = (size_t)(tile < ALL_TILES ? tile : ALL_TILES - 1) * UNITS + first;
    s->codes = w + unit * 1024 + lane * 16;
    s->scales = ws + unit * 128 + lane * 4;
    share_ask(s, count);
}

// ---- products ----

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

// at: this lane's x of the unit, in the first pass's row; zeros: there is none.
LT_DEV void share_unit(float *sum, const uint4 *word, u32 scale, const bf16 *at, int zeros)
{
    LT_UNROLL(2)
    for (int c = 0; c < 2; c++) {
        u32 a[4][4], b[8];
        fp4_chunk(a, word[c], scale >> 16 * c);
        LT_UNROLL(PASSES)
        for (int p = 0; p < PASSES; p++) {
            stage_get16(b, at + (zeros ? 0 : p * 8 * STRIDE + c * 64));
            fp4_add(sum, a, b, scale, c, p);
        }
    }
}

// The `count` units whose first ones share_begin asked for.
LT_DEV void share_products(float *total, share_stream *s, const bf16 *rows, int count, int lane)
{
    const int g = lane / 4, t = lane % 4, zeros = STAGED <= g, step = zeros ? 0 : 128;
    const bf16 *at = rows + (zeros ? STAGED * STRIDE : g * STRIDE + t * 16);
    float sum[SUMS] = {0};
    LT_UNROLL(1)
    for (int unit = 0; unit < count; unit += UNROLL) {
        const share_batch now = s->next;
        share_ask(s, count - unit - UNROLL);
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++) {
            if (unit + u < count) share_unit(sum, now.word[u], now.scale[u], at, zeros);
            at += step;
        }
    }
    fp4_meet(total, sum, t);
}

// ---- the shares of a cluster meet ----

LT_DEV void share_expect(u64 *met, int rank)  // one thread, in front of lt_cluster_begin
{
    const int own = (WARPS - rank + SPLIT - 1) / SPLIT;  // tiles
    lt_mbar_init(met, 1);
    lt_mbar_expect(met, own * SPLIT * GIFTS * 512);
    lt_mbar_fence();
}

// Behind lt_cluster_wait: tile `warp` is finished by block warp % SPLIT. room: ROOM there.
LT_DEV void share_give(const float *sum, uint4 *room, u64 *met, int warp, int lane)
{
    LT_UNROLL(GIFTS)
    for (int i = 0; i < GIFTS; i++) {
        uint4 v;
        v.x = lt_f32_bits(sum[4 * i]), v.y = lt_f32_bits(sum[4 * i + 1]);
        v.z = lt_f32_bits(sum[4 * i + 2]), v.w = lt_f32_bits(sum[4 * i + 3]);
        const int slot = (warp / SPLIT * SPLIT + blockIdx.x % SPLIT) * GIFTS + i;
        lt_cluster_give128(room + slot * 32 + lane, warp % SPLIT, v, met);
    }
}

// The sums of tile `own` of those that this block finishes, in ascending K.
LT_DEV void share_take(float *sum, const uint4 *room, u64 *met, int own, int lane)
{
    lt_mbar_wait(met, 0);
    LT_UNROLL(4)
    for (int p = 0; p < SPLIT; p++) {
        LT_UNROLL(GIFTS)
        for (int i = 0; i < GIFTS; i++) {
            const uint4 v = room[((own * SPLIT + p) * GIFTS + i) * 32 + lane];
            const float part[4] = {lt_bits_f32(v.x), lt_bits_f32(v.y), lt_bits_f32(v.z), lt_bits_f32(v.w)};
            LT_UNROLL(4)
            for (int j = 0; j < 4; j++) sum[4 * i + j] = p == 0 ? part[j] : sum[4 * i + j] + part[j];
        }
    }
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

// x from k0 on; zeros stand behind its rows and K.
LT_DEV void bring(bf16 *rows, const bf16 *x, int k0)
{
    enum { PLACES = STAGED * (WIDE / 8), AT_ONCE = PLACES > 4 * THREADS ? 8 : PLACES > THREADS ? 4 : 1 };
    const uint4 zeros = {0, 0, 0, 0};
    LT_UNROLL(1)
    for (int from = threadIdx.x; from < PLACES; from += AT_ONCE * THREADS) {
        uint4 got[AT_ONCE];
        LT_UNROLL(AT_ONCE)
        for (int i = 0; i < AT_ONCE; i++) {
            const int row = (from + i * THREADS) / (WIDE / 8), k = k0 + (from + i * THREADS) % (WIDE / 8) * 8;
            got[i] = row < M && k < K ? lt_ld128(x + (size_t)row * K + k) : zeros;
        }
        LT_UNROLL(AT_ONCE)
        for (int i = 0; i < AT_ONCE; i++) {
            const int place = from + i * THREADS;
            if (place < PLACES) lt_st128(rows + place / (WIDE / 8) * STRIDE + place % (WIDE / 8) * 8, got[i]);
        }
    }
    if (threadIdx.x < 2) lt_st128(rows + STAGED * STRIDE + threadIdx.x * 8, zeros);
}

LT_KERNEL(THREADS, HELD / WARPS) LT_CLUSTER(SPLIT)
w4a16_gemv__m16_n72_k1072__l0t1s2g8u1p1b2(bf16 *y, const bf16 *x, const u8 *w, const e4m3 *ws, const float *sw)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int rank = blockIdx.x % SPLIT, tile0 = blockIdx.x / SPLIT * WARPS, own = tile0 + warp * SPLIT + rank;
    const int first = share_first(rank), count = share_count(rank);
    share_stream weights;
    float total[TOTALS], channel[2];
    LT_DYN_SHARED(bf16, rows);
    LT_SHARED1(uint4, room, ROOM);
    LT_SHARED1(u64, met, 1);

    share_begin(&weights, w, ws, tile0 + warp, first, count, lane);
    LT_UNROLL(2)
    for (int half = 0; half < 2; half++) {
        const int n = fp4_channel(own, half, g);
        channel[half] = lt_bits_f32(lt_ld32_once(sw + (n < N ? n : N - 1)));
    }
    if (threadIdx.x == 0) share_expect(met, rank);
    lt_cluster_begin();
    lt_pdl_wait();
    lt_pdl_launch();
    bring(rows, x, first * 128);
    __syncthreads();
    share_products(total, &weights, rows, count, lane);
    lt_cluster_wait();
    share_give(total, room, met, warp, lane);
    if (warp * SPLIT + rank >= WARPS) return;
    share_take(total, room, met, warp, lane);
    fp4_put(y, total, channel, FP4_UNSCALE, own, g, t);
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a16_gemv__m16_n72_k1072__l0t1s2g8u1p1b2(*(bf16 **)a[0], *(const bf16 **)a[1], *(const u8 **)a[2], *(const e4m3 **)a[3], *(const float **)a[4]); }
#endif
