/* family w4a4_moe.swiglu rev 1, shape m1_topk1_experts1_n32_k16, variant m1l1t1s1g4u2j0b1, class mma.bf16_sums_1 */
// Weights are the 16-row operand of m16n8k16, slots of one expert the columns; both sides are bf16: exact. ids are read
// in front of the wait, so the launch in front of this one must not be the one that chooses.
enum { M = 1, TOPK = 1, EXPERTS = 1, N = 32, K = 16, MMA = 1, LATE = 1, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, JOIN = 0, BLOCK = 1 };
enum {
    SLOTS = M * TOPK,
    SHARE = SLOTS / 1,    // slots that read one row of x
    SCALES = 2,  // of an expert: a tensor each
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    PARTS = 1,
    ALL_TILES = N / 16,           // of an expert
    MOST = LATE ? 2 : 4,
    COLUMNS = !JOIN ? 1 : M < MOST ? M : MOST,  // slots that one reading serves  ORDER COLUMNS
    ROWS = COLUMNS
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
typedef struct { const u8 *x; const e4m3 *xs; const i32 *slots; int rows; } x_rows;
typedef struct { uint2 codes; e4m3 scale; } x_raw;

LT_DEV x_raw x_ask(const x_rows *x, int row, int k)  // of slot number `row` of the expert
{
    x_raw got = {{0, 0}, {0}};
    if (row < x->rows && k < K)
        fp4_fetch16(&got.codes, &got.scale, x->x, x->xs, (size_t)(x->slots[row] / SHARE) * K + k);
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
enum {
    COUNT = TILES * TOTALS,    // sums of a lane
    LONG = UNITS > 4 * SPLIT,  // else all units of a share are in registers at once
    // of a multiprocessor: of 28 or 24 warps with join; of 32 where slots of several rows follow each other
    BLOCKS = JOIN ? (LATE ? 28 : 24) / WARPS : M > 1 && !LATE && LONG ? 32 / WARPS : RESIDENT
};
// The tiles of a block have gate (row g) and up (row g + 8) of eight channels each; two tiles' SwiGLU is a group of 16
// codes and their scale. Warps put sums into shared memory, 16 lanes finish a column of a group: with the bits of sums
// that meet in share 0, of y in bf16, and of w4a4_swiglu_quant.
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

enum {
    PAIRS = GROUPS * TILES / 2,      // of tiles of a block
    ROOM = TILES * 2 * COLUMNS * 8   // sums of a warp: tile, half, column, row
};

typedef struct { float gate, up; } moe_factors;  // of an expert's sums

LT_DEV int swiglu_at(int tile, int half, int column, int g)
{
    return ((tile % TILES * 2 + half) * COLUMNS + column) * 8 + g;
}

LT_DEV void swiglu_keep(float *room, float (*total)[TOTALS], int columns, int g, int t)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        LT_UNROLL(TOTALS)
        for (int j = 0; j < TOTALS; j++) {
            const int m = fp4_sum_row(j, t);
            if (m < columns) room[swiglu_at(i, fp4_sum_channel(j), m, g)] = total[i][j];
        }
    }
}

// Of a tile of the block: its shares of K in ascending order.
LT_DEV float swiglu_sum(float (*room)[ROOM], int tile, int half, int column, int g)
{
    const int warp = tile / TILES * SPLIT, at = swiglu_at(tile, half, column, g);
    float sum = room[warp][at];
    LT_UNROLL(SPLIT)
    for (int p = 1; p < SPLIT; p++) sum += room[warp + p][at];
    return sum;
}

// A column of the block's tiles 2 * pair and 2 * pair + 1. of_gate, of_up: factors of the sums; slot: the column's.
LT_DEV void swiglu_finish(moe_results to, float (*room)[ROOM], int pair, int column, int slot, float of_gate,
                          float of_up, float unscale, int lane)
{
    const int c = lane % 16, tile = pair * 2 + c / 8, group = blockIdx.x * PAIRS + pair;
    const float gate = swiglu_sum(room, tile, 0, column, c % 8) * unscale * of_gate;
    const float up = swiglu_sum(room, tile, 1, column, c % 8) * unscale * of_up;
    swiglu_put(to, gate, up, group, slot, lane);
}
// With join: how many slots chose an expert, found by the block of the first of them; list[i] is the i-th, for the
// block once it has met at a barrier. 0 where an earlier slot chose it or it is none. The same in every warp.
LT_DEV int moe_slots(i32 *list, const i32 *ids, int slot, int warp, int lane)
{
    i32 id[(SLOTS + 31) / 32];
    int count = 0, earlier = 0;
    LT_UNROLL(8)
    for (int i = 0; i < (SLOTS + 31) / 32; i++) id[i] = i * 32 + lane < SLOTS ? ids[i * 32 + lane] : -1;
    const i32 expert = ids[slot];
    if (expert < 0 || expert >= EXPERTS) return 0;
    LT_UNROLL(8)
    for (int i = 0; i < (SLOTS + 31) / 32; i++) {
        const u32 all = lt_ballot(0xffffffffu, id[i] == expert);
        const u32 mine = all & ((1u << lane) - 1);
        if (warp == 0 && id[i] == expert) list[count + lt_popc(mine)] = i * 32 + lane;
        if (i < slot / 32) earlier |= all != 0;
        if (i == slot / 32) earlier |= (all & ((1u << slot % 32) - 1)) != 0;
        count += lt_popc(all);
    }
    return earlier ? 0 : count;
}

