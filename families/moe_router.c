/* Truth of moe_router (model.md 4.20). Logits, scores and choices are f32, as the definition has
 * them, so that equal logits tie. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { MOST_EXPERTS = 1024 }; /* that the family serves */

static float score(const uint16_t *x, const uint16_t *w, int64_t k)
{
    double logit = 0;
    for (int64_t i = 0; i < k; i++)
        logit += (double)lt_number_bf16(x[i]) * (double)lt_number_bf16(w[i]);
    return (float)(1 / (1 + exp(-(double)(float)logit)));
}

/* The expert that is chosen next: the largest choice among those not taken, the first of equals. */
static int32_t next_choice(const float *scores, const float *bias, int64_t experts,
                           const int32_t *taken, int64_t count)
{
    int32_t best = -1;
    for (int32_t e = 0; e < experts; e++) {
        int is_taken = 0;
        for (int64_t k = 0; k < count; k++) is_taken |= taken[k] == e;
        if (is_taken) continue;
        if (best < 0 || scores[e] + bias[e] > scores[best] + bias[best]) best = e;
    }
    return best;
}

void lt_reference_moe_router(const lt_shape_moe_router *s, int32_t *ids, double *weights,
                             double *weights_magnitude, const uint16_t *x, const uint16_t *w,
                             const float *bias, const float *factor)
{
    for (int64_t m = 0; m < s->M; m++) {
        float row[MOST_EXPERTS];
        for (int64_t e = 0; e < s->N; e++) row[e] = score(x + m * s->K, w + e * s->K, s->K);
        const int64_t at = m * s->TOPK;
        double sum = 0;
        for (int64_t k = 0; k < s->TOPK; k++) {
            ids[at + k] = next_choice(row, bias, s->N, ids + at, k);
            sum += (double)row[ids[at + k]];
        }
        for (int64_t k = at; k < at + s->TOPK; k++) {
            weights[k] = (double)row[ids[k]] / (sum + 1e-20) * (double)*factor;
            weights_magnitude[k] = weights[k];
        }
    }
}
