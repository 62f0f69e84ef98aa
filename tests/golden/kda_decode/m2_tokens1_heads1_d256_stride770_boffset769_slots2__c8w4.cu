/* family kda_decode rev 1, shape m2_tokens1_heads1_d256_stride770_boffset769_slots2, variant c8w4, class delta16x16 */
// KDA from the rows of its projections to the gated norm: block (part, head, sequence). WARPS warps have WIDE columns
// of the head's state in registers from the first token to the last, thread (run, c) columns 4c .. 4c + 3 of k
// run * STEPS .. + STEPS - 1; HELPERS more make what a token needs once. q and k are in shared memory as SiLU leaves
// them, and their norms go to the sums over k:
//   S = S * decay;  a = S . k / |k|;  b = S . q / |q| / sqrt(D);  delta = (v - a) * beta;  S = S + k / |k| * delta
//   o = b + k . q / |k| / |q| / sqrt(D) * delta
// The state and the window are those of the step before: no other kernel writes them, so they are read before the wait.
enum { M = 2, TOKENS = 1, HEADS = 1, D = 256, STRIDE = 770, BOFFSET = 769, SLOTS = 2, COLS = 8, WARPS = 4 };
enum {
    THREADS = 32 * WARPS,                          // that have a state
    HELPERS = D < 128 ? (D + 31) / 32 : 4,
    ALL = WARPS + HELPERS,
    CHANNELS = 3 * HEADS * D,
    WIDE = 4 * COLS,                               // columns of a block
    PARTS = (D + WIDE - 1) / WIDE,                 // blocks of a head
    RUNS = THREADS / COLS,
    STEPS = (D + RUNS - 1) / RUNS,                 // k of a run
    DEPTH = RUNS * STEPS,                          // D, and what lies beyond it: zeros
    EACH = (4 * DEPTH + THREADS - 1) / THREADS,    // inputs of a thread, of all those of the head
    LANES = (D + 31) / 32,                         // channels of a lane, where a warp has a head
    GATES = (LANES + HELPERS - 1) / HELPERS,       // channels of a helper's thread
    ONLY = SLOTS == 1 && M == TOKENS,              // one slot, one sequence: its state need not wait for slots
    TOGETHER = TOKENS < 8 ? TOKENS : 8,            // tokens whose inputs are asked for at once
    DECAY = 0, QUERY = 1, KEY = 2, VALUE = 3,      // inputs of a channel, and their words in shared memory
    FACTOR = 4 * DEPTH,                            // of a channel of the norm
    KEY_SCALE = 5 * DEPTH, QUERY_SCALE, PRODUCT, BETA,
    TOKEN = 5 * DEPTH + 4
};

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

LT_DEV int is_state(int k, int column) { return (DEPTH == D || k < D) && (PARTS * WIDE == D || column < D); }

LT_DEV void state_load(float (*s)[4], const float *state, int k0, int column)  // state: of the slot and head
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

// Input i of a head: which one, of which of its channels; and where that lies in a row of q | k | v.
LT_DEV int kind_of(int i) { return i / DEPTH; }
LT_DEV int is_input(int i) { return EACH * THREADS == 4 * DEPTH || i < 4 * DEPTH; }
LT_DEV int is_live(int i) { return is_input(i) && (DEPTH == D || i % DEPTH < D); }
LT_DEV int is_channel(int i) { return is_live(i) && kind_of(i) != DECAY; }
LT_DEV int channel_of(int i, int head) { return ((kind_of(i) - QUERY) * HEADS + head) * D + i % DEPTH; }

