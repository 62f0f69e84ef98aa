/* Truth of nvfp4_amax (model.md 2.1). NaN does not count. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

void lt_reference_nvfp4_amax(const lt_shape_nvfp4_amax *s, float *scale, const uint16_t *w)
{
    float amax = 0;
    for (int64_t i = 0; i < s->N * s->K; i++) amax = fmaxf(amax, fabsf(lt_number_bf16(w[i])));
    *scale = amax > 0 ? amax / 2688.0f : 1.0f;
}
