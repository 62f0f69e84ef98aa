/* family kda_decode.bf16 rev 2, shape m16_tokens16_heads1_d64_n128_k64_stride321_slots17, variant w16s1, class delta16x2x2 */
// KDA from the rows of its projections to the gated norm: block (head, sequence), or SPLIT of them, a cluster, of which
// each has WIDTH columns. WARPS warps have their state in registers from the first token to the last, thread (run, c)
// columns 4c .. 4c + 3 of k run * STEPS .. + STEPS - 1; HELPERS more make what a token needs once. q and k are in
// shared memory as SiLU leaves them, and their norms go to the sums over k:
//   S = S * decay;  a = S . k / |k|;  b = S . q / |q| / sqrt(D);  delta = (v - a) * beta;  S = S + k / |k| * delta
//   o = b + k . q / |k| / |q| / sqrt(D) * delta
// The state and the window are those of the step before: no other kernel writes them, so they are read before the wait.
// Each block of a cluster makes q, k and the decays of the whole head; its first one keeps their window, and the sums
// of squares of all of them make the norm.
enum { M = 16, TOKENS = 16, HEADS = 1, D = 64, N = 128, K = 64, STRIDE = 321, SLOTS = 17, WARPS = 16, SPLIT = 1 };
enum {
    THREADS = 32 * WARPS,                          // that have a state
    WIDTH = D / SPLIT,                             // columns of a block
    GATES = (D + WIDTH) / 16,                      // tiles of f, then of g, each a warp's
    HELPERS = 3 + (GATES > WARPS ? GATES - WARPS : 0),  // a token has three sums of q and k
    ALL = WARPS + HELPERS,
    COLS = WIDTH > 64 ? 32 : WIDTH > 32 ? 16 : 8,  // threads of a row of S
    RUNS = THREADS / COLS,
    STEPS = (D + RUNS - 1) / RUNS,                 // k of a run
    DEPTH = RUNS * STEPS,                          // D, and what lies beyond it: zeros
    CHANNELS = 3 * HEADS * D,                      // of q | k | v; then f_a, g_a, b
    INPUTS = 2 * DEPTH + (SPLIT > 1 ? WIDTH : DEPTH),
    EACH = (INPUTS + THREADS - 1) / THREADS,       // inputs of a thread
    LANES = (D + 31) / 32,                         // channels of a lane, where a warp has a head
    VALUES = (WIDTH + 31) / 32,                    // of these, those of the block's columns
    ONLY = SLOTS == 1 && M == TOKENS,              // one slot, one sequence: its state need not wait for slots
    TOGETHER = TOKENS < 4 ? TOKENS : 4,            // tokens whose inputs are asked for at once
    DECAY = 0, QUERY = 1, KEY = 2, VALUE = 3,      // words of a channel in shared memory
    OUT = DECAY,                                   // once the state has decayed
    FACTOR = 4 * DEPTH,                            // of a channel of the norm
    KEY_SCALE = 5 * DEPTH, QUERY_SCALE, PRODUCT, BETA,
    SQUARES = 5 * DEPTH + 4,                       // of o, a word for each block of a cluster
    TOKEN = SQUARES + (SPLIT > 1 ? 4 : 0)
};
// KDA's two products of slices in bf16: a warp has a tile of 16 channels, as in bf16_gemv: lane (g, t) holds rows g and
// g + 8, k 8t .. 8t + 7 of a chunk of 32. The template's enum has K and TOKENS.
enum {
    CHUNKS = (K + 31) / 32,
    ROW = CHUNKS * 32,   // values of a slice: zeros from K on
    EARLY = TOKENS == 1  // does a tile fit into registers beside the inputs of the tokens?
};
typedef bf16 gate_code;

LT_DEV void gate_weights(uint4 *weights, const bf16 *w, int tile, int chunk, int lane)
{
    const bf16 *unit = w + ((size_t)tile * CHUNKS + chunk) * 512 + lane * 8;
    weights[0] = lt_ld128_once(unit);
    weights[1] = lt_ld128_once(unit + 256);
}

// Half of a slice as it is; it has no scale. A warp has one.
LT_DEV float gate_slice(bf16 *to, const bf16 *from, int half, int lane)
{
    LT_UNROLL(CHUNKS)
    for (int i = 0; i < CHUNKS; i++) {
        if (i % 2 != half) continue;
        to[lane + 32 * i] = lane + 32 * i < K ? from[lane + 32 * i] : lt_f32_bf16(0.0f);
    }
    return 1.0f;
}

