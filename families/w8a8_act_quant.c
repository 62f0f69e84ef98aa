/* Truth of w8a8_act_quant (model.md 2.2). NaN does not count towards the largest magnitude. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

void lt_reference_w8a8_act_quant(const lt_shape_w8a8_act_quant *s, uint8_t *q, float *sx,
                                 const uint16_t *x)
{
    for (int64_t m = 0; m < s->M; m++) {
        const uint16_t *row = x + m * s->K;
        float amax = 0;
        for (int64_t k = 0; k < s->K; k++) amax = fmaxf(amax, fabsf(lt_number_bf16(row[k])));
        sx[m] = fmaxf(amax / 448.0f, 1e-12f);
        for (int64_t k = 0; k < s->K; k++)
            q[m * s->K + k] = lt_number_to_e4m3(lt_number_bf16(row[k]) / sx[m]);
    }
}