// What the inputs of a thread need besides their tokens. Of a decay, tap is a_log and dt_bias. window: of the slot.
LT_DEV void inputs_load(float (*tap)[4], float (*now)[4], const float *taps, const float *window, const float *a_log,
                        const float *dt_bias, int head)
{
    LT_UNROLL(EACH)
    for (int n = 0; n < EACH; n++) {
        const int i = threadIdx.x + n * THREADS;
        if (is_channel(i)) {
            load4(tap[n], taps + (size_t)channel_of(i, head) * 4);
            load4(now[n], window + (size_t)channel_of(i, head) * 4);
        } else if (is_live(i)) {
            tap[n][0] = a_log[head], tap[n][1] = dt_bias[head * D + i];
        }
    }
}

// Asks for the tokens t0 and on of input i. f: of the head; x: rows of q | k | v.
LT_DEV void input_read(bf16 *in, int i, int t0, const bf16 *f, const bf16 *x, int head)
{
    const bf16 *from = is_channel(i) ? x + channel_of(i, head) : f + i;
    const size_t stride = is_channel(i) ? STRIDE : HEADS * D;
    LT_UNROLL(TOGETHER)
    for (int t = 0; t < TOGETHER; t++)
        in[t] = is_live(i) && t0 + t < TOKENS ? from[(t0 + t) * stride] : lt_f32_bf16(0.0f);
}

// The window takes x in; the taps on it, and SiLU.
LT_DEV float convolve(float *now, const float *tap, float x)
{
    now[0] = now[1], now[1] = now[2], now[2] = now[3], now[3] = x;
    float sum = now[0] * tap[0];
    for (int j = 1; j < 4; j++) sum = fmaf(now[j], tap[j], sum);
    return lt_silu(sum);
}

LT_DEV float decay_of(const float *tap, float f)
{
    return lt_exp(-5.0f * lt_sigmoid(lt_exp(tap[0]) * (f + tap[1])));
}

// They go to shared memory. pool: of windows; lane t of kept has the slot for what token t leaves, or -1.
LT_DEV void input_make(float *tokens, const bf16 *in, int i, int t0, float *now, const float *tap, float *pool,
                       int kept, int head)
{
    LT_UNROLL(TOGETHER)
    for (int t = 0; t < TOGETHER && t0 + t < TOKENS; t++) {
        float v = 0.0f;
        if (is_channel(i)) v = convolve(now, tap, lt_bf16_f32(in[t]));
        else if (is_live(i)) v = decay_of(tap, lt_bf16_f32(in[t]));
        if (is_input(i)) tokens[(t0 + t) * TOKEN + i % DEPTH * 4 + kind_of(i)] = v;
        const int to = (int)lt_shfl_u32(0xffffffffu, (u32)kept, t0 + t);
        if (to >= 0 && blockIdx.x == 0 && is_channel(i))
            store4(pool + ((size_t)to * CHANNELS + channel_of(i, head)) * 4, now);
    }
}

// What the norm multiplies channels with, and beta, of all tokens; all that is needed first is asked for at once. gate,
// b: of the head and its first token.
LT_DEV void helper_make(float *tokens, const bf16 *weight, const bf16 *gate, const bf16 *b)
{
    const int j = threadIdx.x - THREADS;
    bf16 logit = lt_f32_bf16(0.0f), open[TOGETHER];
    if (j < TOKENS) logit = b[(size_t)j * STRIDE];
    for (int n = 0; n < GATES; n++) {
        const int d = j + n * 32 * HELPERS;
        if (d >= D) continue;
        for (int t0 = 0; t0 < TOKENS; t0 += TOGETHER) {
            LT_UNROLL(TOGETHER)
            for (int t = 0; t < TOGETHER && t0 + t < TOKENS; t++) open[t] = gate[(size_t)(t0 + t) * HEADS * D + d];
            LT_UNROLL(TOGETHER)
            for (int t = 0; t < TOGETHER && t0 + t < TOKENS; t++)
                tokens[(t0 + t) * TOKEN + FACTOR + d] = lt_bf16_f32(weight[n]) * lt_sigmoid(lt_bf16_f32(open[t]));
        }
    }
    if (j < TOKENS) tokens[j * TOKEN + BETA] = lt_sigmoid(lt_bf16_f32(logit));
}

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

