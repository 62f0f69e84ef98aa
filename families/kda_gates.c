/* Truth of kda_gates (model.md 4.8). */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

void lt_reference_kda_gates(const lt_shape_kda_gates *s, double *g, double *g_magnitude,
                            double *beta, double *beta_magnitude, const uint16_t *f,
                            const uint16_t *b, const float *a_log, const float *dt_bias)
{
    (void)g_magnitude, (void)beta_magnitude; /* f32 is measured by its own size */
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t h = 0; h < s->HEADS; h++) {
            const double rate = exp((double)a_log[h]);
            for (int64_t c = h * s->D; c < (h + 1) * s->D; c++) {
                const double v = (double)lt_number_bf16(f[m * s->FSTRIDE + s->FOFFSET + c]);
                g[m * s->HEADS * s->D + c] = -5 * sigmoid(rate * (v + (double)dt_bias[c]));
            }
            const double at = (double)lt_number_bf16(b[m * s->BSTRIDE + s->BOFFSET + h]);
            beta[m * s->HEADS + h] = sigmoid(at);
        }
}