LT_KERNEL(32 * WARPS, BLOCKS)
w4a4_moe_swiglu__m1_topk1_experts1_n32_k16__m1l1t1s1g4u2j0b1(u8 *q, e4m3 *qs, float *qgs, const u8 *x, const e4m3 *xs, const float *gs, const i32 *ids, const u8 *w, const e4m3 *ws, const float *sw, const float *input_scale)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile0 = (blockIdx.x * GROUPS + warp / SPLIT) * TILES, share = warp % SPLIT;
    const int first = fp4_first(share, SPLIT), count = fp4_count(share, SPLIT);
    LT_DYN_SHARED(bf16, rows);

    const int expert = ids[blockIdx.y];
    LT_SHARED1(i32, joined, SLOTS);
    const i32 own = blockIdx.y, *const list = JOIN ? joined : &own;
    const int live = JOIN ? moe_slots(joined, ids, blockIdx.y, warp, lane) : expert >= 0 && expert < EXPERTS;
    const int slots = JOIN ? live : 1;
    const size_t units = (size_t)expert * ALL_TILES * UNITS;  // before the expert's
    fp4_stream weights;
    const moe_results to = {q, qs, qgs, *input_scale, 1.0f / *input_scale};
    moe_factors factors;
    if (live > 0) {
        fp4_begin(&weights, w + units * 1024, ws + units * 128, tile0, first, count, lane);
        factors.gate = lt_bits_f32(lt_ld32_once(sw + expert * SCALES));
        factors.up = lt_bits_f32(lt_ld32_once(sw + expert * SCALES + 1));
    }
    lt_pdl_wait();
    lt_pdl_launch();
    if (live == 0) return;
    for (int from = 0; from < slots; from += COLUMNS) {  // once, but where more slots chose the expert
        const int columns = slots - from < COLUMNS ? slots - from : COLUMNS;
        const x_rows rows_of = {x, xs, list + from, columns};
        float total[TILES][TOTALS];
        x_raw got[AT_ONCE];

        if (from > 0) fp4_begin(&weights, w + units * 1024, ws + units * 128, tile0, first, count, lane);
        if (JOIN) __syncthreads();  // the list is there, and nobody reads the last columns' rows and sums
        if (BLOCK) stage_ask(got, &rows_of, threadIdx.x);
        if (BLOCK) stage(rows, got, &rows_of);
        LT_SHARED2(float, room, WARPS, ROOM);
        const int item = warp * 2 + lane / 16, column = item / PAIRS < columns ? item / PAIRS : columns - 1;
        const int slot = list[from + column];
        const float of_x = gs[slot / SHARE];
        fp4_products(total, &weights, rows, &rows_of, first, count, lane);
        swiglu_keep(room[warp], total, columns, g, t);
        __syncthreads();
        if (warp * 2 / PAIRS >= columns) continue;
        swiglu_finish(to, room, item % PAIRS, column, item / PAIRS < columns ? slot : -1, of_x * factors.gate,
                      of_x * factors.up, LATE ? FP4_UNLIFT : FP4_UNSCALE * FP4_UNSCALE_ROW, lane);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a4_moe_swiglu__m1_topk1_experts1_n32_k16__m1l1t1s1g4u2j0b1(*(u8 **)a[0], *(e4m3 **)a[1], *(float **)a[2], *(const u8 **)a[3], *(const e4m3 **)a[4], *(const float **)a[5], *(const i32 **)a[6], *(const u8 **)a[7], *(const e4m3 **)a[8], *(const float **)a[9], *(const float **)a[10]); }
#endif
