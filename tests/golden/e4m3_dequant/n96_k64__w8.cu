/* family e4m3_dequant rev 1, shape n96_k64, variant w8, class exact */
// A lane writes 16 weights.
enum { N = 96, K = 64, WARPS = 8 };
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

LT_KERNEL(THREADS)
e4m3_dequant__n96_k64__w8(bf16 *y, const e4m3 *q, const float *sw)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    lt_pdl_wait();
    lt_pdl_launch();
    if (i >= (size_t)N * (K / 16)) return;
    const uint4 v = lt_ld128_once(q + i * 16);
    const u32 word[4] = {v.x, v.y, v.z, v.w};
    const float scale = sw[i / (K / 16)];
    u32 two[8];
    LT_UNROLL(8)
    for (int j = 0; j < 8; j++) {
        const u32 pair = lt_e4m3x2_f16x2(word[j / 2] >> j % 2 * 16);
        two[j] = lt_pack_bf16(odd_product(lt_f16lo_f32(pair), scale), odd_product(lt_f16hi_f32(pair), scale));
    }
    uint4 low, high;
    low.x = two[0], low.y = two[1], low.z = two[2], low.w = two[3];
    high.x = two[4], high.y = two[5], high.z = two[6], high.w = two[7];
    lt_st128(y + i * 16, low);
    lt_st128(y + i * 16 + 8, high);
}
#ifndef __CUDACC__
void lt_entry(void **a) { e4m3_dequant__n96_k64__w8(*(bf16 **)a[0], *(const e4m3 **)a[1], *(const float **)a[2]); }
#endif
