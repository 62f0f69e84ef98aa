/* model.h: the tensor cores' arithmetic written plainly in double, as the rules are stated: it is
 * what the integer version and the kernels of the prelude tests are compared with. */
#ifndef LT_TESTS_MODEL_H
#define LT_TESTS_MODEL_H

#include "runtime/cpu/tensor_core.h"
#include "runtime/lathe.h"

#include <math.h>
#include <string.h>

typedef struct {
    uint32_t a[32][4], b[32][2], c[32][4], sa[32], sb[32];
} model_tile; /* the registers of a warp */

typedef struct {
    int n;
    double a[64], b[64];
    int smallest; /* exponent of a normal number in the operands' format */
} model_products;

static inline float model_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t model_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

enum { MODEL_ZERO = -100000 }; /* exponent of a zero: it is never the largest */

/* v = *significand * 2^exponent, significand in [1, 2), or smaller at the smallest exponent */
static inline int model_split(double v, int smallest, double *significand)
{
    int exponent;
    *significand = 2 * frexp(v, &exponent);
    if (v == 0) return MODEL_ZERO;
    exponent--;
    if (exponent >= smallest) return exponent;
    *significand = ldexp(*significand, exponent - smallest);
    return smallest;
}

/* A double cut toward zero to a float; a zero has no sign. */
static inline float model_cut(double v)
{
    double s;
    if (v == 0) return 0.0f;
    const int e = model_split(v, -126, &s);
    return (float)ldexp(trunc(ldexp(s, 23)), e - 23);
}

/* Terms significand * 2^exponent in one sum that keeps `fraction` bits behind the point of the
 * largest exponent, which is at least that of a subnormal float. */
static inline float model_sum(int n, const double *significand, const int *exponent, int fraction)
{
    int largest = -126;
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (exponent[i] > largest) largest = exponent[i];
    for (int i = 0; i < n; i++)
        sum += trunc(ldexp(significand[i], fraction + exponent[i] - largest));
    return model_cut(ldexp(sum, largest - fraction));
}

static inline float model_step(const model_products *p, float c)
{
    double exact = (double)c, s[65];
    int e[65];
    for (int i = 0; i < p->n; i++) exact += p->a[i] * p->b[i];
    if (isnan(exact)) return model_float(0x7fffffff);
    if (isinf(exact)) return (float)exact;
    for (int i = 0; i < p->n; i++) {
        double sa, sb;
        e[i] = model_split(p->a[i], p->smallest, &sa) + model_split(p->b[i], p->smallest, &sb);
        s[i] = sa * sb;
    }
    e[p->n] = model_split((double)c, -126, s + p->n);
    return model_sum(p->n + 1, s, e, 25);
}

/* e4m3 as sm_90 does it: two steps over f16, then an ordinary addition of c. */
static inline float model_two_steps(const model_products *p, float c)
{
    float sum = 0;
    for (int step = 0; step < 2; step++) {
        model_products half = {.n = 0, .smallest = -14};
        for (int k = 0; k < p->n; k++) {
            if ((k >> 1 & 1) != step) continue;
            half.a[half.n] = p->a[k];
            half.b[half.n++] = p->b[k];
        }
        sum = model_step(&half, sum);
    }
    return isnan(c + sum) ? model_float(0x7fffffff) : c + sum;
}

/* NVFP4: four groups of sixteen products, each with the two scales' significands and exponents. */
static inline float model_scaled(const model_products *p, uint32_t sa, uint32_t sb, float c)
{
    double s[5];
    int e[5];
    bool nan = isnan(c);
    for (int g = 0; g < 4; g++) {
        const double fa = (double)fabsf(lt_number_e4m3(sa >> 8 * g & 0x7f));
        const double fb = (double)fabsf(lt_number_e4m3(sb >> 8 * g & 0x7f));
        double dot = 0, ra, rb;
        if (isnan(fa) || isnan(fb)) {
            nan = true;
            continue;
        }
        for (int k = 16 * g; k < 16 * g + 16; k++) dot += p->a[k] * p->b[k];
        e[g] = model_split(fa, -6, &ra) + model_split(fb, -6, &rb);
        s[g] = dot * ra * rb;
    }
    if (nan) return model_float(0x7fffffff);
    if (isinf(c)) return c;
    e[4] = model_split((double)c, -126, s + 4);
    return model_sum(5, s, e, 35);
}

/* Element i of a register, as a number. */
static inline double model_element(int kind, uint32_t word, int i)
{
    switch (kind) {
    case LT_MMA_BF16: return (double)lt_number_bf16((uint16_t)(word >> 16 * i));
    case LT_MMA_F16: return (double)lt_number_f16((uint16_t)(word >> 16 * i));
    case LT_MMA_E4M3: return (double)lt_number_e4m3((uint8_t)(word >> 8 * i));
    case LT_MMA_S8: return (int8_t)(word >> 8 * i);
    default: return (double)lt_number_e2m1((uint8_t)(word >> 4 * i & 15));
    }
}

/* The matrices that a tile's registers hold: A[row][k], B[column][k], E elements a register. */
static inline int model_matrices(int kind, const model_tile *t, double A[16][64], double B[8][64])
{
    const int E = kind <= LT_MMA_F16 ? 2 : kind <= LT_MMA_S8 ? 4 : 8;
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < E; i++) {
            for (int r = 0; r < 4; r++)
                A[l / 4 + 8 * (r % 2)][E * (l % 4) + i + 4 * E * (r / 2)] =
                    model_element(kind, t->a[l][r], i);
            for (int r = 0; r < 2; r++)
                B[l / 4][E * (l % 4) + i + 4 * E * r] = model_element(kind, t->b[l][r], i);
        }
    return 8 * E;
}

static inline uint32_t model_integers(const model_products *p, uint32_t c)
{
    int64_t sum = (int32_t)c;
    for (int k = 0; k < p->n; k++) sum += (int64_t)(p->a[k] * p->b[k]);
    return (uint32_t)sum;
}

/* d[lane][register] of the instruction. */
static inline void model_mma(int kind, int model, const model_tile *t, uint32_t d[32][4])
{
    double A[16][64], B[8][64];
    model_products p = {.n = model_matrices(kind, t, A, B)};
    p.smallest = kind == LT_MMA_BF16 ? -126 : kind == LT_MMA_F16 ? -14 : -6;
    for (int l = 0; l < 32; l++)
        for (int j = 0; j < 4; j++) {
            const int m = l / 4 + 8 * (j / 2), n = 2 * (l % 4) + j % 2;
            const float c = model_float(t->c[l][j]);
            memcpy(p.a, A[m], sizeof p.a);
            memcpy(p.b, B[n], sizeof p.b);
            if (kind == LT_MMA_S8)
                d[l][j] = model_integers(&p, t->c[l][j]);
            else if (kind == LT_MMA_NVF4)
                d[l][j] = model_bits(model_scaled(&p, t->sa[4 * (m % 8) + m / 8], t->sb[4 * n], c));
            else if (kind == LT_MMA_E4M3 && model == 90)
                d[l][j] = model_bits(model_two_steps(&p, c));
            else
                d[l][j] = model_bits(model_step(&p, c));
        }
}

#endif
