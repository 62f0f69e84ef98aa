/* What rows of logits say: likelihoods, and elements that are no numbers. */
#include "../../runtime/logits.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_near(double got, double want)
{
    assert_true(fabs(got - want) < 1e-12);
}

static void nll_is_minus_log_softmax(void **state)
{
    (void)state;
    const float row[4] = {0.0f, 1.0f, 2.0f, -1.0f};
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += exp((double)row[i]);
    for (size_t i = 0; i < 4; i++) assert_near(lt_logits_nll(row, 4, i), log(sum) - (double)row[i]);
}

static void nll_holds_for_large_logits(void **state)
{
    (void)state;
    const float row[3] = {3.0e38f, 3.0e38f, -3.0e38f};
    assert_near(lt_logits_nll(row, 3, 0), log(2.0));
    assert_true(isinf(lt_logits_nll(row, 3, 2)) == 0);
    const float one[1] = {-7.5f};
    assert_near(lt_logits_nll(one, 1, 0), 0.0);
}

static void nll_of_what_is_no_number_is_nan(void **state)
{
    (void)state;
    const float row[3] = {0.0f, NAN, 1.0f}, endless[2] = {INFINITY, 0.0f};
    assert_true(isnan(lt_logits_nll(row, 3, 0)));
    assert_true(isnan(lt_logits_nll(endless, 2, 0)));
    assert_true(isnan(lt_logits_nll(endless + 1, 1, 1)));
}

static void nonfinite_counts_nan_and_infinity(void **state)
{
    (void)state;
    const float f32[5] = {0.0f, INFINITY, -INFINITY, NAN, 3.4e38f};
    const uint16_t bf16[4] = {0x7f80, 0x3f80, 0xffff, 0x7f7f};
    const uint8_t e4m3[4] = {0x7f, 0xff, 0x7e, 0x00};
    const uint32_t whole[1] = {UINT32_MAX};
    assert_int_equal(lt_logits_nonfinite(LT_F32, f32, NULL, 5), 3);
    assert_int_equal(lt_logits_nonfinite(LT_BF16, bf16, NULL, 4), 2);
    assert_int_equal(lt_logits_nonfinite(LT_E4M3, e4m3, NULL, 4), 2);
    assert_int_equal(lt_logits_nonfinite(LT_U32, whole, NULL, 1), 0);
}

static void nonfinite_leaves_out_what_was_there_before(void **state)
{
    (void)state;
    uint16_t before[3] = {0xffff, 0xffff, 0x3f80}, now[3] = {0xffff, 0x7fff, 0x7f80};
    assert_int_equal(lt_logits_nonfinite(LT_BF16, now, before, 3), 2);
    assert_int_equal(lt_logits_nonfinite(LT_BF16, now, now, 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nll_is_minus_log_softmax),
        cmocka_unit_test(nll_holds_for_large_logits),
        cmocka_unit_test(nll_of_what_is_no_number_is_nan),
        cmocka_unit_test(nonfinite_counts_nan_and_infinity),
        cmocka_unit_test(nonfinite_leaves_out_what_was_there_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
