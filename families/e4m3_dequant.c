/* Truth of e4m3_dequant (model.md 2.2): the product is exact in double. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

/* x to the nearest bf16, ties to even, in one rounding. */
static uint16_t bf16_of(double x)
{
    int exponent;
    if (x == 0 || !isfinite(x)) return lt_number_to_bf16((float)x);
    frexp(x, &exponent);
    const double step = ldexp(1, (exponent < -125 ? -125 : exponent) - 8);
    return lt_number_to_bf16((float)(rint(x / step) * step));
}

void lt_reference_e4m3_dequant(const lt_shape_e4m3_dequant *s, uint16_t *y, const uint8_t *q,
                               const float *sw)
{
    for (int64_t i = 0; i < s->N * s->K; i++)
        y[i] = bf16_of((double)lt_number_e4m3(q[i]) * (double)sw[i / s->K]);
}
