/* Truth of pack_nvfp4_tile16_halves: that of pack_nvfp4_tile16, of rows in another order. */
#include <stdlib.h>
#include <string.h>
#include "reference.h"

enum { HALF = 8 }; /* rows of a tile that come from each half of N */

/* Row `to` of the tiles is which one of the stacked rows? */
static int64_t row_of(int64_t to, int64_t N)
{
    return to / (2 * HALF) * HALF + to % HALF + to / HALF % 2 * (N / 2);
}

void lt_reference_pack_nvfp4_tile16_halves(const lt_shape_pack_nvfp4_tile16_halves *s, uint8_t *w,
                                           uint8_t *ws, const uint8_t *w_rows,
                                           const uint8_t *ws_rows)
{
    const lt_shape_pack_nvfp4_tile16 plain = {.N = s->N, .K = s->K};
    const int64_t codes = s->K / 2, scales = s->K / 16;
    uint8_t *turned = malloc((size_t)(s->N * (codes + scales)));
    if (!turned) return;
    uint8_t *turned_scales = turned + s->N * codes;
    for (int64_t n = 0; n < s->N; n++) {
        const int64_t from = row_of(n, s->N);
        memcpy(turned + n * codes, w_rows + from * codes, (size_t)codes);
        memcpy(turned_scales + n * scales, ws_rows + from * scales, (size_t)scales);
    }
    lt_reference_pack_nvfp4_tile16(&plain, w, ws, turned, turned_scales);
    free(turned);
}
