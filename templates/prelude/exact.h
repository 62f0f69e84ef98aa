/* exact.h: arithmetic whose text is the same on both devices: nothing but IEEE operations, fmaf, selects and integers.
 * Pasted behind cuda.h for the GPU; compiled into the program for the CPU device. Masked entries are skipped by index,
 * never by adding -infinity: lt_exp of anything is at least 2^-126. */

/* exp(x), at most 1.08 ulp off; x is clamped to [-87.33654, 88.72283], where the result is normal and finite. */
LT_DEV float lt_exp(float x)
{
    x = x < -87.33654f ? -87.33654f : x;
    x = x > 88.72283f ? 88.72283f : x;
    const float shifted = x * 0x1.715476p+0f + 0x1.8p+23f; /* its last bits are the nearest integer */
    const float n = shifted - 0x1.8p+23f;
    float r = fmaf(n, -0x1.62e4p-1f, x); /* log 2 in two parts: the first has 15 bits, so that n * it is exact */
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float p = 0x1.6d10fcp-10f;
    p = fmaf(p, r, 0x1.120b62p-7f);
    p = fmaf(p, r, 0x1.55551ap-5f);
    p = fmaf(p, r, 0x1.5554dep-3f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r * r, r);
    const int whole = (int)(lt_f32_bits(shifted) - 0x4b400000u);
    const int half = whole >> 1; /* 2^n as two powers: n reaches 128 */
    return (p + 1.0f) * lt_bits_f32((u32)(half + 127) << 23) * lt_bits_f32((u32)(whole - half + 127) << 23);
}

LT_DEV float lt_sigmoid(float x)
{
    return 1.0f / (1.0f + lt_exp(-x));
}

LT_DEV float lt_silu(float x)
{
    return x / (1.0f + lt_exp(-x));
}

/* E2M1: the low four bits of code; magnitudes 0 0.5 1 1.5 2 3 4 6, bit 3 the sign. */
LT_DEV float lt_e2m1_f32(u32 code)
{
    const u32 e = code >> 1 & 3, m = code & 1;
    const u32 magnitude = e ? (e + 126) << 23 | m << 22 : (m ? 0x3f000000u : 0u);
    return lt_bits_f32((code & 8) << 28 | magnitude);
}

/* Nearest, ties to the even code, saturates at 6; a zero has no sign, NaN gives 7. */
LT_DEV u32 lt_f32_e2m1(float x)
{
    const float to_six = fabsf(x) < 6.0f ? fabsf(x) : 6.0f, from_one = to_six > 1.0f ? to_six : 1.0f;
    const u32 unit = lt_f32_bits(from_one) & 0x7f800000u; /* a power of two, which two codes halve */
    const u32 halves = lt_f32_bits(to_six + lt_bits_f32(unit + 0x0b400000u)) & 7; /* + 1.5 * 2^22 units */
    const u32 code = halves + (unit >> 22) - 254;
    return code != 0 && x < 0.0f ? code | 8 : code;
}