// Adds a chunk to the sums of slices g, of `most` that lie `apart` rows from each other.
LT_DEV void gate_multiply(float *sum, const uint4 *w, bf16 (*slices)[ROW], int apart, int most, int chunk, int lane)
{
    const int g = lane / 4, t = lane % 4;
    const u32 a[2][4] = {{w[0].x, w[1].x, w[0].y, w[1].y}, {w[0].z, w[1].z, w[0].w, w[1].w}};
    uint4 row;
    row.x = row.y = row.z = row.w = 0;
    if (g < most) row = lt_ld128(slices[g * apart] + chunk * 32 + t * 8);
    const u32 b[4] = {row.x, row.y, row.z, row.w};
    lt_mma_m16n8k16_bf16(sum, a[0], b, sum);
    lt_mma_m16n8k16_bf16(sum, a[1], b + 2, sum);
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

LT_DEV void state_load(float (*s)[4], const float *state, int k0, int column)  // state: of the block's first column
{
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.0f;
        if (is_state(k0 + i, column)) load4(s[i], state + (size_t)(k0 + i) * D + column);
    }
}

LT_DEV void state_store(float *state, float (*s)[4], int k0, int column)
{
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++)
        if (is_state(k0 + i, column)) store4(state + (size_t)(k0 + i) * D + column, s[i]);
}

// ---- q, k and v ----

// Input i of a block is one of q, k, v, of one of its channels; and where that lies in a row of x.
LT_DEV int is_input(int i) { return i < INPUTS; }
LT_DEV int is_channel(int i) { return is_input(i) && (DEPTH == D || i % DEPTH < D); }
LT_DEV int channel_of(int i, int head)
{
    return (i / DEPTH * HEADS + head) * D + i % DEPTH + (i / DEPTH == 2 ? part_of() * WIDTH : 0);
}
LT_DEV int is_kept(int i) { return is_channel(i) && (i / DEPTH == 2 || part_of() == 0); }  // here, in the window

LT_DEV void inputs_load(float (*tap)[4], float (*now)[4], const float *taps, const float *window, int head)
{
    LT_UNROLL(EACH)
    for (int n = 0; n < EACH; n++) {
        const int i = threadIdx.x + n * THREADS;
        if (!is_channel(i)) continue;
        load4(tap[n], taps + (size_t)channel_of(i, head) * 4);
        load4(now[n], window + (size_t)channel_of(i, head) * 4);
    }
}

// Asks for the tokens t0 and on of input i.
LT_DEV void input_read(bf16 *in, int i, int t0, const bf16 *x, int head)
{
    LT_UNROLL(TOGETHER)
    for (int t = 0; t < TOGETHER; t++)
        if (is_channel(i) && t0 + t < TOKENS) in[t] = x[(size_t)(t0 + t) * STRIDE + channel_of(i, head)];
}

// The window takes x in; the taps on it, and SiLU.
LT_DEV float convolve(float *now, const float *tap, float x)
{
    now[0] = now[1], now[1] = now[2], now[2] = now[3], now[3] = x;
    float sum = now[0] * tap[0];
    for (int j = 1; j < 4; j++) sum = fmaf(now[j], tap[j], sum);
    return lt_silu(sum);
}

// They go to shared memory. pool: of windows; lane t of kept has the slot for what token t leaves, or -1.
LT_DEV void input_make(float *tokens, const bf16 *in, int i, int t0, float *now, const float *tap, float *pool,
                       int kept, int head)
{
    LT_UNROLL(TOGETHER)
    for (int t = 0; t < TOGETHER && t0 + t < TOKENS; t++) {
        const float v = is_channel(i) ? convolve(now, tap, lt_bf16_f32(in[t])) : 0.0f;
        if (is_input(i)) tokens[(t0 + t) * TOKEN + i % DEPTH * 4 + QUERY + i / DEPTH] = v;
        const int to = (int)lt_shfl_u32(0xffffffffu, (u32)kept, t0 + t);
        if (to >= 0 && is_kept(i)) store4(pool + ((size_t)to * CHANNELS + channel_of(i, head)) * 4, now);
    }
}

// ---- decay, gate and beta ----

// What a tile of 16 channels of f or g needs besides its weights.
typedef struct {
    float scale[2];  // of the product, for channels g and g + 8
    float aside;     // of channel lane % 16: the decay's bias, or the norm's weight
} gate_tile;

LT_DEV int tile_of(int i, int head)
{
    return (i / (D / 16) * HEADS + head) * (D / 16) + i % (D / 16) + i / (D / 16) * part_of() * (WIDTH / 16);
}

