/* family kda_recurrent.rows rev 1, shape m2_heads3_d24_slots2, variant c4w2, class delta2x8x2 */
// One token of each of M sequences: block (slice of v, head, row). The token is asked for before its slot is known.
enum { M = 2, HEADS = 3, D = 24, SLOTS = 2, COLS = 4, WARPS = 2 };
// The delta rule on columns v0 .. v0 + WIDE - 1 of one head's state, which a block holds in registers: thread (run, c)
// has columns 4c .. 4c + 3 of k run * STEPS .. + STEPS - 1. A token's two dots over k meet in one exchange:
//   S = S * exp(g);  a = S . k;  b = S . q;  delta = (v - a) * beta;  S = S + k * delta;  o = b + (k . q) * delta
enum {
    WIDE = 4 * COLS,                      // columns of a block
    RUNS = 32 * WARPS / COLS,
    STEPS = (D + RUNS - 1) / RUNS,
    DEPTH = RUNS * STEPS,                 // D, and what lies beyond it: zeros
    EACH = (DEPTH + 31) / 32,             // k of a lane, where a warp prepares a token
    LANES = 32 / COLS,                    // runs of a warp
    LEFT = LANES >= 8 ? 1 : 8 / LANES,    // of the eight dots of four columns, what a lane has after the exchange
    COPIES = LANES >= 8 ? LANES / 8 : 1,  // lanes that have the same
    KEY = DEPTH,                          // a token in shared memory: decay, then the others from here on
    QUERY = 2 * DEPTH,
    VALUE = 3 * DEPTH,
    BETA = VALUE + WIDE,
    PRODUCT = BETA + 1,                   // k . q
    TOKEN = BETA + 4
};

// A token's g, k, q and v as they are in memory: x is its q | k | v at this head's q. A warp has one.
LT_DEV void delta_fetch(float (*in)[3], float *v, const bf16 *x, const float *g, int v0, int lane)
{
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++) {
        const int k = lane + 32 * i;
        in[i][0] = k < D ? g[k] : 0.0f;
        in[i][1] = k < D ? lt_bf16_f32(x[HEADS * D + k]) : 0.0f;
        in[i][2] = k < D ? lt_bf16_f32(x[k]) : 0.0f;
    }
    *v = lane < WIDE && v0 + lane < D ? lt_bf16_f32(x[2 * HEADS * D + v0 + lane]) : 0.0f;
}

LT_DEV void delta_prepare(float *token, float (*in)[3], float v, float beta, int lane)
{
    float sum = 0.0f;
    LT_UNROLL(EACH)
    for (int i = 0; i < EACH; i++) {
        const float query = in[i][2] * (1.0f / sqrtf((float)D));
        sum = fmaf(in[i][1], query, sum);
        if (lane + 32 * i >= DEPTH) continue;
        token[lane + 32 * i] = lt_exp(in[i][0]);
        token[KEY + lane + 32 * i] = in[i][1];
        token[QUERY + lane + 32 * i] = query;
    }
    if (lane < WIDE) token[VALUE + lane] = v;
    sum = lt_warp_sum(sum);
    if (lane == 0) token[BETA] = beta, token[PRODUCT] = sum;
}

LT_DEV void delta_load(float (*s)[4], const float *state, int k0, int column)  // state: of the slot and head
{
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        float4 v;
        v.x = v.y = v.z = v.w = 0.0f;
        if (k0 + i < D && column < D) v = lt_ld128f(state + (size_t)(k0 + i) * D + column);
        s[i][0] = v.x, s[i][1] = v.y, s[i][2] = v.z, s[i][3] = v.w;
    }
}

LT_DEV void delta_store(float *state, float (*s)[4], int k0, int column)
{
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        float4 v;
        v.x = s[i][0], v.y = s[i][1], v.z = s[i][2], v.w = s[i][3];
        if (k0 + i < D && column < D) *(float4 *)(state + (size_t)(k0 + i) * D + column) = v;
    }
}

