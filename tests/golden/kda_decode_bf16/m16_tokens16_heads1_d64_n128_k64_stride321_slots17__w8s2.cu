/* family kda_decode.bf16 rev 4, shape m16_tokens16_heads1_d64_n128_k64_stride321_slots17, variant w8s2, class delta8x4x2_2 */
// KDA from the rows of its projections to the gated norm: block (head, sequence), or SPLIT of them, a cluster, of which
// each has WIDTH columns. WARPS warps have their state in registers from the first token to the last, thread (run, c)
// columns 4c .. 4c + 3 of k run * STEPS .. + STEPS - 1. Warps with q and k, with tiles of f and g, and with v make what
// a token needs once; the last two kinds make slices before, and what leaves behind. q and k are in shared memory as
// SiLU leaves them, and their norms go to the sums over k:
//   S = S * decay;  a = S . k / |k|;  b = S . q / |q| / sqrt(D);  delta = (v - a) * beta;  S = S + k / |k| * delta
//   o = b + k . q / |k| / |q| / sqrt(D) * delta
// The state and the window are those of the step before: no other kernel writes them, so they are read before the wait;
// the state by the warps with tiles, for a warp waits for all that it loads into registers at once, behind their tiles.
// Each block of a cluster makes q, k and the decays of the whole head, and the sums of squares of all of them make the
// norm. Its first one keeps the window of q and k: who has all sums knows that it is read.
enum { M = 16, TOKENS = 16, HEADS = 1, D = 64, N = 128, K = 64, STRIDE = 321, SLOTS = 17, WARPS = 8, SPLIT = 2 };
enum {
    THREADS = 32 * WARPS,                          // that have a state
    WIDTH = D / SPLIT,                             // columns of a block
    FRONT = WARPS * 16 > D ? WARPS : D / 16,       // warps with q and k, a thread a channel; the first have the state
    TILES = D / 16, LATER = WIDTH / 16,            // tiles of f, a warp's each, then of g: the last of these warps'
    REST = WIDTH > 64 ? (WIDTH + 31) / 32 : 2,     // warps with v, a thread a channel
    OUTS = TILES + REST, ALL = FRONT + OUTS,       // warps that share slices
    LAST = TOKENS > 8 && OUTS > 8 ? 8 : OUTS,      // of them share the tokens that leave, the last one the first
    F = 0, G = 1,                                  // which product
    SLICED = 1, CONVOLVED, GATED, DOTTED,          // barriers: the last one is of each of these warps
    COLS = WIDTH > 64 ? 32 : WIDTH > 32 ? 16 : 8,  // threads of a row of S
    RUNS = THREADS / COLS,
    STEPS = (D + RUNS - 1) / RUNS,                 // k of a run
    DEPTH = RUNS * STEPS,                          // D, and what lies beyond it: zeros
    CHANNELS = 3 * HEADS * D,                      // of q | k | v; then f_a, g_a, b
    LANES = (D + 31) / 32,                         // channels of a lane, where a warp has a head
    VALUES = (WIDTH + 31) / 32,                    // of these, those of the block's columns
    EARLY = SPLIT > 1 && K <= 128,                 // does a warp ask for a tile before it has the slices?
    ONLY = SLOTS == 1 && M == TOKENS,              // one slot, one sequence: its state need not wait for slots
    TOGETHER = TOKENS < 4 ? TOKENS : 4,            // tokens whose inputs are asked for at once
    QUERY = 0, KEY = 1, DECAY = 2, FACTOR = 3,     // words of a channel in shared memory: of k, but factors of columns
    OUT = DECAY,                                   // once the state has decayed: o
    VALUE = 4 * DEPTH,                             // of the columns
    KEY_SCALE = VALUE + WIDTH, BETA, QUERY_SCALE, PRODUCT,
    SQUARES = KEY_SCALE + 4,                       // of o, the first of four words from each block of a cluster
    TOKEN = SQUARES + 4 * SPLIT,
    ROOM = TOKENS * TOKEN,                         // of the dots of a token, WARPS times 8 COLS words; then of the
    ROOMS = TOKENS <= LAST ? TOKENS : LAST + 1,    // state, and when that is taken of the dots of the next ones
};
// KDA's two products of slices in bf16: a warp has a tile of 16 channels, as in bf16_gemv: lane (g, t) holds rows g and
// g + 8, k 8t .. 8t + 7 of a chunk of 32. The template's enum has K.
enum {
    CHUNKS = (K + 31) / 32,
    ROW = CHUNKS * 32,   // values of a slice: zeros from K on
    PRODUCTS = 2,        // products of a chunk
    SCALED = 0,          // has a row of weights a scale?
};
typedef bf16 gate_weight;
typedef bf16 gate_value;

