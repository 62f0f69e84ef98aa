/* family nvfp4_dequant rev 1, shape n96_k288, variant w8, class exact */
// A lane writes one group of 16 weights.
enum { N = 96, K = 288, WARPS = 8 };
enum { THREADS = 32 * WARPS };
// a * b to 24 bits, rounded to odd: where the product is not exact its last bit is set. Rounding that once more, to
// half as many bits or fewer, gives what one rounding of the product would. Not below 2^-100: the error must be exact.
LT_DEV float odd_product(float a, float b)
{
    const float near = a * b, error = fmaf(a, b, -near);
    const u32 bits = lt_f32_bits(near);
    const int is_even = error != 0.0f && (bits & 1) == 0 && fabsf(near) <= 0x1.fffffep127f;
    const u32 outward = (error > 0.0f) == (near > 0.0f) ? 1u : 0xffffffffu;
    return lt_bits_f32(is_even ? bits + outward : bits);
}

LT_DEV u32 two_weights(u32 byte, float scale, float scale2)
{
    const float low = odd_product(lt_e2m1_f32(byte & 15) * scale, scale2);
    const float high = odd_product(lt_e2m1_f32(byte >> 4 & 15) * scale, scale2);
    return lt_pack_bf16(low, high);
}

LT_DEV uint4 eight_weights(u32 word, float scale, float scale2)
{
    uint4 v;
    v.x = two_weights(word, scale, scale2);
    v.y = two_weights(word >> 8, scale, scale2);
    v.z = two_weights(word >> 16, scale, scale2);
    v.w = two_weights(word >> 24, scale, scale2);
    return v;
}

LT_KERNEL(THREADS)
nvfp4_dequant__n96_k288__w8(bf16 *y, const u8 *codes, const e4m3 *scales, const float *scale)
{
    const size_t group = (size_t)blockIdx.x * THREADS + threadIdx.x;
    lt_pdl_wait();
    lt_pdl_launch();
    if (group >= (size_t)N * (K / 16)) return;
    const uint2 word = lt_ld64_once(codes + group * 8);
    const float group_scale = lt_e4m3_f32(scales[group]), scale2 = scale[0];
    lt_st128(y + group * 16, eight_weights(word.x, group_scale, scale2));
    lt_st128(y + group * 16 + 8, eight_weights(word.y, group_scale, scale2));
}
#ifndef __CUDACC__
void lt_entry(void **a) { nvfp4_dequant__n96_k288__w8(*(bf16 **)a[0], *(const u8 **)a[1], *(const e4m3 **)a[2], *(const float **)a[3]); }
#endif
