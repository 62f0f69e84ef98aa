/* family kda_decode.bf16 rev 3, shape m1_tokens1_heads4_d64_n512_k64_stride900_slots1, variant w4s1, class delta4x2x8 */
// KDA from the rows of its projections to the gated norm: block (head, sequence), or SPLIT of them, a cluster, of which
// each has WIDTH columns. WARPS warps have their state in registers from the first token to the last, thread (run, c)
// columns 4c .. 4c + 3 of k run * STEPS .. + STEPS - 1; with HELPERS more they make what a token needs once. q and k
// are in shared memory as SiLU leaves them, and their norms go to the sums over k:
//   S = S * decay;  a = S . k / |k|;  b = S . q / |q| / sqrt(D);  delta = (v - a) * beta;  S = S + k / |k| * delta
//   o = b + k . q / |k| / |q| / sqrt(D) * delta
// The state and the window are those of the step before: no other kernel writes them, so they are read before the wait.
// Each block of a cluster makes q, k and the decays of the whole head, and the sums of squares of all of them make the
// norm. Its first one keeps the window of q and k: who has all sums knows that it is read.
enum { M = 1, TOKENS = 1, HEADS = 4, D = 64, N = 512, K = 64, STRIDE = 900, SLOTS = 1, WARPS = 4, SPLIT = 1 };
enum {
    THREADS = 32 * WARPS,                          // that have a state
    WIDTH = D / SPLIT,                             // columns of a block
    GATES = (D + WIDTH) / 16,                      // tiles of f, then of g, each a warp's
    TAKEN = (2 * D + WIDTH + 31) / 32,             // warps with channels, a thread each
    APART = M == 1 && SPLIT > 1,                   // have tiles warps of their own? Who has less to do is ready first
    BUSY = APART ? TAKEN + GATES : TAKEN > GATES ? TAKEN : GATES,
    ALL = (BUSY > WARPS ? BUSY : WARPS) + 2,       // the last two have a token's slices, then its norms and beta
    HELPERS = ALL - WARPS,
    SLICED = 1, CONVOLVED,                         // barriers
    COLS = WIDTH > 64 ? 32 : WIDTH > 32 ? 16 : 8,  // threads of a row of S
    RUNS = THREADS / COLS,
    STEPS = (D + RUNS - 1) / RUNS,                 // k of a run
    DEPTH = RUNS * STEPS,                          // D, and what lies beyond it: zeros
    CHANNELS = 3 * HEADS * D,                      // of q | k | v; then f_a, g_a, b
    LANES = (D + 31) / 32,                         // channels of a lane, where a warp has a head
    VALUES = (WIDTH + 31) / 32,                    // of these, those of the block's columns
    ONLY = SLOTS == 1 && M == TOKENS,              // one slot, one sequence: its state need not wait for slots
    TOGETHER = TOKENS < 4 ? TOKENS : 4,            // tokens whose inputs are asked for at once
    QUERY = 0, KEY = 1, DECAY = 2, FACTOR = 3,     // words of a channel in shared memory: of k, but factors of columns
    OUT = DECAY,                                   // once the state has decayed
    VALUE = 4 * DEPTH,                             // of the columns
    KEY_SCALE = VALUE + WIDTH, BETA, QUERY_SCALE, PRODUCT,
    SQUARES = KEY_SCALE + 4,                       // of o, the first of four words from each block of a cluster
    TOKEN = SQUARES + (SPLIT > 1 ? 4 * SPLIT : 0)
};
// KDA's two products of slices in bf16: a warp has a tile of 16 channels, as in bf16_gemv: lane (g, t) holds rows g and
// g + 8, k 8t .. 8t + 7 of a chunk of 32. The template's enum has K, TOKENS and SPLIT.
enum {
    CHUNKS = (K + 31) / 32,
    ROW = CHUNKS * 32,   // values of a slice: zeros from K on
    PRODUCTS = 2,        // products of a chunk
    EARLY = SPLIT > 1 && TOKENS == 1 && K <= 128  // does a tile fit into registers beside the state?
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

// A slice as it is; it has no scale. A warp has one.
LT_DEV float gate_slice(bf16 *to, const bf16 *from, int lane)
{
    LT_UNROLL(CHUNKS)
    for (int i = 0; i < CHUNKS; i++)
        to[lane + 32 * i] = lane + 32 * i < K ? from[lane + 32 * i] : lt_f32_bf16(0.0f);
    return 1.0f;
}

// Adds a chunk, a product to each sum, for `most` tokens whose slices g lie two rows from each other.
LT_DEV void gate_multiply(float (*sum)[4], u32 (*a)[4], bf16 (*slices)[ROW], int most, int chunk, int lane)
{
    const int g = lane / 4, t = lane % 4;
    uint4 row;
    row.x = row.y = row.z = row.w = 0;
    if (g < most) row = lt_ld128(slices[2 * g] + chunk * 32 + t * 8);
    const u32 b[4] = {row.x, row.y, row.z, row.w};
    LT_UNROLL(PRODUCTS)
    for (int j = 0; j < PRODUCTS; j++) lt_mma_m16n8k16_bf16(sum[j], a[j], b + 2 * j, sum[j]);
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

// A block of a cluster keeps its state in shared memory until there are registers for it, which tiles have before.
// from: a thread's first row.
LT_DEV void state_ask(float *room, const float *from, int k0, int column)
{
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++)
        if (is_state(k0 + i, column)) lt_cp_async16(room + i * 4 * THREADS, from + i * D);
    lt_cp_commit();
}

LT_DEV void state_take(float (*s)[4], const float *room, const float *from, int k0, int column)
{
    if (SPLIT > 1) lt_cp_wait(0);
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.0f;
        if (is_state(k0 + i, column)) load4(s[i], SPLIT > 1 ? room + i * 4 * THREADS : from + i * D);
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
    const int i = threadIdx.x, d = i % D;
    if (i < 2 * D) return (i / D * HEADS + head) * D + d;
    return i < 2 * D + WIDTH ? (2 * HEADS + head) * D + part_of() * WIDTH + d : -1;
}

// Where a token has it.
LT_DEV int word_of_channel(void)
{
    const int i = threadIdx.x;
    return i < 2 * D ? i % D * 4 + QUERY + i / D : VALUE + i - 2 * D;
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
    return lt_silu(sum);
}

// ---- decay, gate and beta ----

// A tile of 16 channels of f or g.
typedef struct {
    uint4 packed[CHUNKS][2];
    float scale[2];  // of the product, for channels g and g + 8
    float bias;      // of channel lane % 16: the decay's, or
    bf16 weight;     // the norm's
} gate_tile;

LT_DEV int tile_of(int i, int head)
{
    return (i / (D / 16) * HEADS + head) * (D / 16) + i % (D / 16) + i / (D / 16) * part_of() * (WIDTH / 16);
}

// sw: 0 where the product has no scales.
LT_DEV void tile_load(gate_tile *of, const gate_weight *w, const float *sw, const float *dt_bias, const bf16 *norm,
                      int i, int head)
{
    const int lane = threadIdx.x % 32, tile = tile_of(i, head), d = i % (D / 16) * 16 + lane % 16;
    LT_UNROLL(CHUNKS)
    for (int c = 0; c < CHUNKS && EARLY; c++) gate_load(of->packed[c], w, tile, c, lane);
    for (int j = 0; j < 2; j++) of->scale[j] = sw ? sw[tile * 16 + lane / 4 + 8 * j] : 1.0f;
    of->bias = 0.0f, of->weight = lt_f32_bf16(0.0f);
    if (i < D / 16)
        of->bias = dt_bias[head * D + d];
    else
        of->weight = norm[part_of() * WIDTH + d];
}

// f_a and g_a of all tokens, a slice a warp, the last warps first. x: of the first token.
LT_DEV void slices_make(gate_value (*slices)[ROW], float *scale, const bf16 *x)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    LT_UNROLL(1)
    for (int i = ALL - 1 - warp; i < 2 * TOKENS; i += ALL) {
        const float of = gate_slice(slices[i], x + (size_t)(i / 2) * STRIDE + CHANNELS + i % 2 * K, lane);
        if (lane == 0) scale[i] = of;
    }
}

