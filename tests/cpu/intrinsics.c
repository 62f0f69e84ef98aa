/* intrinsics.c: the host functions of the CPU device against definitions written another way:
 * conversions against their neighbours' distances, packed arithmetic against exact integers, the
 * exponential against libm's double. */
#include "runtime/cpu/intrinsics.h"

#include "runtime/lathe.h"
#include "tests/prelude/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void *find(const char *name)
{
    for (const lt_symbol *s = lt_cpu_symbols; s->name; s++)
        if (strcmp(s->name, name) == 0) return s->address;
    fail_msg("no symbol %s", name);
    return NULL;
}

typedef uint32_t pack_fn(float, float);
typedef float decode_fn(uint32_t);
typedef uint32_t encode_fn(float);
typedef uint32_t mul_fn(uint32_t, uint32_t);
typedef uint32_t three_fn(uint32_t, uint32_t, uint32_t);
typedef float real_fn(float);

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- from float ---- */

typedef struct {
    uint32_t nan, largest, sign; /* codes */
    double over;                 /* a magnitude of at least that much is past the largest number */
    uint32_t infinite;           /* its code then */
    float (*value)(uint32_t code);
} target;

static float value_bf16(uint32_t code)
{
    return lt_number_bf16((uint16_t)code);
}
static float value_f16(uint32_t code)
{
    return lt_number_f16((uint16_t)code);
}
static float value_e4m3(uint32_t code)
{
    return lt_number_e4m3((uint8_t)code);
}
static float value_e2m1(uint32_t code)
{
    return lt_number_e2m1((uint8_t)code);
}

static const target BF16 = {0x7fff, 0x7f7f, 0x8000, 0x1.ffp127, 0x7f80, value_bf16};
static const target F16 = {0x7fff, 0x7bff, 0x8000, 65520, 0x7c00, value_f16};
static const target E4M3 = {0x7f, 0x7e, 0x80, 448, 0x7e, value_e4m3};
static const target E2M1 = {7, 7, 8, 6, 7, value_e2m1};

/* Is code the nearest to x, ties to the even code? */
static bool is_nearest(const target *t, float x, uint32_t code)
{
    if (x != x) return code == t->nan;
    const uint32_t magnitude = code & ~t->sign;
    const double a = fabs((double)x);
    if (code != magnitude && !(x < 0 || bits_of(x) == 0x80000000)) return false;
    if (code == magnitude && x < 0 && (magnitude != 0 || t != &E2M1)) return false;
    if (a >= t->over) return magnitude == t->infinite;
    if (magnitude > t->largest) return false;
    const double off = fabs(a - (double)t->value(magnitude));
    for (uint32_t other = magnitude ? magnitude - 1 : 0; other <= magnitude + 1; other++) {
        if (other == magnitude || other > t->largest) continue;
        const double there = fabs(a - (double)t->value(other));
        if (there < off || (there == off && magnitude % 2 == 1)) return false;
    }
    return true;
}

/* Calls check for every sign and exponent, 512 leading mantissa bits, and what follows them at and
 * around the ties of each format. */
static void for_dense_floats(void (*check)(float x))
{
    static const uint32_t low[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x1fff,
                                   0x2000, 0x2001, 0x3000, 0x3001, 0x3fff};
    for (uint32_t high = 0; high < 1u << 18; high++)
        for (size_t i = 0; i < lt_countof(low); i++) check(float_of(high << 14 | low[i]));
}

static void check_packs(float x)
{
    static pack_fn *bf16, *f16, *e4m3;
    static encode_fn *e2m1, *ue4m3;
    if (!bf16) {
        bf16 = (pack_fn *)find("lt_pack_bf16");
        f16 = (pack_fn *)find("lt_pack_f16");
        e4m3 = (pack_fn *)find("lt_pack_e4m3");
        e2m1 = (encode_fn *)find("lt_f32_e2m1");
        ue4m3 = (encode_fn *)find("lt_f32_ue4m3");
    }
    const uint32_t b = bf16(x, 1.0f), h = f16(x, -1.0f), e = e4m3(x, 2.0f);
    const uint32_t unsigned_code = ue4m3(x);
    const bool right = b >> 16 == 0x3f80 && h >> 16 == 0xbc00 && e >> 8 == 0x40 &&
                       is_nearest(&BF16, x, b & 0xffff) && is_nearest(&F16, x, h & 0xffff) &&
                       is_nearest(&E4M3, x, e & 0xff) && is_nearest(&E2M1, x, e2m1(x)) &&
                       (x <= 0 ? unsigned_code == 0 : is_nearest(&E4M3, x, unsigned_code)) &&
                       bf16(0, x) == b << 16 && f16(0, x) == h << 16 &&
                       e4m3(0, x) == (e & 0xff) << 8;
    if (!right) fail_msg("%a (0x%08x): %x %x %x %x", (double)x, bits_of(x), b, h, e, e2m1(x));
}

