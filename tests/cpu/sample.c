/* sample.c: drawn inputs: reproducible, independent of each other, and inside what each
 * distribution promises. */
#include "runtime/sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { N = 65536 };

static void draw(void *to, size_t count, lt_ctype type, lt_draw how, uint64_t seed,
                 const char *name)
{
    lt_err err = {{0}};
    if (lt_sample_fill(to, count, type, how, seed, name, &err)) fail_msg("%s", err.text);
}

static void element_i_depends_on_seed_name_and_i_alone(void **state)
{
    (void)state;
    static float all[N], few[100], other[100];
    draw(all, N, LT_F32, LT_DRAW_NORMAL, 7, "x");
    draw(few, 100, LT_F32, LT_DRAW_NORMAL, 7, "x");
    assert_memory_equal(all, few, sizeof few);
    draw(other, 100, LT_F32, LT_DRAW_NORMAL, 8, "x");
    assert_memory_not_equal(few, other, sizeof few);
    draw(other, 100, LT_F32, LT_DRAW_NORMAL, 7, "y");
    assert_memory_not_equal(few, other, sizeof few);
}

/* Bits that every machine must draw: a change makes stored outputs meaningless. */
static void the_first_bits_are_these(void **state)
{
    (void)state;
    uint8_t bytes[8];
    uint16_t half[4];
    draw(bytes, 8, LT_U8, LT_DRAW_BYTES, 1, "w");
    draw(half, 4, LT_BF16, LT_DRAW_NORMAL, 1, "x");
    const uint8_t want_bytes[8] = {0x3d, 0x30, 0x2d, 0xb3, 0x52, 0x9a, 0x9b, 0xba};
    const uint16_t want_half[4] = {0xbfe0, 0xbd4b, 0x3eed, 0xbf60};
    assert_memory_equal(bytes, want_bytes, 8);
    assert_memory_equal(half, want_half, 8);
}

static void normal_has_mean_0_and_deviation_1(void **state)
{
    (void)state;
    static float x[N];
    double sum = 0, squares = 0;
    draw(x, N, LT_F32, LT_DRAW_NORMAL, 3, "x");
    for (int i = 0; i < N; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        assert_true(fabsf(x[i]) < 5);
    }
    assert_true(fabs(sum / N) < 0.02);
    assert_true(fabs(squares / N - 1) < 0.03);
}

static void bytes_of_e4m3_are_all_patterns_but_nan(void **state)
{
    (void)state;
    static uint8_t x[N];
    size_t seen[256] = {0};
    draw(x, N, LT_E4M3, LT_DRAW_BYTES, 3, "w");
    for (int i = 0; i < N; i++) seen[x[i]]++;
    for (int c = 0; c < 256; c++) {
        if ((c & 0x7f) == 0x7f)
            assert_int_equal(seen[c], 0);
        else
            assert_true(seen[c] > N / 512);
    }
}

static void every_pattern_of_packed_e2m1_and_u8_is_drawn(void **state)
{
    (void)state;
    static uint8_t x[N];
    const lt_ctype types[] = {LT_U8, LT_E2M1X2};
    for (size_t t = 0; t < 2; t++) {
        size_t seen[256] = {0};
        draw(x, N, types[t], LT_DRAW_BYTES, 3, "w");
        for (int i = 0; i < N; i++) seen[x[i]]++;
        for (int c = 0; c < 256; c++) assert_true(seen[c] > 0);
    }
}

static void scales_are_positive_and_in_the_middle_range(void **state)
{
    (void)state;
    static uint8_t codes[N];
    static float x[N];
    draw(codes, N, LT_E4M3, LT_DRAW_SCALES, 3, "s");
    draw(x, N, LT_F32, LT_DRAW_SCALE32, 3, "s");
    for (int i = 0; i < N; i++) {
        const float s = lt_number_e4m3(codes[i]);
        assert_true(s >= 0.25f && s <= 7.5f);
        assert_true(x[i] >= 0x1p-7f && x[i] < 0x1p-5f);
    }
}

