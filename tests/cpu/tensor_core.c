/* tensor_core.c: the integer tensor core gives the bits of the plain double model, for every
 * instruction, range of exponents and special value. */
#include "tests/prelude/tiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { TILES = 800 }; /* of 128 outputs: 102,400 */

static void run(int kind, int model, const model_tile *t, uint32_t d[32][4])
{
    lt_fragments f;
    for (int l = 0; l < 32; l++) {
        f.a[l] = t->a[l];
        f.b[l] = t->b[l];
        f.c[l] = t->c[l];
        f.d[l] = d[l];
        f.sa[l] = t->sa[l];
        f.sb[l] = t->sb[l];
    }
    lt_tensor_core(kind, model, &f);
}

/* How many of a tile's outputs differ from the plain model. */
static int differing(int kind, int model, const model_tile *t)
{
    uint32_t d[32][4], want[32][4];
    int count = 0;
    run(kind, model, t, d);
    model_mma(kind, model, t, want);
    for (int l = 0; l < 32; l++)
        for (int j = 0; j < 4; j++) count += d[l][j] != want[l][j];
    return count;
}

static int differing_in_all(int kind, int model, int span, bool c, int specials)
{
    const drawing d = {.kind = kind, .span = span, .c = c, .specials = specials};
    int count = 0;
    draw_from((uint64_t)(kind * 1000 + span));
    for (int i = 0; i < TILES; i++) {
        model_tile t;
        draw_tile(&d, &t);
        count += differing(kind, model, &t);
    }
    return count;
}

static void check_spans(int kind, int model)
{
    static const int spans[] = {8, 64, 250};
    for (size_t i = 0; i < lt_countof(spans); i++)
        for (int c = 0; c < 2; c++)
            assert_int_equal(differing_in_all(kind, model, spans[i], c, 0), 0);
}

static void bf16_is_the_model(void **state)
{
    (void)state;
    check_spans(LT_MMA_BF16, 90);
}

static void f16_is_the_model(void **state)
{
    (void)state;
    check_spans(LT_MMA_F16, 90);
}

static void e4m3_is_the_model_of_each_arch(void **state)
{
    (void)state;
    check_spans(LT_MMA_E4M3, 90);
    check_spans(LT_MMA_E4M3, 120);
}

static void e4m3_differs_between_the_arches(void **state)
{
    (void)state;
    const drawing d = {.kind = LT_MMA_E4M3, .span = 64, .c = true};
    int differ = 0;
    for (int i = 0; i < 100; i++) {
        model_tile t;
        uint32_t x[32][4], y[32][4];
        draw_tile(&d, &t);
        run(LT_MMA_E4M3, 90, &t, x);
        run(LT_MMA_E4M3, 120, &t, y);
        for (int j = 0; j < 128; j++) differ += x[j / 4][j % 4] != y[j / 4][j % 4];
    }
    assert_in_range(differ, 128 * 100 / 20, 128 * 100 / 2); /* 17 % in the notes */
}

static void s8_wraps(void **state)
{
    (void)state;
    assert_int_equal(differing_in_all(LT_MMA_S8, 90, 8, true, 0), 0);
    model_tile t;
    uint32_t d[32][4];
    memset(&t, 0x7f, sizeof t); /* 32 * 127 * 127 on top of 0x7f7f7f7f */
    assert_int_equal(differing(LT_MMA_S8, 90, &t), 0);
    for (int l = 0; l < 32; l++)
        for (int j = 0; j < 4; j++) t.c[l][j] = INT32_MAX;
    run(LT_MMA_S8, 90, &t, d);
    assert_int_equal(d[0][0], UINT32_C(0x7fffffff) + 32 * 127 * 127);
}

static void nvf4_is_the_model(void **state)
{
    (void)state;
    check_spans(LT_MMA_NVF4, 120);
}

static void nvf4_takes_every_pair_of_scale_codes(void **state)
{
    (void)state;
    const drawing d = {.kind = LT_MMA_NVF4, .span = 16, .c = true};
    int count = 0;
    for (uint32_t tile = 0; tile < 512; tile++) { /* 16 codes of rows times 8 of columns each */
        model_tile t;
        draw_tile(&d, &t);
        for (uint32_t m = 0; m < 16; m++)
            t.sa[4 * (m % 8) + m / 8] = 0x38303830u ^ ((tile / 32 * 16 + m) << tile % 4 * 8);
        for (uint32_t n = 0; n < 8; n++)
            t.sb[4 * n] = 0x30383038u ^ ((tile % 32 * 8 + n) << tile % 4 * 8);
        count += differing(LT_MMA_NVF4, 120, &t);
    }
    assert_int_equal(count, 0);
}

