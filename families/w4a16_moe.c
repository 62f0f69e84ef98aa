/* Truth of w4a16_moe (model.md 2.1, 4.21, 4.25): slot by slot, the dots of the decoded weights and
 * the bf16 activations in double. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { GROUP = 16 };

typedef struct {
    int64_t slots, experts, n, k;
    int64_t share; /* slots that read one row of x */
    int64_t parts; /* tensors that are stacked in N */
} sizes;

typedef struct {
    const uint8_t *codes, *scales; /* NVFP4 rows of k values */
} rows;

static double value(rows w, int64_t i)
{
    const uint8_t two = w.codes[i / 2];
    return (double)lt_number_e2m1(i % 2 ? two >> 4 : two & 15) *
           (double)lt_number_e4m3(w.scales[i / GROUP]);
}

static void run_slot(const sizes *z, double *y, double *y_magnitude, const uint16_t *x, rows w,
                     const float *sw, int64_t slot, int32_t expert)
{
    for (int64_t n = 0; n < z->n; n++) {
        const double scale = (double)sw[expert * z->parts + n * z->parts / z->n];
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < z->k; k++) {
            const double product =
                (double)lt_number_bf16(x[k]) * value(w, (expert * z->n + n) * z->k + k);
            sum += product;
            magnitude += fabs(product);
        }
        y[slot * z->n + n] = scale * sum;
        y_magnitude[slot * z->n + n] = fabs(scale) * magnitude;
    }
}

static void run_slots(const sizes *z, double *y, double *y_magnitude, const uint16_t *x,
                      const int32_t *ids, rows w, const float *sw)
{
    for (int64_t slot = 0; slot < z->slots; slot++)
        if (ids[slot] >= 0 && ids[slot] < z->experts)
            run_slot(z, y, y_magnitude, x + slot / z->share * z->k, w, sw, slot, ids[slot]);
}

void lt_reference_w4a16_moe_gate_up(const lt_shape_w4a16_moe_gate_up *s, double *y,
                                    double *y_magnitude, const uint16_t *x, const int32_t *ids,
                                    const uint8_t *w, const uint8_t *ws, const float *sw)
{
    const sizes z = {s->M * s->TOPK, s->EXPERTS, s->N, s->K, .share = s->TOPK, .parts = 2};
    run_slots(&z, y, y_magnitude, x, ids, (rows){w, ws}, sw);
}

void lt_reference_w4a16_moe_down(const lt_shape_w4a16_moe_down *s, double *y, double *y_magnitude,
                                 const uint16_t *x, const int32_t *ids, const uint8_t *w,
                                 const uint8_t *ws, const float *sw)
{
    const sizes z = {s->M * s->TOPK, s->EXPERTS, s->N, s->K, .share = 1, .parts = 1};
    run_slots(&z, y, y_magnitude, x, ids, (rows){w, ws}, sw);
}
