/* Truth of rms_norm (model.md 4.3), in double, not rounded; codes are those of y as bf16. */
#include <math.h>
#include <stdlib.h>
#include "reference.h"
#include "runtime/lathe.h"

void lt_reference_rms_norm(const lt_shape_rms_norm *s, double *y, double *y_magnitude,
                           const uint16_t *x, const uint16_t *w)
{
    for (int64_t m = 0; m < s->M; m++) {
        const uint16_t *row = x + m * s->K;
        double squares = 0;
        for (int64_t k = 0; k < s->K; k++) {
            const double v = (double)lt_number_bf16(row[k]);
            squares += v * v;
        }
        const double r = 1 / sqrt(squares / (double)s->K + 1e-5);
        for (int64_t k = 0; k < s->K; k++) {
            y[m * s->K + k] = (double)lt_number_bf16(row[k]) * r * (double)lt_number_bf16(w[k]);
            y_magnitude[m * s->K + k] = 0;
        }
    }
}

void lt_reference_rms_norm_part(const lt_shape_rms_norm_part *s, double *y, double *y_magnitude,
                                const uint16_t *x, const uint16_t *w)
{
    const lt_shape_rms_norm row = {.M = 1, .K = s->K};
    for (int64_t m = 0; m < s->M; m++)
        lt_reference_rms_norm(&row, y + m * s->K, y_magnitude + m * s->K, x + m * s->STRIDE, w);
}

void lt_reference_rms_norm_part_e4m3(const lt_shape_rms_norm_part_e4m3 *s, double *y,
                                     double *y_magnitude, uint8_t *q, double *sx,
                                     double *sx_magnitude, const uint16_t *x, const uint16_t *w)
{
    const lt_shape_rms_norm_part part = {.M = s->M, .K = s->K, .STRIDE = s->STRIDE};
    const lt_shape_w8a8_act_quant row = {.M = 1, .K = s->K};
    uint16_t *rounded = malloc((size_t)s->K * sizeof *rounded);
    if (!rounded) return;
    lt_reference_rms_norm_part(&part, y, y_magnitude, x, w);
    for (int64_t m = 0; m < s->M; m++) {
        float scale;
        for (int64_t k = 0; k < s->K; k++) rounded[k] = lt_number_to_bf16((float)y[m * s->K + k]);
        lt_reference_w8a8_act_quant(&row, q + m * s->K, &scale, rounded);
        sx[m] = (double)scale;
        sx_magnitude[m] = 0;
    }
    free(rounded);
}
