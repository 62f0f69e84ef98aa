/* Truth of w8a8_gemv (model.md 2.2): the dot of the quantised operands in double, scaled. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"
#include "runtime/product.h"

typedef struct {
    const uint8_t *rows;
    const double *value; /* of each code */
} operand;

static void read_row(const void *data, int64_t row, int64_t count, double *to)
{
    const operand *o = data;
    for (int64_t k = 0; k < count; k++) to[k] = o->value[o->rows[row * count + k]];
}

void lt_reference_w8a8_gemv(const lt_shape_w8a8_gemv *s, double *y, double *y_magnitude,
                            const uint8_t *x, const float *sx, const uint8_t *w, const float *sw)
{
    double value[256];
    for (int i = 0; i < 256; i++) value[i] = (double)lt_number_e4m3((uint8_t)i);
    const operand rows = {x, value}, channels = {w, value};
    lt_product(y, y_magnitude, (lt_rows){&rows, read_row}, (lt_rows){&channels, read_row}, s->M,
               s->N, s->K);
    for (int64_t i = 0; i < s->M * s->N; i++) {
        const double scale = (double)sx[i / s->N] * (double)sw[i % s->N];
        y[i] *= scale;
        y_magnitude[i] *= fabs(scale);
    }
}