// A token's decay, and its two dots with the state, of each run.
LT_DEV void token_dots(float (*s)[4], const float *token, float (*room)[2 * WIDE], int k0)
{
    const int run = threadIdx.x / COLS, c = threadIdx.x % COLS;
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
    store4(room[run] + 4 * c, a);
    store4(room[run] + WIDE + 4 * c, b);
}

// The runs meet: delta, and o in the place of v. column: the thread's.
LT_DEV void token_delta(float *token, float (*room)[2 * WIDE], float *delta, int column)
{
    if (threadIdx.x >= WIDE || column >= D) return;
    float dot = room[0][threadIdx.x], out = room[0][WIDE + threadIdx.x];
    for (int r = 1; r < RUNS; r++) dot += room[r][threadIdx.x], out += room[r][WIDE + threadIdx.x];
    const float d = (token[4 * column + VALUE] - dot * token[KEY_SCALE]) * token[BETA];
    const float product = token[PRODUCT] * token[KEY_SCALE] * token[QUERY_SCALE];
    delta[threadIdx.x] = d * token[KEY_SCALE];
    token[4 * column + VALUE] = fmaf(product, d, out * token[QUERY_SCALE]);
}

LT_DEV void token_add(float (*s)[4], const float *token, const float *delta, int k0)
{
    float change[4];
    load4(change, delta + threadIdx.x % COLS * 4);
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) s[i][j] = fmaf(token[4 * (k0 + i) + KEY], change[j], s[i][j]);
    }
}

// The gated norm of a token's o. A warp has one.
LT_DEV void token_finish(bf16 *y, const float *token, int lane)
{
    float o[LANES] = {0}, sum = 0.0f;
    LT_UNROLL(LANES)
    for (int i = 0; i < LANES; i++) {
        if (lane + 32 * i < D) o[i] = token[4 * (lane + 32 * i) + VALUE];
        sum = fmaf(o[i], o[i], sum);
    }
    const float scale = 1.0f / sqrtf(lt_warp_sum(sum) / (float)D + 1e-5f);
    LT_UNROLL(LANES)
    for (int i = 0; i < LANES; i++)
        if (lane + 32 * i < D) y[lane + 32 * i] = lt_f32_bf16(o[i] * scale * token[FACTOR + lane + 32 * i]);
}

// The blocks of a head meet. True in the one that comes last: it has all of o. partial: [TOKENS][HEADS][D], from the
// head on.
LT_DEV int outs_meet(float *tokens, float *partial, u32 *arrived, int v0)
{
    for (int i = threadIdx.x; i < TOKENS * WIDE; i += 32 * ALL) {
        const int t = i / WIDE, d = v0 + i % WIDE;
        if (d < D) partial[(size_t)t * HEADS * D + d] = tokens[t * TOKEN + 4 * d + VALUE];
    }
    if (!lt_last_block(arrived, PARTS)) return 0;
    for (int i = threadIdx.x; i < TOKENS * D; i += 32 * ALL) {
        const int t = i / D, d = i % D;
        tokens[t * TOKEN + 4 * d + VALUE] = lt_bits_f32(lt_ld32_fresh(partial + (size_t)t * HEADS * D + d));
    }
    __syncthreads();
    return 1;
}

