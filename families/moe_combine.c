/* Truth of moe_combine (model.md 4.23). */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

void lt_reference_moe_combine(const lt_shape_moe_combine *s, double *y, double *y_magnitude,
                              const uint16_t *ed, const float *weights, const uint16_t *shared)
{
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t h = 0; h < s->H; h++) {
            double sum = (double)lt_number_bf16(shared[m * s->H + h]), magnitude = fabs(sum);
            for (int64_t slot = m * s->TOPK; slot < (m + 1) * s->TOPK; slot++) {
                const double value = (double)lt_number_bf16(ed[slot * s->H + h]);
                sum += (double)weights[slot] * value;
                magnitude += fabs((double)weights[slot] * value);
            }
            y[m * s->H + h] = sum;
            y_magnitude[m * s->H + h] = magnitude;
        }
}
