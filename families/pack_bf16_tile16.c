/* Truth of pack_bf16_tile16: where each element of a tile comes from; of experts one behind
 * the other. */
#include "reference.h"

void lt_reference_pack_bf16_tile16(const lt_shape_pack_bf16_tile16 *s, uint16_t *w,
                                   const uint16_t *w_rows)
{
    const int64_t tiles = (s->N + 15) / 16, chunks = (s->K + 31) / 32;
    for (int64_t at = 0; at < tiles * chunks * 512; at++) {
        const int64_t i = at % 8, lane = at / 8 % 32, half = at / 256 % 2, unit = at / 512;
        const int64_t n = unit / chunks * 16 + half * 8 + lane / 4;
        const int64_t k = unit % chunks * 32 + lane % 4 * 8 + i;
        w[at] = n < s->N && k < s->K ? w_rows[n * s->K + k] : 0;
    }
}

void lt_reference_pack_bf16_tile16_experts(const lt_shape_pack_bf16_tile16_experts *s, uint16_t *w,
                                           const uint16_t *w_rows)
{
    const lt_shape_pack_bf16_tile16 one = {.N = s->N, .K = s->K};
    const int64_t packed = s->N / 16 * ((s->K + 31) / 32) * 512;
    for (int64_t e = 0; e < s->EXPERTS; e++)
        lt_reference_pack_bf16_tile16(&one, w + e * packed, w_rows + e * s->N * s->K);
}