// sw: 0 where the product has no scales.
LT_DEV void tile_load(uint4 (*weights)[2], gate_tile *of, const gate_code *w, const float *sw, const float *dt_bias,
                      const bf16 *norm, int head)
{
    const int lane = threadIdx.x % 32, i = threadIdx.x / 32;
    const int tile = tile_of(i, head), d = i % (D / 16) * 16 + lane % 16;
    if (i >= GATES) return;
    LT_UNROLL(CHUNKS)
    for (int c = 0; c < CHUNKS && EARLY; c++) gate_weights(weights[c], w, tile, c, lane);
    for (int j = 0; j < 2; j++) of->scale[j] = sw ? sw[tile * 16 + lane / 4 + 8 * j] : 1.0f;
    of->aside = i < D / 16 ? dt_bias[head * D + d] : lt_bf16_f32(norm[part_of() * WIDTH + d]);
}

// f_a and g_a of all tokens, half a slice a warp, those without inputs first. x: of the first token.
LT_DEV void slices_make(gate_code (*slices)[ROW], float *scale, const bf16 *x)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = ALL - 1 - warp; i < 4 * TOKENS; i += ALL) {
        const int slice = i / 2;
        const bf16 *from = x + (size_t)(slice / 2) * STRIDE + CHANNELS + slice % 2 * K;
        const float of = gate_slice(slices[slice], from, i % 2, lane);
        if (lane == 0 && i % 2 == 0) scale[slice] = of;
    }
}

// The products of tile i with the tokens t0 to t0 + 7, rounded to bf16, at the places of what becomes of them.
LT_DEV void gates_multiply(float *tokens, gate_code (*slices)[ROW], const float *scale, const gate_code *w,
                           uint4 (*weights)[2], const gate_tile *of, int i, int t0, int head)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, which = i / (D / 16);
    float sum[2][4] = {{0}};  // of even and of odd chunks, which need not wait for each other
    LT_UNROLL(EARLY ? CHUNKS : 2)
    for (int c = 0; c < CHUNKS; c++) {
        uint4 late[2];
        if (!EARLY) gate_weights(late, w, tile_of(i, head), c, lane);
        gate_multiply(sum[c % 2], EARLY ? weights[c] : late, slices + 2 * t0 + which, 2, TOKENS - t0, c, lane);
    }
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        const int m = t0 + 2 * t + j % 2, d = i % (D / 16) * 16 + g + j / 2 * 8;
        if (m >= TOKENS) continue;
        const float product = (sum[0][j] + sum[1][j]) * (scale[2 * m + which] * of->scale[j / 2]);
        tokens[m * TOKEN + (which == 0 ? 4 * d + DECAY : FACTOR + d)] = lt_bf16_f32(lt_f32_bf16(product));
    }
}

// Tile i of the block: decays of f, factors of the norm of g. A warp has one.
LT_DEV void gates_make(float *tokens, gate_code (*slices)[ROW], const float *scale, const gate_code *w,
                       uint4 (*weights)[2], const gate_tile *of, int i, float rate, int head)
{
    const int lane = threadIdx.x % 32, d = i % (D / 16) * 16 + lane % 16;
    LT_UNROLL(1)
    for (int t = 0; t < TOKENS; t += 8) gates_multiply(tokens, slices, scale, w, weights, of, i, t, head);
    __syncwarp();
    for (int m = lane / 16; m < TOKENS; m += 2) {
        float *const at = tokens + m * TOKEN + (i < D / 16 ? 4 * d + DECAY : FACTOR + d);
        *at = i < D / 16 ? lt_exp(-5.0f * lt_sigmoid(rate * (*at + of->aside))) : of->aside * lt_sigmoid(*at);
    }
}

// Beta, of a token a helper's thread, and decays of zeros.
LT_DEV void rest_make(float *tokens, bf16 logit)
{
    const int j = threadIdx.x - THREADS;
    if (j < TOKENS) tokens[j * TOKEN + BETA] = lt_sigmoid(lt_bf16_f32(logit));
    for (int i = j; i < TOKENS * (DEPTH - D); i += 32 * HELPERS)
        tokens[i / (DEPTH - D) * TOKEN + 4 * (D + i % (DEPTH - D)) + DECAY] = 0.0f;
}

// ---- a token ----

