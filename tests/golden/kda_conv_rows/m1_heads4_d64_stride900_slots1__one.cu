/* family kda_conv.rows rev 1, shape m1_heads4_d64_stride900_slots1, variant one, class fma4_head */
// One token of each of M sequences: block (head, row). The row's window is that of its slot.
enum { M = 1, HEADS = 4, D = 64, STRIDE = 900, SLOTS = 1 };
enum { TOKENS = 1 };
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
kda_conv_rows__m1_heads4_d64_stride900_slots1__one(bf16 *y, float *window, const bf16 *x, const float *taps, const i32 *slots)
{
    const int head = blockIdx.x, d = threadIdx.x, m = blockIdx.y, c = head * D + d;
    float now[4] = {0}, tap[4] = {0}, s[TOKENS] = {0};

    if (d < D) conv_load(tap, taps, c);
    lt_pdl_wait();
    lt_pdl_launch();
    const float value = d < D ? lt_bf16_f32(x[(size_t)m * STRIDE + c]) : 0.0f;
    const int slot = slots[m];
    if (slot < 0) return;
    if (d < D) {
        conv_load(now, window, (size_t)slot * CHANNELS + c);
        s[0] = conv_step(now, tap, value);
        conv_store(window, (size_t)slot * CHANNELS + c, now);
    }
    conv_norm(s, head);
    if (d < D) y[(size_t)m * CHANNELS + c] = lt_f32_bf16(s[0]);
}
#ifndef __CUDACC__
void lt_entry(void **a) { kda_conv_rows__m1_heads4_d64_stride900_slots1__one(*(bf16 **)a[0], *(float **)a[1], *(const bf16 **)a[2], *(const float **)a[3], *(const i32 **)a[4]); }
#endif
