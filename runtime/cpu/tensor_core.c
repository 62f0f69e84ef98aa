/* tensor_core.c: the tensor cores' sums in integers; it knows nothing of threads.
 *
 * A fused step adds all products of a row and a column, and c, at once: every term is aligned to
 * the largest exponent among them, cut toward zero to FRACTION bits behind the point, added
 * exactly; the sum is cut toward zero to a float. Not IEEE: see the tensor-core section of the
 * CUDA notes. Where k stands does not matter to a sum, so a fragment's elements are kept in an
 * order that suits its registers, the same one for A and B. */
#include "runtime/cpu/tensor_core.h"

#include "runtime/cpu/e4m3.h"

#include <stdbool.h>
#include <string.h>

enum {
    LANES = 32,
    ROWS = 16,
    COLUMNS = 8,
    FRACTION = 25, /* bits that a step keeps: bf16, f16, e4m3 on sm_90 and later */
    FRACTION_FP4 = 35,
    A_POINT = 15,      /* bits behind the point of A's significands, and of B's: a product then */
    B_POINT = 10,      /* has FRACTION of them, and at most 27 bits */
    E_MIN = -126,      /* of a float, so no sum has a smaller largest exponent */
    E_ZERO = -8192,    /* a product with a zero is never the largest, nor is 2 * E_ZERO */
    E_INFINITE = 4096, /* above all sums of two exponents */
    E_NAN = 8191,
    NAN_BITS = 0x7fffffff,
    INFINITE_BITS = 0x7f800000
};
#define SIGN_BIT UINT32_C(0x80000000)

typedef enum { BF16, F16, E4M3, E4M3_BY_F16 } format;

typedef struct {
    uint16_t code[32]; /* with the sign on top */
    int16_t exponent[32];
    int32_t significand[32]; /* signed; 1 is 2^A_POINT or 2^B_POINT */
    bool any;                /* one is not zero */
    bool special;            /* one is infinite or NaN */
} line;                      /* a row of A or a column of B */

typedef struct {
    int8_t value[64]; /* e2m1: in halves */
} small_line;

/* ---- floats ---- */

static int32_t exponent_of(uint32_t bits)
{
    const int32_t field = (int32_t)(bits >> 23 & 255);
    return (field ? field : 1) - 127;
}

static int32_t significand_of(uint32_t bits) /* signed; 1 is 2^23 */
{
    const int32_t hidden = bits & INFINITE_BITS ? 1 << 23 : 0;
    const int32_t magnitude = (int32_t)(bits & 0x7fffff) | hidden;
    return bits & SIGN_BIT ? -magnitude : magnitude;
}

static bool is_finite(uint32_t bits)
{
    return (bits & INFINITE_BITS) != INFINITE_BITS;
}

static bool is_nan(uint32_t bits)
{
    return (bits & ~SIGN_BIT) > INFINITE_BITS;
}

/* The float of sum * 2^unit, cut toward zero; past the largest float it is infinite; a zero has no
 * sign. */
static uint32_t float_of_sum(int64_t sum, int unit)
{
    if (sum == 0) return 0;
    const uint32_t sign = sum < 0 ? SIGN_BIT : 0;
    const uint64_t magnitude = sum < 0 ? -(uint64_t)sum : (uint64_t)sum;
    const int top = 63 - __builtin_clzll(magnitude), exponent = top + unit;
    if (exponent > 127) return sign | INFINITE_BITS;
    if (exponent < E_MIN) { /* subnormal: counts in 2^-149 */
        const int shift = unit + 149;
        return sign | (uint32_t)(shift < 0 ? magnitude >> -shift : magnitude << shift);
    }
    const uint32_t significand =
        (uint32_t)(top > 23 ? magnitude >> (top - 23) : magnitude << (23 - top));
    return sign |
           (((uint32_t)(exponent + 126) << 23) + significand); /* it carries the hidden bit */
}

/* ---- operands ---- */

/* E4M3 as sixteen bits with the fields of E4M3, and its NaN with an exponent of its own. */
static inline uint32_t widened(uint32_t code)
{
    const uint32_t sign = (code & 0x80) << 8, magnitude = code & 0x7f;
    return sign | (magnitude == 0x7f ? 0x81 : magnitude);
}

