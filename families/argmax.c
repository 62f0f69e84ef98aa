/* Truth of argmax (model.md 4.24). */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

static void take(float logit, int64_t id, int32_t *best, float *top)
{
    if (isnan(logit) || (*best >= 0 && !(logit > *top))) return;
    *best = (int32_t)id;
    *top = logit;
}

void lt_reference_argmax_f32(const lt_shape_argmax_f32 *s, int32_t *best, float *top,
                             const float *logits)
{
    for (int64_t m = 0; m < s->M; m++) {
        best[m] = -1;
        top[m] = -INFINITY;
        for (int64_t i = 0; i < s->VOCAB; i++) take(logits[m * s->VOCAB + i], i, best + m, top + m);
    }
}

void lt_reference_argmax_bf16(const lt_shape_argmax_bf16 *s, int32_t *best, float *top,
                              const uint16_t *logits)
{
    for (int64_t m = 0; m < s->M; m++) {
        best[m] = -1;
        top[m] = -INFINITY;
        for (int64_t i = 0; i < s->VOCAB; i++)
            take(lt_number_bf16(logits[m * s->VOCAB + i]), i, best + m, top + m);
    }
}