// The products of tile i with the tokens t0 to t0 + 7, rounded to bf16, at the places of what becomes of them.
// parts: of its weights.
LT_DEV void gates_multiply(float *tokens, gate_value (*slices)[ROW], const float *scale, const gate_weight *w,
                           u32 (*parts)[PRODUCTS][4], const gate_tile *of, int i, int t0, int head)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, which = i / (D / 16);
    float sum[4][4] = {{0}};  // products that do not wait for each other
    LT_UNROLL(EARLY ? CHUNKS : 2)
    for (int c = 0; c < CHUNKS; c++) {
        uint4 packed[2];
        u32 late[PRODUCTS][4];
        if (!EARLY) gate_load(packed, w, tile_of(i, head), c, lane), gate_unpack(late, packed);
        gate_multiply(sum + c * PRODUCTS % 4, EARLY ? parts[c] : late, slices + 2 * t0 + which, TOKENS - t0, c, lane);
    }
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        const int m = t0 + 2 * t + j % 2, d = i % (D / 16) * 16 + g + j / 2 * 8;
        if (m >= TOKENS) continue;
        const float dot = sum[0][j] + sum[1][j] + (sum[2][j] + sum[3][j]);
        const float product = dot * (scale[2 * m + which] * of->scale[j / 2]);
        tokens[m * TOKEN + 4 * d + (which == 0 ? DECAY : FACTOR)] = lt_bf16_f32(lt_f32_bf16(product));
    }
}