/* The codes of a register, whose place is quarter: the lane's t + 4 * the half of K. */
static inline void put_register(line *to, uint32_t word, format of, int quarter)
{
    if (of == BF16 || of == F16) {
        memcpy(to->code + 2 * quarter, &word, sizeof word);
        return;
    }
    for (int i = 0; i < 4; i++) {
        const uint32_t code = word >> 8 * i & 255;
        if (of == E4M3)
            to->code[4 * quarter + i] = (uint16_t)widened(code);
        else /* the first step's sixteen in front */
            to->code[16 * (i >> 1) + 2 * quarter + (i & 1)] = (uint16_t)lt_e4m3_f16(code);
    }
}

/* Of lane t of a row, or a column, the registers of both halves of K. */
static inline void put_registers(line *to, uint32_t first, uint32_t second, format of, int t)
{
    put_register(to, first, of, t);
    put_register(to, second, of, t + 4);
}

/* From codes to significands and exponents. top: the exponent field of infinity and NaN. Without
 * branches: one vector operation does several elements. */
static inline void decode(line *to, int count, int mantissa, int bias, int top, int point)
{
    int32_t any = 0, special = 0;
    for (int k = 0; k < count; k++) {
        const int32_t code = to->code[k], magnitude = code & 0x7fff, field = magnitude >> mantissa;
        const int32_t normal = field > 0 ? 1 : 0, sign = -(code >> 15);
        const int32_t fraction = magnitude & ((1 << mantissa) - 1);
        const int32_t significand = (fraction | normal << mantissa) << (point - mantissa);
        to->significand[k] = (significand ^ sign) - sign;
        to->exponent[k] = (int16_t)(magnitude > 0 ? field - normal + 1 - bias : E_ZERO);
        any |= magnitude;
        special |= field == top ? 1 : 0;
    }
    to->any = any != 0;
    to->special = special != 0;
    if (special == 0) return;
    for (int k = 0; k < count; k++) {
        const int32_t magnitude = to->code[k] & 0x7fff;
        if (magnitude >> mantissa == top)
            to->exponent[k] = magnitude & ((1 << mantissa) - 1) ? E_NAN : E_INFINITE;
    }
}

static inline void decode_as(line *to, format of, int point)
{
    switch (of) {
    case BF16: decode(to, 16, 7, 127, 255, point); break;
    case F16: decode(to, 16, 10, 15, 31, point); break;
    case E4M3: decode(to, 32, 3, 7, 16, point); break;
    default: decode(to, 32, 10, 15, 31, point);
    }
}

static inline __attribute__((always_inline)) void gather(line *a, line *b, const lt_fragments *f,
                                                         format of)
{
    uint32_t any[COLUMNS] = {0};
    for (int l = 0; l < LANES; l++) {
        const uint32_t *ra = f->a[l], *rb = f->b[l];
        const int group = l >> 2, t = l & 3;
        put_registers(a + group, ra[0], ra[2], of, t);
        put_registers(a + group + 8, ra[1], ra[3], of, t);
        put_registers(b + group, rb[0], rb[1], of, t);
        any[group] |= rb[0] | rb[1];
    }
    for (int m = 0; m < ROWS; m++) decode_as(a + m, of, A_POINT);
    for (int n = 0; n < COLUMNS; n++) {
        if (any[n])
            decode_as(b + n, of, B_POINT);
        else
            b[n].any = b[n].special = false;
    }
}

/* ---- sums ---- */

/* What the exact sum is when an infinity or a NaN is among the terms. */
static uint32_t special_sum(const line *a, const line *b, int depth, uint32_t c)
{
    bool plus = c == INFINITE_BITS, minus = c == (INFINITE_BITS | SIGN_BIT), nan = is_nan(c);
    for (int k = 0; k < depth; k++) {
        const int ea = a->exponent[k], eb = b->exponent[k];
        if (ea < E_INFINITE && eb < E_INFINITE) continue;
        nan |= ea == E_NAN || eb == E_NAN || ea == E_ZERO || eb == E_ZERO;
        const bool negative = (a->significand[k] ^ b->significand[k]) < 0;
        plus |= !negative;
        minus |= negative;
    }
    if (nan || (plus && minus)) return NAN_BITS;
    return plus ? INFINITE_BITS : INFINITE_BITS | SIGN_BIT;
}

/* term * 2^-shift, toward zero */
static inline int32_t cut(int32_t term, int32_t shift)
{
    const int32_t sign = term >> 31;
    const int32_t magnitude = ((term ^ sign) - sign) >> (shift < 31 ? shift : 31);
    return (magnitude ^ sign) - sign;
}

