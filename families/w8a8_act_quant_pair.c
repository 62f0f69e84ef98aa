/* Truth of w8a8_act_quant_pair (model.md 2.2), as that of w8a8_act_quant for each slice. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

static void quantise_row(uint8_t *q, float *sx, const uint16_t *row, int64_t columns)
{
    float amax = 0;
    for (int64_t k = 0; k < columns; k++) amax = fmaxf(amax, fabsf(lt_number_bf16(row[k])));
    *sx = fmaxf(amax / 448.0f, 1e-12f);
    for (int64_t k = 0; k < columns; k++) q[k] = lt_number_to_e4m3(lt_number_bf16(row[k]) / *sx);
}

void lt_reference_w8a8_act_quant_pair(const lt_shape_w8a8_act_quant_pair *s, uint8_t *q, float *sx,
                                      uint8_t *q2, float *sx2, const uint16_t *x)
{
    for (int64_t m = 0; m < s->M; m++) {
        const uint16_t *row = x + m * s->STRIDE + s->OFFSET;
        quantise_row(q + m * s->K, sx + m, row, s->K);
        quantise_row(q2 + m * s->K, sx2 + m, row + s->K, s->K);
    }
}
