/* family w4a4_moe.down rev 2, shape m1_topk1_experts1_n16_k16, variant m1l1t1s1g4u2j0b1, class mma.bf16_sums_1 */
// Slots one by one: weights are the 16-row operand of m16n8k16, the slot's row of x its columns; both sides are bf16:
// exact. ids are read in front of the wait, so the launch in front of this one must not be the one that chooses.
enum { M = 1, TOPK = 1, EXPERTS = 1, N = 16, K = 16, MMA = 1, LATE = 1, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, JOIN = 0, BLOCK = 1 };
enum {
    SLOTS = M * TOPK,
    SHARE = SLOTS / 1,    // slots that read one row of x
    SCALES = 1,  // of an expert: a tensor each
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    PARTS = 1,
    ALL_TILES = N / 16,           // of an expert
    ROWS = 1,
    COLUMNS = 1                   // slots of a block
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
typedef struct { const u8 *codes; const e4m3 *scales; size_t at; } x_row;
typedef struct { uint2 codes; e4m3 scale; } x_raw;

LT_DEV x_raw x_ask(const x_row *x, u32 k)
{
    x_raw got = {{0, 0}, {0}};
    if (k < K) fp4_fetch16(&got.codes, &got.scale, x->codes, x->scales, x->at + k);
    return got;
}

LT_DEV void x_bf16(u32 *b, x_raw raw)
{
    fp4_expand(b, raw.codes, raw.scale);
    if (LATE) fp4_lift(b, FP4_LIFT_CODES);
}

// Products of a slot's row of x with a warp's share of K of one tile, NVFP4 weights. Lane (g, t) holds rows g and g + 8
// of the tile and the scale group 16t .. 16t + 15 of each chunk of 64 k; x lies the same way, so K is summed in a
// permuted order, the same for every row. The template says what x is, as fp4_product.cut wants it, but of one row:
// x_ask(x, k) asks for 16 values of it, zeros from K on; x_bf16(b, raw) makes them bf16.
//
// A load whose value another basic block uses shares its scoreboard with all such loads, and who waits for one of them
// waits for all. So no branch stands between the loads of codes, short shares are straight code, and what is asked for
// early goes into a batch of its own.
enum {
    WIDE = UNITS * 128,                    // of the row in shared memory
    STRIDE = WIDE + 8,                     // zeros lie behind it, in other banks
    THREADS = 32 * WARPS,
    PLACES = WIDE / 16,                    // groups of 16 of the row
    AT_ONCE = PLACES > THREADS ? 2 : 1,    // that a thread asks for before it stores one
    MOST = (UNITS + SPLIT - 1) / SPLIT,    // units of a share  ORDER SCALES
    COPIES = (MOST * 8 + 31) / 32,         // of 16 bytes of its scales, by a lane
    KEEPS = SPLIT == 1 && WARPS * MOST * 128 <= 30720,  // scales come to shared memory first, else with their codes
    SCALE_BYTES = KEEPS * WARPS * MOST * 128,  // there, in front of the row
    TURNS = UNITS % SPLIT == 0 && MOST <= 4 * UNROLL ? 3 : 1,  // behind the first one, that are written out at once
    IS_ODD = K % 128 > 0 && K % 128 <= 64  // the last unit of a tile has one chunk, and padding that is not read
};

// ---- weights: codes of UNROLL units are on their way while as many are multiplied; scales lie in shared memory ----

LT_DEV int slot_first(int share) { return UNITS * share / SPLIT; }  // unit of a share of K

typedef struct {
    uint4 word[UNROLL][2];
    u32 scale[UNROLL];                     // not where shared memory has them
} slot_batch;

typedef struct {
    const u8 *codes;                       // this lane's, of the unit behind the batches
    const u32 *scales;                     // this lane's: in shared memory of the first unit, else as codes
    int first, end;                        // units of the share
    slot_batch begun, next;                // the first batch; the one behind that which is multiplied
} slot_stream;

// Units of the share: a constant where it can be, or branches stand between them, and loads behind those.
LT_DEV int slot_count(const slot_stream *s) { return UNITS % SPLIT == 0 ? UNITS / SPLIT : s->end - s->first; }

// For the next UNROLL units, of which `left` are left. The only chunk of a tile's last unit stands in for the padding:
// x has zeros there.
LT_DEV void slot_ask(slot_batch *to, slot_stream *s, int left)
{
    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++) {
        const int is_half = IS_ODD && u + 1 == left && s->end == UNITS;
        if (u < left) to->word[u][0] = lt_ld128_once(s->codes + u * 1024);
        if (u < left) to->word[u][1] = lt_ld128_once(s->codes + u * 1024 + (is_half ? 0 : 512));
        if (u < left && !KEEPS) to->scale[u] = lt_ld32_once(s->scales + u * 32);
    }
    s->codes += UNROLL * 1024;
    if (!KEEPS) s->scales += UNROLL * 32;
}

