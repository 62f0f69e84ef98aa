/* Truth of pack_nvfp4_tile16, code by code; of the halves that of rows in another order,
 * of experts one behind the other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "reference.h"
#include "runtime/lathe.h"

/* Bits of a code's sign and of its magnitude's three bits, highest first, of each register's code
 * in the word's low half; of that in the high half they are turned by 16. */
static const uint8_t bit[4][4] = {{15, 8, 7, 6}, {11, 4, 3, 2}, {5, 30, 29, 28}, {9, 10, 1, 0}};

/* exponent + 9 and three mantissa bits of a positive scale; one exponent stands for NaN */
static uint8_t scale_byte(float scale)
{
    if (isnan(scale)) return 31 << 3 | 1;
    if (scale == 0) return 0;
    int exponent;
    const float mantissa = frexpf(scale, &exponent); /* in [1/2, 1) */
    return (uint8_t)((exponent - 1 + 9) << 3 | (int)(mantissa * 16 - 8));
}

static void place_code(uint32_t *word, int64_t i, int64_t upper_or_lower, uint8_t code)
{
    const uint8_t *at = bit[i / 2 % 2 * 2 + upper_or_lower];
    for (int b = 0; b < 4; b++)
        if (code >> (3 - b) & 1) word[i / 4] |= 1u << (at[b] + i % 2 * 16) % 32;
}

void lt_reference_pack_nvfp4_tile16(const lt_shape_pack_nvfp4_tile16 *s, uint8_t *w, uint8_t *ws,
                                    const uint8_t *w_rows, const uint8_t *ws_rows)
{
    const int64_t tiles = (s->N + 15) / 16, units = (s->K + 127) / 128;
    memset(w, 0, (size_t)(tiles * units * 1024));
    memset(ws, 0, (size_t)(tiles * units * 128));
    for (int64_t n = 0; n < s->N; n++)
        for (int64_t group = 0; group < s->K / 16; group++) {
            const float scale = lt_number_e4m3(ws_rows[n * (s->K / 16) + group]);
            const int64_t unit = n / 16 * units + group / 8, chunk = group / 4 % 2;
            const int64_t lane = n % 8 * 4 + group % 4, row = n / 8 % 2;
            uint32_t word[4];
            uint8_t *to = w + unit * 1024 + chunk * 512 + lane * 16;
            memcpy(word, to, sizeof word);
            for (int64_t i = 0; i < 16 && scale != 0; i++) {
                const uint8_t two = w_rows[n * (s->K / 2) + group * 8 + i / 2];
                const uint8_t code = i % 2 ? two >> 4 : two & 15;
                const uint8_t flip = ws_rows[n * (s->K / 16) + group] >> 7 ? 8 : 0;
                place_code(word, i, row, code ^ flip);
            }
            memcpy(to, word, sizeof word);
            ws[unit * 128 + lane * 4 + chunk * 2 + row] = scale_byte(fabsf(scale));
        }
}

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
