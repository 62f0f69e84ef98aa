/* Truth of mla_latent_write (model.md 4.13): the sum in double, then each step rounded to float as
 * the codes' bits demand. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { PAGE = 64 };

void lt_reference_mla_latent_write(const lt_shape_mla_latent_write *s, uint8_t *cache,
                                   const uint16_t *x, const uint16_t *w, const int32_t *positions,
                                   const int32_t *slots, const int32_t *block_table)
{
    for (int64_t m = 0; m < s->M; m++) {
        const uint16_t *row = x + m * s->STRIDE + s->OFFSET;
        const int64_t page = positions[m] / PAGE;
        if (slots[m] < 0 || positions[m] < 0 || page >= s->PAGES) continue;
        const int64_t block = block_table[slots[m] * s->PAGES + page];
        if (block < 0 || block >= s->BLOCKS) continue;
        uint8_t *to = cache + (block * PAGE + positions[m] % PAGE) * s->D;
        double sum = 0;
        for (int64_t d = 0; d < s->D; d++) sum += pow((double)lt_number_bf16(row[d]), 2);
        const float scale = 1.0f / sqrtf((float)(sum / (double)s->D) + 1e-5f);
        for (int64_t d = 0; d < s->D; d++)
            to[d] = lt_number_to_e4m3(lt_number_bf16(row[d]) * scale * lt_number_bf16(w[d]));
    }
}
