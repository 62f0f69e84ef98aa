/* family w4a4_moe.swiglu rev 1, shape m12_topk2_experts1_n32_k1040, variant m1l0t1s4g20u2j1b1, class mma.bf16_codes_4 */
// Weights are the 16-row operand of m16n8k16, slots of one expert the columns; both sides are bf16: exact. A block a
// multiprocessor has a stretch of the tiles of all experts that were chosen (moe_deal.cut), and each of its warps a
// stretch of the block's items: shares of K of its tiles. ids are read in front of the wait, so the launch in front of
// this one must not be the one that chooses.
enum { M = 12, TOPK = 2, EXPERTS = 1, N = 32, K = 1040, MMA = 1, LATE = 0, TILES = 1, SPLIT = 4, GROUPS = 20, UNROLL = 2, JOIN = 1, BLOCK = 1 };
enum {
    SLOTS = M * TOPK,
    SHARE = SLOTS / 12,    // slots that read one row of x
    SCALES = 2,  // of an expert: a tensor each
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = GROUPS,               // of a block
    ALL_TILES = N / 16,           // of an expert
    MOST = LATE && WARPS > 16 ? 2 : 4,
    COLUMNS = M < MOST ? M : MOST,  // slots that one reading of an expert serves  ORDER COLUMNS
    ROWS = COLUMNS,
    BLOCKS = 24,  // ORDER BLOCKS
    NEAR = 2,                     // readings whose tiles a block may have
    GRAIN = 2,  // tiles that must be one block's
    EVEN = UNITS % (SPLIT * UNROLL) == 0,  // all batches of units are whole
    IS_ODD = K % 128 > 0 && K % 128 <= 64  // the last unit of a tile has one chunk, and padding that is not read
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
// NVFP4 rows of activations as bf16: b[i] = values 2i, 2i + 1 of a group, code * scale * 2^-7, exact. A scale's sign is
// ignored, as the block-scaled mma does.
#define FP4_UNSCALE_ROW 128.0f

LT_DEV void fp4_expand(u32 *b, uint2 codes, e4m3 scale)
{
    const u32 factor = lt_byte_perm(lt_f32_bits(lt_ue4m3_f32(scale.x) * 0x1p119f), 0, 0x3232);  // both halves
    LT_UNROLL(2)
    for (int h = 0; h < 2; h++) {
        const u32 even = h ? codes.y : codes.x, odd = even >> 4;
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const u32 two = lt_byte_perm(even, odd, 0x4400 + 0x1111 * i);  // a half: its code and a neighbour, twice
            b[4 * h + i] = lt_mul_bf16x2((two << 4 & 0x80008000u) | (two << 6 & 0x01c001c0u), factor);
        }
    }
}

LT_DEV void fp4_fetch16(uint2 *to, e4m3 *scale, const u8 *codes, const e4m3 *scales, size_t at)  // values at .. at + 15
{
    *to = *(const uint2 *)(codes + at / 2);
    *scale = scales[at / 16];
}
typedef struct { const u8 *x; const e4m3 *xs; const i32 *slots; int rows; } x_rows;
typedef struct { uint2 codes; e4m3 scale; } x_raw;

LT_DEV x_raw x_ask(const x_rows *x, int row, int k)  // zeros where a row has no slot
{
    x_raw got = {{0, 0}, {0}};
    const int slot = row < NEAR * STAGED && k < K ? x->slots[row] : -1;
    if (slot >= 0) fp4_fetch16(&got.codes, &got.scale, x->x, x->xs, (size_t)(slot / SHARE) * K + k);
    return got;
}

