/* number.c: the number formats of the host against arithmetic that is written differently: values
 * from the definition in double, codes by looking for the nearest of all values. */
#include "runtime/lathe.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* (-1)^s 2^(e - bias) (1 + f), or 2^(1 - bias) f where e is 0 */
static double value_of(unsigned code, int exponent_bits, int fraction_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int e = (int)(code >> fraction_bits) & ((1 << exponent_bits) - 1);
    const double f = (double)(code & ((1u << fraction_bits) - 1)) / pow(2, fraction_bits);
    const double m = e ? pow(2, e - bias) * (1 + f) : pow(2, 1 - bias) * f;
    return code >> (exponent_bits + fraction_bits) ? -m : m;
}

/* The code, of `count` positive ones in order, whose value is nearest to x >= 0; a tie goes to the
 * even code; past the largest it is the largest. */
static unsigned nearest(double x, unsigned count, int exponent_bits, int fraction_bits)
{
    const double largest = value_of(count - 1, exponent_bits, fraction_bits);
    if (x > largest) x = largest;
    unsigned best = 0;
    for (unsigned c = 1; c < count; c++) {
        const double was = fabs(value_of(best, exponent_bits, fraction_bits) - x);
        const double is = fabs(value_of(c, exponent_bits, fraction_bits) - x);
        if (is < was || (is == was && c % 2 == 0)) best = c;
    }
    return best;
}

static void e4m3_codes_are_what_the_definition_says(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        const float x = lt_number_e4m3((uint8_t)c);
        if ((c & 0x7f) == 0x7f) {
            assert_true(x != x);
            assert_int_equal(lt_number_to_e4m3(x), 0x7f);
            continue;
        }
        assert_true((double)x == value_of(c, 4, 3));
        assert_int_equal(signbit(x) != 0, c >> 7);
        assert_int_equal(lt_number_to_e4m3(x), c);
    }
    assert_true(lt_number_e4m3(1) == 0x1p-9f);
    assert_true(lt_number_e4m3(0x7e) == 448);
}

static void e2m1_codes_are_what_the_definition_says(void **state)
{
    (void)state;
    static const float known[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (unsigned c = 0; c < 16; c++) {
        const float x = lt_number_e2m1((uint8_t)c);
        assert_true((double)x == value_of(c, 2, 1));
        assert_true(fabsf(x) == known[c & 7]);
        assert_int_equal(lt_number_to_e2m1(x), c == 8 ? 0 : c);
        assert_true(lt_number_e2m1((uint8_t)(c | 0xf0)) == x);
    }
}

/* x, the floats next to it, and their negatives, through both 8-bit formats. */
static void try_around(float x)
{
    const float at[3] = {x, nextafterf(x, -INFINITY), nextafterf(x, INFINITY)};
    for (int i = 0; i < 3; i++) {
        if (at[i] < 0) continue;
        const unsigned e4m3 = nearest((double)at[i], 0x7f, 4, 3);
        const unsigned e2m1 = nearest((double)at[i], 8, 2, 1);
        assert_int_equal(lt_number_to_e4m3(at[i]), e4m3);
        assert_int_equal(lt_number_to_e4m3(-at[i]), e4m3 | 0x80);
        assert_int_equal(lt_number_to_e2m1(at[i]), e2m1);
        assert_int_equal(lt_number_to_e2m1(-at[i]), e2m1 ? e2m1 | 8 : 0);
    }
}

static void every_midpoint_and_its_neighbours_round_to_the_nearest(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 0x7e; c++) {
        const double a = value_of(c, 4, 3), b = value_of(c + 1, 4, 3);
        try_around((float)a);
        try_around((float)((a + b) / 2));
    }
    for (unsigned c = 0; c < 7; c++)
        try_around((float)((value_of(c, 2, 1) + value_of(c + 1, 2, 1)) / 2));
    static const float edges[] = {0x1p-10f, 0x1p-9f, 0x1p-11f, 0x1p-126f, 0x1p-149f, 0,
                                  448,      449,     463,      464,       465,       480,
                                  1e30f,    5,       5.5f,     6,         7,         8};
    for (size_t i = 0; i < lt_countof(edges); i++) try_around(edges[i]);
}

