/* Truth of dsa_absorb (model.md 4.12). */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

/* Sum over r of a[r * a_step] * b[r * b_step]. */
static void dot(double *out, double *magnitude, int64_t count, const uint16_t *a, int64_t a_step,
                const uint16_t *b, int64_t b_step)
{
    double sum = 0, absolute = 0;
    for (int64_t r = 0; r < count; r++) {
        const double product =
            (double)lt_number_bf16(a[r * a_step]) * (double)lt_number_bf16(b[r * b_step]);
        sum += product;
        absolute += fabs(product);
    }
    *out = sum;
    *magnitude = absolute;
}

void lt_reference_dsa_absorb_q(const lt_shape_dsa_absorb_q *s, double *w, double *w_magnitude,
                               const uint16_t *kv_b, const uint16_t *q_b)
{
    for (int64_t h = 0; h < s->HEADS; h++)
        for (int64_t c = 0; c < s->LATENT; c++)
            for (int64_t k = 0; k < s->K; k++) {
                const int64_t at = (h * s->LATENT + c) * s->K + k;
                dot(w + at, w_magnitude + at, s->D, kv_b + h * 2 * s->D * s->LATENT + c, s->LATENT,
                    q_b + h * s->D * s->K + k, s->K);
            }
}

void lt_reference_dsa_absorb_o(const lt_shape_dsa_absorb_o *s, double *w, double *w_magnitude,
                               const uint16_t *kv_b, const uint16_t *o_proj)
{
    for (int64_t n = 0; n < s->N; n++)
        for (int64_t h = 0; h < s->HEADS; h++)
            for (int64_t c = 0; c < s->LATENT; c++) {
                const int64_t at = (n * s->HEADS + h) * s->LATENT + c;
                dot(w + at, w_magnitude + at, s->D, o_proj + (n * s->HEADS + h) * s->D, 1,
                    kv_b + (h * 2 + 1) * s->D * s->LATENT + c, s->LATENT);
            }
}

void lt_reference_dsa_absorb_q_bf16(const lt_shape_dsa_absorb_q_bf16 *s, double *w,
                                    double *w_magnitude, const uint16_t *kv_b, const uint16_t *q_b)
{
    lt_reference_dsa_absorb_q((const void *)s, w, w_magnitude, kv_b, q_b);
}

void lt_reference_dsa_absorb_o_bf16(const lt_shape_dsa_absorb_o_bf16 *s, double *w,
                                    double *w_magnitude, const uint16_t *kv_b,
                                    const uint16_t *o_proj)
{
    lt_reference_dsa_absorb_o((const void *)s, w, w_magnitude, kv_b, o_proj);
}