LT_DEV void gate_load(uint4 *weights, const bf16 *w, int tile, int chunk, int lane)
{
    const bf16 *unit = w + ((size_t)tile * CHUNKS + chunk) * 512 + lane * 8;
    weights[0] = lt_ld128_once(unit);
    weights[1] = lt_ld128_once(unit + 256);
}

// As the tensor cores take them.
LT_DEV void gate_unpack(u32 (*a)[4], const uint4 *w)
{
    a[0][0] = w[0].x, a[0][1] = w[1].x, a[0][2] = w[0].y, a[0][3] = w[1].y;
    a[1][0] = w[0].z, a[1][1] = w[1].z, a[1][2] = w[0].w, a[1][3] = w[1].w;
}

// What a lane has of a slice.
LT_DEV void gate_read(bf16 *raw, const bf16 *from, int lane)
{
    LT_UNROLL(CHUNKS)
    for (int i = 0; i < CHUNKS; i++) raw[i] = lane + 32 * i < K ? from[lane + 32 * i] : lt_f32_bf16(0.0f);
}

// A slice as it is; it has no scale. A warp has one.
LT_DEV float gate_slice(bf16 *to, const float *v, int lane)
{
    LT_UNROLL(CHUNKS)
    for (int i = 0; i < CHUNKS; i++) to[lane + 32 * i] = lt_f32_bf16(v[i]);
    return 1.0f;
}

// Adds a chunk, a product to each sum, for `most` tokens whose slices g lie two rows from each other;
// what it adds for others is nothing's.
LT_DEV void gate_multiply(float (*sum)[4], u32 (*a)[4], bf16 (*slices)[ROW], int most, int chunk, int lane)
{
    const int g = lane / 4, t = lane % 4;
    const uint4 row = lt_ld128(slices[g < most ? 2 * g : 0] + chunk * 32 + t * 8);
    const u32 b[4] = {row.x, row.y, row.z, row.w};
    LT_UNROLL(PRODUCTS)
    for (int j = 0; j < PRODUCTS; j++) lt_mma_m16n8k16_bf16(sum[j], a[j], b + 2 * j, sum[j]);
}
// What KDA takes of single numbers, without the branches of a division and a root: others wait for each of them.
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

// exp(x) of an x that is not above 0: as lt_exp, but down to 1 / lt_exp(89), by two powers of two for that.
LT_DEV float exp_down(float x)
{
    x = x < -88.72283f ? -88.72283f : x;
    const float shifted = x * 0x1.715476p+0f + 0x1.8p+23f, n = shifted - 0x1.8p+23f;
    float r = fmaf(n, -0x1.62e4p-1f, x), p = 0x1.6d10fcp-10f;
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    p = fmaf(p, r, 0x1.120b62p-7f);
    p = fmaf(p, r, 0x1.55551ap-5f);
    p = fmaf(p, r, 0x1.5554dep-3f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r * r, r);
    return (p + 1.0f) * lt_bits_f32((lt_f32_bits(shifted) << 23) + 0x5f800000u) * 0x1p-64f;
}

LT_DEV float sigmoid(float x)
{
    const float e = exp_down(-fabsf(x));
    return divided(x < 0.0f ? e : 1.0f, 1.0f + e);
}

