/* intrinsics.c: what templates/prelude/cpu.h declares `extern` and does alone for one thread. Each
 * has the bits of the instruction that cuda.h has under that name; a NaN is the GPU's canonical
 * one. */
#include "runtime/cpu/intrinsics.h"

#include "runtime/cpu/e4m3.h"
#include "runtime/lathe.h"

#include <math.h>
#include <string.h>

/* ---- exact.h, as the GPU's compiler gets it ---- */

typedef uint32_t u32;
#define LT_DEV static

static float lt_bits_f32(u32 bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static u32 lt_f32_bits(float x)
{
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#include "templates/prelude/exact.h"

/* ---- conversions ---- */

static uint32_t pack_bf16(float lo, float hi)
{
    return lt_number_to_bf16(lo) | (uint32_t)lt_number_to_bf16(hi) << 16;
}

static uint32_t pack_f16(float lo, float hi)
{
    return lt_number_to_f16(lo) | (uint32_t)lt_number_to_f16(hi) << 16;
}

static uint32_t pack_e4m3(float lo, float hi)
{
    return lt_number_to_e4m3(lo) | (uint32_t)lt_number_to_e4m3(hi) << 8;
}

/* Not lt_number_f16: this is in a kernel's inner loop, and a NaN is the GPU's. Float subnormals,
 * which cost a trap each, do not occur. */
static float f16_f32(uint32_t code)
{
    const uint32_t sign = (code & 0x8000) << 16, magnitude = code & 0x7fff;
    if (magnitude > 0x7c00) return lt_bits_f32(0x7fffffff);
    if (magnitude == 0x7c00) return lt_bits_f32(sign | 0x7f800000);
    if (magnitude >= 0x0400) return lt_bits_f32(sign | ((magnitude << 13) + (112u << 23)));
    return (float)(int32_t)magnitude * (sign ? -0x1p-24f : 0x1p-24f);
}

static float f16lo_f32(uint32_t two)
{
    return f16_f32(two);
}

static float f16hi_f32(uint32_t two)
{
    return f16_f32(two >> 16);
}

static uint32_t e4m3x2_f16x2(uint32_t two)
{
    return lt_e4m3_f16(two & 255) | lt_e4m3_f16(two >> 8 & 255) << 16;
}

static float ue4m3_f32(uint32_t code)
{
    return f16_f32(lt_e4m3_f16(code & 0x7f));
}

static uint32_t f32_ue4m3(float x)
{
    return x <= 0.0f ? 0 : lt_number_to_e4m3(x) & 0x7f;
}

/* ---- packed arithmetic ---- */

typedef struct {
    int mantissa, smallest; /* bits; exponent of the smallest normal number */
    uint32_t infinite;      /* the code of infinity */
    float (*value)(uint32_t code);
} half;

static float bf16_f32(uint32_t code)
{
    return lt_bits_f32(code << 16);
}

static const half BF16 = {7, -126, 0x7f80, bf16_f32}, F16 = {10, -14, 0x7c00, f16_f32};

/* The nearest code, ties to even, of x that is zero or a normal double. */
static inline uint32_t round_half(const half *of, double x)
{
    uint64_t bits;
    if (x != x) return 0x7fff;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = (uint32_t)(bits >> 48 & 0x8000);
    const int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (exponent == -1023) return sign;
    const bool normal = exponent >= of->smallest;
    const int shift = 52 - of->mantissa + (normal ? 0 : of->smallest - exponent);
    if (shift > 53) return sign; /* below half of the smallest subnormal */
    const uint64_t significand = (bits & 0xfffffffffffff) | UINT64_C(1) << 52;
    const uint64_t even = significand >> shift & 1;
    const uint32_t kept =
        (uint32_t)((significand + (UINT64_C(1) << (shift - 1)) - 1 + even) >> shift);
    /* a normal number's hidden bit, and a carry, run into the exponent */
    const uint32_t code =
        normal ? ((uint32_t)(exponent - of->smallest) << of->mantissa) + kept : kept;
    return sign | (code < of->infinite ? code : of->infinite);
}

/* x + y with the last bit set where the sum is not exact ("to odd"): a later rounding to fewer bits
 * is then the only one. No overflow, no subnormals among the values that come here. */
static inline double add_to_odd(double x, double y)
{
    const double sum = x + y, shown = sum - x;
    const double error = (x - (sum - shown)) + (y - shown);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (!(error != 0) || (bits & 1) || !isfinite(sum)) return sum;
    bits = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return odd;
}

/* A product of two halves is exact in double. */
static inline uint32_t fma_half(const half *of, uint32_t a, uint32_t b, uint32_t c)
{
    const double product = (double)of->value(a & 0xffff) * (double)of->value(b & 0xffff);
    return round_half(of, add_to_odd(product, (double)of->value(c & 0xffff)));
}

static inline uint32_t mul_half(const half *of, uint32_t a, uint32_t b)
{
    return round_half(of, (double)of->value(a & 0xffff) * (double)of->value(b & 0xffff));
}

static uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return fma_half(&BF16, a, b, c) | fma_half(&BF16, a >> 16, b >> 16, c >> 16) << 16;
}

/* The significands' product is a whole number that a float holds; its exponent is put right
 * afterwards where the product is a normal number. So no float is subnormal, over which a processor
 * takes long, and which codes of four bits become. */
static inline uint32_t mul_bf16(uint32_t a, uint32_t b)
{
    const uint32_t ea = a >> 7 & 255, eb = b >> 7 & 255, sign = (a ^ b) & 0x8000;
    const uint32_t count = (a & 127) + (ea ? 128 : 0), times = (b & 127) + (eb ? 128 : 0);
    const uint32_t bits = lt_f32_bits((float)(int32_t)(count * times));
    const int scale = (int)(ea + (ea == 0) + eb + (eb == 0)) - 268;
    if (ea == 255 || eb == 255) return mul_half(&BF16, a, b);
    if (bits == 0) return sign;
    if ((int)(bits >> 23) + scale < 1) return mul_half(&BF16, a, b);
    const uint32_t code = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) + ((uint32_t)scale << 7);
    return sign | (code < BF16.infinite ? code : BF16.infinite);
}

