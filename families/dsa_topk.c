/* Truth of dsa_topk (model.md 4.16): a sort of the candidates, then the best K by index. */
#include <math.h>
#include <stdlib.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { POOL = 4 };

typedef struct {
    float score;
    int32_t pool;
} candidate;

static int by_score(const void *x, const void *y) /* the better one first */
{
    const candidate *a = x, *b = y;
    if (isnan(a->score) != isnan(b->score)) return isnan(a->score) ? 1 : -1;
    if (a->score > b->score) return -1;
    if (a->score < b->score) return 1;
    return a->pool < b->pool ? -1 : 1;
}

static int by_pool(const void *x, const void *y)
{
    const candidate *a = x, *b = y;
    return a->pool < b->pool ? -1 : 1;
}

void lt_reference_dsa_topk(const lt_shape_dsa_topk *s, int32_t *ids, const float *score,
                           const int32_t *positions, const int32_t *slots)
{
    candidate *all = malloc((size_t)s->POOLS * sizeof *all);
    for (int64_t m = 0; all && m < s->M; m++) {
        int64_t count = ((int64_t)positions[m] + 1) / POOL;
        if (slots[m] < 0) continue;
        if (count > s->POOLS) count = s->POOLS;
        for (int64_t p = 0; p < count; p++)
            all[p] = (candidate){score[m * s->POOLS + p], (int32_t)p};
        qsort(all, (size_t)count, sizeof *all, by_score);
        if (count > s->K) count = s->K;
        qsort(all, (size_t)count, sizeof *all, by_pool);
        for (int64_t k = 0; k < s->K; k++) ids[m * s->K + k] = k < count ? all[k].pool : -1;
    }
    free(all);
}