LT_KERNEL(32 * ALL)
kda_decode__m2_tokens1_heads1_d256_stride770_boffset769_slots2__c8w4(bf16 *y, float *state, float *window, const bf16 *x, const float *taps, const bf16 *f, const float *a_log, const float *dt_bias, const bf16 *gate, const bf16 *w, const i32 *slots, const i32 *snaps, float *partial, u32 *arrived)
{
    LT_DYN_SHARED(float, tokens);
    LT_SHARED2(float, room, RUNS, 2 * WIDE);
    LT_SHARED1(float, delta, WIDE);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, v0 = blockIdx.x * WIDE, head = blockIdx.y;
    const int is_helper = warp >= WARPS, turn = is_helper ? warp - WARPS : warp + HELPERS;
    const int k0 = threadIdx.x / COLS * STEPS, column = v0 + threadIdx.x % COLS * 4;
    const size_t row = (size_t)blockIdx.z * TOKENS, at = row * HEADS + head;
    const int own = slots[blockIdx.z], from = ONLY ? 0 : own;
    const int kept = lane < TOKENS ? snaps[row + lane] : -1;
    float *const mine = state + ((i64)from * HEADS + head) * D * D;
    float *const past = window + (i64)from * CHANNELS * 4;
    float tap[EACH][4] = {{0}}, now[EACH][4] = {{0}}, s[STEPS][4];
    bf16 in[EACH][TOGETHER], weight[GATES];

    if (is_helper) {
        for (int n = 0; n < GATES; n++) {
            const int d = threadIdx.x - THREADS + n * 32 * HELPERS;
            if (d < D) weight[n] = w[d];
        }
    } else if (from >= 0) {
        state_load(s, mine, k0, column);
        inputs_load(tap, now, taps, past, a_log, dt_bias, head);
    }
    lt_pdl_wait();
    lt_pdl_launch();
    if (own < 0) return;
    if (is_helper) helper_make(tokens, weight, gate + at * D, x + row * STRIDE + BOFFSET + head);
    LT_UNROLL(1)
    for (int t = 0; t < TOKENS && !is_helper; t += TOGETHER) {
        LT_UNROLL(EACH)
        for (int n = 0; n < EACH; n++)
            input_read(in[n], threadIdx.x + n * THREADS, t, f + at * D, x + row * STRIDE, head);
        LT_UNROLL(EACH)
        for (int n = 0; n < EACH; n++)
            input_make(tokens, in[n], threadIdx.x + n * THREADS, t, now[n], tap[n], window, kept, head);
    }
    __syncthreads();
    for (int i = turn; i < 3 * TOKENS; i += ALL) token_scale(tokens + i / 3 * TOKEN, KEY_SCALE + i % 3, lane);
    LT_UNROLL(1)
    for (int t = 0; t < TOKENS; t++) {
        float *const token = tokens + t * TOKEN;
        const int to = (int)lt_shfl_u32(0xffffffffu, (u32)kept, t);
        if (!is_helper) token_dots(s, token, room, k0);
        __syncthreads();
        token_delta(token, room, delta, v0 + threadIdx.x);
        __syncthreads();
        if (is_helper || column >= D) continue;
        token_add(s, token, delta, k0);
        if (to >= 0) state_store(state + ((size_t)to * HEADS + head) * D * D, s, k0, column);
    }
    if (!is_helper) state_store(mine, s, k0, column);
    if (!outs_meet(tokens, partial + at * D, arrived + blockIdx.z * HEADS + head, v0)) return;
    for (int t = turn; t < TOKENS; t += ALL) token_finish(y + (at + (size_t)t * HEADS) * D, tokens + t * TOKEN, lane);
    LT_UNROLL(EACH)
    for (int n = 0; n < EACH && !is_helper; n++) {  // by the last block: the others have read it
        const int i = threadIdx.x + n * THREADS;
        if (is_channel(i)) store4(past + (size_t)channel_of(i, head) * 4, now[n]);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { kda_decode__m2_tokens1_heads1_d256_stride770_boffset769_slots2__c8w4(*(bf16 **)a[0], *(float **)a[1], *(float **)a[2], *(const bf16 **)a[3], *(const float **)a[4], *(const bf16 **)a[5], *(const float **)a[6], *(const float **)a[7], *(const bf16 **)a[8], *(const bf16 **)a[9], *(const i32 **)a[10], *(const i32 **)a[11], *(float **)a[12], *(u32 **)a[13]); }
#endif
