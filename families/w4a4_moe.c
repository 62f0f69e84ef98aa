/* Truth of w4a4_moe (model.md 4.21): slot by slot, the dots of the decoded operands in double. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"
#include "runtime/product.h"

enum { GROUP = 16 };

typedef struct {
    int64_t slots, experts, n, k;
    int64_t share; /* slots that read one row of x */
    int64_t parts; /* tensors that are stacked in N */
} sizes;

typedef struct {
    const uint8_t *codes, *scales; /* NVFP4 rows of k values */
    uint8_t mask;                  /* bits of a scale that count */
} rows;

static void read_row(const void *data, int64_t row, int64_t count, double *to)
{
    const rows *from = data;
    for (int64_t k = row * count; k < (row + 1) * count; k++) {
        const uint8_t code = k % 2 ? from->codes[k / 2] >> 4 : from->codes[k / 2] & 15;
        const uint8_t scale = from->scales[k / GROUP] & from->mask;
        *to++ = (double)lt_number_e2m1(code) * (double)lt_number_e4m3(scale);
    }
}

static rows skip(rows from, int64_t values)
{
    return (rows){from.codes + values / 2, from.scales + values / GROUP, from.mask};
}

/* All channels of one slot, which has a row of x. */
static void run_slot(const sizes *z, double *y, double *y_magnitude, rows x, double gs, rows w,
                     const float *sw)
{
    lt_product(y, y_magnitude, (lt_rows){&x, read_row}, (lt_rows){&w, read_row}, 1, z->n, z->k);
    for (int64_t n = 0; n < z->n; n++) {
        const double scale = gs * (double)sw[n * z->parts / z->n];
        y[n] *= scale;
        y_magnitude[n] *= fabs(scale);
    }
}

static void run_slots(const sizes *z, double *y, double *y_magnitude, rows x, const float *gs,
                      const int32_t *ids, rows w, const float *sw)
{
    for (int64_t slot = 0; slot < z->slots; slot++) {
        const int64_t row = slot / z->share, expert = ids[slot];
        if (expert >= 0 && expert < z->experts)
            run_slot(z, y + slot * z->n, y_magnitude + slot * z->n, skip(x, row * z->k),
                     (double)gs[row], skip(w, expert * z->n * z->k), sw + expert * z->parts);
    }
}

void lt_reference_w4a4_moe_gate_up(const lt_shape_w4a4_moe_gate_up *s, double *y,
                                   double *y_magnitude, const uint8_t *x, const uint8_t *xs,
                                   const float *gs, const int32_t *ids, const uint8_t *w,
                                   const uint8_t *ws, const float *sw)
{
    const sizes z = {s->M * s->TOPK, s->EXPERTS, s->N, s->K, .share = s->TOPK, .parts = 2};
    run_slots(&z, y, y_magnitude, (rows){x, xs, 0x7f}, gs, ids, (rows){w, ws, 0xff}, sw);
}

void lt_reference_w4a4_moe_down(const lt_shape_w4a4_moe_down *s, double *y, double *y_magnitude,
                                const uint8_t *x, const uint8_t *xs, const float *gs,
                                const int32_t *ids, const uint8_t *w, const uint8_t *ws,
                                const float *sw)
{
    const sizes z = {s->M * s->TOPK, s->EXPERTS, s->N, s->K, .share = 1, .parts = 1};
    run_slots(&z, y, y_magnitude, (rows){x, xs, 0x7f}, gs, ids, (rows){w, ws, 0xff}, sw);
}
