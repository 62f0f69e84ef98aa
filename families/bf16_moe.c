/* Truth of bf16_moe (model.md 4.21): slot by slot, the dots in double. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

typedef struct {
    int64_t slots, experts, n, k;
    int64_t share; /* slots that read one row of x */
} sizes;

/* w: the expert's rows. */
static void run_slot(const sizes *z, double *y, double *y_magnitude, const uint16_t *x,
                     const uint16_t *w)
{
    for (int64_t n = 0; n < z->n; n++) {
        y[n] = y_magnitude[n] = 0;
        for (int64_t k = 0; k < z->k; k++) {
            const double product =
                (double)lt_number_bf16(x[k]) * (double)lt_number_bf16(w[n * z->k + k]);
            y[n] += product;
            y_magnitude[n] += fabs(product);
        }
    }
}

static void run_slots(const sizes *z, double *y, double *y_magnitude, const uint16_t *x,
                      const int32_t *ids, const uint16_t *w)
{
    for (int64_t slot = 0; slot < z->slots; slot++)
        if (ids[slot] >= 0 && ids[slot] < z->experts)
            run_slot(z, y + slot * z->n, y_magnitude + slot * z->n, x + slot / z->share * z->k,
                     w + ids[slot] * z->n * z->k);
}

void lt_reference_bf16_moe_gate_up(const lt_shape_bf16_moe_gate_up *s, double *y,
                                   double *y_magnitude, const uint16_t *x, const int32_t *ids,
                                   const uint16_t *w)
{
    const sizes z = {s->M * s->TOPK, s->EXPERTS, s->N, s->K, .share = s->TOPK};
    run_slots(&z, y, y_magnitude, x, ids, w);
}

void lt_reference_bf16_moe_down(const lt_shape_bf16_moe_down *s, double *y, double *y_magnitude,
                                const uint16_t *x, const int32_t *ids, const uint16_t *w)
{
    const sizes z = {s->M * s->TOPK, s->EXPERTS, s->N, s->K, .share = 1};
    run_slots(&z, y, y_magnitude, x, ids, w);
}