static uint32_t mul_bf16x2(uint32_t a, uint32_t b)
{
    return mul_bf16(a & 0xffff, b & 0xffff) | mul_bf16(a >> 16, b >> 16) << 16;
}

/* A word of codes as the A of an m16n8k16, each times 2^-126.  ORDER FP4 */
static void nvfp4_codes(uint32_t *a, uint32_t word)
{
    a[0] = word & 0x81c081c0;
    a[1] = word << 4 & 0x81c081c0;
    a[2] = (word << 10 | word >> 22) & 0x81c081c0;
    a[3] = (word << 6 & 0x80c080c0) | (word >> 2 & 0x01000100);
}

enum { SCALE_INFINITE = 0xf8 }; /* from this byte on a scale is infinite or NaN */

/* The bf16 of each magnitude of a code times each scale, times 2^-20. */
typedef struct {
    uint16_t of[SCALE_INFINITE][8];
} scaled_codes;

static const scaled_codes *scaled(void)
{
    static scaled_codes table;
    static bool is_made;
    if (is_made) return &table;
    for (uint32_t scale = 0; scale < SCALE_INFINITE; scale++)
        for (uint32_t code = 0; code < 8; code++)
            table.of[scale][code] = (uint16_t)mul_bf16(code << 6, 0x7000 + (scale << 4));
    is_made = true;
    return &table;
}

static void nvfp4_rows(uint32_t *a, uint32_t word, uint32_t scales)
{
    const scaled_codes *table = scaled();
    nvfp4_codes(a, word);
    for (int i = 0; i < 4; i++) {
        const uint32_t scale = scales >> i % 2 * 8 & 255;
        if (scale >= SCALE_INFINITE) {
            a[i] = mul_bf16x2(a[i], (0x7000 + (scale << 4)) * 0x10001);
            continue;
        }
        const uint16_t *of = table->of[scale];
        a[i] = (a[i] & 0x80008000) | of[a[i] >> 6 & 7] | (uint32_t)of[a[i] >> 22 & 7] << 16;
    }
}

static uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return fma_half(&F16, a, b, c) | fma_half(&F16, a >> 16, b >> 16, c >> 16) << 16;
}

static uint32_t mul_f16x2(uint32_t a, uint32_t b)
{
    return mul_half(&F16, a, b) | mul_half(&F16, a >> 16, b >> 16) << 16;
}

static int32_t dp4a(uint32_t a, uint32_t b, int32_t c)
{
    uint32_t sum = (uint32_t)c;
    for (int i = 0; i < 32; i += 8) sum += (uint32_t)((int8_t)(a >> i) * (int8_t)(b >> i));
    return (int32_t)sum;
}

static uint32_t byte_perm(uint32_t a, uint32_t b, uint32_t select)
{
    const uint64_t from = (uint64_t)b << 32 | a;
    uint32_t to = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t nibble = select >> 4 * i & 15;
        const uint32_t byte = (uint32_t)(from >> 8 * (nibble & 7)) & 255;
        to |= (nibble & 8 ? (byte & 0x80 ? 255 : 0) : byte) << 8 * i;
    }
    return to;
}

static int ones(uint32_t v)
{
    return __builtin_popcount(v);
}

static int zeros_in_front(uint32_t v)
{
    return v ? __builtin_clz(v) : 32;
}

static int lowest_one(uint32_t v)
{
    return v ? __builtin_ctz(v) + 1 : 0;
}

/* ---- what libtcc calls for 64-bit integers and floats ---- */

static float f32_of_u64(uint64_t x)
{
    return (float)x;
}

static double f64_of_u64(uint64_t x)
{
    return (double)x;
}

static uint64_t u64_of_f32(float x)
{
    return (uint64_t)x;
}

static uint64_t u64_of_f64(double x)
{
    return (uint64_t)x;
}

const lt_symbol lt_cpu_symbols[] = {
    {"lt_pack_bf16", (void *)pack_bf16},
    {"lt_pack_f16", (void *)pack_f16},
    {"lt_pack_e4m3", (void *)pack_e4m3},
    {"lt_f16lo_f32", (void *)f16lo_f32},
    {"lt_f16hi_f32", (void *)f16hi_f32},
    {"lt_e4m3x2_f16x2", (void *)e4m3x2_f16x2},
    {"lt_ue4m3_f32", (void *)ue4m3_f32},
    {"lt_f32_ue4m3", (void *)f32_ue4m3},
    {"lt_e2m1_f32", (void *)lt_e2m1_f32},
    {"lt_f32_e2m1", (void *)lt_f32_e2m1},
    {"lt_fma_bf16x2", (void *)fma_bf16x2},
    {"lt_mul_bf16x2", (void *)mul_bf16x2},
    {"lt_nvfp4_codes", (void *)nvfp4_codes},
    {"lt_nvfp4_rows", (void *)nvfp4_rows},
    {"lt_fma_f16x2", (void *)fma_f16x2},
    {"lt_mul_f16x2", (void *)mul_f16x2},
    {"lt_dp4a", (void *)dp4a},
    {"lt_byte_perm", (void *)byte_perm},
    {"lt_popc", (void *)ones},
    {"lt_clz", (void *)zeros_in_front},
    {"lt_ffs", (void *)lowest_one},
    {"lt_exp", (void *)lt_exp},
    {"lt_sigmoid", (void *)lt_sigmoid},
    {"lt_silu", (void *)lt_silu},
    {"fmaf", (void *)fmaf},
    {"sqrtf", (void *)sqrtf},
    {"rintf", (void *)rintf},
    {"fabsf", (void *)fabsf},
    {"memmove", (void *)memmove},
    {"memset", (void *)memset},
    {"memcpy", (void *)memcpy},
    {"__floatundisf", (void *)f32_of_u64},
    {"__floatundidf", (void *)f64_of_u64},
    {"__fixunssfdi", (void *)u64_of_f32},
    {"__fixunsdfdi", (void *)u64_of_f64},
    {NULL, NULL},
};
