/* Truth of w8a8_gemv (model.md 2.2): the dot of the quantised operands in double, scaled. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

void lt_reference_w8a8_gemv(const lt_shape_w8a8_gemv *s, double *y, double *y_magnitude,
                            const uint8_t *x, const float *sx, const uint8_t *w, const float *sw)
{
    double value[256];
    for (int i = 0; i < 256; i++) value[i] = (double)lt_number_e4m3((uint8_t)i);
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t n = 0; n < s->N; n++) {
            const uint8_t *xm = x + m * s->K, *wn = w + n * s->K;
            const double scale = (double)sx[m] * (double)sw[n];
            double sum = 0, magnitude = 0;
            for (int64_t k = 0; k < s->K; k++) {
                const double product = value[xm[k]] * value[wn[k]];
                sum += product;
                magnitude += fabs(product);
            }
            y[m * s->N + n] = sum * scale;
            y_magnitude[m * s->N + n] = magnitude * fabs(scale);
        }
}