// One of the sums of a token's queries and keys. A warp has one.
LT_DEV void token_scale(float *token, int which, int lane)
{
    const int first = which == KEY_SCALE ? KEY : QUERY, second = which == QUERY_SCALE ? QUERY : KEY;
    float sum = 0.0f;
    LT_UNROLL(LANES)
    for (int i = 0; i < LANES; i++) {
        const int k = lane + 32 * i;
        if (k < D) sum = fmaf(token[4 * k + first], token[4 * k + second], sum);
    }
    sum = lt_warp_sum(sum);
    if (which != PRODUCT) sum = 1.0f / sqrtf((sum + 1e-6f) * (which == KEY_SCALE ? 1.0f : (float)D));
    if (lane == 0) token[which] = sum;
}

// Its decay, and the two dots with the state, of each warp.
LT_DEV void token_dots(float (*s)[4], const float *token, float *room, int k0)
{
    const int c = threadIdx.x % COLS;
    float a[4] = {0}, b[4] = {0};
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        const float4 in = lt_ld128f(token + 4 * (k0 + i));
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            s[i][j] *= in.x;
            b[j] = fmaf(s[i][j], in.y, b[j]);
            a[j] = fmaf(s[i][j], in.z, a[j]);
        }
    }
    LT_UNROLL(2)
    for (int o = COLS; o < 32; o *= 2) {
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            a[j] += lt_shfl_xor_f32(0xffffffffu, a[j], o);
            b[j] += lt_shfl_xor_f32(0xffffffffu, b[j], o);
        }
    }
    if (threadIdx.x % 32 >= COLS) return;
    store4(room + 4 * c, a);
    store4(room + 4 * COLS + 4 * c, b);
}

LT_DEV float delta_of(const float *token, float dot, int column)
{
    return (token[4 * column + VALUE] - dot * token[KEY_SCALE]) * token[BETA];
}

// The warps' dots meet, and the state takes the token in.
LT_DEV void token_add(float (*s)[4], const float *token, float (*room)[8 * COLS], int k0)
{
    const int column = threadIdx.x % COLS * 4;
    float change[4];
    load4(change, room[0] + column);
    LT_UNROLL(WARPS)
    for (int w = 1; w < WARPS; w++) {
        float more[4];
        load4(more, room[w] + column);
        for (int j = 0; j < 4; j++) change[j] += more[j];
    }
    for (int j = 0; j < 4; j++) change[j] = delta_of(token, change[j], column + j) * token[KEY_SCALE];
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) s[i][j] = fmaf(token[4 * (k0 + i) + KEY], change[j], s[i][j]);
    }
}

// o of the block's columns, and the sum of its squares. A warp has one.
LT_DEV float token_out(float *token, float (*room)[8 * COLS], int lane)
{
    const float product = token[PRODUCT] * token[KEY_SCALE] * token[QUERY_SCALE];
    float squares = 0.0f;
    LT_UNROLL(VALUES)
    for (int i = 0; i < VALUES; i++) {
        const int column = lane + 32 * i;
        if (column >= WIDTH) continue;
        float dot = room[0][column], out = room[0][4 * COLS + column];
        LT_UNROLL(WARPS)
        for (int w = 1; w < WARPS; w++) dot += room[w][column], out += room[w][4 * COLS + column];
        const float o = fmaf(product, delta_of(token, dot, column), out * token[QUERY_SCALE]);
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
        if (column < WIDTH) y[column] = lt_f32_bf16(token[4 * column + OUT] * scale * token[FACTOR + column]);
    }
}

