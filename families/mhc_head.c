/* Truth of mhc_head (model.md 4.5). */
#include <math.h>
#include "reference.h"

void lt_reference_mhc_head(const lt_shape_mhc_head *s, double *h, double *h_magnitude,
                           const float *streams)
{
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t d = 0; d < s->H; d++) {
            double sum = 0, magnitude = 0;
            for (int64_t i = 0; i < 4; i++) {
                const double v = (double)streams[(m * 4 + i) * s->H + d];
                sum += v;
                magnitude += fabs(v);
            }
            h[m * s->H + d] = sum / 4;
            h_magnitude[m * s->H + d] = magnitude / 4;
        }
}
