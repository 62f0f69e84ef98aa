/* Truth of kda_decode (model.md 4.7 to 4.9 and 4.11), row by row, k ascending; nothing is rounded
 * between the projections and y. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { MOST_WIDTH = 256 }; /* of a head */

/* A head's q, k, v and decay of one row. */
typedef struct {
    double in[3][MOST_WIDTH], decay[MOST_WIDTH], beta;
} head_row;

static double number_at(const uint16_t *x, int64_t i)
{
    return (double)lt_number_bf16(x[i]);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* One channel's window takes x in; the taps on it, and SiLU. */
static double convolve(double *window, const float *taps, double x)
{
    double sum = 0;
    memmove(window, window + 1, 3 * sizeof *window);
    window[3] = x;
    for (int j = 0; j < 4; j++) sum += window[j] * (double)taps[j];
    return sum * sigmoid(sum);
}

static void normalise(double *x, int64_t width)
{
    double squares = 0;
    for (int64_t d = 0; d < width; d++) squares += x[d] * x[d];
    for (int64_t d = 0; d < width; d++) x[d] /= sqrt(squares + 1e-6);
}

/* The delta rule on a head's state; o, and the sum of the magnitudes that it is made of. */
static void recur(const head_row *r, double *state, int64_t width, double *o, double *o_magnitude)
{
    const double *q = r->in[0], *k = r->in[1], *v = r->in[2];
    for (int64_t c = 0; c < width; c++) {
        double dot = 0, dots = 0, out = 0, outs = 0;
        for (int64_t i = 0; i < width; i++) {
            double *s = state + i * width + c;
            *s *= r->decay[i];
            dot += *s * k[i], dots += fabs(*s * k[i]), outs += fabs(*s * q[i]);
        }
        const double delta = (v[c] - dot) * r->beta, most = (fabs(v[c]) + dots) * r->beta;
        for (int64_t i = 0; i < width; i++) {
            double *s = state + i * width + c;
            *s += k[i] * delta;
            out += *s * q[i], outs += fabs(k[i] * q[i]) * most;
        }
        o[c] = out / sqrt((double)width);
        o_magnitude[c] = outs / sqrt((double)width);
    }
}

/* y, which holds a head's o, becomes its gated norm. */
static void finish(double *y, double *y_magnitude, int64_t width, const uint16_t *gate,
                   const uint16_t *w)
{
    double squares = 0;
    for (int64_t d = 0; d < width; d++) squares += y[d] * y[d];
    const double scale = 1 / sqrt(squares / (double)width + 1e-5);
    for (int64_t d = 0; d < width; d++) {
        const double factor = scale * number_at(w, d) * sigmoid(number_at(gate, d));
        y[d] *= factor;
        y_magnitude[d] *= fabs(factor);
    }
}

static void copy_slot(double *pool, int64_t to, int64_t from, int64_t count)
{
    memcpy(pool + to * count, pool + from * count, (size_t)count * sizeof *pool);
}

void lt_reference_kda_decode(const lt_shape_kda_decode *s, double *y, double *y_magnitude,
                             double *state, double *state_magnitude, double *window,
                             double *window_magnitude, const uint16_t *x, const float *taps,
                             const uint16_t *f, const float *a_log, const float *dt_bias,
                             const uint16_t *gate, const uint16_t *w, const int32_t *slots,
                             const int32_t *snaps)
{
    const int64_t all = s->HEADS * s->D, D = s->D;
    (void)state_magnitude, (void)window_magnitude; /* f32 is measured by its own size */
    for (int64_t m = 0; m < s->M; m++) {
        const int64_t slot = slots[m / s->TOKENS];
        if (slot < 0) continue;
        for (int64_t h = 0; h < s->HEADS; h++) {
            head_row r = {.beta = sigmoid(number_at(x, m * s->STRIDE + s->BOFFSET + h))};
            for (int64_t i = 0; i < 3 * D; i++) {
                const int64_t c = i / D * all + h * D + i % D;
                r.in[i / D][i % D] = convolve(window + (slot * 3 * all + c) * 4, taps + c * 4,
                                              number_at(x, m * s->STRIDE + c));
            }
            for (int64_t d = 0; d < D; d++) {
                const double at = number_at(f, m * all + h * D + d) + (double)dt_bias[h * D + d];
                r.decay[d] = exp(-5 * sigmoid(exp((double)a_log[h]) * at));
            }
            normalise(r.in[0], D), normalise(r.in[1], D);
            const int64_t at = m * all + h * D;
            recur(&r, state + (slot * s->HEADS + h) * D * D, D, y + at, y_magnitude + at);
            finish(y + at, y_magnitude + at, D, gate + at, w);
        }
        if (snaps[m] < 0) continue;
        copy_slot(state, snaps[m], slot, all * D);
        copy_slot(window, snaps[m], slot, 12 * all);
    }
}
