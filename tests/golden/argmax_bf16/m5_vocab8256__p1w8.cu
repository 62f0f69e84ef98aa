/* family argmax.bf16 rev 1, shape m5_vocab8256, variant p1w8, class exact */
// PARTS blocks a row, each with every PARTS-th piece of it; the one that comes last takes the best of their bests.
enum { M = 5, VOCAB = 8256, PARTS = 1, WARPS = 8 };
typedef bf16 logit;
enum { THREADS = 32 * WARPS, LOAD = 16 / sizeof(logit), NOWHERE = 0x7fffffff };
// Rows of either format as floats: one number, or the 16 / sizeof of an aligned load. one_* is load_* of one number.
LT_DEV float number_bf16(const bf16 *p) { return lt_bf16_f32(*p); }
LT_DEV float number_f32(const float *p) { return *p; }
LT_DEV void one_bf16(float *x, const bf16 *p) { x[0] = lt_bf16_f32(*p); }
LT_DEV void one_f32(float *x, const float *p) { x[0] = *p; }

LT_DEV void load_bf16(float *x, const bf16 *p)
{
    const uint4 v = lt_ld128(p);
    const u32 word[4] = {v.x, v.y, v.z, v.w};
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        x[2 * i] = lt_bf16lo_f32(word[i]);
        x[2 * i + 1] = lt_bf16hi_f32(word[i]);
    }
}

LT_DEV void load_f32(float *x, const float *p)
{
    const float4 v = lt_ld128f(p);
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
}

typedef struct { float logit; int id; } leader;  // id NOWHERE: none yet

LT_DEV leader nobody(void)
{
    leader a;
    a.logit = lt_bits_f32(0xff800000u);  // -infinity
    a.id = NOWHERE;
    return a;
}

LT_DEV leader better(leader a, float logit, int id)
{
    const int wins = logit > a.logit || (logit == a.logit && id < a.id);  // NaN does neither
    a.logit = wins ? logit : a.logit;
    a.id = wins ? id : a.id;
    return a;
}

LT_DEV leader best_of_warp(leader a)
{
    for (int o = 16; o > 0; o >>= 1) {
        const float logit = lt_shfl_xor_f32(0xffffffffu, a.logit, o);
        a = better(a, logit, (int)lt_shfl_xor_u32(0xffffffffu, (u32)a.id, o));
    }
    return a;
}

LT_DEV leader best_of_part(const logit *row, int part)
{
    leader a = nobody();
    LT_UNROLL(4)
    for (int i = (part * THREADS + threadIdx.x) * LOAD; i < VOCAB; i += PARTS * THREADS * LOAD) {
        float x[LOAD];
        load_bf16(x, row + i);
        LT_UNROLL(LOAD)
        for (int j = 0; j < LOAD; j++) a = better(a, x[j], i + j);
    }
    return a;
}

LT_KERNEL(THREADS)
argmax_bf16__m5_vocab8256__p1w8(i32 *best, float *top, const bf16 *logits, float *partial, i32 *place, u32 *arrived)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = blockIdx.y;
    LT_SHARED1(float, warp_logit, WARPS);
    LT_SHARED1(int, warp_id, WARPS);

    lt_pdl_wait();
    lt_pdl_launch();
    leader a = best_of_warp(best_of_part(logits + (size_t)row * VOCAB, blockIdx.x));
    if (lane == 0) {
        warp_logit[warp] = a.logit;
        warp_id[warp] = a.id;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < WARPS; i++) a = better(a, warp_logit[i], warp_id[i]);
        partial[row * PARTS + blockIdx.x] = a.logit;
        place[row * PARTS + blockIdx.x] = a.id;
    }
    if (!lt_last_block(arrived + row, PARTS) || warp != 0) return;
    a = nobody();
    for (int i = row * PARTS + lane; i < (row + 1) * PARTS; i += 32)
        a = better(a, lt_bits_f32(lt_ld32_fresh(partial + i)), (int)lt_ld32_fresh(place + i));
    a = best_of_warp(a);
    if (lane != 0) return;
    best[row] = a.id == NOWHERE ? -1 : a.id;
    top[row] = a.logit;
}
#ifndef __CUDACC__
void lt_entry(void **a) { argmax_bf16__m5_vocab8256__p1w8(*(i32 **)a[0], *(float **)a[1], *(const bf16 **)a[2], *(float **)a[3], *(i32 **)a[4], *(u32 **)a[5]); }
#endif