static void infinities_and_nans_are_those_of_the_exact_sum(void **state)
{
    (void)state;
    for (int kind = LT_MMA_BF16; kind <= LT_MMA_NVF4; kind++) {
        if (kind == LT_MMA_S8) continue;
        assert_int_equal(differing_in_all(kind, 90, 40, true, 200), 0);
        assert_int_equal(differing_in_all(kind, 120, 40, true, 20), 0);
    }
}

/* Results that are subnormal, or past the largest float. */
static void the_ends_of_the_range_are_the_model(void **state)
{
    (void)state;
    int infinite = 0, subnormal = 0;
    draw_from(7);
    for (int i = 0; i < TILES; i++) {
        model_tile t;
        uint32_t d[32][4];
        draw_end(&t, i % 2 ? 184 : 45 + (uint32_t)i % 16);
        assert_int_equal(differing(LT_MMA_BF16, 90, &t), 0);
        run(LT_MMA_BF16, 90, &t, d);
        for (int j = 0; j < 128; j++) {
            const uint32_t magnitude = d[j / 4][j % 4] & 0x7fffffff;
            infinite += magnitude == 0x7f800000;
            subnormal += magnitude > 0 && magnitude < 0x00800000;
        }
    }
    assert_true(infinite > 1000 && subnormal > 1000);
}

/* B's columns but one are zeros of both signs: there d is c, but for the sign of a zero; beside a
 * NaN or infinity in A, or in c, it is not. */
static void zero_columns_give_what_the_model_gives(void **state)
{
    (void)state;
    static const uint32_t corner[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
                                      0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0x7fc00000};
    for (int kind = LT_MMA_BF16; kind <= LT_MMA_NVF4; kind++)
        for (int i = 0; i < TILES; i++) {
            const drawing d = {.kind = kind, .span = 60, .c = true, .specials = i % 2 ? 200 : 0};
            const int lively = i % 9; /* 8: none */
            model_tile t;
            uint32_t x[32][4];
            draw_tile(&d, &t);
            for (int l = 0; l < 32; l++) {
                for (int r = 0; r < 2; r++)
                    if (l / 4 != lively) t.b[l][r] = kind == LT_MMA_S8 ? 0 : 0x80008000 & draw();
                if (i % 4 < 2)
                    for (int r = 0; r < 4; r++) t.c[l][r] = corner[draw() % lt_countof(corner)];
            }
            assert_int_equal(differing(kind, i % 3 ? 90 : 120, &t), 0);
            if (i % 2 || lively != 8 || kind >= LT_MMA_S8) continue;
            run(kind, 90, &t, x);
            for (int j = 0; j < 128; j++) {
                const uint32_t c = t.c[j / 4][j % 4];
                if ((c & 0x7f800000) == 0x7f800000) continue;
                assert_int_equal(x[j / 4][j % 4], c == 0x80000000 ? 0 : c);
            }
        }
}

static void the_result_may_replace_c(void **state)
{
    (void)state;
    for (int kind = LT_MMA_BF16; kind <= LT_MMA_NVF4; kind++) {
        const drawing d = {.kind = kind, .span = 8, .c = true};
        model_tile t;
        uint32_t apart[32][4];
        draw_tile(&d, &t);
        run(kind, 90, &t, apart);
        run(kind, 90, &t, t.c);
        assert_memory_equal(apart, t.c, sizeof apart);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_is_the_model),
        cmocka_unit_test(f16_is_the_model),
        cmocka_unit_test(e4m3_is_the_model_of_each_arch),
        cmocka_unit_test(e4m3_differs_between_the_arches),
        cmocka_unit_test(s8_wraps),
        cmocka_unit_test(nvf4_is_the_model),
        cmocka_unit_test(nvf4_takes_every_pair_of_scale_codes),
        cmocka_unit_test(infinities_and_nans_are_those_of_the_exact_sum),
        cmocka_unit_test(the_ends_of_the_range_are_the_model),
        cmocka_unit_test(zero_columns_give_what_the_model_gives),
        cmocka_unit_test(the_result_may_replace_c),
    };
    return cmocka_run_group_tests_name("tensor_core", tests, NULL, NULL);
}