LT_DEV void x_bf16(u32 *b, x_raw raw)
{
    fp4_expand(b, raw.codes, raw.scale);
    if (LATE) fp4_lift(b, FP4_LIFT_CODES);
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
// A reading of an expert serves up to COLUMNS slots that chose it. Readings lie in the order of their first slots, and
// the tiles of all of them are cut into BLOCKS equal stretches of whole GRAINs. There are at least as many blocks as
// slots, so a block has tiles of two readings at most: NEAR.
enum { WORDS = (SLOTS + 31) / 32 };
typedef struct {
    i32 id[SLOTS], rank[SLOTS];   // rank: slots in front that chose the same expert
    u32 begins[WORDS];            // a bit for each slot that is the first one of a reading
    i32 list[NEAR * STAGED];       // slots of the block's readings; -1 behind the last of each
} deal_room;

typedef struct {
    int first, end;               // the block's tiles, of all readings'
    int reading;                  // that the first one is of
    int expert[NEAR], rank[NEAR]; // of that reading and the next one, -1 where there is none; rank of its first slot
} deal;

// Slots in front of slot i that chose the same expert. Up to 32 slots are a warp's lanes, more are in the room.
LT_DEV int deal_rank(const i32 *id, int own, int i)
{
    int rank = 0;
    LT_UNROLL(4)
    for (int j = 0; j < SLOTS; j++) {
        const int other = WORDS == 1 ? (int)lt_shfl_u32(0xffffffffu, (u32)own, j) : id[j];
        rank += j < i && other == own;
    }
    return rank;
}

// ids outside 0 .. EXPERTS-1 are in no reading. With more than 32 slots the block meets in it.
LT_DEV deal deal_tiles(deal_room *room, const i32 *ids, int lane)
{
    int own = -1, rank = 0, readings = 0, in_front = 0;
    u32 begins[WORDS];
    if (threadIdx.x < NEAR * STAGED) room->list[threadIdx.x] = -1;
    if (WORDS > 1) {
        LT_UNROLL(1)
        for (int i = threadIdx.x; i < SLOTS; i += 32 * WARPS) room->id[i] = ids[i];
        __syncthreads();
    }
    LT_UNROLL(1)
    for (int i = WORDS == 1 ? lane : threadIdx.x; i < WORDS * 32; i += WORDS == 1 ? 32 : 32 * WARPS) {
        own = i >= SLOTS ? -1 : WORDS == 1 ? ids[i] : room->id[i];
        rank = deal_rank(room->id, own, i);
        begins[0] = lt_ballot(0xffffffffu, own >= 0 && own < EXPERTS && rank % COLUMNS == 0);
        if (WORDS == 1 && threadIdx.x < SLOTS) room->id[i] = own;
        if (WORDS > 1 ? i < SLOTS : threadIdx.x < SLOTS) room->rank[i] = rank;
        if (WORDS > 1 && lane == 0) room->begins[i / 32] = begins[0];
    }
    if (WORDS > 1) __syncthreads();
    LT_UNROLL(WORDS)
    for (int i = 0; i < WORDS; i++) {
        if (WORDS > 1) begins[i] = room->begins[i];
        readings += lt_popc(begins[i]);
    }
    const int all = readings * (ALL_TILES / GRAIN), block = blockIdx.x;
    const int each = all / BLOCKS, more = all % BLOCKS;  // the first `more` blocks have one more
    deal d = {GRAIN * (each * block + (block < more ? block : more)), 0, 0, {-1, -1}, {0, 0}};
    d.end = d.first + GRAIN * (each + (block < more));
    d.reading = d.first / ALL_TILES;
    LT_UNROLL(WORDS)
    for (int i = 0; i < WORDS; i++) {
        const int number = in_front + lt_popc(begins[i] & ((1u << lane) - 1)) - d.reading;
        LT_UNROLL(NEAR)
        for (int near = 0; near < NEAR; near++) {
            const u32 found = lt_ballot(0xffffffffu, (begins[i] >> lane & 1) != 0 && number == near);
            if (found == 0) continue;
            const int at = lt_popc(found - 1);
            d.expert[near] = WORDS == 1 ? (int)lt_shfl_u32(0xffffffffu, (u32)own, at) : room->id[i * 32 + at];
            d.rank[near] = WORDS == 1 ? (int)lt_shfl_u32(0xffffffffu, (u32)rank, at) : room->rank[i * 32 + at];
        }
        in_front += lt_popc(begins[i]);
    }
    return d;
}

// Writes the slots of the block's readings; they are there once the block has met.
LT_DEV void deal_slots(deal_room *room, const deal *d)
{
    __syncwarp();
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < SLOTS; i += 32 * WARPS) {
        LT_UNROLL(NEAR)
        for (int near = 0; near < NEAR; near++) {
            const int column = room->rank[i] - d->rank[near];
            if (d->expert[near] >= 0 && room->id[i] == d->expert[near] && column >= 0 && column < COLUMNS)
                room->list[near * STAGED + column] = i;
        }
    }
}

