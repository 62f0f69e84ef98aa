/* Truth of kda_decode (model.md 4.7 to 4.9 and 4.11), row by row, k ascending. Between the
 * projections and y only f and g are rounded, to bf16; a product in W8A8 quantises f_a and g_a. */
#include <math.h>
#include <string.h>
#include "reference.h"
#include "runtime/lathe.h"

enum { MOST_WIDTH = 128, MOST_K = 256 }; /* of a head, of a weight's row */

/* What both forms have. sw: NULL where w is bf16. */
typedef struct {
    int64_t rows, tokens, heads, width, k, stride;
    double *y, *y_magnitude, *state, *window;
    const uint16_t *x;
    const float *taps;
    const void *w;
    const float *sw, *a_log, *dt_bias;
    const uint16_t *norm;
    const int32_t *slots, *snaps;
} decode;

/* A head's q, k, v, decay and gate of one row. */
typedef struct {
    double in[3][MOST_WIDTH], decay[MOST_WIDTH], gate[MOST_WIDTH], beta;
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
static void finish(double *y, double *y_magnitude, int64_t width, const double *gate,
                   const uint16_t *norm)
{
    double squares = 0;
    for (int64_t d = 0; d < width; d++) squares += y[d] * y[d];
    const double scale = 1 / sqrt(squares / (double)width + 1e-5);
    for (int64_t d = 0; d < width; d++) {
        const double factor = scale * number_at(norm, d) * sigmoid(gate[d]);
        y[d] *= factor;
        y_magnitude[d] *= fabs(factor);
    }
}

/* A slice of a row as its product takes it; returns its scale. */
static float take_slice(const decode *p, double *slice, const uint16_t *from)
{
    float amax = 0;
    for (int64_t k = 0; k < p->k; k++) amax = fmaxf(amax, fabsf(lt_number_bf16(from[k])));
    const float scale = p->sw ? fmaxf(amax / 448.0f, 1e-12f) : 1.0f;
    for (int64_t k = 0; k < p->k; k++) {
        const float v = lt_number_bf16(from[k]) / scale;
        slice[k] = (double)(p->sw ? lt_number_e4m3(lt_number_to_e4m3(v)) : v);
    }
    return scale;
}

/* A slice times row n of w, as bf16. It is scaled in f32, so that where the sum is exact there is
 * one result. */
static double multiply(const decode *p, const double *slice, float scale, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++) {
        const int64_t at = n * p->k + k;
        const float w = p->sw ? lt_number_e4m3(((const uint8_t *)p->w)[at])
                              : lt_number_bf16(((const uint16_t *)p->w)[at]);
        sum += slice[k] * (double)w;
    }
    const float product = (float)sum * (p->sw ? scale * p->sw[n] : 1.0f);
    return (double)lt_number_bf16(lt_number_to_bf16(product));
}

/* Row m of head h, from the projections. */
static void make_row(const decode *p, head_row *r, int64_t slot, int64_t m, int64_t h)
{
    const int64_t D = p->width, all = p->heads * D;
    const uint16_t *x = p->x + m * p->stride, *f_a = x + 3 * all, *g_a = f_a + p->k;
    double f[MOST_K], g[MOST_K];
    const float f_scale = take_slice(p, f, f_a), g_scale = take_slice(p, g, g_a);
    for (int64_t i = 0; i < 3 * D; i++) {
        const int64_t c = i / D * all + h * D + i % D;
        double *window = p->window + (slot * 3 * all + c) * 4;
        r->in[i / D][i % D] = convolve(window, p->taps + c * 4, number_at(x, c));
    }
    for (int64_t d = 0, n = h * D; d < D; d++, n++) {
        const double at = multiply(p, f, f_scale, n) + (double)p->dt_bias[n];
        r->decay[d] = exp(-5 * sigmoid(exp((double)p->a_log[h]) * at));
        r->gate[d] = multiply(p, g, g_scale, all + n);
    }
    r->beta = sigmoid(number_at(g_a + p->k, h));
    normalise(r->in[0], D), normalise(r->in[1], D);
}

static void copy_slot(double *pool, int64_t to, int64_t from, int64_t count)
{
    memcpy(pool + to * count, pool + from * count, (size_t)count * sizeof *pool);
}

static void run(const decode *p)
{
    const int64_t all = p->heads * p->width;
    for (int64_t m = 0; m < p->rows; m++) {
        const int64_t slot = p->slots[m / p->tokens];
        if (slot < 0) continue;
        for (int64_t h = 0; h < p->heads; h++) {
            const int64_t at = m * all + h * p->width;
            double *state = p->state + (slot * p->heads + h) * p->width * p->width;
            head_row r;
            make_row(p, &r, slot, m, h);
            recur(&r, state, p->width, p->y + at, p->y_magnitude + at);
            finish(p->y + at, p->y_magnitude + at, p->width, r.gate, p->norm);
        }
        if (p->snaps[m] < 0) continue;
        copy_slot(p->state, p->snaps[m], slot, all * p->width);
        copy_slot(p->window, p->snaps[m], slot, 12 * all);
    }
}

/* f32 is measured by its own size. */
void lt_reference_kda_decode_w8a8(const lt_shape_kda_decode_w8a8 *s, double *y, double *y_magnitude,
                                  double *state, double *state_magnitude, double *window,
                                  double *window_magnitude, const uint16_t *x, const float *taps,
                                  const uint8_t *w, const float *sw, const float *a_log,
                                  const float *dt_bias, const uint16_t *norm, const int32_t *slots,
                                  const int32_t *snaps)
{
    (void)state_magnitude, (void)window_magnitude;
    run(&(decode){s->M, s->TOKENS, s->HEADS, s->D, s->K, s->STRIDE, y, y_magnitude, state, window,
                  x, taps, w, sw, a_log, dt_bias, norm, slots, snaps});
}

void lt_reference_kda_decode_bf16(const lt_shape_kda_decode_bf16 *s, double *y, double *y_magnitude,
                                  double *state, double *state_magnitude, double *window,
                                  double *window_magnitude, const uint16_t *x, const float *taps,
                                  const uint16_t *w, const float *a_log, const float *dt_bias,
                                  const uint16_t *norm, const int32_t *slots, const int32_t *snaps)
{
    (void)state_magnitude, (void)window_magnitude;
    run(&(decode){s->M, s->TOKENS, s->HEADS, s->D, s->K, s->STRIDE, y, y_magnitude, state, window,
                  x, taps, w, NULL, a_log, dt_bias, norm, slots, snaps});
}
