/* Truth of moe_row_union (model.md 4.21): expert by expert. */
#include "reference.h"

void lt_reference_moe_row_union(const lt_shape_moe_row_union *s, int32_t *count, int32_t *experts,
                                int32_t *starts, int32_t *slots, const int32_t *ids)
{
    const int64_t all = s->M * s->TOPK;
    int32_t listed = 0, placed = 0;
    for (int64_t i = 0; i < all; i++) experts[i] = slots[i] = -1;
    for (int32_t e = 0; e < s->EXPERTS; e++) {
        const int32_t before = placed;
        for (int32_t i = 0; i < all; i++)
            if (ids[i] == e) slots[placed++] = i;
        if (placed == before) continue;
        starts[listed] = before;
        experts[listed++] = e;
    }
    for (int64_t u = listed; u <= all; u++) starts[u] = placed;
    *count = listed;
}
