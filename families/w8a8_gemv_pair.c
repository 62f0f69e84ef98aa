/* Truth of w8a8_gemv_pair (model.md 2.2): each slice's rows quantised, then the dots of the codes
 * in double, scaled. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { MOST_K = 256 };

/* The codes' values of a row of K; their scale. */
static double quantise_row(double *codes, const uint16_t *row, int64_t K)
{
    float amax = 0;
    for (int64_t k = 0; k < K; k++) amax = fmaxf(amax, fabsf(lt_number_bf16(row[k])));
    const float scale = fmaxf(amax / 448.0f, 1e-12f);
    for (int64_t k = 0; k < K; k++)
        codes[k] = (double)lt_number_e4m3(lt_number_to_e4m3(lt_number_bf16(row[k]) / scale));
    return (double)scale;
}

/* A row of one product: its channels are those of w from `first` on. */
static void multiply(const lt_shape_w8a8_gemv_pair *s, double *y, double *y_magnitude,
                     const uint16_t *row, const uint8_t *w, const float *sw, int64_t first)
{
    double codes[MOST_K];
    const double sx = quantise_row(codes, row, s->K);
    for (int64_t n = 0; n < s->N / 2; n++) {
        const uint8_t *wn = w + (first + n) * s->K;
        const double scale = sx * (double)sw[first + n];
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < s->K; k++) {
            const double product = codes[k] * (double)lt_number_e4m3(wn[k]);
            sum += product;
            magnitude += fabs(product);
        }
        y[n] = sum * scale;
        y_magnitude[n] = magnitude * fabs(scale);
    }
}

void lt_reference_w8a8_gemv_pair(const lt_shape_w8a8_gemv_pair *s, double *y, double *y_magnitude,
                                 double *y2, double *y2_magnitude, const uint16_t *x,
                                 const uint8_t *w, const float *sw)
{
    const int64_t half = s->N / 2;
    for (int64_t m = 0; m < s->M; m++) {
        const uint16_t *row = x + m * s->STRIDE + s->OFFSET;
        multiply(s, y + m * half, y_magnitude + m * half, row, w, sw, 0);
        multiply(s, y2 + m * half, y2_magnitude + m * half, row + s->K, w, sw, half);
    }
}