static void floats_go_to_the_nearest_code_in_their_half(void **state)
{
    (void)state;
    for_dense_floats(check_packs);
}

/* ---- to float ---- */

static bool same_number(float x, float y)
{
    return x != x ? y != y : bits_of(x) == bits_of(y);
}

static void every_f16_code_is_its_value(void **state)
{
    (void)state;
    decode_fn *lo = (decode_fn *)find("lt_f16lo_f32"), *hi = (decode_fn *)find("lt_f16hi_f32");
    for (uint32_t c = 0; c < 65536; c++) {
        assert_true(same_number(lo(c | 0x3c000000), value_f16(c)));
        assert_true(same_number(hi(c << 16 | 0x3c00), value_f16(c)));
    }
}

static void every_pair_of_e4m3_codes_is_its_f16_pair(void **state)
{
    (void)state;
    decode_fn *unsigned_value = (decode_fn *)find("lt_ue4m3_f32");
    uint32_t (*widen)(uint32_t) = (uint32_t(*)(uint32_t))find("lt_e4m3x2_f16x2");
    for (uint32_t c = 0; c < 65536; c++) {
        const uint32_t two = widen(c | 0xabcd0000);
        assert_int_equal(two & 0xffff, lt_number_to_f16(value_e4m3(c & 255)));
        assert_int_equal(two >> 16, lt_number_to_f16(value_e4m3(c >> 8)));
        assert_true(same_number(unsigned_value(c), fabsf(value_e4m3(c & 255))));
    }
}

static void every_e2m1_code_is_its_value(void **state)
{
    (void)state;
    decode_fn *value = (decode_fn *)find("lt_e2m1_f32");
    for (uint32_t c = 0; c < 256; c++) assert_true(same_number(value(c), value_e2m1(c & 15)));
}

/* ---- packed arithmetic ---- */

static void check_packed(const half_format *f, three_fn *fma2, mul_fn *mul2)
{
    draw_from(1);
    for (int i = 0; i < 1000000; i++) {
        const uint32_t a = draw(), b = draw();
        const uint32_t lo = draw_addend(f, a & 0xffff, b & 0xffff);
        const uint32_t hi = draw_addend(f, a >> 16, b >> 16);
        const uint32_t got = fma2(a, b, lo | hi << 16), product = mul2(a, b);
        const uint32_t want =
            exact_fma(f, a & 0xffff, b & 0xffff, lo) | exact_fma(f, a >> 16, b >> 16, hi) << 16;
        const uint32_t times = exact_fma(f, a & 0xffff, b & 0xffff, 0x8000) |
                               exact_fma(f, a >> 16, b >> 16, 0x8000) << 16;
        if (got != want || product != times)
            fail_msg("%08x * %08x + %04x%04x: %08x, not %08x; product %08x, not %08x", a, b, hi, lo,
                     got, want, product, times);
    }
}

static void packed_bf16_rounds_once(void **state)
{
    (void)state;
    const half_format f = {7, -126};
    check_packed(&f, (three_fn *)find("lt_fma_bf16x2"), (mul_fn *)find("lt_mul_bf16x2"));
}

static void packed_f16_rounds_once(void **state)
{
    (void)state;
    const half_format f = {10, -14};
    check_packed(&f, (three_fn *)find("lt_fma_f16x2"), (mul_fn *)find("lt_mul_f16x2"));
}