LT_DEV int deal_columns(const i32 *list)  // that a reading has
{
    int count = 0;
    LT_UNROLL(COLUMNS)
    for (int i = 0; i < COLUMNS; i++) count += list[i] >= 0;
    return count;
}

// The block brings x of `count` rows of its readings; zeros stand behind all of them.
LT_DEV void deal_bring(bf16 *rows, const x_rows *x, int count)
{
    const u32 zeros[8] = {0};
    LT_UNROLL(1)
    for (int from = threadIdx.x; from < count * (WIDE / 16); from += 2 * THREADS) {
        x_raw got[2];
        LT_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            const int place = from + i * THREADS, is_there = place < count * (WIDE / 16);
            got[i] = x_ask(x, is_there ? place / (WIDE / 16) : NEAR * STAGED, place % (WIDE / 16) * 16);
        }
        LT_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            const int place = from + i * THREADS;
            u32 b[8];
            x_bf16(b, got[i]);
            if (place < count * (WIDE / 16)) stage_put16(rows, place / (WIDE / 16), place % (WIDE / 16) * 16, b);
        }
    }
    if (threadIdx.x == THREADS - 1) stage_put16(rows, NEAR * STAGED, 0, zeros);
    __syncthreads();
}

// ---- weights: UNROLL units are on their way while as many are multiplied ----

// Item number tile * SPLIT + share, of all readings' tiles: items lie behind each other in memory, but for a step
// between readings. No array here is indexed by a variable, or all of it would be in local memory.
typedef struct {
    const u8 *codes;              // this lane's, of the unit behind the batch
    const e4m3 *scales;
    int item, end, unit;          // of that one
    fp4_batch next;
} deal_stream;

LT_DEV void deal_seek(deal_stream *s, const u8 *w, const e4m3 *ws, int expert, int lane)  // the item's first unit
{
    s->unit = fp4_first(s->item % SPLIT, SPLIT);
    const size_t unit = ((size_t)expert * ALL_TILES + s->item / SPLIT % ALL_TILES) * UNITS + s->unit;
    s->codes = w + unit * 1024 + lane * 16;
    s->scales = ws + unit * 128 + lane * 4;
}

LT_DEV void deal_load(uint4 *w, u32 *scale, const u8 *codes, const e4m3 *scales, int unit, int chunks)
{
    const uint4 zeros = {0, 0, 0, 0};
    w[0] = lt_ld128_once(codes + unit * 1024);
    w[1] = chunks == 2 ? lt_ld128_once(codes + unit * 1024 + 512) : zeros;
    *scale = lt_ld32_once(scales + unit * 128);
}

// Asks for the next batch, of one item. expert: of the next reading.
LT_DEV void deal_ask(deal_stream *s, const u8 *w, const e4m3 *ws, int expert, int lane)
{
    if (s->item >= s->end) return;
    const int end = fp4_first(s->item % SPLIT + 1, SPLIT), left = EVEN ? UNROLL : end - s->unit;
    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++) {
        const int chunks = IS_ODD && s->unit + u == UNITS - 1 ? 1 : 2;
        if (u < left) deal_load(s->next.word[u][0], &s->next.scale[u][0], s->codes, s->scales, u, chunks);
    }
    const int count = left < UNROLL ? left : UNROLL;
    s->codes += count * 1024, s->scales += count * 128, s->unit += count;
    if (s->unit < end) return;
    s->item++;
    if (s->unit == UNITS) s->unit = 0;
    if (s->item < s->end && s->item % (ALL_TILES * SPLIT) == 0) deal_seek(s, w, ws, expert, lane);
}

typedef struct {
    const u8 *w;
    const e4m3 *ws;
    const bf16 *rows;
    int expert, lane;             // expert: of the next reading
} deal_place;