// 1 / sqrt(x) of a normal positive x to the last places, NaN of infinity: a guess within 3.5 %, whose error is taken
// to the 4th power and then squared.
LT_DEV float reciprocal_root(float x)
{
    float y = lt_bits_f32(0x5f3759dfu - (lt_f32_bits(x) >> 1));
    float e = fmaf(-x * y, y, 1.0f);
    y = fmaf(y * e, fmaf(fmaf(0.3125f, e, 0.375f), e, 0.5f), y);
    e = fmaf(-x * y, y, 1.0f);
    return fmaf(y * e, 0.5f, y);
}

LT_DEV int part_of(void) { return SPLIT > 1 ? (int)(blockIdx.x % SPLIT) : 0; }

LT_DEV void load4(float *to, const float *from)
{
    const float4 v = lt_ld128f(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

LT_DEV void store4(float *to, const float *from)
{
    float4 v;
    v.x = from[0], v.y = from[1], v.z = from[2], v.w = from[3];
    *(float4 *)to = v;
}

LT_DEV int is_state(int k, int column) { return (DEPTH == D || k < D) && (4 * COLS == WIDTH || column < WIDTH); }

// Where a thread's state begins, in a head's columns of the block.
LT_DEV int state_of(int thread) { return thread / COLS * STEPS * D + thread % COLS * 4; }

// The warps with tiles ask for the state of a block of a cluster. head: the first of the block's columns.
LT_DEV void state_ask(float *room, const float *head)
{
    LT_UNROLL(1)
    for (int thread = threadIdx.x - 32 * FRONT; thread < THREADS; thread += 32 * TILES) {
        LT_UNROLL(STEPS)
        for (int i = 0; i < STEPS; i++)
            if (is_state(thread / COLS * STEPS + i, thread % COLS * 4))
                lt_cp_async16(room + (i * THREADS + thread) * 4, head + state_of(thread) + i * D);
    }
    lt_cp_commit();
}

LT_DEV void state_take(float (*s)[4], const float *room, const float *from, int k0, int column)
{
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.0f;
        if (is_state(k0 + i, column))
            load4(s[i], SPLIT > 1 ? room + (i * THREADS + (int)threadIdx.x) * 4 : from + i * D);
    }
}

LT_DEV void state_store(float *to, float (*s)[4], int k0, int column)  // to: a thread's first row
{
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++)
        if (is_state(k0 + i, column)) store4(to + i * D, s[i]);
}

// ---- q, k and v: a thread has a channel ----

// Of q | k | v; -1 for the threads behind them.
LT_DEV int channel_of(int head)
{
    const int i = threadIdx.x, j = i - 32 * (FRONT + TILES);
    if (i < 2 * D) return (i / D * HEADS + head) * D + i % D;
    return j >= 0 && j < WIDTH ? (2 * HEADS + head) * D + part_of() * WIDTH + j : -1;
}

// Where a token has it.
LT_DEV int word_of_channel(void)
{
    const int i = threadIdx.x;
    return i < 2 * D ? i % D * 4 + QUERY + i / D : VALUE + i - 32 * (FRONT + TILES);
}

// Asks for the tokens t0 and on.
LT_DEV void inputs_read(bf16 *in, const bf16 *x, int t0)
{
    LT_UNROLL(TOGETHER)
    for (int t = 0; t < TOGETHER; t++)
        if (t0 + t < TOKENS) in[t] = x[(size_t)(t0 + t) * STRIDE];
}

// The window takes x in; the taps on it, and SiLU.
LT_DEV float convolve(float *now, const float *tap, float x)
{
    now[0] = now[1], now[1] = now[2], now[2] = now[3], now[3] = x;
    float sum = now[0] * tap[0];
    for (int j = 1; j < 4; j++) sum = fmaf(now[j], tap[j], sum);
    return sum * sigmoid(sum);
}

// ---- decay, gate and beta ----

// A tile of 16 channels: of f, or of g.
typedef struct {
    uint4 packed[CHUNKS][2];
    float scale[2];  // of the product, for channels g and g + 8
    float last;      // of channel lane % 16: the decay's bias, or the norm's weight
} gate_tile;

