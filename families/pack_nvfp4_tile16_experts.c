/* Truth of pack_nvfp4_tile16_experts and of the halves: one expert behind the other. */
#include "reference.h"

void lt_reference_pack_nvfp4_tile16_experts(const lt_shape_pack_nvfp4_tile16_experts *s, uint8_t *w,
                                            uint8_t *ws, const uint8_t *w_rows,
                                            const uint8_t *ws_rows)
{
    const lt_shape_pack_nvfp4_tile16 one = {.N = s->N, .K = s->K};
    const int64_t units = s->N / 16 * ((s->K + 127) / 128);
    for (int64_t e = 0; e < s->EXPERTS; e++)
        lt_reference_pack_nvfp4_tile16(&one, w + e * units * 1024, ws + e * units * 128,
                                       w_rows + e * s->N * (s->K / 2),
                                       ws_rows + e * s->N * (s->K / 16));
}

void lt_reference_pack_nvfp4_tile16_experts_halves(
    const lt_shape_pack_nvfp4_tile16_experts_halves *s, uint8_t *w, uint8_t *ws,
    const uint8_t *w_rows, const uint8_t *ws_rows)
{
    const lt_shape_pack_nvfp4_tile16_halves one = {.N = s->N, .K = s->K};
    const int64_t units = s->N / 16 * ((s->K + 127) / 128);
    for (int64_t e = 0; e < s->EXPERTS; e++)
        lt_reference_pack_nvfp4_tile16_halves(&one, w + e * units * 1024, ws + e * units * 128,
                                              w_rows + e * s->N * (s->K / 2),
                                              ws_rows + e * s->N * (s->K / 16));
}