/* Values worked out by hand, so that the exact arithmetic above is not its own judge. */
static void packed_results_known_by_hand(void **state)
{
    (void)state;
    three_fn *bf16 = (three_fn *)find("lt_fma_bf16x2"), *f16 = (three_fn *)find("lt_fma_f16x2");
    const half_format b = {7, -126}, h = {10, -14};
    /* 1 * (1 + 2^-7) + 2^-8 is a tie: up to the even 1 + 2^-6; with less than 2^-8 it stays */
    assert_int_equal(bf16(0x3f80, 0x3f81, 0x3b80), 0x3f82);
    assert_int_equal(bf16(0x3f80, 0x3f81, 0x3b7f), 0x3f81);
    /* (1 + 2^-7) * 1.5 is a tie; a 2^-133 less, far below a double's last bit, breaks it */
    assert_int_equal(bf16(0x3f81, 0x3fc0, 0x0000), 0x3fc2);
    assert_int_equal(bf16(0x3f81, 0x3fc0, 0x8001), 0x3fc1);
    assert_int_equal(exact_fma(&b, 0x3f81, 0x3fc0, 0x8001), 0x3fc1);
    /* 2^-14 * 2^-10 is the smallest f16; half of it is a tie to zero; a bit more is not */
    assert_int_equal(f16(0x0400, 0x1400, 0), 0x0001);
    assert_int_equal(f16(0x0400, 0x1000, 0), 0x0000);
    assert_int_equal(f16(0x0401, 0x1000, 0), 0x0001);
    assert_int_equal(exact_fma(&h, 0x0400, 0x1000, 0), 0x0000);
    /* 65504 + 16 is a tie to infinity, 65504 + 15.99 is not */
    assert_int_equal(f16(0x7bff, 0x3c00, 0x4c00), 0x7c00);
    assert_int_equal(f16(0x7bff, 0x3c00, 0x4bff), 0x7bff);
    /* infinity times zero; infinity minus infinity; a NaN in the high half alone */
    assert_int_equal(f16(0x7c00, 0x0000, 0x3c00), 0x7fff);
    assert_int_equal(bf16(0x7f80, 0x3f80, 0xff80), 0x7fff);
    assert_int_equal(bf16(0xffc03f80, 0x3f803f80, 0), 0x7fff3f80);
}

/* ---- integers ---- */

static void dp4a_adds_four_signed_products(void **state)
{
    (void)state;
    int32_t (*dp4a)(uint32_t, uint32_t, int32_t) =
        (int32_t(*)(uint32_t, uint32_t, int32_t))find("lt_dp4a");
    assert_int_equal(dp4a(0x01020304, 0x05060708, 100), 5 + 12 + 21 + 32 + 100);
    assert_int_equal(dp4a(0x80ff7f01, 0x807f80ff, 0), 16384 - 127 - 16256 - 1);
    assert_int_equal(dp4a(0x7f000000, 0x7f000000, INT32_MAX), INT32_MIN + 16128);
}

static void byte_perm_picks_bytes_and_signs(void **state)
{
    (void)state;
    three_fn *perm = (three_fn *)find("lt_byte_perm");
    assert_int_equal(perm(0x33221100, 0x77665544, 0x3210), 0x33221100);
    assert_int_equal(perm(0x33221100, 0x77665544, 0x7654), 0x77665544);
    assert_int_equal(perm(0x33221100, 0x77665544, 0x0725), 0x00772255);
    assert_int_equal(perm(0x80127f00, 0x00ff0000, 0xeb98), 0xffff0000);
    assert_int_equal(perm(0x33221100, 0x77665544, 0xffff3210), 0x33221100);
}

static void integers_of_64_bits_become_floats_and_back(void **state)
{
    (void)state;
    float (*f32)(uint64_t) = (float (*)(uint64_t))find("__floatundisf");
    double (*f64)(uint64_t) = (double (*)(uint64_t))find("__floatundidf");
    uint64_t (*u32)(float) = (uint64_t(*)(float))find("__fixunssfdi");
    uint64_t (*u64)(double) = (uint64_t(*)(double))find("__fixunsdfdi");
    assert_true(f32(UINT64_MAX) == 0x1p64f && f32(0x8000008000000000u) == 0x1p63f);
    assert_true(f64(UINT64_MAX) == 0x1p64 && f64(0xfffffffffffff800u) == 0x1.fffffffffffffp63);
    assert_true(u32(0x1.fffffep63f) == 0xffffff0000000000u && u32(3.9f) == 3);
    assert_true(u64(0x1.fffffffffffffp63) == 0xfffffffffffff800u && u64(3.9) == 3);
}

