/* Truth of w4a4_act_quant (model.md 2.1). The formats' bits depend on each rounding, so the steps
 * are floats in the order of the definition. NaN does not count towards a maximum. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { GROUP = 16 };

static float largest(const uint16_t *x, int64_t count)
{
    float amax = 0;
    for (int64_t i = 0; i < count; i++) amax = fmaxf(amax, fabsf(lt_number_bf16(x[i])));
    return amax;
}

static void quantize_row(uint8_t *q, uint8_t *qs, const uint16_t *x, int64_t k, float gs)
{
    for (int64_t group = 0; group < k / GROUP; group++) {
        const uint16_t *from = x + group * GROUP;
        uint8_t *to = q + group * GROUP / 2;
        qs[group] = lt_number_to_e4m3(largest(from, GROUP) * (1.0f / 6.0f) * (1.0f / gs));
        const float scale = lt_number_e4m3(qs[group]);
        const float inverse = scale > 0 ? 1.0f / (scale * gs) : 0.0f;
        for (int i = 0; i < GROUP; i += 2)
            to[i / 2] = (uint8_t)(lt_number_to_e2m1(lt_number_bf16(from[i]) * inverse) |
                                  lt_number_to_e2m1(lt_number_bf16(from[i + 1]) * inverse) << 4);
    }
}

void lt_reference_w4a4_act_quant_static(const lt_shape_w4a4_act_quant_static *s, uint8_t *q,
                                        uint8_t *qs, float *gs, const uint16_t *x,
                                        const float *input_scale)
{
    for (int64_t m = 0; m < s->M; m++) {
        gs[m] = *input_scale;
        quantize_row(q + m * s->K / 2, qs + m * s->K / GROUP, x + m * s->K, s->K, gs[m]);
    }
}

void lt_reference_w4a4_act_quant_dynamic(const lt_shape_w4a4_act_quant_dynamic *s, uint8_t *q,
                                         uint8_t *qs, float *gs, const uint16_t *x)
{
    for (int64_t m = 0; m < s->M; m++) {
        const float scale = largest(x + m * s->K, s->K) / (6.0f * 448.0f);
        gs[m] = scale >= 0x1p-126f ? scale : 1.0f;
        quantize_row(q + m * s->K / 2, qs + m * s->K / GROUP, x + m * s->K, s->K, gs[m]);
    }
}