// Asks for all scales of the share and its first units; unit: the share's first one in w and ws.
LT_DEV void slot_begin(slot_stream *s, const u8 *w, const e4m3 *ws, int unit, u32 *scales, int lane)
{
    const e4m3 *const own = ws + unit * 128, *const from = own + lane * 16;
    s->codes = w + unit * 1024 + lane * 16;
    s->scales = (KEEPS ? scales : (const u32 *)own) + lane;
    LT_UNROLL(COPIES)
    for (int i = 0; KEEPS && i < COPIES; i++)
        if (i * 32 + lane < slot_count(s) * 8) lt_cp_async16(scales + lane * 4 + i * 128, from + i * 512);
    if (KEEPS) lt_cp_commit();
    slot_ask(&s->begun, s, slot_count(s));
}

// ---- the row in shared memory ----

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

LT_DEV u32 row_thread(void) { return threadIdx.x % THREADS; }  // the compiler then knows which groups are there

LT_DEV void row_ask(x_raw *got, const x_row *x, u32 from)  // the thread's groups from, from + THREADS ..
{
    LT_UNROLL(AT_ONCE)
    for (int i = 0; i < AT_ONCE; i++) got[i] = x_ask(x, (from + i * THREADS) * 16);
}

LT_DEV void row_put(bf16 *row, const x_raw *got, u32 from)  // who has none puts zeros behind the row
{
    LT_UNROLL(AT_ONCE)
    for (int i = 0; i < AT_ONCE; i++) {
        const u32 place = from + i * THREADS;
        u32 b[8];
        x_bf16(b, got[i]);
        stage_put16(row, place >= PLACES, place < PLACES ? place * 16 : 0, b);
    }
}

// The block brings the row; got: what row_ask(got, x, row_thread()) asked for. The second batch of weights is asked for
// when x has come: in front of it, x would wait for more weights, and behind the barrier memory would be idle. The
// launch keeps the loads there: the assembler moves none across it.
LT_DEV void row_bring(bf16 *row, x_raw *got, const x_row *x, slot_stream *s)
{
    const u32 zeros[8] = {0};
    if (BLOCK) row_put(row, got, row_thread());
    for (u32 from = AT_ONCE * THREADS; BLOCK && from < PLACES; from += AT_ONCE * THREADS) {
        row_ask(got, x, from + threadIdx.x);
        row_put(row, got, from + threadIdx.x);
    }
    if (BLOCK && PLACES % (AT_ONCE * THREADS) == 0 && threadIdx.x == THREADS - 1) stage_put16(row, 1, 0, zeros);
    lt_pdl_launch();
    slot_ask(&s->next, s, slot_count(s) - UNROLL);
    __syncthreads();
}

// ---- products ----

// fp4_add of one row. Where scales multiply sums: with two instructions a scale, a byte that is moved down and one
// multiplied into place while its exponent is added, for the three of fp4_scale_f32, which gives the same bits.
LT_DEV void slot_add(float *sum, u32 (*a)[4], u32 *b, u32 scale, int c)
{
    if (!LATE) {
        fp4_add(sum, a, b, scale, c, 0);
        return;
    }
    float group[4] = {0};
    lt_mma_m16n8k16_bf16_run(group, a[0], b, 4);
    LT_UNROLL(2)
    for (int channel = 0; channel < 2; channel++) {
        const u32 factor = lt_byte_perm(scale, 0, 0x4440 + 2 * c + channel) * 0x100000u + 0x70000000u;
        float *const own = sum + channel * (SUMS / 2);
        *own = fmaf(group[2 * channel + c], lt_bits_f32(factor), *own);
    }
}

