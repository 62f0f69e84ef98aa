/* Truth of dsa_pool_keys (model.md 4.14), in double. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { PAGE = 64, POOL = 4, KEYS = PAGE / POOL, MOST_D = 128 };

static double pool(const double *gate, const double *key)
{
    double largest = gate[0], sum = 0, weighted = 0;
    for (int i = 1; i < POOL; i++) largest = fmax(largest, gate[i]);
    for (int i = 0; i < POOL; i++) sum += exp(gate[i] - largest);
    for (int i = 0; i < POOL; i++) weighted += exp(gate[i] - largest) / sum * key[i];
    return weighted;
}

static double f16(double x)
{
    return (double)lt_number_f16(lt_number_to_f16((float)x));
}

/* 2^n brings a sum of magnitudes to 2^14 .. 2^15, as far as f32 has such powers; NaN is large. */
static int exponent_of(double sum)
{
    int n = 128;
    if (isfinite(sum)) frexp(fmax(sum, 0x1p-126), &n);
    return n < -111 ? -126 : n > 128 ? 113 : n - 15;
}

/* x as two f16 in page, as pool p's channel d. Another order of sums may be off by so much: where
 * that can round to another first f16, the second is as much larger or smaller.
 */
static void put_channel(const lt_shape_dsa_pool_keys *s, double *page, double *magnitude, int64_t p,
                        int64_t d, double x, double off)
{
    const int64_t lane = p % 8 * 4 + d % 16 / 4, low = KEYS * s->D;
    const int64_t at = d / 16 * 256 + lane * 8 + d % 4 / 2 * 4 + p / 8 * 2 + d % 2;
    const double high = f16(x);
    const int is_sure = high == f16(x - off) && high == f16(x + off);
    page[at] = high;
    page[at + low] = 0x1p11 * (x - high);
    magnitude[at] = 0x1p16 * off;
    magnitude[at + low] = 0x1p27 * (is_sure ? off : 2 * off + 0x1p-10 * fabs(x));
}

void lt_reference_dsa_pool_keys(const lt_shape_dsa_pool_keys *s, double *pooled,
                                double *pooled_magnitude, double *scale, double *scale_magnitude,
                                const uint16_t *raw, const float *ape, const int32_t *positions,
                                const int32_t *slots, const int32_t *block_table)
{
    (void)scale_magnitude;
    for (int64_t m = 0; m < s->M; m++) {
        const int64_t position = positions[m], page = position / PAGE;
        if (slots[m] < 0 || position % POOL != POOL - 1 || page >= s->PAGES) continue;
        const int64_t block = block_table[slots[m] * s->PAGES + page];
        if (block < 0 || block >= s->BLOCKS) continue;
        const uint16_t *ring = raw + slots[m] * s->RING * 2 * s->D;
        const int64_t p = position % PAGE / POOL, at = block * 2 * KEYS * s->D;
        double keys[MOST_D], sum = 0;
        for (int64_t d = 0; d < s->D; d++) {
            double gate[POOL], key[POOL];
            for (int64_t i = 0; i < POOL; i++) {
                const uint16_t *row = ring + (position - 3 + i) % s->RING * 2 * s->D;
                key[i] = (double)lt_number_bf16(row[d]);
                gate[i] = (double)lt_number_bf16(row[s->D + d]) + (double)ape[i * s->D + d];
            }
            keys[d] = pool(gate, key);
            sum += fabs(keys[d]);
        }
        const int exponent = exponent_of(sum);
        scale[block * KEYS + p] = ldexp(1, exponent);
        for (int64_t d = 0; d < s->D; d++) {
            const double off = 1e-5 * fmax(fabs(keys[d]), sum / (double)s->D);
            put_channel(s, pooled + at, pooled_magnitude + at, p, d, ldexp(keys[d], -exponent),
                        ldexp(off, -exponent));
        }
    }
}
