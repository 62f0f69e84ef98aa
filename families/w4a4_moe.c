/* Truth of w4a4_moe (model.md 4.21): slot by slot, the dots of the decoded operands in double. */
#include <math.h>
#include <stdlib.h>
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

/* Row `at` as numbers. */
static void decode_row(double *to, rows from, int64_t at, int64_t k, uint8_t scale_mask)
{
    for (int64_t i = 0; i < k; i++) {
        const uint8_t two = from.codes[(at * k + i) / 2];
        const uint8_t scale = from.scales[(at * k + i) / GROUP] & scale_mask;
        to[i] = (double)lt_number_e2m1(i % 2 ? two >> 4 : two & 15) * (double)lt_number_e4m3(scale);
    }
}

static double dot(const double *a, const double *b, int64_t k, double *magnitude)
{
    double sum = 0;
    *magnitude = 0;
    for (int64_t i = 0; i < k; i++) {
        sum += a[i] * b[i];
        *magnitude += fabs(a[i] * b[i]);
    }
    return sum;
}

/* All channels of one slot; room: two rows of k. */
static void run_slot(const sizes *z, double *y, double *y_magnitude, rows x, double gs, rows w,
                     const float *sw, int64_t slot, int32_t expert, double *room)
{
    decode_row(room, x, slot / z->share, z->k, 0x7f);
    for (int64_t n = 0; n < z->n; n++) {
        const double scale = gs * (double)sw[expert * z->parts + n * z->parts / z->n];
        double magnitude;
        decode_row(room + z->k, w, expert * z->n + n, z->k, 0xff);
        y[slot * z->n + n] = scale * dot(room, room + z->k, z->k, &magnitude);
        y_magnitude[slot * z->n + n] = fabs(scale) * magnitude;
    }
}

static void run_slots(const sizes *z, double *y, double *y_magnitude, rows x, const float *gs,
                      const int32_t *ids, rows w, const float *sw)
{
    double *room = malloc(2 * (size_t)z->k * sizeof *room);
    for (int64_t slot = 0; room && slot < z->slots; slot++)
        if (ids[slot] >= 0 && ids[slot] < z->experts)
            run_slot(z, y, y_magnitude, x, (double)gs[slot / z->share], w, sw, slot, ids[slot],
                     room);
    free(room);
}

void lt_reference_w4a4_moe_gate_up(const lt_shape_w4a4_moe_gate_up *s, double *y,
                                   double *y_magnitude, const uint8_t *x, const uint8_t *xs,
                                   const float *gs, const int32_t *ids, const uint8_t *w,
                                   const uint8_t *ws, const float *sw)
{
    const sizes z = {s->M * s->TOPK, s->EXPERTS, s->N, s->K, .share = s->TOPK, .parts = 2};
    run_slots(&z, y, y_magnitude, (rows){x, xs}, gs, ids, (rows){w, ws}, sw);
}

void lt_reference_w4a4_moe_down(const lt_shape_w4a4_moe_down *s, double *y, double *y_magnitude,
                                const uint8_t *x, const uint8_t *xs, const float *gs,
                                const int32_t *ids, const uint8_t *w, const uint8_t *ws,
                                const float *sw)
{
    const sizes z = {s->M * s->TOPK, s->EXPERTS, s->N, s->K, .share = 1, .parts = 1};
    run_slots(&z, y, y_magnitude, (rows){x, xs}, gs, ids, (rows){w, ws}, sw);
}
