/* Truth of w4a16_gemv (model.md 2.1): the dot of the decoded weights and the bf16 activations in
 * double, scaled. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { GROUP = 16 };

/* The sum over one group of 16 codes, before its scale. */
static double dot_group(const uint8_t *codes, const uint16_t *x, double *magnitude)
{
    double sum = 0;
    for (int i = 0; i < GROUP; i++) {
        const uint8_t code = i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
        const double product = (double)lt_number_e2m1(code) * (double)lt_number_bf16(x[i]);
        sum += product;
        *magnitude += fabs(product);
    }
    return sum;
}

void lt_reference_w4a16_gemv(const lt_shape_w4a16_gemv *s, double *y, double *y_magnitude,
                             const uint16_t *x, const uint8_t *w, const uint8_t *ws,
                             const float *sw)
{
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t n = 0; n < s->N; n++) {
            double sum = 0, magnitude = 0;
            for (int64_t k = 0; k < s->K; k += GROUP) {
                const double scale = (double)lt_number_e4m3(ws[(n * s->K + k) / GROUP]);
                double group = 0;
                sum += scale * dot_group(w + (n * s->K + k) / 2, x + m * s->K + k, &group);
                magnitude += fabs(scale) * group;
            }
            y[m * s->N + n] = sum * (double)sw[n];
            y_magnitude[m * s->N + n] = magnitude * fabs((double)sw[n]);
        }
}
