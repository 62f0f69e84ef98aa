/* Truth of w4a16_gemv_swiglu: w4a16_gemv, rounded to bf16, and swiglu_clamp of it. */
#include <math.h>
#include <stdlib.h>
#include "reference.h"
#include "runtime/lathe.h"

/* 2^16 times what a rounded sum may be off: a unit in the last place, and what sums may lose. */
static double slack(double sum, double magnitude)
{
    return 512 * fabs(sum) + magnitude;
}

/* The same of y, by gate's slack and by up's. */
static double slack_of_y(const double *sum, const double *magnitude, int64_t up)
{
    const double g = fmin(sum[0], 10), u = fmax(fmin(sum[up], 10), -10), s = 1 / (1 + exp(-g));
    return slack(sum[0], magnitude[0]) * fabs(s * (1 + g * (1 - s)) * u) +
           slack(sum[up], magnitude[up]) * fabs(g * s);
}

void lt_reference_w4a16_gemv_swiglu(const lt_shape_w4a16_gemv_swiglu *s, double *y,
                                    double *y_magnitude, const uint16_t *x, const uint8_t *w,
                                    const uint8_t *ws, const float *sw)
{
    const lt_shape_w4a16_gemv product = {.M = s->M, .N = s->N, .K = s->K};
    const lt_shape_swiglu_clamp both = {.M = s->M, .N = s->N / 2};
    const int64_t count = s->M * s->N;
    double *sum = malloc((size_t)count * 2 * sizeof *sum);
    uint16_t *rounded = malloc((size_t)count * sizeof *rounded);
    if (sum && rounded) {
        lt_reference_w4a16_gemv(&product, sum, sum + count, x, w, ws, sw);
        for (int64_t i = 0; i < count; i++) rounded[i] = lt_number_to_bf16((float)sum[i]);
        lt_reference_swiglu_clamp(&both, y, y_magnitude, rounded);
        for (int64_t i = 0; i < both.M * both.N; i++) {
            const double *gate = sum + i / both.N * s->N + i % both.N;
            y_magnitude[i] = slack_of_y(gate, gate + count, both.N);
        }
    }
    free(sum);
    free(rounded);
}
