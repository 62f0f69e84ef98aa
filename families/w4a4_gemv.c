/* Truth of w4a4_gemv (model.md 2.1): the dot of the decoded operands in double, scaled. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"
#include "runtime/product.h"

enum { GROUP = 16 };

typedef struct {
    const uint8_t *codes, *scales; /* NVFP4 rows */
    uint8_t mask;                  /* bits of a scale that count */
} operand;

static void read_row(const void *data, int64_t row, int64_t count, double *to)
{
    const operand *o = data;
    for (int64_t k = row * count; k < (row + 1) * count; k++) {
        const uint8_t code = k % 2 ? o->codes[k / 2] >> 4 : o->codes[k / 2] & 15;
        const uint8_t scale = o->scales[k / GROUP] & o->mask;
        *to++ = (double)lt_number_e2m1(code) * (double)lt_number_e4m3(scale);
    }
}

void lt_reference_w4a4_gemv(const lt_shape_w4a4_gemv *s, double *y, double *y_magnitude,
                            const uint8_t *x, const uint8_t *xs, const float *gs, const uint8_t *w,
                            const uint8_t *ws, const float *sw)
{
    const operand rows = {x, xs, 0x7f}, channels = {w, ws, 0xff};
    lt_product(y, y_magnitude, (lt_rows){&rows, read_row}, (lt_rows){&channels, read_row}, s->M,
               s->N, s->K);
    for (int64_t i = 0; i < s->M * s->N; i++) {
        const double scale = (double)gs[i / s->N] * (double)sw[i % s->N];
        y[i] *= scale;
        y_magnitude[i] *= fabs(scale);
    }
}