// The sums of the item that the stream has come to. near: its reading; count: of rows that x may have.
LT_DEV void deal_item(float *part, deal_stream *s, const deal_place *at, const x_rows *x, int near, int item,
                      int count)
{
    const int g = at->lane / 4, t = at->lane % 4, step = fp4_gives(g, t, x->rows) ? 128 : 0;
    const int first = fp4_first(item % SPLIT, SPLIT), end = fp4_first(item % SPLIT + 1, SPLIT);
    const int own = fp4_row(g) * STRIDE + first * 128 + fp4_chunk_of(0, g) * 64 + t * 16;
    int place = step ? near * STAGED * STRIDE + own : NEAR * STAGED * STRIDE;
    float sum[1][SUMS] = {0};
    LT_UNROLL(1)
    for (int unit = first; unit < end; unit += UNROLL) {
        fp4_batch now = s->next;
        deal_ask(s, at->w, at->ws, at->expert, at->lane);
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++) {
            if (!EVEN && unit + u >= end) break;
            fp4_unit(sum, now.word[u], now.scale[u], at->rows, place, step, x, count, unit + u, g, t);
            place += step;
        }
    }
    fp4_meet(part, sum[0], t);
}

// What becomes of the sums of dealt tiles, which have gate (row g) and up (row g + 8) of eight channels each: they meet
// in shared memory, and there two tiles' SwiGLU is a group of 16 codes and their scale.
// Groups of 16 values of a slot as codes and their scale, q, qs, qgs: with the bits of w4a4_swiglu_quant.
// SwiGLU of sums, rounded, with the bits that it has where these come in bf16.
// SwiGLU with clamps, of one value and of two, without the branches of a division: others wait for each of them.
// x / y of a normal positive y, whose inverse is normal too, as a division rounds it but where y has a mantissa of ones
// alone; without the branch that a division has. -0 stays -0.
// 1 / x of a normal positive x to the last place or so: a guess within 5.1 %, whose error is taken to the 4th power and
// then squared. No branch, unlike the division, so that four of them overlap.
LT_DEV float reciprocal(float x)
{
    float y = lt_bits_f32(0x7ef311c3u - lt_f32_bits(x));
    const float e = fmaf(-x, y, 1.0f);
    y = fmaf(fmaf(y, e, y), e * e, fmaf(y, e, y));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}
LT_DEV float divided(float x, float y)
{
    const float by = reciprocal(y), quotient = x * by;
    return fmaf(fmaf(y, quotient, -x), -by, quotient);
}

// lt_silu; what is below the least x that lt_exp tells apart counts as that one, -2.6e-37.
LT_DEV float silu(float x)
{
    x = x < -88.72283f ? -88.72283f : x;
    return divided(x, 0x1p-32f + lt_exp(-x) * 0x1p-32f) * 0x1p-32f;  // so the inverse of what divides is normal
}

LT_DEV float activated(float gate, float up)  // NaN stays NaN
{
    gate = gate > 10.0f ? 10.0f : gate;
    up = up > 10.0f ? 10.0f : up;
    return silu(gate) * (up < -10.0f ? -10.0f : up);
}

LT_DEV u32 two_activated(u32 gate, u32 up)
{
    return lt_pack_bf16(activated(lt_bf16lo_f32(gate), lt_bf16lo_f32(up)),
                        activated(lt_bf16hi_f32(gate), lt_bf16hi_f32(up)));
}
LT_DEV float rounded(float x) { return lt_bf16lo_f32(lt_pack_bf16(x, 0.0f)); }

LT_DEV bf16 activated_sums(float gate, float up) { return lt_f32_bf16(activated(rounded(gate), rounded(up))); }
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

typedef struct { u8 *q; e4m3 *qs; float *qgs; float scale, over; } moe_results;  // over: 1 / scale

// 16 lanes have a group, a value each: the group's scale in all of them.
LT_DEV e4m3 swiglu_scale(float h, float over, int lane)
{
    const u32 bits = lt_f32_bits(larger(fabsf(h), 0.0f));  // in the order of the numbers
    const u32 lower = lt_redux_max(lane < 16 ? bits : 0), upper = lt_redux_max(lane < 16 ? 0 : bits);
    return nvfp4_scale(lt_bits_f32(lane < 16 ? lower : upper), over);
}

