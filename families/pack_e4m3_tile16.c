/* Truth of pack_e4m3_tile16: where each byte of a tile comes from. */
#include "reference.h"

void lt_reference_pack_e4m3_tile16(const lt_shape_pack_e4m3_tile16 *s, uint8_t *w,
                                   const uint8_t *w_rows)
{
    const int64_t tiles = (s->N + 15) / 16, chunks = (s->K + 63) / 64;
    for (int64_t at = 0; at < tiles * chunks * 1024; at++) {
        const int64_t i = at % 16, lane = at / 16 % 32, half = at / 512 % 2, unit = at / 1024;
        const int64_t n = unit / chunks * 16 + half * 8 + lane / 4;
        const int64_t k = unit % chunks * 64 + lane % 4 * 16 + i;
        w[at] = n < s->N && k < s->K ? w_rows[n * s->K + k] : 0;
    }
}