// Tile i of the block: decays of f, factors of the norm of g. A warp has one.
LT_DEV void gates_finish(float *tokens, const gate_tile *of, float rate, int i)
{
    const int lane = threadIdx.x % 32, d = i % (D / 16) * 16 + lane % 16;
    LT_UNROLL(1)
    for (int m = lane / 16; m < TOKENS; m += 2) {
        float *const at = tokens + m * TOKEN + 4 * d + (i < D / 16 ? DECAY : FACTOR);
        const float share = lt_sigmoid(i < D / 16 ? rate * (*at + of->bias) : *at);
        *at = i < D / 16 ? lt_exp(-5.0f * share) : lt_bf16_f32(of->weight) * share;
    }
}

// Slices are there for the tiles, and q and k for their norms: each without the other, where the warps are others.
LT_DEV void inputs_meet(int has_tile, int turn)
{
    if (!APART) {
        __syncthreads();
    } else if (has_tile) {
        lt_bar_sync(SLICED, 32 * (GATES + 2));
    } else if (turn > 1) {
        lt_bar_arrive(CONVOLVED, 32 * (ALL - GATES));
    } else {
        lt_bar_arrive(SLICED, 32 * (GATES + 2));
        lt_bar_sync(CONVOLVED, 32 * (ALL - GATES));
    }
}

// Beta, of a token a thread, and zeros behind the head's channels. A warp has them.
LT_DEV void rest_make(float *tokens, bf16 logit, int lane)
{
    if (lane < TOKENS) tokens[lane * TOKEN + BETA] = lt_sigmoid(lt_bf16_f32(logit));
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
    const float norm = 1.0f / sqrtf(lane == 0 ? (queries + 1e-6f) * (float)D : keys + 1e-6f);
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
    float squares = 0.0f;
    LT_UNROLL(VALUES)
    for (int i = 0; i < VALUES; i++) {
        const int column = lane + 32 * i;
        if (column >= WIDTH) continue;
        float dot = room[0][column], out = room[0][4 * COLS + column];
        LT_UNROLL(WARPS)
        for (int w = 1; w < WARPS; w++) dot += room[w][column], out += room[w][4 * COLS + column];
        const float o = fmaf(product, delta_of(token[VALUE + column], dot, scales), out * scales.z);
        token[4 * column + OUT] = o;
        squares = fmaf(o, o, squares);
    }
    return lt_warp_sum(squares);
}

// The gated norm of a token's o. A warp has one. y: of the block's first column.
LT_DEV void token_finish(bf16 *y, const float *token, float squares, int lane)
{
    const float scale = 1.0f / sqrtf(squares / (float)D + 1e-5f);
    LT_UNROLL(VALUES)
    for (int i = 0; i < VALUES; i++) {
        const int column = lane + 32 * i;
        if (column < WIDTH) y[column] = lt_f32_bf16(token[4 * column + OUT] * scale * token[4 * column + FACTOR]);
    }
}