LT_DEV void slot_unit(float *sum, uint4 *word, u32 scale, const bf16 *row, int place, int step, const x_row *x,
                      int unit, int g, int t)
{
    u32 a[4][4], b[8];
    LT_UNROLL(2)
    for (int c = 0; c < 2; c++) {
        fp4_steps(a, word[c], scale, c);
        if (c == 0 || !BOTH) {
            const int k = unit * 128 + fp4_chunk_of(c, g) * 64 + t * 16;
            if (BLOCK) stage_get16(b, row + place + (step ? c * 64 : 0));
            else x_bf16(b, x_ask(x, fp4_gives(g, t, 1) ? k : K));
        }
        slot_add(sum, a, b, scale, c);
    }
}

// The `unit`-th of the share and those behind it, a batch, while the next one is asked for. Returns x's next place.
LT_DEV int slot_turn(float *sum, slot_stream *s, slot_batch now, const bf16 *row, int place, int step, const x_row *x,
                     int unit, int g, int t)
{
    LT_UNROLL(UNROLL)
    for (int u = 0; u < UNROLL; u++) {
        if (unit + u < slot_count(s)) {
            const u32 scale = KEEPS ? s->scales[(unit + u) * 32] : now.scale[u];
            slot_unit(sum, now.word[u], scale, row, place, step, x, s->first + unit + u, g, t);
        }
        place += step;
    }
    return place;
}

// place: of this lane's x of the first unit; step: how far that of the next one is. Zeros do not end.
LT_DEV void slot_products(float *total, slot_stream *s, const bf16 *row, const x_row *x, int g, int t)
{
    const int step = fp4_gives(g, t, 1) ? 128 : 0;
    int place = step ? s->first * 128 + fp4_chunk_of(0, g) * 64 + t * 16 : STRIDE;
    float sum[SUMS] = {0};
    if (KEEPS) lt_cp_wait(0);
    if (KEEPS) __syncwarp();
    place = slot_turn(sum, s, s->begun, row, place, step, x, 0, g, t);
    LT_UNROLL(TURNS)
    for (int unit = UNROLL; unit < slot_count(s); unit += UNROLL) {
        const slot_batch now = s->next;
        slot_ask(&s->next, s, slot_count(s) - unit - UNROLL);
        place = slot_turn(sum, s, now, row, place, step, x, unit, g, t);
    }
    fp4_meet(total, sum, t);
}
enum {
    COUNT = TOTALS,            // sums of a lane
    LONG = UNITS > 4 * SPLIT,  // else all units of a share are in registers at once
    // warps of a multiprocessor: of several rows' slots, which follow each other; of one row's that find registers
    HELD = M > 1 && !LATE && LONG ? 32 : SPLIT > 1 && UNITS >= 4 * SPLIT && UNROLL == 2 ? 24 : 16
};
// Sums of one K meet: COUNT a lane, of the SPLIT warps of a block, then of the PARTS blocks of a column of the grid.
// Always in ascending K, so that the bits do not depend on who comes last.
LT_DEV void sums_of_warps(float *sum, int warp, int lane)  // share 0 of each group has the total
{
    LT_SHARED2(float, room, WARPS, COUNT * 32);
    LT_UNROLL(COUNT)
    for (int i = 0; i < COUNT; i++) room[warp][i * 32 + lane] = sum[i];
    __syncthreads();
    if (warp % SPLIT != 0) return;
    for (int p = 1; p < SPLIT; p++) {
        LT_UNROLL(COUNT)
        for (int i = 0; i < COUNT; i++) sum[i] += room[warp + p][i * 32 + lane];
    }
}