LT_DEV int tile_of(int which, int i, int head)
{
    return which == F ? head * TILES + i : (HEADS + head) * TILES + part_of() * LATER + i;
}

// sw: of no use where the product has no scales.
LT_DEV void scales_load(gate_tile *of, const float *sw, int tile)
{
    for (int j = 0; j < 2; j++) of->scale[j] = SCALED ? sw[tile * 16 + threadIdx.x % 32 / 4 + 8 * j] : 1.0f;
}

LT_DEV void tile_load(gate_tile *of, const gate_weight *w, int tile)
{
    LT_UNROLL(CHUNKS)
    for (int c = 0; c < CHUNKS && EARLY; c++) gate_load(of->packed[c], w, tile, c, threadIdx.x % 32);
}

// A tile that waits in shared memory: each lane has its own part.
LT_DEV void tile_ask(uint4 *room, const gate_weight *w, int tile)
{
    const uint4 *const from = (const uint4 *)w + (size_t)tile * CHUNKS * 64 + threadIdx.x % 32;
    room += threadIdx.x % 32;
    LT_UNROLL(2 * CHUNKS)
    for (int i = 0; i < 2 * CHUNKS && EARLY; i++) lt_cp_async16(room + i * 32, from + i * 32);
    lt_cp_commit();
}

LT_DEV void tile_take(gate_tile *of, const uint4 *room)
{
    LT_UNROLL(2 * CHUNKS)
    for (int i = 0; i < 2 * CHUNKS && EARLY; i++) of->packed[i / 2][i % 2] = room[i * 32 + threadIdx.x % 32];
}

// Slice i of f_a and g_a of all tokens, if there is one. x: of the first token.
LT_DEV void slice_read(bf16 *raw, const bf16 *x, int i)
{
    if (i < 2 * TOKENS) gate_read(raw, x + (size_t)(i / 2) * STRIDE + CHANNELS + i % 2 * K, threadIdx.x % 32);
}

// The warp's slices, the next one read while one is made. raw: of i, the first.
LT_DEV void slices_make(gate_value (*slices)[ROW], float *scale, bf16 *raw, const bf16 *x, int i)
{
    const int lane = threadIdx.x % 32;
    LT_UNROLL(1)
    for (; i < 2 * TOKENS; i += OUTS) {
        float values[ROW / 32];
        LT_UNROLL(ROW / 32)
        for (int j = 0; j < ROW / 32; j++) values[j] = lt_bf16_f32(raw[j]);
        if (2 * TOKENS > OUTS) slice_read(raw, x, i + OUTS);
        const float of = gate_slice(slices[i], values, lane);
        if (lane == 0) scale[i] = of;
    }
}

// The products of tile i with the tokens t0 to t0 + 7, rounded to bf16, at the places of what becomes of them.
LT_DEV void gates_multiply(float *tokens, gate_value (*slices)[ROW], const float *scale, const gate_weight *w,
                           u32 (*parts)[PRODUCTS][4], const gate_tile *of, int which, int i, int t0, int head)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float sum[4][4] = {{0}}, by[2];  // products that do not wait for each other
    for (int j = 0; j < 2; j++) by[j] = scale[2 * (t0 + 2 * t + j < TOKENS ? t0 + 2 * t + j : 0) + which];
    LT_UNROLL(EARLY ? CHUNKS : 2)
    for (int c = 0; c < CHUNKS; c++) {
        uint4 packed[2];
        u32 late[PRODUCTS][4];
        if (!EARLY) gate_load(packed, w, tile_of(which, i, head), c, lane), gate_unpack(late, packed);
        gate_multiply(sum + c * PRODUCTS % 4, EARLY ? parts[c] : late, slices + 2 * t0 + which, TOKENS - t0, c, lane);
    }
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        const int m = t0 + 2 * t + j % 2, d = i * 16 + g + j / 2 * 8;
        if (m >= TOKENS) continue;
        const float dot = sum[0][j] + sum[1][j] + (sum[2][j] + sum[3][j]);
        tokens[m * TOKEN + 4 * d + (which == F ? DECAY : FACTOR)] =
            lt_bf16_f32(lt_f32_bf16(dot * (by[j % 2] * of->scale[j / 2])));
    }
}