LT_KERNEL(32 * ALL, 1)
kda_decode_bf16__m1_tokens1_heads4_d64_n512_k64_stride900_slots1__w4s1(bf16 *y, float *state, float *window, const bf16 *x, const float *taps, const bf16 *w, const float *a_log, const float *dt_bias, const bf16 *norm, const i32 *slots, const i32 *snaps)
{
    LT_DYN_SHARED(float, tokens);
    LT_SHARED2(float, room, WARPS * (TOKENS > 1 ? 2 : 1), 8 * COLS);
    LT_SHARED2(gate_value, slices, 2 * TOKENS, ROW);
    LT_SHARED1(float, scale, 2 * TOKENS);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.x / SPLIT, part = part_of();
    const int is_helper = warp >= WARPS, turn = ALL - 1 - warp, channel = channel_of(head);
    const int tile = APART ? warp - TAKEN : warp, has_tile = tile >= 0 && tile < GATES;
    const int k0 = threadIdx.x / COLS * STEPS, column = threadIdx.x % COLS * 4;
    const size_t row = (size_t)blockIdx.y * TOKENS;
    float *const early = tokens + TOKENS * TOKEN + 4 * threadIdx.x;
    const int own = slots[blockIdx.y], from = ONLY ? 0 : own;
    float *const mine = state + ((i64)from * HEADS + head) * D * D + part * WIDTH + k0 * D + column;
    float *const past = window + ((i64)from * CHANNELS + channel) * 4;
    float tap[4] = {0}, now[4] = {0}, s[STEPS][4], rate = 0.0f;
    bf16 in[TOGETHER], logit = lt_f32_bf16(0.0f);
    u32 parts[CHUNKS][PRODUCTS][4];
    gate_tile of;

    if (from >= 0 && channel >= 0) {
        load4(tap, taps + (size_t)channel * 4);
        load4(now, past);
    }
    if (SPLIT > 1 && from >= 0 && !is_helper) state_ask(early, mine, k0, column);
    if (has_tile) {
        tile_load(&of, w, 0, dt_bias, norm, tile, head);
        rate = a_log[head];
    }
    lt_pdl_wait();
    lt_pdl_launch();
    x += row * STRIDE;
    if (turn == 1 && lane < TOKENS) logit = x[(size_t)lane * STRIDE + CHANNELS + 2 * K + head];
    if (channel >= 0) inputs_read(in, x + channel, 0);
    if (SPLIT > 1) lt_cluster_wait();
    if (has_tile) rate = lt_exp(rate);  // while x comes
    slices_make(slices, scale, x);
    if (own < 0) return;
    LT_UNROLL(1)
    for (int t = 0; t < TOKENS && channel >= 0; t++) {
        if (TOKENS > TOGETHER && t > 0 && t % TOGETHER == 0) inputs_read(in, x + channel, t);
        tokens[t * TOKEN + word_of_channel()] = convolve(now, tap, lt_bf16_f32(in[t % TOGETHER]));
    }
    LT_UNROLL(CHUNKS)
    for (int c = 0; c < CHUNKS && EARLY && has_tile; c++) gate_unpack(parts[c], of.packed[c]);
    inputs_meet(has_tile, turn);
    LT_UNROLL(1)
    for (int t = 0; t < TOKENS && has_tile; t += 8)
        gates_multiply(tokens, slices, scale, w, parts, &of, tile, t, head);
    if (!is_helper) state_take(s, early, mine, k0, column);
    __syncwarp();
    if (has_tile) gates_finish(tokens, &of, rate, tile);
    if (turn == 1) rest_make(tokens, logit, lane);
    LT_UNROLL(1)
    for (int t = turn; t < TOKENS; t += ALL) token_scales(tokens + t * TOKEN, lane);
    __syncthreads();
    y += (row * HEADS + head) * D + part * WIDTH;
    LT_UNROLL(1)
    for (int t = 0; t < TOKENS; t++) {
        float *const token = tokens + t * TOKEN;
        float(*const here)[8 * COLS] = room + t % 2 * WARPS;
        if (!is_helper) token_dots(s, token, here[warp], k0);
        __syncthreads();
        if (turn == t % HELPERS) {
            const float squares = token_out(token, here, lane);
            token_finish(y + (size_t)t * HEADS * D, token, squares, lane);
        }
        if (is_helper || column >= WIDTH) continue;
        token_add(s, token, here, k0);
    }
    if (!is_helper) state_store(mine, s, k0, column);
    if (channel >= 0 && (part == 0 || channel >= 2 * HEADS * D)) store4(past, now);
}
#ifndef __CUDACC__
void lt_entry(void **a) { kda_decode_bf16__m1_tokens1_heads4_d64_n512_k64_stride900_slots1__w4s1(*(bf16 **)a[0], *(float **)a[1], *(float **)a[2], *(const bf16 **)a[3], *(const float **)a[4], *(const bf16 **)a[5], *(const float **)a[6], *(const float **)a[7], *(const bf16 **)a[8], *(const i32 **)a[9], *(const i32 **)a[10]); }
#endif
