/* Truth of layer_norm (model.md 4.14), in double, not rounded. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

void lt_reference_layer_norm(const lt_shape_layer_norm *s, double *y, double *y_magnitude,
                             const uint16_t *x, const uint16_t *w, const uint16_t *b)
{
    for (int64_t m = 0; m < s->M; m++) {
        const uint16_t *row = x + m * s->K;
        double mean = 0, variance = 0;
        for (int64_t k = 0; k < s->K; k++) mean += (double)lt_number_bf16(row[k]) / (double)s->K;
        for (int64_t k = 0; k < s->K; k++) {
            const double off = (double)lt_number_bf16(row[k]) - mean;
            variance += off * off / (double)s->K;
        }
        for (int64_t k = 0; k < s->K; k++) {
            const double unit = ((double)lt_number_bf16(row[k]) - mean) / sqrt(variance + 1e-6);
            const double product = unit * (double)lt_number_bf16(w[k]);
            const double bias = (double)lt_number_bf16(b[k]);
            y[m * s->K + k] = product + bias;
            y_magnitude[m * s->K + k] = fabs(product) + fabs(bias); /* they may cancel */
        }
    }
}
