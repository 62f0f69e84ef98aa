/* Truth of mla_decode (model.md 4.18), in double. */
#include <math.h>
#include <stdlib.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { PAGE = 64 };

/* The cache's rows of the tokens that row m attends to; returns how many. */
static int64_t find_rows(const lt_shape_mla_decode *s, int64_t m, int64_t *rows, const int32_t *ids,
                         const int32_t *positions, const int32_t *slots, const int32_t *block_table)
{
    int64_t count = 0;
    for (int64_t j = 0; j < s->WIDTH; j++) {
        const int64_t id = ids[m * s->WIDTH + j];
        if (id < 0 || id > positions[m] || id / PAGE >= s->PAGES) continue;
        const int64_t block = block_table[slots[m] * s->PAGES + id / PAGE];
        if (block >= 0 && block < s->BLOCKS) rows[count++] = block * PAGE + id % PAGE;
    }
    return count;
}

static void attend(const lt_shape_mla_decode *s, double *y, double *magnitude, const uint16_t *q,
                   const uint8_t *cache, const int64_t *rows, int64_t count, double *p)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t a = 0; a < count; a++) {
        p[a] = 0;
        for (int64_t d = 0; d < s->D; d++)
            p[a] +=
                (double)lt_number_bf16(q[d]) * (double)lt_number_e4m3(cache[rows[a] * s->D + d]);
        p[a] /= sqrt((double)s->QK);
        largest = fmax(largest, p[a]);
    }
    for (int64_t a = 0; a < count; a++) sum += p[a] = exp(p[a] - largest);
    for (int64_t d = 0; d < s->D; d++) {
        y[d] = 0;
        for (int64_t a = 0; a < count; a++) {
            const double term = p[a] / sum * (double)lt_number_e4m3(cache[rows[a] * s->D + d]);
            y[d] += term;
            magnitude[d] += fabs(term);
        }
    }
}

void lt_reference_mla_decode(const lt_shape_mla_decode *s, double *y, double *y_magnitude,
                             const uint16_t *q, const uint8_t *cache, const int32_t *ids,
                             const int32_t *positions, const int32_t *slots,
                             const int32_t *block_table)
{
    int64_t *rows = malloc((size_t)s->WIDTH * sizeof *rows);
    double *p = malloc((size_t)s->WIDTH * sizeof *p);
    for (int64_t m = 0; rows && p && m < s->M; m++) {
        if (slots[m] < 0) continue;
        const int64_t count = find_rows(s, m, rows, ids, positions, slots, block_table);
        for (int64_t h = 0; h < s->HEADS; h++) {
            const int64_t at = (m * s->HEADS + h) * s->D;
            attend(s, y + at, y_magnitude + at, q + at, cache, rows, count, p);
        }
    }
    free(rows);
    free(p);
}
