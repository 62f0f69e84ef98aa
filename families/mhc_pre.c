/* Truth of mhc_pre (model.md 4.2), in double; u is not rounded on its way to xn. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

#define HC_EPS 1e-6
#define RMS_EPS 1e-5

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* m[j] = dot of row j of fn with the row's streams, over their root mean square. */
static void mix(double *m, const float *x, const uint16_t *fn, int64_t count)
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

static void sinkhorn(double *comb, const double *m, double scale, const float *base)
{
    double c[4][4];
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) c[i][j] = m[4 * i + j] * scale + (double)base[4 * i + j];
        softmax(c[i]);
    }
    divide_columns(c);
    for (int pass = 0; pass < 19; pass++) {
        divide_rows(c);
        divide_columns(c);
    }
    for (int i = 0; i < 16; i++) comb[i] = c[i / 4][i % 4];
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
                          double *post_magnitude, double *comb, double *comb_magnitude,
                          const float *streams, const uint16_t *fn, const float *scale,
                          const float *base, const uint16_t *norm)
{
    (void)post_magnitude, (void)comb_magnitude;
    for (int64_t r = 0; r < s->M; r++) {
        const float *x = streams + r * 4 * s->H;
        double m[24], pre[4];
        mix(m, x, fn, 4 * s->H);
        for (int i = 0; i < 4; i++) {
            pre[i] = sigmoid(m[i] * (double)scale[0] + (double)base[i]) + HC_EPS;
            post[r * 4 + i] = 2 * sigmoid(m[4 + i] * (double)scale[1] + (double)base[4 + i]);
        }
        sinkhorn(comb + r * 16, m + 8, (double)scale[2], base + 8);
        collapse(xn + r * s->H, xn_magnitude + r * s->H, x, pre, norm, s->H);
    }
}
