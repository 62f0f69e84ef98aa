/* Truth of dsa_expand (model.md 4.17). */
#include "reference.h"
#include "runtime/lathe.h"

enum { POOL = 4 };

void lt_reference_dsa_expand(const lt_shape_dsa_expand *s, int32_t *ids, const int32_t *pools,
                             const int32_t *positions, const int32_t *slots)
{
    const int64_t width = POOL * s->K + POOL - 1;
    for (int64_t m = 0; m < s->M; m++) {
        int32_t *row = ids + m * width;
        const int32_t context = positions[m] + 1;
        int64_t at = 0;
        if (slots[m] < 0) continue;
        for (int64_t j = 0; j < s->K && j < context / POOL; j++)
            for (int32_t i = 0; i < POOL; i++)
                row[at++] = pools[m * s->K + j] < 0 ? -1 : POOL * pools[m * s->K + j] + i;
        for (int32_t id = context - context % POOL; id < context; id++) row[at++] = id;
        while (at < width) row[at++] = -1;
    }
}