// partial[part][group][COUNT][32]; arrived[blockIdx.x] counts blocks. True in the block that comes last: its share 0
// has the total.
LT_DEV int sums_of_blocks(float *sum, float *partial, u32 *arrived, int warp, int lane)
{
    const size_t groups = (size_t)gridDim.x * GROUPS, group = blockIdx.x * GROUPS + warp / SPLIT;
    if (warp % SPLIT == 0) {
        LT_UNROLL(COUNT)
        for (int i = 0; i < COUNT; i++) partial[((blockIdx.y * groups + group) * COUNT + i) * 32 + lane] = sum[i];
    }
    if (!lt_last_block(arrived + blockIdx.x, PARTS)) return 0;
    if (warp % SPLIT != 0) return 1;
    for (int p = 0; p < PARTS; p++) {
        LT_UNROLL(COUNT)
        for (int i = 0; i < COUNT; i++) {
            const float other = lt_bits_f32(lt_ld32_fresh(partial + ((p * groups + group) * COUNT + i) * 32 + lane));
            sum[i] = p == 0 ? other : sum[i] + other;
        }
    }
    return 1;
}
#define UNSCALE (LATE ? FP4_UNLIFT : FP4_UNSCALE * FP4_UNSCALE_ROW)

LT_KERNEL(32 * WARPS, HELD / WARPS)
w4a4_moe_down__m1_topk1_experts1_n16_k16__m1l1t1s1g4u2j0b1(bf16 *y, const u8 *x, const e4m3 *xs, const float *gs, const i32 *ids, const u8 *w, const e4m3 *ws, const float *sw)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4, slot = blockIdx.y;
    const int own = blockIdx.x * GROUPS + warp / SPLIT, tile = own < ALL_TILES ? own : ALL_TILES - 1;
    LT_DYN_SHARED(u8, room);
    bf16 *const row = (bf16 *)(room + SCALE_BYTES);

    // A slot of no expert reads expert 0, so that addresses are there when the id comes, and no branch.
    const int id = ids[slot], is_live = id >= 0 && id < EXPERTS, expert = is_live ? id : 0;
    slot_stream weights;
    weights.first = slot_first(warp % SPLIT), weights.end = slot_first(warp % SPLIT + 1);
    const size_t units = (size_t)expert * ALL_TILES * UNITS;  // before the expert's
    slot_begin(&weights, w + units * 1024, ws + units * 128, tile * UNITS + weights.first,
               (u32 *)room + warp * MOST * 32, lane);
    const float *const of_expert = sw + expert * SCALES;
    const float of_tile = lt_bits_f32(lt_ld32_once(of_expert + (SCALES > 1 ? tile * SCALES / ALL_TILES : 0)));
    lt_pdl_wait();
    if (!is_live) {
        if (KEEPS) lt_cp_wait(0);
        return;
    }
    const x_row x_of = {x, xs, (size_t)(slot / SHARE) * K};
    float total[1][TOTALS], of_x = 0;
    x_raw got[AT_ONCE];
    if (BLOCK) row_ask(got, &x_of, row_thread());
    of_x = gs[slot / SHARE];
    row_bring(row, got, &x_of, &weights);
    slot_products(total[0], &weights, row, &x_of, g, t);
    if (SPLIT > 1) sums_of_warps(total[0], warp, lane);
    if (warp % SPLIT != 0 || t > 0) return;
    LT_UNROLL(TOTALS)
    for (int j = 0; j < TOTALS; j++) {
        const int n = own * 16 + g + fp4_sum_channel(j) * 8;
        if (fp4_sum_row(j, 0) == 0 && n < N)
            y[(size_t)slot * N + n] = lt_f32_bf16(total[0][j] * UNSCALE * (of_x * of_tile));
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a4_moe_down__m1_topk1_experts1_n16_k16__m1l1t1s1g4u2j0b1(*(bf16 **)a[0], *(const u8 **)a[1], *(const e4m3 **)a[2], *(const float **)a[3], *(const i32 **)a[4], *(const u8 **)a[5], *(const e4m3 **)a[6], *(const float **)a[7]); }
#endif
