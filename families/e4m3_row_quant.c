/* Truth of e4m3_row_quant (model.md 2.2). NaN does not count towards the largest magnitude. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

static float scale_of(float amax)
{
    return fmaxf(amax / 448.0f, 1e-12f);
}

void lt_reference_e4m3_row_quant_bf16(const lt_shape_e4m3_row_quant_bf16 *s, uint8_t *q, float *sw,
                                      const uint16_t *w)
{
    for (int64_t n = 0; n < s->N; n++) {
        const uint16_t *row = w + n * s->K;
        float amax = 0;
        for (int64_t k = 0; k < s->K; k++) amax = fmaxf(amax, fabsf(lt_number_bf16(row[k])));
        sw[n] = scale_of(amax);
        for (int64_t k = 0; k < s->K; k++)
            q[n * s->K + k] = lt_number_to_e4m3(lt_number_bf16(row[k]) / sw[n]);
    }
}

void lt_reference_e4m3_row_quant_f32(const lt_shape_e4m3_row_quant_f32 *s, uint8_t *q, float *sw,
                                     const float *w)
{
    for (int64_t n = 0; n < s->N; n++) {
        const float *row = w + n * s->K;
        float amax = 0;
        for (int64_t k = 0; k < s->K; k++) amax = fmaxf(amax, fabsf(row[k]));
        sw[n] = scale_of(amax);
        for (int64_t k = 0; k < s->K; k++) q[n * s->K + k] = lt_number_to_e4m3(row[k] / sw[n]);
    }
}