// Value number c of group `group` of a slot, by lane c of 16; where the slot is below 0 nothing is written.
LT_DEV void swiglu_put(moe_results to, float gate, float up, int group, int slot, int lane)
{
    const int c = lane % 16;
    const float h = lt_bf16_f32(activated_sums(gate, up));
    const e4m3 of_group = swiglu_scale(h, to.over, lane);
    const u32 code = lt_f32_e2m1(h * nvfp4_inverse(of_group, to.scale));
    const u32 next = lt_shfl_xor_u32(0xffffffffu, code, 1);
    if (slot < 0 || group >= N / 32) return;
    if (c % 2 == 0) to.q[(size_t)slot * (N / 4) + group * 8 + c / 2] = (u8)(code | next << 4);
    if (c == 0) to.qs[(size_t)slot * (N / 32) + group] = of_group;
    if (c == 0 && group == 0) to.qgs[slot] = to.scale;
}

typedef struct { float *sums; } deal_results;  // of the block's tiles

LT_DEV float deal_factor(const float *sw, int expert, int tile) { return 1.0f; }  // gate's and up's come in the end

LT_DEV int sums_at(int tile, int half, int column, int g) { return ((tile * 2 + half) * COLUMNS + column) * 8 + g; }

// tile: of the expert; own: the same one's number in the block.
LT_DEV void deal_put(deal_results to, const float *total, const x_rows *x, const float *scale_of, float factor,
                     int tile, int own, int lane)
{
    LT_UNROLL(TOTALS)
    for (int j = 0; j < TOTALS; j++) {
        const int m = fp4_sum_row(j, lane % 4);
        if (m < x->rows) to.sums[sums_at(own, fp4_sum_channel(j), m, lane / 4)] = total[j];
    }
}

// The block's pairs of tiles, once all sums have met: 16 lanes have a group of a column. list, scale_of: of the block's
// readings.
LT_DEV void deal_finish(moe_results codes, const float *sums, const i32 *list, const deal *d, const float *scale_of,
                        const float *sw, int warp, int lane)
{
    LT_UNROLL(1)
    for (int from = warp * 2; from < (d->end - d->first) / 2 * COLUMNS; from += WARPS * 2) {
        const int mine = from + lane / 16, is_there = mine < (d->end - d->first) / 2 * COLUMNS;
        const int pair = is_there ? mine / COLUMNS : 0, m = mine % COLUMNS, c = lane % 16, tile = pair * 2 + c / 8;
        const int near = (d->first + pair * 2) / ALL_TILES != d->reading;
        const int slot = is_there ? list[near * STAGED + m] : -1;
        const float *scales = sw + (near ? d->expert[1] : d->expert[0]) * SCALES;
        const float of_x = scale_of[near * STAGED + m];
        const float unscale = LATE ? FP4_UNLIFT : FP4_UNSCALE * FP4_UNSCALE_ROW;
        float gate = 0.0f, up = 0.0f;
        if (slot >= 0) {
            gate = sums[sums_at(tile, 0, m, c % 8)] * unscale * (of_x * scales[0]);
            up = sums[sums_at(tile, 1, m, c % 8)] * unscale * (of_x * scales[1]);
        }
        swiglu_put(codes, gate, up, (d->first + pair * 2) % ALL_TILES / 2, slot, lane);
    }
}

