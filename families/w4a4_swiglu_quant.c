/* Truth of w4a4_swiglu_quant: swiglu_clamp, rounded to bf16, and w4a4_act_quant.static of it. */
#include "reference.h"
#include "runtime/lathe.h"

enum { GROUP = 16 };

/* A group at a time: 16 gates, and 16 ups k behind them. */
static void make_group(uint16_t *y, const uint16_t *gate, int64_t k)
{
    const lt_shape_swiglu_clamp both = {.M = 1, .N = GROUP};
    uint16_t x[2 * GROUP];
    double value[GROUP], magnitude[GROUP];
    for (int i = 0; i < 2 * GROUP; i++) x[i] = gate[i < GROUP ? i : k + i - GROUP];
    lt_reference_swiglu_clamp(&both, value, magnitude, x);
    for (int i = 0; i < GROUP; i++) y[i] = lt_number_to_bf16((float)value[i]);
}

void lt_reference_w4a4_swiglu_quant(const lt_shape_w4a4_swiglu_quant *s, uint8_t *q, uint8_t *qs,
                                    float *gs, const uint16_t *x, const float *input_scale)
{
    const lt_shape_w4a4_act_quant_static group = {.M = 1, .K = GROUP};
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t k = 0; k < s->K; k += GROUP) {
            uint16_t y[GROUP];
            const int64_t at = m * s->K + k;
            make_group(y, x + 2 * m * s->K + k, s->K);
            lt_reference_w4a4_act_quant_static(&group, q + at / 2, qs + at / GROUP, gs + m, y,
                                               input_scale);
        }
}