/* c + the products of elements first .. first + count - 1, all of them and c finite. */
static inline uint32_t fused_step(const line *a, const line *b, int first, int count, uint32_t c)
{
    int16_t exponent[32], largest = (int16_t)exponent_of(c);
    for (int k = 0; k < count; k++) {
        exponent[k] = (int16_t)(a->exponent[first + k] + b->exponent[first + k]);
        largest = exponent[k] > largest ? exponent[k] : largest;
    }
    int64_t sum = cut(significand_of(c) * (1 << (FRACTION - 23)), largest - exponent_of(c));
    for (int k = 0; k < count; k++)
        sum += cut(a->significand[first + k] * b->significand[first + k], largest - exponent[k]);
    return float_of_sum(sum, largest - FRACTION);
}

static uint32_t add_floats(uint32_t x, uint32_t y) /* an ordinary addition, to nearest */
{
    float a, b;
    memcpy(&a, &x, sizeof a);
    memcpy(&b, &y, sizeof b);
    a += b;
    memcpy(&x, &a, sizeof x);
    return is_nan(x) ? NAN_BITS : x;
}

static inline uint32_t multiply_add(const line *a, const line *b, uint32_t c, format of)
{
    const int depth = of == E4M3 || of == E4M3_BY_F16 ? 32 : 16;
    if (a->special || b->special || !is_finite(c)) return special_sum(a, b, depth, c);
    if (!b->any) return c;
    if (of == E4M3_BY_F16)
        return add_floats(c, fused_step(a, b, 16, 16, fused_step(a, b, 0, 16, 0)));
    return fused_step(a, b, 0, depth, c);
}

/* The row and column of register j of lane l of C and D. */
static int row_of(int l, int j)
{
    return (l >> 2) + 8 * (j >> 1);
}

static int column_of(int l, int j)
{
    return 2 * (l & 3) + (j & 1);
}

/* The format is a constant of each call, so that the compiler makes a loop for each. Of few rows of
 * x most columns are zeros: then c is the sum, whose exponent is the largest, but for its zero's
 * sign. */
static inline __attribute__((always_inline)) void run_floats(uint32_t d[LANES][4],
                                                             const lt_fragments *f, format of)
{
    line a[ROWS], b[COLUMNS];
    bool special = false;
    gather(a, b, f, of);
    for (int m = 0; m < ROWS; m++) special |= a[m].special;
    for (int l = 0; l < LANES; l++) {
        memcpy(d[l], f->c[l], sizeof d[l]);
        for (int j = 0; j < 4; j++) {
            special |= !is_finite(d[l][j]);
            d[l][j] = d[l][j] == SIGN_BIT ? 0 : d[l][j];
        }
    }
    for (int n = 0; n < COLUMNS; n++) {
        if (!b[n].any && !special) continue;
        for (int m = 0; m < ROWS; m++) {
            uint32_t *sum = &d[4 * (m % 8) + n / 2][2 * (m / 8) + n % 2];
            *sum = multiply_add(a + m, b + n, *sum, of);
        }
    }
}

/* ---- small numbers ---- */

static inline int32_t dot(const int8_t *a, const int8_t *b, int count)
{
    int32_t sum = 0;
    for (int k = 0; k < count; k++) sum += a[k] * b[k];
    return sum;
}

static void gather_bytes(small_line *a, small_line *b, const lt_fragments *f)
{
    for (int l = 0; l < LANES; l++) {
        const int group = l >> 2, t = l & 3;
        for (int i = 0; i < 4; i++) {
            for (int r = 0; r < 4; r++)
                a[group + 8 * (r & 1)].value[4 * t + i + 16 * (r >> 1)] =
                    (int8_t)(f->a[l][r] >> 8 * i);
            for (int r = 0; r < 2; r++)
                b[group].value[4 * t + i + 16 * r] = (int8_t)(f->b[l][r] >> 8 * i);
        }
    }
}

static void run_s8(uint32_t d[LANES][4], const lt_fragments *f)
{
    small_line a[ROWS], b[COLUMNS];
    gather_bytes(a, b, f);
    for (int l = 0; l < LANES; l++) {
        uint32_t c[4];
        memcpy(c, f->c[l], sizeof c);
        for (int j = 0; j < 4; j++)
            d[l][j] = c[j] + (uint32_t)dot(a[row_of(l, j)].value, b[column_of(l, j)].value, 32);
    }
}

