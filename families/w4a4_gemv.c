/* Truth of w4a4_gemv (model.md 2.1): the dot of the decoded operands in double, scaled. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { GROUP = 16 };

static double dot_group(const uint8_t *a, const uint8_t *b, double *magnitude)
{
    double sum = 0;
    for (int i = 0; i < GROUP / 2; i++) {
        const double low = (double)lt_number_e2m1(a[i] & 15) * (double)lt_number_e2m1(b[i] & 15);
        const double high = (double)lt_number_e2m1(a[i] >> 4) * (double)lt_number_e2m1(b[i] >> 4);
        sum += low + high;
        *magnitude += fabs(low) + fabs(high);
    }
    return sum;
}

static double dot_row(const uint8_t *x, const uint8_t *xs, const uint8_t *w, const uint8_t *ws,
                      int64_t k, double *magnitude)
{
    double sum = 0;
    for (int64_t group = 0; group < k / GROUP; group++) {
        const double scale =
            (double)lt_number_e4m3(xs[group] & 0x7f) * (double)lt_number_e4m3(ws[group]);
        double part = 0;
        sum += scale * dot_group(x + group * GROUP / 2, w + group * GROUP / 2, &part);
        *magnitude += fabs(scale) * part;
    }
    return sum;
}

void lt_reference_w4a4_gemv(const lt_shape_w4a4_gemv *s, double *y, double *y_magnitude,
                            const uint8_t *x, const uint8_t *xs, const float *gs, const uint8_t *w,
                            const uint8_t *ws, const float *sw)
{
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t n = 0; n < s->N; n++) {
            const double scale = (double)gs[m] * (double)sw[n];
            double magnitude = 0;
            y[m * s->N + n] =
                scale * dot_row(x + m * s->K / 2, xs + m * s->K / GROUP, w + n * s->K / 2,
                                ws + n * s->K / GROUP, s->K, &magnitude);
            y_magnitude[m * s->N + n] = fabs(scale) * magnitude;
        }
}