LT_KERNEL(32 * WARPS, 1)
w4a4_moe_swiglu__m12_topk2_experts1_n32_k1040__m1l0t1s4g20u2j1b1(u8 *q, e4m3 *qs, float *qgs, const u8 *x, const e4m3 *xs, const float *gs, const i32 *ids, const u8 *w, const e4m3 *ws, const float *sw, const float *input_scale)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    LT_DYN_SHARED(bf16, rows);
    LT_SHARED1(deal_room, room, 1);
    LT_SHARED1(float, scale_of, NEAR * STAGED);
    LT_SHARED2(float, parts, WARPS * SPLIT, TOTALS * 32);  // of tiles that a warp in front has begun
    enum { ROWS_BYTES = NEAR * (STAGED * STRIDE * 2 + 32) };
    float *sums = (float *)((u8 *)rows + ROWS_BYTES);  // of the block's tiles
    const moe_results codes = {q, qs, qgs, *input_scale, 1.0f / *input_scale};
    const deal_results to = {sums};
    const deal d = deal_tiles(room, ids, lane);
    const int all = (d.end - d.first) * SPLIT, first = d.first * SPLIT + all * warp / WARPS;
    const int end = d.first * SPLIT + all * (warp + 1) / WARPS;
    const deal_place at = {w, ws, rows, d.expert[1], lane};
    deal_stream weights;
    weights.item = first, weights.end = end;
    if (first < end) {
        deal_seek(&weights, w, ws, d.expert[first / (ALL_TILES * SPLIT) != d.reading], lane);
        deal_ask(&weights, w, ws, d.expert[1], lane);
    }
    deal_slots(room, &d);
    lt_pdl_wait();
    lt_pdl_launch();
    if (all == 0) return;
    __syncthreads();  // the list is there
    const x_rows of[NEAR] = {
        {x, xs, room->list, deal_columns(room->list)},
        {x, xs, room->list + STAGED, deal_columns(room->list + STAGED)},
    };
    if (threadIdx.x < NEAR * STAGED) {
        const int slot = room->list[threadIdx.x];
        scale_of[threadIdx.x] = slot < 0 ? 0.0f : gs[slot / SHARE];
    }
    deal_bring(rows, &of[0], (d.end - 1) / ALL_TILES == d.reading ? STAGED : NEAR * STAGED);

    float total[TOTALS] = {0};
    LT_UNROLL(1)
    for (int item = first; item < end; item++) {
        const int near = item / (ALL_TILES * SPLIT) != d.reading, tile = item / SPLIT % ALL_TILES, share = item % SPLIT;
        const x_rows x_of = near ? of[1] : of[0];
        const float factor = deal_factor(sw, near ? d.expert[1] : d.expert[0], tile);
        float part[TOTALS];
        if (PASSES > 1 && x_of.rows > EACH)
            deal_item(part, &weights, &at, &x_of, near, item, ROWS);
        else
            deal_item(part, &weights, &at, &x_of, near, item, EACH);
        LT_UNROLL(TOTALS)
        for (int j = 0; j < TOTALS; j++) total[j] = share == 0 ? part[j] : total[j] + part[j];
        if (share == SPLIT - 1 && item - share >= first)
            deal_put(to, total, &x_of, scale_of + near * STAGED, factor, tile, item / SPLIT - d.first, lane);
        LT_UNROLL(TOTALS)
        for (int j = 0; SPLIT > 1 && j < TOTALS && item - share < first; j++)
            parts[warp * SPLIT + share][j * 32 + lane] = part[j];
    }
    if (SPLIT > 1) __syncthreads();
    const int open = end - end % SPLIT;  // the first item of a tile that others have the rest of
    if (SPLIT > 1 && open != end && open >= first) {
        int other = warp;
        for (int item = end; item < open + SPLIT; item++) {
            while (item >= d.first * SPLIT + all * (other + 1) / WARPS) other++;
            LT_UNROLL(TOTALS)
            for (int j = 0; j < TOTALS; j++) total[j] += parts[other * SPLIT + item % SPLIT][j * 32 + lane];
        }
        const int near = open / (ALL_TILES * SPLIT) != d.reading;
        const x_rows x_of = near ? of[1] : of[0];
        const int tile = open / SPLIT % ALL_TILES;
        const float factor = deal_factor(sw, near ? d.expert[1] : d.expert[0], tile);
        deal_put(to, total, &x_of, scale_of + near * STAGED, factor, tile, open / SPLIT - d.first, lane);
    }
    __syncthreads();
    deal_finish(codes, sums, room->list, &d, scale_of, sw, warp, lane);
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a4_moe_swiglu__m12_topk2_experts1_n32_k1040__m1l0t1s4g20u2j1b1(*(u8 **)a[0], *(e4m3 **)a[1], *(float **)a[2], *(const u8 **)a[3], *(const e4m3 **)a[4], *(const float **)a[5], *(const i32 **)a[6], *(const u8 **)a[7], *(const e4m3 **)a[8], *(const float **)a[9], *(const float **)a[10]); }
#endif
