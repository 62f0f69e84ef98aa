/* family kda_conv.tokens rev 1, shape m16_heads2_d64_stride516_slots17, variant one, class fma4_head */
// M tokens of one sequence: a block a head. The window stays in registers and is written at the end, and where a
// snapshot is asked for.
enum { M = 16, HEADS = 2, D = 64, STRIDE = 516, SLOTS = 17 };
enum { TOKENS = M };
// The short convolution of KDA: a block is a head of q, k or v, a thread one of its channels. TOKENS rows, one after
// the other, move through the thread's window.
enum {
    CHANNELS = 3 * HEADS * D,
    WARPS = (D + 31) / 32
};

LT_DEV void conv_load(float *to, const float *from, size_t channel)
{
    const float4 v = lt_ld128f(from + channel * 4);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

LT_DEV void conv_store(float *to, size_t channel, const float *from)
{
    float4 v;
    v.x = from[0], v.y = from[1], v.z = from[2], v.w = from[3];
    *(float4 *)(to + channel * 4) = v;
}

// The window takes x in; the taps on it, and SiLU.
LT_DEV float conv_step(float *now, const float *tap, float x)
{
    now[0] = now[1], now[1] = now[2], now[2] = now[3], now[3] = x;
    float sum = now[0] * tap[0];
    for (int j = 1; j < 4; j++) sum = fmaf(now[j], tap[j], sum);
    return lt_silu(sum);
}

// s[t], divided by the norm of the head's row t where the head is one of q or k. All threads call.
LT_DEV void conv_norm(float *s, int head)
{
    if (head >= 2 * HEADS) return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    LT_SHARED2(float, room, TOKENS, WARPS);
    LT_UNROLL(TOKENS)
    for (int t = 0; t < TOKENS; t++) {
        const float sum = lt_warp_sum(s[t] * s[t]);
        if (lane == 0) room[t][warp] = sum;
    }
    __syncthreads();
    LT_UNROLL(TOKENS)
    for (int t = 0; t < TOKENS; t++) {
        float sum = room[t][0];
        for (int w = 1; w < WARPS; w++) sum += room[t][w];
        s[t] *= 1.0f / sqrtf(sum + 1e-6f);
    }
}

LT_KERNEL(32 * WARPS)
kda_conv_tokens__m16_heads2_d64_stride516_slots17__one(bf16 *y, float *window, const bf16 *x, const float *taps, const i32 *slot, const i32 *snaps)
{
    const int head = blockIdx.x, d = threadIdx.x, c = head * D + d;
    float now[4] = {0}, tap[4] = {0}, s[TOKENS] = {0};
    int snap[TOKENS];

    if (d < D) conv_load(tap, taps, c);
    lt_pdl_wait();
    lt_pdl_launch();
    const int own = slot[0];
    if (own < 0) return;
    LT_UNROLL(TOKENS)
    for (int t = 0; t < TOKENS; t++) {
        snap[t] = snaps[t];
        if (d < D) s[t] = lt_bf16_f32(x[(size_t)t * STRIDE + c]);
    }
    if (d < D) {
        conv_load(now, window, (size_t)own * CHANNELS + c);
        LT_UNROLL(TOKENS)
        for (int t = 0; t < TOKENS; t++) {
            s[t] = conv_step(now, tap, s[t]);
            if (snap[t] >= 0) conv_store(window, (size_t)snap[t] * CHANNELS + c, now);
        }
        conv_store(window, (size_t)own * CHANNELS + c, now);
    }
    conv_norm(s, head);
    LT_UNROLL(TOKENS)
    for (int t = 0; t < TOKENS; t++)
        if (d < D) y[(size_t)t * CHANNELS + c] = lt_f32_bf16(s[t]);
}
#ifndef __CUDACC__
void lt_entry(void **a) { kda_conv_tokens__m16_heads2_d64_stride516_slots17__one(*(bf16 **)a[0], *(float **)a[1], *(const bf16 **)a[2], *(const float **)a[3], *(const i32 **)a[4], *(const i32 **)a[5]); }
#endif
