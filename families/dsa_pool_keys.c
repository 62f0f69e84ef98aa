/* Truth of dsa_pool_keys (model.md 4.14), in double. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { PAGE = 64, POOL = 4 };

static double pool(const double *gate, const double *key)
{
    double largest = gate[0], sum = 0, weighted = 0;
    for (int i = 1; i < POOL; i++) largest = fmax(largest, gate[i]);
    for (int i = 0; i < POOL; i++) sum += exp(gate[i] - largest);
    for (int i = 0; i < POOL; i++) weighted += exp(gate[i] - largest) / sum * key[i];
    return weighted;
}

void lt_reference_dsa_pool_keys(const lt_shape_dsa_pool_keys *s, double *pooled,
                                double *pooled_magnitude, const uint16_t *raw, const float *ape,
                                const int32_t *positions, const int32_t *slots,
                                const int32_t *block_table)
{
    (void)pooled_magnitude;
    for (int64_t m = 0; m < s->M; m++) {
        const int64_t position = positions[m], page = position / PAGE;
        if (slots[m] < 0 || position % POOL != POOL - 1 || page >= s->PAGES) continue;
        const int64_t block = block_table[slots[m] * s->PAGES + page];
        if (block < 0 || block >= s->BLOCKS) continue;
        const uint16_t *ring = raw + slots[m] * s->RING * 2 * s->D;
        double *to = pooled + (block * PAGE + position % PAGE) / POOL * s->D;
        for (int64_t d = 0; d < s->D; d++) {
            double gate[POOL], key[POOL];
            for (int64_t i = 0; i < POOL; i++) {
                const uint16_t *row = ring + (position - 3 + i) % s->RING * 2 * s->D;
                key[i] = (double)lt_number_bf16(row[d]);
                gate[i] = (double)lt_number_bf16(row[s->D + d]) + (double)ape[i * s->D + d];
            }
            to[d] = pool(gate, key);
        }
    }
}