static void gather_fp4(small_line *a, small_line *b, const lt_fragments *f)
{
    static const int8_t halves[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    for (int l = 0; l < LANES; l++) {
        const int group = l >> 2, t = l & 3;
        for (int i = 0; i < 8; i++) {
            for (int r = 0; r < 4; r++)
                a[group + 8 * (r & 1)].value[8 * t + i + 32 * (r >> 1)] =
                    halves[f->a[l][r] >> 4 * i & 15];
            for (int r = 0; r < 2; r++)
                b[group].value[8 * t + i + 32 * r] = halves[f->b[l][r] >> 4 * i & 15];
        }
    }
}

typedef struct {
    int32_t significand[4]; /* 1 is 2^3 */
    int32_t exponent[4];
    bool nan;
} scales; /* of a row or a column: ue4m3, whose sign bit is ignored */

static scales scales_of(uint32_t word)
{
    scales s = {.nan = false};
    for (int g = 0; g < 4; g++) {
        const int32_t magnitude = (int32_t)(word >> 8 * g & 0x7f), field = magnitude >> 3;
        s.significand[g] = (magnitude & 7) | (field ? 8 : 0);
        s.exponent[g] = magnitude ? (field ? field : 1) - 7 : E_ZERO;
        s.nan |= magnitude == 0x7f;
    }
    return s;
}

/* Four groups of sixteen and c, one step. A group's exponent is that of its scales, also where its
 * products add up to zero. */
static uint32_t scaled_step(const small_line *a, const small_line *b, const scales *sa,
                            const scales *sb, uint32_t c)
{
    if (sa->nan || sb->nan || is_nan(c)) return NAN_BITS;
    if (!is_finite(c)) return c;
    int64_t term[5];
    int32_t exponent[5], largest = exponent_of(c);
    for (int g = 0; g < 4; g++) { /* products count in quarters, the two scales in 2^-6 */
        const int64_t sum = dot(a->value + 16 * g, b->value + 16 * g, 16);
        term[g] = sum * sa->significand[g] * sb->significand[g] * (1 << (FRACTION_FP4 - 8));
        exponent[g] = sa->exponent[g] + sb->exponent[g];
        largest = exponent[g] > largest ? exponent[g] : largest;
    }
    term[4] = (int64_t)significand_of(c) * (1 << (FRACTION_FP4 - 23));
    exponent[4] = exponent_of(c);
    int64_t sum = 0;
    for (int g = 0; g < 5; g++) {
        const int32_t shift = largest - exponent[g];
        if (shift < 60) sum += term[g] / (INT64_C(1) << shift);
    }
    return float_of_sum(sum, largest - FRACTION_FP4);
}

static void run_nvf4(uint32_t d[LANES][4], const lt_fragments *f)
{
    small_line a[ROWS], b[COLUMNS];
    scales sa[ROWS], sb[COLUMNS];
    gather_fp4(a, b, f);
    for (int m = 0; m < ROWS; m++) sa[m] = scales_of(f->sa[4 * (m % 8) + m / 8]);
    for (int n = 0; n < COLUMNS; n++) sb[n] = scales_of(f->sb[4 * n]);
    for (int l = 0; l < LANES; l++) {
        uint32_t c[4];
        memcpy(c, f->c[l], sizeof c);
        for (int j = 0; j < 4; j++) {
            const int m = row_of(l, j), n = column_of(l, j);
            d[l][j] = scaled_step(a + m, b + n, sa + m, sb + n, c[j]);
        }
    }
}

static inline __attribute__((always_inline)) void compute(int kind, int model,
                                                          const lt_fragments *f)
{
    uint32_t d[LANES][4]; /* d may be c, which all lanes have to read first */
    switch (kind) {
    case LT_MMA_BF16: run_floats(d, f, BF16); break;
    case LT_MMA_F16: run_floats(d, f, F16); break;
    case LT_MMA_E4M3:
        if (model == 90)
            run_floats(d, f, E4M3_BY_F16);
        else
            run_floats(d, f, E4M3);
        break;
    case LT_MMA_S8: run_s8(d, f); break;
    default: run_nvf4(d, f);
    }
    for (int l = 0; l < LANES; l++) memcpy(f->d[l], d[l], sizeof d[l]);
}

/* A vector's elements are shifted by counts of their own: eight terms are cut at once. */
static __attribute__((target("avx2"))) void compute_avx2(int kind, int model, const lt_fragments *f)
{
    compute(kind, model, f);
}

void lt_tensor_core(int kind, int model, const lt_fragments *f)
{
    if (__builtin_cpu_supports("avx2"))
        compute_avx2(kind, model, f);
    else
        compute(kind, model, f);
}
