/* Truth of pack_bf16_tile16_experts: one expert behind the other. */
#include "reference.h"

void lt_reference_pack_bf16_tile16_experts(const lt_shape_pack_bf16_tile16_experts *s, uint16_t *w,
                                           const uint16_t *w_rows)
{
    const lt_shape_pack_bf16_tile16 one = {.N = s->N, .K = s->K};
    const int64_t packed = s->N / 16 * ((s->K + 31) / 32) * 512;
    for (int64_t e = 0; e < s->EXPERTS; e++)
        lt_reference_pack_bf16_tile16(&one, w + e * packed, w_rows + e * s->N * s->K);
}