LT_KERNEL(32 * ALL, 1)
kda_decode_bf16__m16_tokens16_heads1_d64_n128_k64_stride321_slots17__w16s1(bf16 *y, float *state, float *window, const bf16 *x, const float *taps, const bf16 *w, const float *a_log, const float *dt_bias, const bf16 *norm, const i32 *slots, const i32 *snaps)
{
    LT_DYN_SHARED(float, tokens);
    LT_SHARED2(float, room, WARPS * (TOKENS > 1 ? 2 : 1), 8 * COLS);
    LT_SHARED2(gate_code, slices, 2 * TOKENS, ROW);
    LT_SHARED1(float, scale, 2 * TOKENS);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.x / SPLIT, part = part_of();
    const int is_helper = warp >= WARPS, turn = ALL - 1 - warp;
    const int k0 = threadIdx.x / COLS * STEPS, column = threadIdx.x % COLS * 4;
    const size_t row = (size_t)blockIdx.y * TOKENS;
    if (SPLIT > 1) lt_cluster_arrive();  // the block is there; before the loads, for which it would wait
    const int own = slots[blockIdx.y], from = ONLY ? 0 : own;
    const int kept = lane < TOKENS ? snaps[row + lane] : -1;
    float *const mine = state + ((i64)from * HEADS + head) * D * D + part * WIDTH;
    float *const past = window + (i64)from * CHANNELS * 4;
    float tap[EACH][4] = {{0}}, now[EACH][4] = {{0}}, s[STEPS][4], rate;
    bf16 in[EACH][TOGETHER], logit = lt_f32_bf16(0.0f);
    uint4 weights[CHUNKS][2];
    gate_tile of;

    if (!is_helper && from >= 0) {
        state_load(s, mine, k0, column);
        inputs_load(tap, now, taps, past, head);
    }
    tile_load(weights, &of, w, 0, dt_bias, norm, head);
    rate = a_log[head];
    lt_pdl_wait();
    lt_pdl_launch();
    x += row * STRIDE;
    if (is_helper && threadIdx.x - THREADS < TOKENS)
        logit = x[(size_t)(threadIdx.x - THREADS) * STRIDE + CHANNELS + 2 * K + head];
    LT_UNROLL(EACH)
    for (int n = 0; n < EACH && !is_helper; n++) input_read(in[n], threadIdx.x + n * THREADS, 0, x, head);
    slices_make(slices, scale, x);
    if (own < 0) return;
    LT_UNROLL(1)
    for (int t = 0; t < TOKENS && !is_helper; t += TOGETHER) {
        LT_UNROLL(EACH)
        for (int n = 0; n < EACH && t > 0; n++) input_read(in[n], threadIdx.x + n * THREADS, t, x, head);
        LT_UNROLL(EACH)
        for (int n = 0; n < EACH; n++)
            input_make(tokens, in[n], threadIdx.x + n * THREADS, t, now[n], tap[n], window, kept, head);
    }
    rate = lt_exp(rate);
    __syncthreads();
    if (warp < GATES) gates_make(tokens, slices, scale, w, weights, &of, warp, rate, head);
    if (is_helper) rest_make(tokens, logit);
    for (int i = turn; i < 3 * TOKENS; i += ALL) token_scale(tokens + i / 3 * TOKEN, KEY_SCALE + i % 3, lane);
    if (SPLIT > 1) lt_cluster_wait();
    __syncthreads();
    y += (row * HEADS + head) * D + part * WIDTH;
    LT_UNROLL(1)
    for (int t = 0; t < TOKENS; t++) {
        float *const token = tokens + t * TOKEN;
        float(*const here)[8 * COLS] = room + t % 2 * WARPS;
        const int to = (int)lt_shfl_u32(0xffffffffu, (u32)kept, t);
        if (!is_helper) token_dots(s, token, here[warp], k0);
        __syncthreads();
        if (turn == t % HELPERS) {
            const float squares = token_out(token, here, lane);
            if (SPLIT > 1 && lane < SPLIT)
                lt_cluster_st32((u32 *)token + SQUARES + part, lane, lt_f32_bits(squares));
            if (SPLIT == 1) token_finish(y + (size_t)t * HEADS * D, token, squares, lane);
        }
        if (is_helper || column >= WIDTH) continue;
        token_add(s, token, here, k0);
        if (to >= 0) state_store(state + ((size_t)to * HEADS + head) * D * D + part * WIDTH, s, k0, column);
    }
    if (SPLIT > 1) lt_cluster_arrive();
    if (!is_helper) state_store(mine, s, k0, column);
    if (SPLIT > 1) lt_cluster_wait();  // the other blocks have read the window, too
    LT_UNROLL(1)
    for (int t = turn; t < TOKENS && is_helper && SPLIT > 1; t += HELPERS) {
        const float *const token = tokens + t * TOKEN;
        float squares = token[SQUARES];
        for (int i = 1; i < SPLIT; i++) squares += token[SQUARES + i];
        token_finish(y + (size_t)t * HEADS * D, token, squares, lane);
    }
    LT_UNROLL(EACH)
    for (int n = 0; n < EACH && !is_helper; n++) {
        const int i = threadIdx.x + n * THREADS;
        if (is_kept(i)) store4(past + (size_t)channel_of(i, head) * 4, now[n]);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { kda_decode_bf16__m16_tokens16_heads1_d64_n128_k64_stride321_slots17__w16s1(*(bf16 **)a[0], *(float **)a[1], *(float **)a[2], *(const bf16 **)a[3], *(const float **)a[4], *(const bf16 **)a[5], *(const float **)a[6], *(const float **)a[7], *(const bf16 **)a[8], *(const i32 **)a[9], *(const i32 **)a[10]); }
#endif