// The eight dots of the lanes that share c: each step halves what a lane has, and what is left is the sum of both.
LT_DEV void delta_meet(float *dot, int lane)
{
    int left = 8;
    LT_UNROLL(5)
    for (int bit = 16; bit >= COLS; bit /= 2) {
        left /= 2;
        if (left == 0) {
            dot[0] += lt_shfl_xor_f32(0xffffffffu, dot[0], bit);
            continue;
        }
        LT_UNROLL(4)
        for (int i = 0; i < left; i++) {
            const float other = lane & bit ? dot[i] : dot[left + i];
            dot[i] = (lane & bit ? dot[left + i] : dot[i]) + lt_shfl_xor_f32(0xffffffffu, other, bit);
        }
    }
}

// One token; every thread calls. room: what a token before last has left. o: the token's, of this head and column.
LT_DEV void delta_step(float (*s)[4], const float *token, float (*room)[8 * COLS], float *o, int column)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, run = threadIdx.x / COLS, c = threadIdx.x % COLS;
    float dot[8] = {0}, a[4], b[4], delta[4];
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        const float *at = token + run * STEPS + i;
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            s[i][j] *= at[0];
            dot[j] = fmaf(s[i][j], at[KEY], dot[j]);
            dot[4 + j] = fmaf(s[i][j], at[QUERY], dot[4 + j]);
        }
    }
    delta_meet(dot, lane);
    if (lane / COLS % COPIES == 0)
        for (int i = 0; i < LEFT; i++) room[warp][8 * c + lane / COLS / COPIES * LEFT + i] = dot[i];
    __syncthreads();
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        a[j] = room[0][8 * c + j], b[j] = room[0][8 * c + 4 + j];
        for (int w = 1; w < WARPS; w++) a[j] += room[w][8 * c + j], b[j] += room[w][8 * c + 4 + j];
        delta[j] = (token[VALUE + 4 * c + j] - a[j]) * token[BETA];
    }
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) s[i][j] = fmaf(token[KEY + run * STEPS + i], delta[j], s[i][j]);
    }
    if (run > 0 || column >= D) return;
    float4 v;
    v.x = fmaf(token[PRODUCT], delta[0], b[0]), v.y = fmaf(token[PRODUCT], delta[1], b[1]);
    v.z = fmaf(token[PRODUCT], delta[2], b[2]), v.w = fmaf(token[PRODUCT], delta[3], b[3]);
    *(float4 *)o = v;
}

LT_KERNEL(32 * WARPS)
kda_recurrent_rows__m2_heads3_d24_slots2__c4w2(float *o, float *state, const bf16 *x, const float *g, const float *beta, const i32 *slots)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int v0 = blockIdx.x * WIDE, head = blockIdx.y, m = blockIdx.z;
    const int k0 = threadIdx.x / COLS * STEPS, column = v0 + threadIdx.x % COLS * 4;
    const size_t at = (size_t)m * HEADS + head;
    LT_SHARED1(float, token, TOKEN);
    LT_SHARED2(float, room, WARPS, 8 * COLS);
    float s[STEPS][4], in[EACH][3], v, rate;

    lt_pdl_wait();
    lt_pdl_launch();
    const int own = slots[m];
    if (warp == 0) {
        delta_fetch(in, &v, x + ((size_t)m * 3 * HEADS + head) * D, g + at * D, v0, lane);
        rate = beta[at];
    }
    if (own < 0) return;
    float *mine = state + ((size_t)own * HEADS + head) * D * D;
    delta_load(s, mine, k0, column);
    if (warp == 0) delta_prepare(token, in, v, rate, lane);
    __syncthreads();
    delta_step(s, token, room, o + at * D + column, column);
    delta_store(mine, s, k0, column);
}
#ifndef __CUDACC__
void lt_entry(void **a) { kda_recurrent_rows__m2_heads3_d24_slots2__c4w2(*(float **)a[0], *(float **)a[1], *(const bf16 **)a[2], *(const float **)a[3], *(const float **)a[4], *(const i32 **)a[5]); }
#endif
