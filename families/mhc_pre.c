/* Truth of mhc_pre (model.md 4.2), in double; u is not rounded on its way to xn. mhc_post_pre is
 * mhc_post, and mhc_pre of what that wrote; _quant quantises the rounded xn. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

#define HC_EPS 1e-6
#define RMS_EPS 1e-5

enum { MOST_COLUMNS = 8192 }; /* that the family serves */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* m[j] = dot of row j of fn with the row's streams, over their root mean square. */
static void dots(double *m, const float *x, const uint16_t *fn, int64_t count)
{
    double squares = 0;
    for (int64_t k = 0; k < count; k++) squares += (double)x[k] * (double)x[k];
    const double r = 1 / sqrt(squares / (double)count + RMS_EPS);
    for (int64_t j = 0; j < 24; j++) {
        double sum = 0;
        for (int64_t k = 0; k < count; k++)
            sum += (double)lt_number_bf16(fn[j * count + k]) * (double)x[k];
        m[j] = sum * r;
    }
}

static void collapse(double *xn, double *magnitude, const float *x, const double *pre,
                     const uint16_t *norm, int64_t h)
{
    double squares = 0;
    for (int64_t d = 0; d < h; d++) {
        xn[d] = magnitude[d] = 0;
        for (int64_t i = 0; i < 4; i++) {
            xn[d] += pre[i] * (double)x[i * h + d];
            magnitude[d] += fabs(pre[i] * (double)x[i * h + d]);
        }
        squares += xn[d] * xn[d];
    }
    const double r = 1 / sqrt(squares / (double)h + RMS_EPS);
    for (int64_t d = 0; d < h; d++) {
        const double by = r * (double)lt_number_bf16(norm[d]);
        xn[d] *= by;
        magnitude[d] *= fabs(by);
    }
}

void lt_reference_mhc_pre(const lt_shape_mhc_pre *s, double *xn, double *xn_magnitude, double *post,
                          double *post_magnitude, double *mix, double *mix_magnitude,
                          const float *streams, const uint16_t *fn, const float *scale,
                          const float *base, const uint16_t *norm)
{
    (void)post_magnitude, (void)mix_magnitude;
    for (int64_t r = 0; r < s->M; r++) {
        const float *x = streams + r * 4 * s->H;
        double m[24], pre[4];
        dots(m, x, fn, 4 * s->H);
        for (int i = 0; i < 4; i++) {
            pre[i] = sigmoid(m[i] * (double)scale[0] + (double)base[i]) + HC_EPS;
            post[r * 4 + i] = 2 * sigmoid(m[4 + i] * (double)scale[1] + (double)base[4 + i]);
        }
        for (int i = 0; i < 16; i++)
            mix[r * 16 + i] = m[8 + i] * (double)scale[2] + (double)base[8 + i];
        collapse(xn + r * s->H, xn_magnitude + r * s->H, x, pre, norm, s->H);
    }
}

void lt_reference_mhc_post_pre(const lt_shape_mhc_post_pre *s, double *xn, double *xn_magnitude,
                               double *streams, double *streams_magnitude, double *next_post,
                               double *next_post_magnitude, double *next_mix,
                               double *next_mix_magnitude, const float *post, const float *mix,
                               const uint16_t *y, const uint16_t *fn, const float *scale,
                               const float *base, const uint16_t *norm)
{
    const lt_shape_mhc_post before = {.M = s->M, .H = s->H};
    const lt_shape_mhc_pre row = {.M = 1, .H = s->H};
    lt_reference_mhc_post(&before, streams, streams_magnitude, post, mix, y);
    for (int64_t r = 0; r < s->M; r++) {
        float x[4 * MOST_COLUMNS];
        for (int64_t i = 0; i < 4 * s->H; i++) x[i] = (float)streams[r * 4 * s->H + i];
        lt_reference_mhc_pre(&row, xn + r * s->H, xn_magnitude + r * s->H, next_post + r * 4,
                             next_post_magnitude, next_mix + r * 16, next_mix_magnitude, x, fn,
                             scale, base, norm);
    }
}

void lt_reference_mhc_post_pre_quant(
    const lt_shape_mhc_post_pre_quant *s, double *xn, double *xn_magnitude, uint8_t *q, uint8_t *qs,
    double *gs, double *gs_magnitude, double *streams, double *streams_magnitude, double *next_post,
    double *next_post_magnitude, double *next_mix, double *next_mix_magnitude, const float *post,
    const float *mix, const uint16_t *y, const uint16_t *fn, const float *scale, const float *base,
    const uint16_t *norm, const float *input_scale)
{
    const lt_shape_mhc_post_pre site = {.M = s->M, .H = s->H};
    lt_reference_mhc_post_pre(&site, xn, xn_magnitude, streams, streams_magnitude, next_post,
                              next_post_magnitude, next_mix, next_mix_magnitude, post, mix, y, fn,
                              scale, base, norm);
    (void)gs_magnitude;
    const lt_shape_w4a4_act_quant_static row = {.M = 1, .K = s->H};
    for (int64_t r = 0; r < s->M; r++) {
        uint16_t rounded[MOST_COLUMNS];
        float given;
        for (int64_t d = 0; d < s->H; d++) rounded[d] = lt_number_to_bf16((float)xn[r * s->H + d]);
        lt_reference_w4a4_act_quant_static(&row, q + r * s->H / 2, qs + r * s->H / 16, &given,
                                           rounded, input_scale);
        gs[r] = (double)given;
    }
}
