/* Truth of dsa_scores (model.md 4.15), in double. */
#include <float.h>
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { PAGE = 64, POOL = 4, KEYS = PAGE / POOL, MOST_D = 128 };

/* Channel d of a page's pool, from the two f16 of dsa_pool_keys. */
static double channel_of(const lt_shape_dsa_scores *s, const uint16_t *page, int64_t pool,
                         int64_t d)
{
    const int64_t lane = pool % 8 * 4 + d % 16 / 4;
    const uint16_t *at = page + d / 16 * 256 + lane * 8 + d % 4 / 2 * 4 + pool / 8 * 2 + d % 2;
    return (double)lt_number_f16(at[0]) + 0x1p-11 * (double)lt_number_f16(at[KEYS * s->D]);
}

/* A score. It may be off by 2^-16 of its magnitude, which is 1e-5 of the larger of |score| and
 * the root of the sum of its products' squares: the size of a score that nothing cancels in.
 */
static double score_of(const lt_shape_dsa_scores *s, const float *iq, const float *iw,
                       const double *key, double *magnitude)
{
    const double scale = 1 / sqrt((double)(s->HEADS * s->D));
    double sum = 0, squares = 0;
    for (int64_t h = 0; h < s->HEADS; h++) {
        const double weight = scale * (double)iw[h];
        double dot = 0;
        for (int64_t d = 0; d < s->D; d++) {
            const double product = (double)iq[h * s->D + d] * key[d];
            dot += product;
            squares += weight * product * weight * product;
        }
        sum += weight * (dot < 0 ? 0 : dot); /* NaN stays */
    }
    *magnitude = 1e-5 * 0x1p16 * fmax(fabs(sum), sqrt(squares));
    return sum;
}

void lt_reference_dsa_scores(const lt_shape_dsa_scores *s, double *score, double *score_magnitude,
                             const float *iq, const float *iw, const uint16_t *pooled,
                             const float *scale, const int32_t *positions, const int32_t *slots,
                             const int32_t *block_table)
{
    for (int64_t m = 0; m < s->M; m++) {
        const int64_t seen = (positions[m] + 1) / POOL, ceiling = (seen + KEYS - 1) / KEYS * KEYS;
        const int64_t end = ceiling < s->POOLS ? ceiling : s->POOLS;
        double *row = score + m * s->POOLS, *magnitude = score_magnitude + m * s->POOLS;
        if (slots[m] < 0 || positions[m] < 0) continue;
        for (int64_t p = 0; p < end; p++) {
            const int64_t block = block_table[slots[m] * s->PAGES + p / KEYS];
            row[p] = -(double)FLT_MAX;
            if (p >= seen || block < 0 || block >= s->BLOCKS) continue;
            double key[MOST_D];
            for (int64_t d = 0; d < s->D; d++)
                key[d] = channel_of(s, pooled + block * 2 * KEYS * s->D, p % KEYS, d) *
                         (double)scale[block * KEYS + p % KEYS];
            row[p] = score_of(s, iq + m * s->HEADS * s->D, iw + m * s->HEADS, key, magnitude + p);
        }
    }
}
