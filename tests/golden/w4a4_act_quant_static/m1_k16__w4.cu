/* family w4a4_act_quant.static rev 1, shape m1_k16, variant w4, class exact */
// A thread quantises one group of 16; rows lie one behind the other.
enum { M = 1, K = 16, WARPS = 4 };
// Sixteen bf16 values to E2M1 codes and an E4M3 scale. A NaN counts towards no maximum.
LT_DEV float fp4_larger(float a, float b) { return a > b ? a : b; }  // a NaN in a is dropped

LT_DEV void fp4_load16(u32 *word, const bf16 *x)
{
    const uint4 lo = lt_ld128(x), hi = lt_ld128(x + 8);
    word[0] = lo.x, word[1] = lo.y, word[2] = lo.z, word[3] = lo.w;
    word[4] = hi.x, word[5] = hi.y, word[6] = hi.z, word[7] = hi.w;
}

LT_DEV float fp4_amax16(const u32 *word)
{
    float amax = 0.0f;
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++)
        amax = fp4_larger(fabsf(lt_bf16hi_f32(word[i])), fp4_larger(fabsf(lt_bf16lo_f32(word[i])), amax));
    return amax;
}

// The group's scale, relative to gs; its codes go to q, 8-byte aligned.
LT_DEV e4m3 fp4_quantize16(u8 *q, const u32 *word, float gs)
{
    const e4m3 scale = lt_f32_e4m3(fp4_amax16(word) * (1.0f / 6.0f) * (1.0f / gs));
    const float s = lt_e4m3_f32(scale), inverse = s > 0.0f ? 1.0f / (s * gs) : 0.0f;
    u32 code[2] = {0, 0};
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        const u32 lo = lt_f32_e2m1(lt_bf16lo_f32(word[i]) * inverse);
        const u32 hi = lt_f32_e2m1(lt_bf16hi_f32(word[i]) * inverse);
        code[i / 4] |= (lo | hi << 4) << i % 4 * 8;
    }
    uint2 out;
    out.x = code[0], out.y = code[1];
    *(uint2 *)q = out;
    return scale;
}

LT_KERNEL(32 * WARPS)
w4a4_act_quant_static__m1_k16__w4(u8 *q, e4m3 *qs, float *gs, const bf16 *x, const float *input_scale)
{
    const size_t group = (size_t)blockIdx.x * (32 * WARPS) + threadIdx.x;
    const float scale = *input_scale;
    lt_pdl_wait();
    lt_pdl_launch();
    if (group >= (size_t)M * (K / 16)) return;
    u32 word[8];
    fp4_load16(word, x + group * 16);
    qs[group] = fp4_quantize16(q + group * 8, word, scale);
    if (group % (K / 16) == 0) gs[group / (K / 16)] = scale;
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a4_act_quant_static__m1_k16__w4(*(u8 **)a[0], *(e4m3 **)a[1], *(float **)a[2], *(const bf16 **)a[3], *(const float **)a[4]); }
#endif