// Of the products decays, or factors of the norm. rate: of decays.
LT_DEV void gates_finish(float *tokens, const gate_tile *of, float rate, int which, int i)
{
    const int lane = threadIdx.x % 32;
    LT_UNROLL(TOGETHER)
    for (int m = lane / 16; m < TOKENS; m += 2) {
        float *const at = tokens + m * TOKEN + 4 * (i * 16 + lane % 16) + (which == F ? DECAY : FACTOR);
        const float share = sigmoid(which == F ? rate * (*at + of->last) : *at);
        *at = which == F ? exp_down(-5.0f * share) : of->last * share;
    }
}

// A warp's tile.
LT_DEV void gates_make(float *tokens, gate_value (*slices)[ROW], const float *scale, const gate_weight *w,
                       u32 (*parts)[PRODUCTS][4], const gate_tile *of, float rate, int which, int i, int head)
{
    LT_UNROLL(1)
    for (int t = 0; t < TOKENS; t += 8) gates_multiply(tokens, slices, scale, w, parts, of, which, i, t, head);
    __syncwarp();
    gates_finish(tokens, of, rate, which, i);
}

// Beta, of a token a thread, and zeros behind the head's channels. A warp has them.
LT_DEV void rest_make(float *tokens, bf16 logit, int lane)
{
    if (lane < TOKENS) tokens[lane * TOKEN + BETA] = sigmoid(lt_bf16_f32(logit));
    for (int i = lane; i < 4 * TOKENS * (DEPTH - D); i += 32)
        tokens[i / (4 * (DEPTH - D)) * TOKEN + 4 * D + i % (4 * (DEPTH - D))] = 0.0f;
}

// ---- a token ----

// The norms of its queries and keys, and their product. A warp has one.
LT_DEV void token_scales(float *token, int lane)
{
    float queries = 0.0f, keys = 0.0f, product = 0.0f;
    LT_UNROLL(LANES)
    for (int i = 0; i < LANES; i++) {
        const int k = lane + 32 * i;
        if (k >= D) continue;
        const float query = token[4 * k + QUERY], key = token[4 * k + KEY];
        queries = fmaf(query, query, queries), keys = fmaf(key, key, keys), product = fmaf(query, key, product);
    }
    queries = lt_warp_sum(queries), keys = lt_warp_sum(keys), product = lt_warp_sum(product);
    const float norm = reciprocal_root(lane == 0 ? (queries + 1e-6f) * (float)D : keys + 1e-6f);
    if (lane == 0) token[QUERY_SCALE] = norm, token[PRODUCT] = product;
    if (lane == 1) token[KEY_SCALE] = norm;
}

// Its decay, and the two dots with the state: a warp's. In its butterfly a lane keeps half of what it has.
LT_DEV void token_dots(float (*s)[4], const float *token, float *room, int k0)
{
    const int lane = threadIdx.x % 32;
    float dot[8] = {0};  // with keys, of four columns, then with queries
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        const float4 in = lt_ld128f(token + 4 * (k0 + i));
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            s[i][j] *= in.z;
            dot[4 + j] = fmaf(s[i][j], in.x, dot[4 + j]);
            dot[j] = fmaf(s[i][j], in.y, dot[j]);
        }
    }
    LT_UNROLL(2)
    for (int o = 16; o >= COLS; o /= 2) {
        LT_UNROLL(4)
        for (int j = 0; j < o / 4; j++) {
            const float give = lane & o ? dot[j] : dot[j + o / 4], keep = lane & o ? dot[j + o / 4] : dot[j];
            dot[j] = keep + lt_shfl_xor_f32(0xffffffffu, give, o);
        }
    }
    float *const to = room + lane % COLS * 4 + (COLS < 32 && lane & 16 ? 4 * COLS : 0) + (COLS < 16 ? lane / 4 & 2 : 0);
    LT_UNROLL(8)
    for (int j = 0; j < COLS / 4; j++) to[j / 4 * 4 * COLS + j % 4] = dot[j];
}

