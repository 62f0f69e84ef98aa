/* Truth of bf16_gemv, bf16_gemv_f32 and bf16_gemv_pair: the dot in double. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

static void dot(double *sum, double *magnitude, const uint16_t *x, const uint16_t *w, int64_t count)
{
    *sum = *magnitude = 0;
    for (int64_t k = 0; k < count; k++) {
        const double product = (double)lt_number_bf16(x[k]) * (double)lt_number_bf16(w[k]);
        *sum += product;
        *magnitude += fabs(product);
    }
}

/* Channels 0 to n - 1 of w, count terms each, for rows rows of x. */
static void multiply(double *y, double *y_magnitude, const uint16_t *x, const uint16_t *w,
                     int64_t rows, int64_t channels, int64_t count)
{
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < channels; n++)
            dot(&y[m * channels + n], &y_magnitude[m * channels + n], x + m * count, w + n * count,
                count);
}

void lt_reference_bf16_gemv(const lt_shape_bf16_gemv *s, double *y, double *y_magnitude,
                            const uint16_t *x, const uint16_t *w)
{
    multiply(y, y_magnitude, x, w, s->M, s->N, s->K);
}

void lt_reference_bf16_gemv_f32(const lt_shape_bf16_gemv_f32 *s, double *y, double *y_magnitude,
                                const uint16_t *x, const uint16_t *w)
{
    multiply(y, y_magnitude, x, w, s->M, s->N, s->K);
}

void lt_reference_bf16_gemv_pair(const lt_shape_bf16_gemv_pair *s, double *y, double *y_magnitude,
                                 double *tail, double *tail_magnitude, const uint16_t *x,
                                 const uint16_t *w)
{
    const int64_t head = s->N - s->TAIL;
    multiply(y, y_magnitude, x, w, s->M, head, s->K);
    multiply(tail, tail_magnitude, x, w + head * s->K, s->M, s->TAIL, s->K);
}
