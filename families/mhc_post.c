/* Truth of mhc_post and mhc_post_rank_sum (model.md 4.4). */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

#define HC_EPS 1e-6

static void divide_rows(double c[4][4])
{
    for (int i = 0; i < 4; i++) {
        const double sum = c[i][0] + c[i][1] + c[i][2] + c[i][3] + HC_EPS;
        for (int j = 0; j < 4; j++) c[i][j] /= sum;
    }
}

static void divide_columns(double c[4][4])
{
    for (int j = 0; j < 4; j++) {
        const double sum = c[0][j] + c[1][j] + c[2][j] + c[3][j] + HC_EPS;
        for (int i = 0; i < 4; i++) c[i][j] /= sum;
    }
}

static void softmax(double *row)
{
    double largest = row[0], sum = 0;
    for (int j = 1; j < 4; j++) largest = fmax(largest, row[j]);
    for (int j = 0; j < 4; j++) sum += row[j] = exp(row[j] - largest);
    for (int j = 0; j < 4; j++) row[j] = row[j] / sum + HC_EPS;
}

/* comb of its logits. */
static void sinkhorn(double c[4][4], const float *mix)
{
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) c[i][j] = (double)mix[4 * i + j];
        softmax(c[i]);
    }
    divide_columns(c);
    for (int pass = 0; pass < 19; pass++) {
        divide_rows(c);
        divide_columns(c);
    }
}

/* Column d of one row, whose streams are h apart. */
static void mix_column(double *x, double *magnitude, int64_t h, const float *post,
                       double comb[4][4], double y)
{
    const double old[4] = {x[0], x[h], x[2 * h], x[3 * h]};
    for (int64_t j = 0; j < 4; j++) {
        double sum = (double)post[j] * y, parts = fabs(sum);
        for (int64_t i = 0; i < 4; i++) {
            const double product = comb[i][j] * old[i];
            sum += product;
            parts += fabs(product);
        }
        x[j * h] = sum;
        magnitude[j * h] = parts;
    }
}

void lt_reference_mhc_post(const lt_shape_mhc_post *s, double *streams, double *streams_magnitude,
                           const float *post, const float *mix, const uint16_t *y)
{
    for (int64_t m = 0; m < s->M; m++) {
        double comb[4][4];
        sinkhorn(comb, mix + m * 16);
        for (int64_t d = 0; d < s->H; d++) {
            const int64_t at = m * 4 * s->H + d;
            mix_column(streams + at, streams_magnitude + at, s->H, post + m * 4, comb,
                       (double)lt_number_bf16(y[m * s->H + d]));
        }
    }
}

void lt_reference_mhc_post_rank_sum(const lt_shape_mhc_post_rank_sum *s, double *streams,
                                    double *streams_magnitude, double *y, double *y_magnitude,
                                    const float *post, const float *mix, const uint16_t *parts)
{
    for (int64_t m = 0; m < s->M; m++) {
        double comb[4][4];
        sinkhorn(comb, mix + m * 16);
        for (int64_t d = 0; d < s->H; d++) {
            const int64_t at = m * 4 * s->H + d;
            double sum = 0, magnitude = 0;
            for (int64_t r = 0; r < s->RANKS; r++) {
                const double part = (double)lt_number_bf16(parts[(r * s->M + m) * s->H + d]);
                sum += part;
                magnitude += fabs(part);
            }
            y[m * s->H + d] = sum;
            y_magnitude[m * s->H + d] = magnitude;
            mix_column(streams + at, streams_magnitude + at, s->H, post + m * 4, comb, sum);
        }
    }
}