LT_DEV float delta_of(float value, float dot, float4 scales)
{
    return (value - dot * scales.x) * scales.y;
}

// The warps' dots meet, and the state takes the token in.
LT_DEV void token_add(float (*s)[4], const float *token, float (*room)[8 * COLS], int k0)
{
    const int column = threadIdx.x % COLS * 4;
    const float4 scales = lt_ld128f(token + KEY_SCALE);
    float value[4], change[4];
    load4(value, token + VALUE + column);
    load4(change, room[0] + column);
    LT_UNROLL(WARPS)
    for (int w = 1; w < WARPS; w++) {
        float more[4];
        load4(more, room[w] + column);
        for (int j = 0; j < 4; j++) change[j] += more[j];
    }
    for (int j = 0; j < 4; j++) change[j] = delta_of(value[j], change[j], scales) * scales.x;
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) s[i][j] = fmaf(token[4 * (k0 + i) + KEY], change[j], s[i][j]);
    }
}

// o of the block's columns, and the sum of its squares. A warp has one.
LT_DEV float token_out(float *token, float (*room)[8 * COLS], int lane)
{
    const float4 scales = lt_ld128f(token + KEY_SCALE);
    const float product = scales.w * scales.x * scales.z;
    float squares = 0.0f, dot[VALUES], out[VALUES];
    LT_UNROLL(VALUES)
    for (int i = 0; i < VALUES; i++) {
        const int column = lane + 32 * i < WIDTH ? lane + 32 * i : 0;
        dot[i] = room[0][column], out[i] = room[0][4 * COLS + column];
        LT_UNROLL(WARPS)
        for (int w = 1; w < WARPS; w++) dot[i] += room[w][column], out[i] += room[w][4 * COLS + column];
        out[i] = fmaf(product, delta_of(token[VALUE + column], dot[i], scales), out[i] * scales.z);
    }
    LT_UNROLL(VALUES)
    for (int i = 0; i < VALUES; i++) {
        const int column = lane + 32 * i;
        if (column >= WIDTH) continue;
        token[4 * column + OUT] = out[i];
        squares = fmaf(out[i], out[i], squares);
    }
    return lt_warp_sum(squares);
}

// The gated norm of a token's o, once all sums of squares have met. A warp has one. y: of the block's first column.
LT_DEV void token_finish(bf16 *y, const float *token, u64 *met, int lane)
{
    float out[VALUES], factor[VALUES];
    LT_UNROLL(VALUES)
    for (int i = 0; i < VALUES; i++) {
        const int column = lane + 32 * i < WIDTH ? lane + 32 * i : 0;
        out[i] = token[4 * column + OUT], factor[i] = token[4 * column + FACTOR];
    }
    if (SPLIT > 1) lt_mbar_wait(met, 0);
    float squares = token[SQUARES];
    for (int i = 1; i < SPLIT; i++) squares += token[SQUARES + 4 * i];
    const float scale = reciprocal_root(squares / (float)D + 1e-5f);
    LT_UNROLL(VALUES)
    for (int i = 0; i < VALUES; i++) {
        const int column = lane + 32 * i;
        if (column < WIDTH) y[column] = lt_f32_bf16(out[i] * scale * factor[i]);
    }
}