/* ---- exact.h ---- */

static double ulps(float got, double want)
{
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

/* Steps through the floats between +-88.7 and takes the largest error in units of the last place.
 */
static double worst(const char *name, double (*truth)(double), uint32_t step)
{
    real_fn *f = (real_fn *)find(name);
    double most = 0;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += step) {
        const float x = float_of((uint32_t)bits);
        if (!(x >= -87.33654f && x <= 88.72283f)) continue;
        const double off = ulps(f(x), truth((double)x));
        most = off > most ? off : most;
    }
    return most;
}

static double true_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double true_silu(double x)
{
    return x / (1 + exp(-x));
}

static void exp_is_within_1_08_ulp(void **state)
{
    (void)state;
    const double most = worst("lt_exp", exp, 64);
    assert_true(most > 0.9 && most <= 1.08);
}

static void sigmoid_and_silu_are_within_2_4_ulp(void **state)
{
    (void)state;
    const double sigmoid = worst("lt_sigmoid", true_sigmoid, 509);
    const double silu = worst("lt_silu", true_silu, 509);
    assert_true(sigmoid <= 2.4 && silu <= 2.4);
}

static void exp_clamps_and_is_exact_at_zero(void **state)
{
    (void)state;
    real_fn *e = (real_fn *)find("lt_exp"), *s = (real_fn *)find("lt_sigmoid");
    real_fn *silu = (real_fn *)find("lt_silu");
    assert_true(e(0.0f) == 1.0f && e(-0.0f) == 1.0f && s(0.0f) == 0.5f && silu(0.0f) == 0.0f);
    assert_true(e(1000.0f) == e(88.72283f) && isfinite(e(INFINITY)));
    assert_true(e(-1000.0f) == e(-INFINITY) && e(-INFINITY) >= 0x1p-126f);
    assert_true(isnan(e(NAN)) && isnan(s(NAN)) && isnan(silu(NAN)));
}

static void the_functions_of_libm_and_memory_are_there(void **state)
{
    (void)state;
    float (*fma)(float, float, float) = (float (*)(float, float, float))find("fmaf");
    assert_true(fma(0x1.000002p0f, 0x1.000002p0f, -0x1.000004p0f) == 0x1p-46f);
    assert_true(((real_fn *)find("sqrtf"))(2.25f) == 1.5f);
    assert_true(((real_fn *)find("rintf"))(2.5f) == 2.0f);
    assert_true(((real_fn *)find("fabsf"))(-2.5f) == 2.5f);
    assert_ptr_equal(find("memcpy"), (void *)memcpy);
    assert_ptr_equal(find("memmove"), (void *)memmove);
    assert_ptr_equal(find("memset"), (void *)memset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_go_to_the_nearest_code_in_their_half),
        cmocka_unit_test(every_f16_code_is_its_value),
        cmocka_unit_test(every_pair_of_e4m3_codes_is_its_f16_pair),
        cmocka_unit_test(every_e2m1_code_is_its_value),
        cmocka_unit_test(packed_bf16_rounds_once),
        cmocka_unit_test(packed_f16_rounds_once),
        cmocka_unit_test(packed_results_known_by_hand),
        cmocka_unit_test(dp4a_adds_four_signed_products),
        cmocka_unit_test(byte_perm_picks_bytes_and_signs),
        cmocka_unit_test(integers_of_64_bits_become_floats_and_back),
        cmocka_unit_test(exp_is_within_1_08_ulp),
        cmocka_unit_test(sigmoid_and_silu_are_within_2_4_ulp),
        cmocka_unit_test(exp_clamps_and_is_exact_at_zero),
        cmocka_unit_test(the_functions_of_libm_and_memory_are_there),
    };
    return cmocka_run_group_tests_name("intrinsics", tests, NULL, NULL);
}
