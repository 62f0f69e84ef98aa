/* family nvfp4_quant rev 1, shape n64_k256, variant w8, class exact */
// A lane quantises one group of 16 weights.
enum { N = 64, K = 256, WARPS = 8 };
enum { THREADS = 32 * WARPS };

LT_DEV float value_of(u32 byte)
{
    e4m3 v;
    v.x = (u8)byte;
    return lt_e4m3_f32(v);
}

LT_DEV u32 code_of(float x, float unit) { return unit == 0.0f ? 0u : lt_f32_e2m1(x / unit); }

LT_DEV float error_of(const float *x, float unit)
{
    float error = 0.0f;
    LT_UNROLL(16)
    for (int i = 0; i < 16; i++) {
        const float off = fmaf(-lt_e2m1_f32(code_of(x[i], unit)), unit, x[i]);
        error = fmaf(off, off, error);
    }
    return error;
}

LT_DEV void load_group(float *x, const bf16 *from)
{
    const uint4 a = lt_ld128_once(from), b = lt_ld128_once(from + 8);
    const u32 word[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        x[2 * i] = lt_bf16lo_f32(word[i]);
        x[2 * i + 1] = lt_bf16hi_f32(word[i]);
    }
}

// The byte whose codes lie nearest, of those around amax / 6; the first one on a tie.
LT_DEV int best_byte(const float *x, float scale2)
{
    float amax = 0.0f;
    LT_UNROLL(16)
    for (int i = 0; i < 16; i++) amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    const int first = lt_f32_e4m3(amax / (6.0f * scale2)).x;
    int best = first;
    float least = 0.0f;
    LT_UNROLL(1)
    for (int i = 0; i < 5; i++) {  // b0, b0-3, b0-2, b0-1, b0+1
        const int byte = first + (i == 0 ? 0 : i == 4 ? 1 : i - 4);
        if (i > 0 && (byte < 0 || byte > 126)) continue;
        const float error = error_of(x, value_of(byte) * scale2);
        if (i > 0 && !(error < least)) continue;
        best = byte;
        least = error;
    }
    return best;
}

LT_KERNEL(THREADS)
nvfp4_quant__n64_k256__w8(u8 *codes, e4m3 *scales, float *sw, const bf16 *w, const float *scale)
{
    const size_t group = (size_t)blockIdx.x * THREADS + threadIdx.x;
    float x[16];
    lt_pdl_wait();
    lt_pdl_launch();
    if (group >= (size_t)N * (K / 16)) return;
    const float scale2 = scale[0];
    load_group(x, w + group * 16);
    const int byte = best_byte(x, scale2);
    const float unit = value_of(byte) * scale2;
    uint2 out;
    out.x = out.y = 0;
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        out.x |= code_of(x[i], unit) << 4 * i;
        out.y |= code_of(x[i + 8], unit) << 4 * i;
    }
    *(uint2 *)(codes + group * 8) = out;
    scales[group].x = (u8)byte;
    if (group % (K / 16) == 0) sw[group / (K / 16)] = scale2;
}
#ifndef __CUDACC__
void lt_entry(void **a) { nvfp4_quant__n64_k256__w8(*(u8 **)a[0], *(e4m3 **)a[1], *(float **)a[2], *(const bf16 **)a[3], *(const float **)a[4]); }
#endif
