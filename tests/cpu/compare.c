/* compare.c: what counts as equal, what as near, and what is counted at all. */
#include "runtime/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* One bf16 against a reference: is it accepted? */
static lt_difference near_bf16(uint16_t got, double want, double magnitude, double ulp)
{
    lt_difference d;
    const lt_limit limit = {.ulp = ulp};
    lt_compare_near(LT_BF16, &got, &want, &magnitude, 1, &limit, &d);
    return d;
}

static bool is_near(uint16_t got, double want, double magnitude, double ulp)
{
    const lt_difference d = near_bf16(got, want, magnitude, ulp);
    assert_int_equal(d.compared, 1);
    return d.failures == 0;
}

static void ulp_of_a_format_is_its_spacing(void **state)
{
    (void)state;
    assert_true(lt_ctype_ulp(LT_BF16, 1) == 0x1p-7);
    assert_true(lt_ctype_ulp(LT_BF16, 1.999) == 0x1p-7);
    assert_true(lt_ctype_ulp(LT_BF16, -2) == 0x1p-6);
    assert_true(lt_ctype_ulp(LT_BF16, 0) == 0x1p-133);
    assert_true(lt_ctype_ulp(LT_F16, 1) == 0x1p-10);
    assert_true(lt_ctype_ulp(LT_F16, 0x1p-20) == 0x1p-24);
    assert_true(lt_ctype_ulp(LT_E4M3, 448) == 32);
    assert_true(lt_ctype_ulp(LT_F32, 1) == 0x1p-23);
    assert_true(lt_ctype_ulp(LT_I32, 1) == 0);
}

static void one_ulp_is_near_and_more_is_not(void **state)
{
    (void)state;
    assert_true(is_near(0x3f80, 1, 0, 1));            /* 1 */
    assert_true(is_near(0x3f81, 1, 0, 1));            /* 1 + 2^-7 */
    assert_false(is_near(0x3f82, 1, 0, 1));           /* 1 + 2^-6 */
    assert_true(is_near(0x3f81, 1 + 0x1p-8, 0, 0.5)); /* rounded the other way */
    assert_false(is_near(0x3f81, 1 + 0x1p-9, 0, 0.5));
    assert_false(is_near(0xbf80, 1, 0, 1)); /* the sign */
}

static void a_sum_that_cancels_has_room_for_its_magnitude(void **state)
{
    (void)state;
    assert_false(is_near(0x3f82, 1, 1, 1));
    assert_true(is_near(0x3f82, 1, 0x1p9, 1)); /* 2^9 * 2^-16 = 2^-7 more */
    assert_false(is_near(0x3f83, 1, 0x1p9, 1));
}

static void nan_where_the_reference_is_a_number_is_a_failure(void **state)
{
    (void)state;
    assert_false(is_near(0x7fff, 1, 1e30, 1e6));
    assert_false(is_near(0xffff, 0, 0, 1)); /* never written */
    assert_false(is_near(0x3f80, NAN, 0, 1));
    assert_true(is_near(0x7fff, NAN, 0, 1));
}

static void infinity_is_right_only_past_the_largest_number(void **state)
{
    (void)state;
    assert_true(is_near(0x7f80, 1e39, 0, 1));
    assert_true(is_near(0x7f80, INFINITY, 0, 1));
    assert_false(is_near(0xff80, INFINITY, 0, 1));
    assert_false(is_near(0x7f80, 1e30, 0, 1));
    assert_false(is_near(0x3f80, INFINITY, 0, 1));
    assert_true(is_near(0x7f7f, lt_ctype_largest(LT_BF16), 0, 0));
}

static void the_largest_error_is_told_in_ulp_and_as_a_part_of_the_limit(void **state)
{
    (void)state;
    const uint16_t got[3] = {0x3f80, 0x3f81, 0x3f80};
    const double want[3] = {1, 1 + 0x1p-8, 1 + 0x1p-9}, magnitude[3] = {0};
    const lt_limit limit = {.ulp = 1};
    lt_difference d;
    lt_compare_near(LT_BF16, got, want, magnitude, 3, &limit, &d);
    assert_int_equal(d.failures, 0);
    assert_true(d.ulp == 0.5 && d.part == 0.5);
}

static void the_first_failure_is_told_with_its_place(void **state)
{
    (void)state;
    const float got[4] = {0, 1, 3, 9};
    const double want[4] = {0, 1, 2, 3}, magnitude[4] = {0};
    const lt_limit limit = {.ulp = 1};
    lt_difference d;
    lt_compare_near(LT_F32, got, want, magnitude, 4, &limit, &d);
    assert_int_equal(d.compared, 4);
    assert_int_equal(d.failures, 2);
    assert_int_equal(d.first, 2);
    assert_true(d.got == 3 && d.want == 2);
}

