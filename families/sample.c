/* Truth of sample: families/sample.lua defines it. The candidates are sorted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "reference.h"
#include "runtime/lathe.h"

#define LT_DEV static inline
typedef uint32_t u32;

static float lt_bits_f32(u32 bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static u32 lt_f32_bits(float x)
{
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#pragma GCC diagnostic ignored "-Wunused-function"
#include "templates/prelude/exact.h"

typedef struct {
    float logit;
    int32_t id;
    uint32_t weight;
} candidate;

typedef struct {
    float top, temperature, p;
    int32_t best, k;
    uint64_t seed, position;
} request;

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t random32(const request *r)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    return mix(mix(r->seed + golden) + (r->position + 1) * golden) >> 32;
}

static uint32_t weight_of(float logit, const request *r)
{
    const float q = logit >= r->top ? 0.0f : (r->top - logit) / r->temperature;
    return q < 21.0f ? (uint32_t)(lt_exp(-q) * 0x1p30f) : 0;
}

static int order(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static uint64_t sum_of(const candidate *list, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += list[i].weight;
    return sum;
}

/* How many of the list it takes to reach the sum. */
static size_t reach(const candidate *list, uint64_t sum)
{
    uint64_t upto = 0;
    size_t count = 0;
    while (upto < sum) upto += list[count++].weight;
    return count;
}

/* part of 2^32 times the weight, rounded down */
static uint64_t share(uint64_t part, uint64_t weight)
{
    return part * (weight >> 32) + (part * (weight & 0xffffffff) >> 32);
}

static int32_t draw(const candidate *list, size_t count, const request *r)
{
    if (count == 0) return r->best;
    if (r->k >= 1 && (size_t)r->k < count) count = (size_t)r->k;
    if (r->p < 1) {
        const uint64_t part = r->p > 0 ? (uint64_t)(r->p * 0x1p31f) * 2 : 0;
        const uint64_t need = share(part, sum_of(list, count));
        count = reach(list, need ? need : 1);
    }
    return list[reach(list, share(random32(r), sum_of(list, count)) + 1) - 1].id;
}

static request request_of(int64_t m, const int32_t *best, const float *top,
                          const float *temperature, const int32_t *top_k, const float *top_p,
                          const uint32_t *seeds, const int32_t *positions)
{
    return (request){.best = best[m],
                     .top = top[m],
                     .temperature = temperature[m],
                     .k = top_k[m],
                     .p = top_p[m],
                     .seed = seeds[2 * m] | (uint64_t)seeds[2 * m + 1] << 32,
                     .position = (uint64_t)positions[m]};
}

/* Draws from `count` logits, which are at floats or, where that is NULL, at halves. */
static int32_t sample(const request *r, const float *floats, const uint16_t *halves, int64_t count)
{
    if (!(r->temperature > 0) || r->best < 0) return r->best;
    candidate *list = malloc((size_t)count * sizeof *list);
    size_t found = 0;
    for (int64_t i = 0; list && i < count; i++) {
        const float logit = floats ? floats[i] : lt_number_bf16(halves[i]);
        const uint32_t weight = weight_of(logit, r);
        if (weight > 0) list[found++] = (candidate){logit, (int32_t)i, weight};
    }
    if (list) qsort(list, found, sizeof *list, order);
    const int32_t token = draw(list, found, r);
    free(list);
    return token;
}

void lt_reference_sample_f32(const lt_shape_sample_f32 *s, int32_t *token, const float *logits,
                             const int32_t *best, const float *top, const float *temperature,
                             const int32_t *top_k, const float *top_p, const uint32_t *seeds,
                             const int32_t *positions)
{
    for (int64_t m = 0; m < s->M; m++) {
        const request r = request_of(m, best, top, temperature, top_k, top_p, seeds, positions);
        if (positions[m] >= 0) token[m] = sample(&r, logits + m * s->VOCAB, NULL, s->VOCAB);
    }
}

void lt_reference_sample_bf16(const lt_shape_sample_bf16 *s, int32_t *token, const uint16_t *logits,
                              const int32_t *best, const float *top, const float *temperature,
                              const int32_t *top_k, const float *top_p, const uint32_t *seeds,
                              const int32_t *positions)
{
    for (int64_t m = 0; m < s->M; m++) {
        const request r = request_of(m, best, top, temperature, top_k, top_p, seeds, positions);
        if (positions[m] >= 0) token[m] = sample(&r, NULL, logits + m * s->VOCAB, s->VOCAB);
    }
}
