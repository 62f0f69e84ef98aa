/* Truth of bf16_gemv, bf16_gemv_f32 and bf16_gemv_pair: the dot in double. */
#include "reference.h"
#include "runtime/lathe.h"
#include "runtime/product.h"

static void read_row(const void *data, int64_t row, int64_t count, double *to)
{
    const uint16_t *bf16 = data;
    for (int64_t k = 0; k < count; k++) to[k] = (double)lt_number_bf16(bf16[row * count + k]);
}

/* Channels 0 to n - 1 of w, count terms each, for rows rows of x. */
static void multiply(double *y, double *y_magnitude, const uint16_t *x, const uint16_t *w,
                     int64_t rows, int64_t channels, int64_t count)
{
    lt_product(y, y_magnitude, (lt_rows){x, read_row}, (lt_rows){w, read_row}, rows, channels,
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
