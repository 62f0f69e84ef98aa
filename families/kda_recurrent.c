/* Truth of kda_recurrent (model.md 4.9), token by token, k ascending. */
#include <math.h>
#include <string.h>
#include "reference.h"
#include "runtime/lathe.h"

typedef struct {
    int64_t heads, width; /* width of a head */
    double *state;        /* the pool */
} pool;

static double *find_head(const pool *p, int64_t slot, int64_t head)
{
    return p->state + (slot * p->heads + head) * p->width * p->width;
}

static double number_at(const uint16_t *x, int64_t i)
{
    return (double)lt_number_bf16(x[i]);
}

/* One token through one head: x is its q, then k and v further on. */
static void run_head(const pool *p, double *state, const uint16_t *x, const float *g, double beta,
                     double *o)
{
    const int64_t d = p->width, all = p->heads * d;
    for (int64_t v = 0; v < d; v++) {
        double dot = 0, out = 0;
        for (int64_t k = 0; k < d; k++) {
            state[k * d + v] *= exp((double)g[k]);
            dot += state[k * d + v] * number_at(x, all + k);
        }
        const double delta = (number_at(x, 2 * all + v) - dot) * beta;
        for (int64_t k = 0; k < d; k++) {
            state[k * d + v] += number_at(x, all + k) * delta;
            out += state[k * d + v] * number_at(x, k);
        }
        o[v] = out / sqrt((double)d);
    }
}

/* Row m of x, g, beta and o through the state of a slot. */
static void run_row(const pool *p, int64_t slot, int64_t m, const uint16_t *x, const float *g,
                    const float *beta, double *o)
{
    for (int64_t h = 0; h < p->heads; h++) {
        const int64_t at = m * p->heads + h;
        run_head(p, find_head(p, slot, h), x + (3 * m * p->heads + h) * p->width, g + at * p->width,
                 (double)beta[at], o + at * p->width);
    }
}

void lt_reference_kda_recurrent_rows(const lt_shape_kda_recurrent_rows *s, double *o,
                                     double *o_magnitude, double *state, double *state_magnitude,
                                     const uint16_t *x, const float *g, const float *beta,
                                     const int32_t *slots)
{
    const pool p = {s->HEADS, s->D, state};
    (void)o_magnitude, (void)state_magnitude; /* f32 is measured by its own size */
    for (int64_t m = 0; m < s->M; m++)
        if (slots[m] >= 0) run_row(&p, slots[m], m, x, g, beta, o);
}

void lt_reference_kda_recurrent_tokens(const lt_shape_kda_recurrent_tokens *s, double *o,
                                       double *o_magnitude, double *state, double *state_magnitude,
                                       const uint16_t *x, const float *g, const float *beta,
                                       const int32_t *slot, const int32_t *snaps)
{
    const pool p = {s->HEADS, s->D, state};
    (void)o_magnitude, (void)state_magnitude;
    for (int64_t t = 0; t < s->M && slot[0] >= 0; t++) {
        run_row(&p, slot[0], t, x, g, beta, o);
        if (snaps[t] >= 0)
            memcpy(find_head(&p, snaps[t], 0), find_head(&p, slot[0], 0),
                   (size_t)(s->HEADS * s->D * s->D) * sizeof(double));
    }
}
