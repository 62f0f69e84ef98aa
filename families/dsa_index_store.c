/* Truth of dsa_index_store (model.md 4.14), in double, not rounded. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

static double value(const uint16_t *bits, int64_t i)
{
    return (double)lt_number_bf16(bits[i]);
}

void lt_reference_dsa_index_store(const lt_shape_dsa_index_store *s, double *raw,
                                  double *raw_magnitude, const uint16_t *x, const uint16_t *w,
                                  const uint16_t *b, const int32_t *positions, const int32_t *slots)
{
    const double count = (double)s->D;
    for (int64_t m = 0; m < s->M; m++) {
        const uint16_t *key = x + m * s->STRIDE + s->OFFSET, *gate = x + m * s->STRIDE + s->GATE;
        if (slots[m] < 0 || positions[m] < 0) continue;
        const int64_t at = (slots[m] * s->RING + positions[m] % s->RING) * 2 * s->D;
        double mean = 0, variance = 0;
        for (int64_t d = 0; d < s->D; d++) mean += value(key, d) / count;
        for (int64_t d = 0; d < s->D; d++) variance += pow(value(key, d) - mean, 2) / count;
        for (int64_t d = 0; d < s->D; d++) {
            const double product = (value(key, d) - mean) / sqrt(variance + 1e-6) * value(w, d);
            raw[at + d] = product + value(b, d);
            raw_magnitude[at + d] = fabs(product) + fabs(value(b, d)); /* they may cancel */
            raw[at + s->D + d] = value(gate, d);
        }
    }
}
