/* Truth of w8a16_gemv (model.md 2.2): the dot in double, scaled. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

void lt_reference_w8a16_gemv(const lt_shape_w8a16_gemv *s, double *y, double *y_magnitude,
                             const uint16_t *x, const uint8_t *w, const float *sw)
{
    double value[256];
    for (int i = 0; i < 256; i++) value[i] = (double)lt_number_e4m3((uint8_t)i);
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t n = 0; n < s->N; n++) {
            double sum = 0, magnitude = 0;
            for (int64_t k = 0; k < s->K; k++) {
                const double product =
                    (double)lt_number_bf16(x[m * s->K + k]) * value[w[n * s->K + k]];
                sum += product;
                magnitude += fabs(product);
            }
            y[m * s->N + n] = sum * (double)sw[n];
            y_magnitude[m * s->N + n] = magnitude * fabs((double)sw[n]);
        }
}
