/* family e4m3_dequant rev 1, shape n1_k22, variant w8, class exact */
// A lane writes one weight.
enum { N = 1, K = 22, WARPS = 8 };
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
e4m3_dequant__n1_k22__w8(bf16 *y, const e4m3 *q, const float *sw)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    lt_pdl_wait();
    lt_pdl_launch();
    if (i < (size_t)N * K) y[i] = lt_f32_bf16(odd_product(lt_e4m3_f32(q[i]), sw[i / K]));
}
#ifndef __CUDACC__
void lt_entry(void **a) { e4m3_dequant__n1_k22__w8(*(bf16 **)a[0], *(const e4m3 **)a[1], *(const float **)a[2]); }
#endif
