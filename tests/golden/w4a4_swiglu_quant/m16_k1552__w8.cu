/* family w4a4_swiglu_quant rev 1, shape m16_k1552, variant w8, class exact */
// A lane makes 8 values; two lanes quantise a group of 16. Rows lie one behind the other.
enum { M = 16, K = 1552, WARPS = 8 };
// SwiGLU with clamps, of one value and of two, without the branches of a division: others wait for each of them.
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

// lt_silu; what is below the least x that lt_exp tells apart counts as that one, -2.6e-37.
LT_DEV float silu(float x)
{
    x = x < -88.72283f ? -88.72283f : x;
    return divided(x, 0x1p-32f + lt_exp(-x) * 0x1p-32f) * 0x1p-32f;  // so the inverse of what divides is normal
}

LT_DEV float activated(float gate, float up)  // NaN stays NaN
{
    gate = gate > 10.0f ? 10.0f : gate;
    up = up > 10.0f ? 10.0f : up;
    return silu(gate) * (up < -10.0f ? -10.0f : up);
}

LT_DEV u32 two_activated(u32 gate, u32 up)
{
    return lt_pack_bf16(activated(lt_bf16lo_f32(gate), lt_bf16lo_f32(up)),
                        activated(lt_bf16hi_f32(gate), lt_bf16hi_f32(up)));
}
// Values to E2M1 codes and an E4M3 scale of 16, by lanes that share them. A NaN counts towards no maximum.
LT_DEV float larger(float a, float b) { return a > b ? a : b; }  // a NaN in a is dropped

LT_DEV float nvfp4_amax(u32 two, float amax)
{
    return larger(fabsf(lt_bf16hi_f32(two)), larger(fabsf(lt_bf16lo_f32(two)), amax));
}

LT_DEV e4m3 nvfp4_scale(float amax, float over_gs) { return lt_f32_e4m3(amax * (1.0f / 6.0f) * over_gs); }

LT_DEV float nvfp4_inverse(e4m3 scale, float gs)
{
    const float s = lt_e4m3_f32(scale);
    return s > 0.0f ? 1.0f / (s * gs) : 0.0f;
}

LT_DEV u32 nvfp4_codes(u32 two, float inverse)  // a byte
{
    return lt_f32_e2m1(lt_bf16lo_f32(two) * inverse) | lt_f32_e2m1(lt_bf16hi_f32(two) * inverse) << 4;
}

// Two lanes have a group: eight values each. The scale, in both; their codes.
LT_DEV e4m3 nvfp4_pair(u32 *codes, const u32 *word, float gs, float over_gs)
{
    float amax = 0.0f;
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) amax = nvfp4_amax(word[i], amax);
    amax = larger(lt_shfl_xor_f32(0xffffffffu, amax, 1), amax);
    const e4m3 scale = nvfp4_scale(amax, over_gs);
    const float inverse = nvfp4_inverse(scale, gs);
    *codes = 0;
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) *codes |= nvfp4_codes(word[i], inverse) << i * 8;
    return scale;
}

LT_KERNEL(32 * WARPS)
w4a4_swiglu_quant__m16_k1552__w8(u8 *q, e4m3 *qs, float *gs, const bf16 *x, const float *input_scale)
{
    const size_t i = (size_t)blockIdx.x * (32 * WARPS) + threadIdx.x;  // 8 values
    const float scale = *input_scale, over = 1.0f / scale;
    u32 word[4] = {0, 0, 0, 0}, codes;
    lt_pdl_wait();
    lt_pdl_launch();
    if (i < (size_t)M * (K / 8)) {
        const bf16 *gate = x + (i + i / (K / 8) * (K / 8)) * 8;  // of a row of 2 * K
        const uint4 a = lt_ld128(gate), b = lt_ld128(gate + K);
        word[0] = two_activated(a.x, b.x), word[1] = two_activated(a.y, b.y);
        word[2] = two_activated(a.z, b.z), word[3] = two_activated(a.w, b.w);
    }
    const e4m3 of_group = nvfp4_pair(&codes, word, scale, over);
    if (i >= (size_t)M * (K / 8)) return;
    *(u32 *)(q + i * 4) = codes;
    if (i % 2 == 0) qs[i / 2] = of_group;
    if (i % (K / 8) == 0) gs[i / (K / 8)] = scale;
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a4_swiglu_quant__m16_k1552__w8(*(u8 **)a[0], *(e4m3 **)a[1], *(float **)a[2], *(const bf16 **)a[3], *(const float **)a[4]); }
#endif
