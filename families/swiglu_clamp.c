/* Truth of swiglu_clamp (model.md 4.19). */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

void lt_reference_swiglu_clamp(const lt_shape_swiglu_clamp *s, double *y, double *y_magnitude,
                               const uint16_t *x)
{
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t n = 0; n < s->N; n++) {
            const double gate = (double)lt_number_bf16(x[2 * m * s->N + n]);
            const double up = (double)lt_number_bf16(x[(2 * m + 1) * s->N + n]);
            const double g = fmin(gate, 10), u = fmax(fmin(up, 10), -10);
            y[m * s->N + n] = g / (1 + exp(-g)) * u;
            y_magnitude[m * s->N + n] = 0; /* nothing cancels */
        }
}
