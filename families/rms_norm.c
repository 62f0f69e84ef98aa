/* Truth of rms_norm (model.md 4.3), in double, not rounded. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

void lt_reference_rms_norm(const lt_shape_rms_norm *s, double *y, double *y_magnitude,
                           const uint16_t *x, const uint16_t *w)
{
    for (int64_t m = 0; m < s->M; m++) {
        const uint16_t *row = x + m * s->K;
        double squares = 0;
        for (int64_t k = 0; k < s->K; k++) {
            const double v = (double)lt_number_bf16(row[k]);
            squares += v * v;
        }
        const double r = 1 / sqrt(squares / (double)s->K + 1e-5);
        for (int64_t k = 0; k < s->K; k++) {
            y[m * s->K + k] = (double)lt_number_bf16(row[k]) * r * (double)lt_number_bf16(w[k]);
            y_magnitude[m * s->K + k] = 0;
        }
    }
}
