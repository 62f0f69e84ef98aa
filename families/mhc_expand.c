/* Truth of mhc_expand (model.md 4.1). */
#include "reference.h"
#include "runtime/lathe.h"

void lt_reference_mhc_expand(const lt_shape_mhc_expand *s, float *streams, const int32_t *tokens,
                             const uint16_t *embed)
{
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t i = 0; i < 4; i++)
            for (int64_t d = 0; d < s->H; d++) {
                const bool known = tokens[m] >= 0 && tokens[m] < s->VOCAB;
                streams[(m * 4 + i) * s->H + d] =
                    known ? lt_number_bf16(embed[tokens[m] * s->H + d]) : 0;
            }
}
