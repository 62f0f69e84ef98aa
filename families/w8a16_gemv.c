/* Truth of w8a16_gemv (model.md 2.2): the dot in double, scaled. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"
#include "runtime/product.h"

typedef struct {
    const uint8_t *rows;
    double value[256]; /* of each code */
} weights;

static void read_x(const void *data, int64_t row, int64_t count, double *to)
{
    const uint16_t *bf16 = data;
    for (int64_t k = 0; k < count; k++) to[k] = (double)lt_number_bf16(bf16[row * count + k]);
}

static void read_w(const void *data, int64_t row, int64_t count, double *to)
{
    const weights *w = data;
    for (int64_t k = 0; k < count; k++) to[k] = w->value[w->rows[row * count + k]];
}

void lt_reference_w8a16_gemv(const lt_shape_w8a16_gemv *s, double *y, double *y_magnitude,
                             const uint16_t *x, const uint8_t *w, const float *sw)
{
    weights rows = {.rows = w};
    for (int i = 0; i < 256; i++) rows.value[i] = (double)lt_number_e4m3((uint8_t)i);
    lt_product(y, y_magnitude, (lt_rows){x, read_x}, (lt_rows){&rows, read_w}, s->M, s->N, s->K);
    for (int64_t i = 0; i < s->M * s->N; i++) {
        y[i] *= (double)sw[i % s->N];
        y_magnitude[i] *= fabs((double)sw[i % s->N]);
    }
}