static void the_ends_of_the_8_bit_formats_saturate(void **state)
{
    (void)state;
    static const float large[] = {448, 449, 464, 480, 1e38f, INFINITY};
    for (size_t i = 0; i < lt_countof(large); i++) {
        assert_int_equal(lt_number_to_e4m3(large[i]), 0x7e);
        assert_int_equal(lt_number_to_e4m3(-large[i]), 0xfe);
        assert_int_equal(lt_number_to_e2m1(large[i]), 7);
        assert_int_equal(lt_number_to_e2m1(-large[i]), 15);
    }
    assert_int_equal(lt_number_to_e4m3(NAN), 0x7f);
    assert_int_equal(lt_number_to_e4m3(-NAN), 0x7f);
    assert_int_equal(lt_number_to_e2m1(NAN), 7);
    assert_int_equal(lt_number_to_e4m3(0x1p-10f), 0);        /* a tie, to even */
    assert_int_equal(lt_number_to_e4m3(0x1.8p-9f), 2);       /* a tie, to even */
    assert_int_equal(lt_number_to_e4m3(0x1.000002p-10f), 1); /* just above it */
    assert_int_equal(lt_number_to_e4m3(-0.0f), 0x80);
    assert_int_equal(lt_number_to_e2m1(-0.0f), 0);
    assert_int_equal(lt_number_to_e2m1(-0.25f), 0);
}

static void every_f16_code_comes_back_and_means_its_value(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 0x10000; c++) {
        const float x = lt_number_f16((uint16_t)c);
        const unsigned magnitude = c & 0x7fff;
        if (magnitude > 0x7c00) {
            assert_true(x != x);
            assert_int_equal(lt_number_to_f16(x), 0x7fff);
            continue;
        }
        if (magnitude < 0x7c00)
            assert_true((double)x == value_of(c, 5, 10));
        else
            assert_true(isinf(x));
        assert_int_equal(signbit(x) != 0, c >> 15);
        assert_int_equal(lt_number_to_f16(x), c);
    }
}

static void every_bf16_code_comes_back(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 0x10000; c++) {
        const float x = lt_number_bf16((uint16_t)c);
        assert_int_equal(bits_of(x), c << 16);
        assert_int_equal(lt_number_to_bf16(x), (c & 0x7fff) > 0x7f80 ? 0x7fff : c);
    }
}

/* Halfway between neighbours goes to the even one, a step of a float off it to the nearer one. */
static void every_16_bit_midpoint_rounds_to_the_nearest(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 0x7bff; c++) {
        const float a = lt_number_f16((uint16_t)c), b = lt_number_f16((uint16_t)(c + 1));
        const float middle = (float)(((double)a + (double)b) / 2);
        assert_int_equal(lt_number_to_f16(middle), c + c % 2);
        assert_int_equal(lt_number_to_f16(nextafterf(middle, 0)), c);
        assert_int_equal(lt_number_to_f16(nextafterf(middle, INFINITY)), c + 1);
        assert_int_equal(lt_number_to_f16(-middle), (c + c % 2) | 0x8000);
    }
    assert_int_equal(lt_number_to_f16(65519.996f), 0x7bff);
    assert_int_equal(lt_number_to_f16(65520), 0x7c00);
    assert_int_equal(lt_number_to_f16(-1e9f), 0xfc00);
    for (unsigned c = 0; c < 0x7f80; c++) { /* the last one's upper neighbour is infinity */
        const uint32_t middle = c << 16 | 0x8000;
        float at[3];
        for (uint32_t i = 0; i < 3; i++) {
            const uint32_t bits = middle - 1 + i;
            memcpy(&at[i], &bits, sizeof bits);
        }
        assert_int_equal(lt_number_to_bf16(at[0]), c);
        assert_int_equal(lt_number_to_bf16(at[1]), c + c % 2);
        assert_int_equal(lt_number_to_bf16(at[2]), c + 1);
        assert_int_equal(lt_number_to_bf16(-at[2]), (c + 1) | 0x8000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e4m3_codes_are_what_the_definition_says),
        cmocka_unit_test(e2m1_codes_are_what_the_definition_says),
        cmocka_unit_test(every_midpoint_and_its_neighbours_round_to_the_nearest),
        cmocka_unit_test(the_ends_of_the_8_bit_formats_saturate),
        cmocka_unit_test(every_f16_code_comes_back_and_means_its_value),
        cmocka_unit_test(every_bf16_code_comes_back),
        cmocka_unit_test(every_16_bit_midpoint_rounds_to_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
