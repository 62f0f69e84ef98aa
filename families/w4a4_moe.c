/* Truth of w4a4_moe (model.md 4.21): slot by slot, the dots of the decoded operands in double. */
#include <math.h>
#include <stdlib.h>
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

/* A slot's row of gates and ups, rounded to bf16, and w4a4_swiglu_quant of it. */
static void finish_slot(const lt_shape_w4a4_moe_swiglu *s, uint8_t *q, uint8_t *qs, float *qgs,
                        const double *sum, const float *input_scale)
{
    const lt_shape_w4a4_swiglu_quant row = {.M = 1, .K = s->N / 2};
    uint16_t *rounded = malloc((size_t)s->N * sizeof *rounded);
    if (!rounded) return;
    for (int64_t n = 0; n < s->N; n++) rounded[n] = lt_number_to_bf16((float)sum[n]);
    lt_reference_w4a4_swiglu_quant(&row, q, qs, qgs, rounded, input_scale);
    free(rounded);
}

void lt_reference_w4a4_moe_swiglu(const lt_shape_w4a4_moe_swiglu *s, uint8_t *q, uint8_t *qs,
                                  float *qgs, const uint8_t *x, const uint8_t *xs, const float *gs,
                                  const int32_t *ids, const uint8_t *w, const uint8_t *ws,
                                  const float *sw, const float *input_scale)
{
    const lt_shape_w4a4_moe_gate_up product = {
        .M = s->M, .TOPK = s->TOPK, .EXPERTS = s->EXPERTS, .N = s->N, .K = s->K};
    const int64_t slots = s->M * s->TOPK, width = s->N / 2;
    double *sum = malloc((size_t)(slots * s->N) * 2 * sizeof *sum);
    if (!sum) return;
    lt_reference_w4a4_moe_gate_up(&product, sum, sum + slots * s->N, x, xs, gs, ids, w, ws, sw);
    for (int64_t slot = 0; slot < slots; slot++)
        if (ids[slot] >= 0 && ids[slot] < s->EXPERTS)
            finish_slot(s, q + slot * width / 2, qs + slot * width / GROUP, qgs + slot,
                        sum + slot * s->N, input_scale);
    free(sum);
}

void lt_reference_w4a4_moe_down(const lt_shape_w4a4_moe_down *s, double *y, double *y_magnitude,
                                const uint8_t *x, const uint8_t *xs, const float *gs,
                                const int32_t *ids, const uint8_t *w, const uint8_t *ws,
                                const float *sw)
{
    const sizes z = {s->M * s->TOPK, s->EXPERTS, s->N, s->K, .share = 1, .parts = 1};
    run_slots(&z, y, y_magnitude, (rows){x, xs, 0x7f}, gs, ids, (rows){w, ws, 0xff}, sw);
}
