/* Truth of kda_conv (model.md 4.7), row by row. */
#include <math.h>
#include <string.h>
#include "reference.h"
#include "runtime/lathe.h"

typedef struct {
    int64_t heads, width; /* width of a head */
    const float *taps;
    double *window; /* the pool */
} conv;

static int64_t channels(const conv *k)
{
    return 3 * k->heads * k->width;
}

/* One row through the window of one slot. */
static void run_row(const conv *k, int64_t slot, const uint16_t *x, double *y, double *y_magnitude)
{
    for (int64_t head = 0; head < 3 * k->heads; head++) {
        double squares = 0;
        for (int64_t c = head * k->width; c < (head + 1) * k->width; c++) {
            double *w = k->window + (slot * channels(k) + c) * 4, sum = 0, magnitude = 0;
            memmove(w, w + 1, 3 * sizeof *w);
            w[3] = (double)lt_number_bf16(x[c]);
            for (int j = 0; j < 4; j++) {
                sum += w[j] * (double)k->taps[c * 4 + j];
                magnitude += fabs(w[j] * (double)k->taps[c * 4 + j]);
            }
            y[c] = sum / (1 + exp(-sum));
            y_magnitude[c] = magnitude / (1 + exp(-sum));
            squares += y[c] * y[c];
        }
        if (head >= 2 * k->heads) continue; /* v */
        for (int64_t c = head * k->width; c < (head + 1) * k->width; c++) {
            y[c] /= sqrt(squares + 1e-6);
            y_magnitude[c] /= sqrt(squares + 1e-6);
        }
    }
}

static void copy_slot(const conv *k, int64_t to, int64_t from)
{
    const int64_t count = channels(k) * 4;
    memcpy(k->window + to * count, k->window + from * count, (size_t)count * sizeof(double));
}

void lt_reference_kda_conv_rows(const lt_shape_kda_conv_rows *s, double *y, double *y_magnitude,
                                double *window, double *window_magnitude, const uint16_t *x,
                                const float *taps, const int32_t *slots)
{
    const conv k = {s->HEADS, s->D, taps, window};
    (void)window_magnitude; /* the window is measured by its own size */
    for (int64_t m = 0; m < s->M; m++)
        if (slots[m] >= 0)
            run_row(&k, slots[m], x + m * s->STRIDE, y + m * channels(&k),
                    y_magnitude + m * channels(&k));
}

void lt_reference_kda_conv_tokens(const lt_shape_kda_conv_tokens *s, double *y, double *y_magnitude,
                                  double *window, double *window_magnitude, const uint16_t *x,
                                  const float *taps, const int32_t *slot, const int32_t *snaps)
{
    const conv k = {s->HEADS, s->D, taps, window};
    (void)window_magnitude;
    for (int64_t t = 0; t < s->M && slot[0] >= 0; t++) {
        run_row(&k, slot[0], x + t * s->STRIDE, y + t * channels(&k),
                y_magnitude + t * channels(&k));
        if (snaps[t] >= 0) copy_slot(&k, snaps[t], slot[0]);
    }
}