static void relative_counts_against_the_row_where_an_element_is_small(void **state)
{
    (void)state;
    const float got[4] = {1000, 0.5f, 1, 0.5f};
    const double want[4] = {1000, 0, 1, 0}, magnitude[4] = {0};
    const lt_limit limit = {.relative = 1e-3, .row = 2};
    lt_difference d;
    lt_compare_near(LT_F32, got, want, magnitude, 4, &limit, &d);
    assert_int_equal(d.failures, 1); /* rms 707 allows 0.5, rms 0.7 does not */
    assert_int_equal(d.first, 3);
}

static void exact_takes_the_rounded_reference_and_nothing_else(void **state)
{
    (void)state;
    const uint16_t got[3] = {0x3f80, 0x3f82, 0x3f81};
    const double want[3] = {1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 3 * 0x1p-8}; /* ties go to even */
    const double magnitude[3] = {1e6, 1e6, 1e6};
    const lt_limit limit = {.exact = true};
    lt_difference d;
    lt_compare_near(LT_BF16, got, want, magnitude, 3, &limit, &d);
    assert_int_equal(d.failures, 1);
    assert_int_equal(d.first, 2);
}

static void bits_must_be_equal_even_where_values_are(void **state)
{
    (void)state;
    const uint16_t zero = 0, minus = 0x8000, nan1 = 0x7fff, nan2 = 0x7fc0;
    lt_difference d;
    lt_compare_bits(LT_BF16, &minus, &zero, 1, false, &d);
    assert_int_equal(d.failures, 1);
    lt_compare_bits(LT_BF16, &nan1, &nan2, 1, false, &d);
    assert_int_equal(d.failures, 1);
    lt_compare_bits(LT_BF16, &nan1, &nan1, 1, false, &d);
    assert_int_equal(d.failures, 0);
}

static void in_a_sampled_run_poison_is_not_counted(void **state)
{
    (void)state;
    const uint16_t got[3] = {0x3f80, 0xffff, 0x4000}, want_bits[3] = {0x3f80, 0x3f80, 0x4040};
    const double want[3] = {1, 1, 3}, magnitude[3] = {0};
    const lt_limit limit = {.ulp = 1, .sampled = true};
    lt_difference d;
    lt_compare_near(LT_BF16, got, want, magnitude, 3, &limit, &d);
    assert_int_equal(d.compared, 2);
    assert_int_equal(d.failures, 1);
    assert_int_equal(d.first, 2);
    lt_compare_bits(LT_BF16, got, want_bits, 3, true, &d);
    assert_int_equal(d.compared, 2);
    assert_int_equal(d.failures, 1);
    lt_compare_bits(LT_BF16, got, want_bits, 3, false, &d);
    assert_int_equal(d.failures, 2);
}

static void minus_one_is_a_number_that_was_written(void **state)
{
    (void)state;
    int32_t got[2] = {-1, 0};
    const int32_t want[2] = {7, 7};
    memset(&got[1], lt_ctype_poison(LT_I32), sizeof got[1]);
    lt_difference d;
    lt_compare_bits(LT_I32, got, want, 2, true, &d);
    assert_int_equal(d.compared, 1);
    assert_int_equal(d.failures, 1);
    assert_int_equal(d.first, 0);
}

static void names_and_sizes_of_formats_agree(void **state)
{
    (void)state;
    lt_err err = {{0}};
    lt_ctype t;
    for (lt_ctype each = 0; each < LT_CTYPES; each++) {
        assert_int_equal(lt_ctype_parse(lt_ctype_name(each), &t, &err), 0);
        assert_int_equal(t, each);
    }
    assert_int_equal(lt_ctype_parse("float", &t, &err), -1);
    assert_non_null(strstr(err.text, "type 'float': no such number format"));
    const uint8_t odd[5] = {0, 0, 0, 0x80, 0x3f}; /* 1.0f at an odd address */
    assert_true(lt_ctype_number(LT_F32, odd + 1, 0) == 1);
    assert_int_equal(lt_ctype_bytes(LT_E2M1X2), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ulp_of_a_format_is_its_spacing),
        cmocka_unit_test(one_ulp_is_near_and_more_is_not),
        cmocka_unit_test(a_sum_that_cancels_has_room_for_its_magnitude),
        cmocka_unit_test(nan_where_the_reference_is_a_number_is_a_failure),
        cmocka_unit_test(infinity_is_right_only_past_the_largest_number),
        cmocka_unit_test(the_largest_error_is_told_in_ulp_and_as_a_part_of_the_limit),
        cmocka_unit_test(the_first_failure_is_told_with_its_place),
        cmocka_unit_test(relative_counts_against_the_row_where_an_element_is_small),
        cmocka_unit_test(exact_takes_the_rounded_reference_and_nothing_else),
        cmocka_unit_test(bits_must_be_equal_even_where_values_are),
        cmocka_unit_test(in_a_sampled_run_poison_is_not_counted),
        cmocka_unit_test(minus_one_is_a_number_that_was_written),
        cmocka_unit_test(names_and_sizes_of_formats_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
