/* Truth of nvfp4_dequant (model.md 2.1): the product is exact in double. */
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

void lt_reference_nvfp4_dequant(const lt_shape_nvfp4_dequant *s, uint16_t *y, const uint8_t *codes,
                                const uint8_t *scales, const float *scale)
{
    for (int64_t i = 0; i < s->N * s->K; i++) {
        const uint8_t code = i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
        y[i] = bf16_of((double)lt_number_e2m1(code) * (double)lt_number_e4m3(scales[i / 16]) *
                       (double)scale[0]);
    }
}
