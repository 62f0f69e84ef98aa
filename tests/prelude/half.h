/* half.h: a * b + c of 16-bit floats in exact integers and one rounding: what packed arithmetic is
 * compared with. */
#ifndef LT_TESTS_HALF_H
#define LT_TESTS_HALF_H

#include "draw.h"

#include <stdbool.h>
#include <stdint.h>

enum { LIMBS = 10 };

typedef struct {
    uint64_t limb[LIMBS]; /* low first; counts in the square of the smallest subnormal */
} natural;

typedef struct {
    int mantissa, smallest; /* bits; exponent of the smallest normal number */
} half_format;

typedef struct {
    uint32_t significand;
    int place; /* of its lowest bit: 2^(place + smallest - mantissa) */
    bool negative, infinite, nan;
} half_parts;

static inline half_parts parts_of(const half_format *f, uint32_t code)
{
    const uint32_t field = (code & 0x7fff) >> f->mantissa;
    const uint32_t fraction = code & ((1u << f->mantissa) - 1), top = 0x7fffu >> f->mantissa;
    half_parts p = {.negative = code >> 15 & 1};
    p.significand = field ? fraction | 1u << f->mantissa : fraction;
    p.place = field ? (int)field - 1 : 0;
    p.infinite = field == top && fraction == 0;
    p.nan = field == top && fraction != 0;
    return p;
}

static inline natural natural_at(uint32_t value, int place)
{
    natural n = {{0}};
    n.limb[place / 64] = (uint64_t)value << place % 64;
    if (place % 64 > 32) n.limb[place / 64 + 1] = (uint64_t)value >> (64 - place % 64);
    return n;
}

/* x + y, or x - y where y <= x */
static inline natural combine(natural x, natural y, bool subtract)
{
    unsigned carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        const unsigned __int128 wide = subtract ? (unsigned __int128)x.limb[i] - y.limb[i] - carry
                                                : (unsigned __int128)x.limb[i] + y.limb[i] + carry;
        x.limb[i] = (uint64_t)wide;
        carry = (unsigned)(wide >> 64) & 1;
    }
    return x;
}

static inline bool is_less(const natural *x, const natural *y)
{
    for (int i = LIMBS - 1; i >= 0; i--)
        if (x->limb[i] != y->limb[i]) return x->limb[i] < y->limb[i];
    return false;
}

static inline unsigned bit_of(const natural *n, int place)
{
    return n->limb[place / 64] >> place % 64 & 1;
}

static inline int top_of(const natural *n) /* -1: zero */
{
    for (int i = LIMBS - 1; i >= 0; i--)
        if (n->limb[i]) return 64 * i + 63 - __builtin_clzll(n->limb[i]);
    return -1;
}

/* The nearest magnitude code of n, ties to even. */
static inline uint32_t rounded(const half_format *f, const natural *n)
{
    const int top = top_of(n), unit = f->mantissa - f->smallest; /* place of the smallest code */
    const int normal = unit + f->mantissa;                       /* of the smallest normal number */
    const int low = top >= normal ? top - f->mantissa : unit;
    uint32_t kept = 0;
    bool rest = false;
    for (int p = top; p >= low; p--) kept = kept << 1 | bit_of(n, p);
    for (int p = 0; p < low - 1; p++) rest |= bit_of(n, p);
    if (bit_of(n, low - 1) && (rest || kept % 2)) kept++;
    const uint32_t code = ((uint32_t)(low - unit) << f->mantissa) + kept;
    const uint32_t infinite = 0x7fffu >> f->mantissa << f->mantissa;
    return code < infinite ? code : infinite;
}

static inline uint32_t exact_fma(const half_format *f, uint32_t a, uint32_t b, uint32_t c)
{
    const half_parts x = parts_of(f, a), y = parts_of(f, b), z = parts_of(f, c);
    const bool negative = x.negative != y.negative, infinite = x.infinite || y.infinite;
    if (x.nan || y.nan || z.nan) return 0x7fff;
    if (infinite && ((!x.infinite && !x.significand) || (!y.infinite && !y.significand)))
        return 0x7fff;
    if (infinite && z.infinite && negative != z.negative) return 0x7fff;
    const uint32_t top = 0x7fffu >> f->mantissa << f->mantissa;
    if (infinite || z.infinite) return top | ((infinite ? negative : z.negative) ? 0x8000 : 0);
    const natural product = natural_at(x.significand * y.significand, x.place + y.place);
    const natural addend = natural_at(z.significand, z.place + f->mantissa - f->smallest);
    const bool swap = is_less(&product, &addend);
    const natural sum = swap ? combine(addend, product, negative != z.negative)
                             : combine(product, addend, negative != z.negative);
    bool sign = swap ? z.negative : negative;
    if (top_of(&sum) < 0) sign = negative && z.negative;
    return (top_of(&sum) < 0 ? 0 : rounded(f, &sum)) | (sign ? 0x8000 : 0);
}

/* A third of the addends lie near the product, a third near a tie of its rounding. */
static inline uint32_t draw_addend(const half_format *f, uint32_t a, uint32_t b)
{
    const int bias = 1 - f->smallest, top = 0x7fff >> f->mantissa;
    int field = (int)((a & 0x7fff) >> f->mantissa) + (int)((b & 0x7fff) >> f->mantissa) - bias;
    if (draw() % 3 == 0) return draw() & 0xffff;
    field += draw() % 2 ? (int)(draw() % 5) - 2 : (int)(draw() % 30) - 15;
    field = field < 0 ? 0 : field > top ? top : field;
    const uint32_t fraction = draw() % 2 ? draw() & ((1u << f->mantissa) - 1) : 0;
    return (draw() & 0x8000) | (uint32_t)field << f->mantissa | fraction;
}

#endif