/* In each format that holds them: -4 to 4, every one of them drawn; both halves of a pair. */
static void integers_are_small_and_exact_in_every_format(void **state)
{
    (void)state;
    static uint32_t room[N];
    const lt_ctype types[] = {LT_E4M3, LT_BF16, LT_F16, LT_F32, LT_I8, LT_I32, LT_E2M1X2};
    for (size_t t = 0; t < lt_countof(types); t++) {
        unsigned seen = 0;
        draw(room, 4096, types[t], LT_DRAW_INTEGERS, 9, "x");
        for (size_t i = 0; i < 4096; i++) {
            const double x = lt_ctype_number(types[t], room, i);
            assert_true(x == rint(x) && fabs(x) <= 4);
            seen |= 1u << (int)(x + 4);
        }
        assert_int_equal(seen, 0x1ff);
    }
    unsigned high = 0;
    draw(room, 4096, LT_E2M1X2, LT_DRAW_INTEGERS, 9, "x");
    for (size_t i = 0; i < 4096; i++)
        high |= 1u << (int)(lt_number_e2m1(((uint8_t *)room)[i] >> 4) + 4);
    assert_int_equal(high, 0x1ff);
}

static void counts_zeros_and_ones_are_what_they_say(void **state)
{
    (void)state;
    float x[1000];
    uint8_t pairs[10];
    draw(x, 1000, LT_F32, LT_DRAW_COUNTS, 5, "s");
    for (int i = 0; i < 1000; i++) assert_true(x[i] >= 1 && x[i] <= 4 && x[i] == rintf(x[i]));
    draw(x, 1000, LT_F32, LT_DRAW_ZEROS, 5, "s");
    for (int i = 0; i < 1000; i++) assert_true(x[i] == 0);
    draw(pairs, 10, LT_E2M1X2, LT_DRAW_ONES, 5, "s");
    for (int i = 0; i < 10; i++) assert_int_equal(pairs[i], 0x22);
}

static void a_draw_that_a_format_cannot_hold_is_refused(void **state)
{
    (void)state;
    float x[4];
    lt_err err = {{0}};
    lt_draw d;
    assert_int_equal(lt_sample_fill(x, 4, LT_BF16, LT_DRAW_BYTES, 1, "x", &err), -1);
    assert_string_equal(err.text, "x: bf16 cannot be drawn as 'bytes'");
    assert_int_equal(lt_sample_fill(x, 4, LT_U8, LT_DRAW_INTEGERS, 1, "x", &err), -1);
    assert_int_equal(lt_sample_fill(x, 4, LT_I32, LT_DRAW_NORMAL, 1, "x", &err), -1);
    assert_int_equal(lt_sample_parse("gauss", &d, &err), -1);
    assert_non_null(strstr(err.text, "draw 'gauss': no such distribution"));
    static const char *const names[] = {"normal",   "uniform", "bytes", "scales", "scale32",
                                        "integers", "counts",  "zeros", "ones"};
    assert_int_equal(lt_countof(names), LT_DRAWS);
    for (lt_draw each = 0; each < LT_DRAWS; each++) {
        assert_int_equal(lt_sample_parse(names[each], &d, &err), 0);
        assert_int_equal(d, each);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(element_i_depends_on_seed_name_and_i_alone),
        cmocka_unit_test(the_first_bits_are_these),
        cmocka_unit_test(normal_has_mean_0_and_deviation_1),
        cmocka_unit_test(bytes_of_e4m3_are_all_patterns_but_nan),
        cmocka_unit_test(every_pattern_of_packed_e2m1_and_u8_is_drawn),
        cmocka_unit_test(scales_are_positive_and_in_the_middle_range),
        cmocka_unit_test(integers_are_small_and_exact_in_every_format),
        cmocka_unit_test(counts_zeros_and_ones_are_what_they_say),
        cmocka_unit_test(a_draw_that_a_format_cannot_hold_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