LT_KERNEL(32 * ALL, 1)
LT_CLUSTER(SPLIT)
kda_decode_bf16__m16_tokens16_heads1_d64_n128_k64_stride321_slots17__w8s2(bf16 *y, float *state, float *window, const bf16 *x, const float *taps, const bf16 *w, const float *a_log, const float *dt_bias, const bf16 *norm, const i32 *slots, const i32 *snaps)
{
    LT_DYN_SHARED(float, tokens);
    LT_SHARED2(gate_value, slices, 2 * TOKENS, ROW);
    LT_SHARED1(float, scale, 2 * TOKENS);
    LT_SHARED2(uint4, later, EARLY ? LATER : 1, EARLY ? 64 * CHUNKS : 1);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.x / SPLIT, part = part_of();
    const int has_state = warp < WARPS, tile = warp - FRONT, has_tile = tile >= 0 && tile < TILES;
    const int next = tile + LATER - TILES, has_next = has_tile && next >= 0;  // of g
    const int turn = ALL - 1 - warp, is_front = turn >= OUTS, channel = channel_of(head);
    const int is_last = !is_front && (TOKENS <= LAST || turn < LAST);
    const int k0 = threadIdx.x / COLS * STEPS, column = threadIdx.x % COLS * 4;
    const size_t row = (size_t)blockIdx.y * TOKENS;
    float(*const room)[8 * COLS] = (float(*)[8 * COLS])(tokens + ROOM);
    float *const early = tokens + ROOM + WARPS * 8 * COLS;
    LT_SHARED1(u64, met, 1);  // the squares from all blocks of a cluster
    const int own = slots[blockIdx.y], from = ONLY ? 0 : own;
    float *const whole = state + ((i64)from * HEADS + head) * D * D + part * WIDTH;
    float *const mine = whole + state_of(threadIdx.x);
    float *const past = window + ((i64)from * CHANNELS + channel) * 4;
    float tap[4] = {0}, now[4] = {0}, s[STEPS][4], a = 0.0f;
    bf16 in[TOGETHER], raw[ROW / 32], logit = lt_f32_bf16(0.0f), weight = logit;
    u32 parts[CHUNKS][PRODUCTS][4];
    const float *const row_scales = 0;
    gate_tile of, then;

    if (from >= 0 && channel >= 0) {
        load4(tap, taps + (size_t)channel * 4);
        load4(now, past);
    }
    if (has_tile) {
        tile_load(&of, w, tile_of(F, tile, head));
        scales_load(&of, row_scales, tile_of(F, tile, head));
        of.last = dt_bias[head * D + tile * 16 + lane % 16], a = a_log[head];
    }
    if (has_next && from >= 0) {
        tile_ask(later[next], w, tile_of(G, next, head));
        scales_load(&then, row_scales, tile_of(G, next, head));
        weight = norm[part * WIDTH + next * 16 + lane % 16];
    }
    if (SPLIT > 1) {
        if (threadIdx.x == 32 * (ALL - 1)) {
            lt_mbar_init(met, 1);
            lt_mbar_fence();
            lt_mbar_expect(met, 16 * SPLIT * TOKENS);
        }
        __syncwarp();
        lt_cluster_begin();  // no load moves behind it: the state comes after all that gates wait for
        if (has_tile && from >= 0) state_ask(early, whole);
    }
    lt_pdl_wait();
    lt_pdl_launch();
    x += row * STRIDE;
    if (warp == 1 && lane < TOKENS) logit = x[(size_t)lane * STRIDE + CHANNELS + 2 * K + head];
    if (channel >= 0) inputs_read(in, x + channel, 0);
    if (!is_front) slice_read(raw, x, turn);
    if (!is_front) slices_make(slices, scale, raw, x, turn);
    if (own < 0) {
        lt_cp_wait(0);
        return;
    }
    if (turn < REST) lt_bar_arrive(SLICED, 32 * OUTS);
    LT_UNROLL(1)
    for (int t0 = 0; t0 < TOKENS && channel >= 0; t0 += TOGETHER) {
        bf16 ahead[TOGETHER];
        if (TOKENS > TOGETHER) inputs_read(ahead, x + channel, t0 + TOGETHER);
        LT_UNROLL(TOGETHER)
        for (int i = 0; i < TOGETHER; i++) {
            const int t = t0 + i;
            if (t >= TOKENS) break;
            tokens[t * TOKEN + word_of_channel()] = convolve(now, tap, lt_bf16_f32(in[i]));
            const int to = SLOTS > 1 ? snaps[row + t] : -1;
            if (to >= 0 && (part == 0 || channel >= 2 * HEADS * D))
                store4(window + ((size_t)to * CHANNELS + channel) * 4, now);
            if (t + TOGETHER < TOKENS) in[i] = ahead[i];
        }
    }
    if (SPLIT > 1) lt_cluster_wait();  // the others have begun
    if (has_tile) {
        const float rate = lt_exp(a);
        LT_UNROLL(CHUNKS)
        for (int c = 0; c < CHUNKS && EARLY; c++) gate_unpack(parts[c], of.packed[c]);
        lt_bar_sync(SLICED, 32 * OUTS);
        gates_make(tokens, slices, scale, w, parts, &of, rate, F, tile, head);
        lt_cp_wait(0);
    } else if (is_front) {
        lt_bar_sync(CONVOLVED, 32 * FRONT);
        LT_UNROLL(1)
        for (int t = warp; t < TOKENS; t += FRONT) token_scales(tokens + t * TOKEN, lane);
        if (warp == 1) rest_make(tokens, logit, lane);
    }
    __syncthreads();
    y += (row * HEADS + head) * D + part * WIDTH;
    if (!is_front) {
        if (has_next) {
            tile_take(&then, later[next]);
            then.last = lt_bf16_f32(weight);
            LT_UNROLL(CHUNKS)
            for (int c = 0; c < CHUNKS && EARLY; c++) gate_unpack(parts[c], then.packed[c]);
            gates_make(tokens, slices, scale, w, parts, &then, 0.0f, G, next, head);
        }
        LT_UNROLL(1)
        for (int t = turn; t < TOKENS && is_last; t += LAST) {
            float *const token = tokens + t * TOKEN;
            lt_bar_sync(DOTTED + turn, 32 * (WARPS + 1));
            const float squares = token_out(token, room + (TOKENS > ROOMS ? t % ROOMS : t) * WARPS, lane);
            const uint4 gift = {lt_f32_bits(squares), 0, 0, 0};
            if (SPLIT > 1 && lane < SPLIT) lt_cluster_give128(token + SQUARES + 4 * part, lane, gift, met);
            if (SPLIT == 1 && lane == 0) token[SQUARES] = squares;
        }
    } else if (has_state) {
        state_take(s, early, mine, k0, column);
        LT_UNROLL(1)
        for (int t = 0; t < TOKENS; t++) {
            const float *const token = tokens + t * TOKEN;
            float(*const here)[8 * COLS] = room + (TOKENS > ROOMS ? t % ROOMS : t) * WARPS;
            token_dots(s, token, here[warp], k0);
            lt_bar_sync(DOTTED + t % LAST, 32 * (WARPS + 1));
            if (column >= WIDTH) continue;
            token_add(s, token, here, k0);
            const int to = SLOTS > 1 ? snaps[row + t] : -1;
            if (to >= 0) state_store(mine + ((i64)to - own) * HEADS * D * D, s, k0, column);
        }
        state_store(mine, s, k0, column);
    }
    if (!is_front) lt_bar_sync(GATED, 32 * OUTS);
    LT_UNROLL(1)
    for (int t = turn; t < TOKENS && is_last; t += LAST)
        token_finish(y + (size_t)t * HEADS * D, tokens + t * TOKEN, met, lane);
    if (SPLIT > 1) lt_mbar_wait(met, 0);
    if (channel >= 0 && (part == 0 || channel >= 2 * HEADS * D)) store4(past, now);
}
#ifndef __CUDACC__
void lt_entry(void **a) { kda_decode_bf16__m16_tokens16_heads1_d64_n128_k64_stride321_slots17__w8s2(*(bf16 **)a[0], *(float **)a[1], *(float **)a[2], *(const bf16 **)a[3], *(const float **)a[4], *(const bf16 **)a[5], *(const float **)a[6], *(const float **)a[7], *(const bf16 **)a[8], *(const i32 **)a[9], *(const i32 **)a[10]); }
#endif
