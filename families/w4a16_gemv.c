/* Truth of w4a16_gemv (model.md 2.1): the dot of the decoded weights and the bf16 activations in
 * double, scaled. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"
#include "runtime/product.h"

enum { GROUP = 16 };

typedef struct {
    const uint8_t *codes, *scales; /* NVFP4 rows */
} weights;

static void read_w(const void *data, int64_t row, int64_t count, double *to)
{
    const weights *w = data;
    for (int64_t k = row * count; k < (row + 1) * count; k++) {
        const uint8_t code = k % 2 ? w->codes[k / 2] >> 4 : w->codes[k / 2] & 15;
        *to++ = (double)lt_number_e2m1(code) * (double)lt_number_e4m3(w->scales[k / GROUP]);
    }
}

static void read_x(const void *data, int64_t row, int64_t count, double *to)
{
    const uint16_t *x = data;
    for (int64_t k = 0; k < count; k++) to[k] = (double)lt_number_bf16(x[row * count + k]);
}

void lt_reference_w4a16_gemv(const lt_shape_w4a16_gemv *s, double *y, double *y_magnitude,
                             const uint16_t *x, const uint8_t *w, const uint8_t *ws,
                             const float *sw)
{
    const weights rows = {w, ws};
    lt_product(y, y_magnitude, (lt_rows){x, read_x}, (lt_rows){&rows, read_w}, s->M, s->N, s->K);
    for (int64_t i = 0; i < s->M * s->N; i++) {
        y[i] *= (double)sw[i % s->N];
        y_magnitude[i] *= fabs((double)sw[i % s->N]);
    }
}
