/* Truth of kda_out (model.md 4.11). */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

void lt_reference_kda_out(const lt_shape_kda_out *s, double *y, double *y_magnitude, const float *o,
                          const uint16_t *gate, const uint16_t *w)
{
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t h = 0; h < s->HEADS; h++) {
            const int64_t at = (m * s->HEADS + h) * s->D;
            const uint16_t *gates = gate + m * s->GSTRIDE + s->GOFFSET + h * s->D;
            double squares = 0;
            for (int64_t d = 0; d < s->D; d++) squares += (double)o[at + d] * (double)o[at + d];
            const double scale = 1 / sqrt(squares / (double)s->D + 1e-5);
            for (int64_t d = 0; d < s->D; d++) {
                const double open = 1 / (1 + exp(-(double)lt_number_bf16(gates[d])));
                y[at + d] = (double)o[at + d] * scale * (double)lt_number_bf16(w[d]) * open;
                y_magnitude[at + d] = fabs(y[at + d]);
            }
        }
}
