/* number.c: the small number formats on the host, exact both ways.
 *
 * A format is (mantissa bits, bias): a code without its sign is exponent and mantissa side by side,
 * so that codes order like values and a rounding carry runs into the exponent by itself. */
#include "lathe.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* value >> shift to nearest, ties to even; shift is 1..31, value < 2^31. */
static uint32_t shift_even(uint32_t value, int shift)
{
    const uint32_t half = UINT32_C(1) << (shift - 1);
    return (value + half - 1 + ((value >> shift) & 1)) >> shift;
}

/* The nearest code of a finite or infinite magnitude, given as the bits of a float without sign. It
 * may be past the format's largest: the caller knows what that means. */
static uint32_t encode(uint32_t magnitude, int mantissa, int bias)
{
    const int exponent = (int)(magnitude >> 23);
    if (exponent > 127 - bias) /* normal in the format */
        return shift_even(magnitude - ((uint32_t)(127 - bias) << 23), 23 - mantissa);
    const uint32_t fraction = magnitude & 0x7fffff;
    const uint32_t significand = exponent ? fraction | 0x800000 : fraction;
    /* a float counts in 2^(exponent - 150), the format in 2^(1 - bias - mantissa) */
    const int shift = 151 - bias - mantissa - (exponent ? exponent : 1);
    return shift > 24 ? 0 : shift_even(significand, shift); /* 2^24 / 2^25 is below half a step */
}

static float decode(uint32_t code, int mantissa, int bias)
{
    const int exponent = (int)(code >> mantissa);
    const int fraction = (int)(code & ((UINT32_C(1) << mantissa) - 1));
    if (exponent == 0) return ldexpf((float)fraction, 1 - bias - mantissa);
    return ldexpf((float)(fraction + (1 << mantissa)), exponent - bias - mantissa);
}

float lt_number_bf16(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

float lt_number_f16(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, code = bits & 0x7fff;
    const uint32_t magnitude =
        code < 0x7c00 ? bits_of(decode(code, 10, 15)) : 0x7f800000 | (code & 0x3ff) << 13;
    return float_of(sign | magnitude);
}

float lt_number_e4m3(uint8_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x80) << 24, code = bits & 0x7f;
    return float_of(sign | (code == 0x7f ? 0x7fc00000 : bits_of(decode(code, 3, 7))));
}

float lt_number_e2m1(uint8_t code)
{
    const uint32_t sign = (uint32_t)(code & 8) << 28;
    return float_of(sign | bits_of(decode(code & 7, 1, 1)));
}

uint16_t lt_number_to_bf16(float x)
{
    if (x != x) return 0x7fff;
    const uint32_t bits = bits_of(x);
    return (uint16_t)((bits >> 16 & 0x8000) | encode(bits & 0x7fffffff, 7, 127));
}

uint16_t lt_number_to_f16(float x)
{
    if (x != x) return 0x7fff;
    const uint32_t bits = bits_of(x), code = encode(bits & 0x7fffffff, 10, 15);
    return (uint16_t)((bits >> 16 & 0x8000) | (code < 0x7c00 ? code : 0x7c00));
}

uint8_t lt_number_to_e4m3(float x)
{
    if (x != x) return 0x7f;
    const uint32_t bits = bits_of(x), code = encode(bits & 0x7fffffff, 3, 7);
    return (uint8_t)((bits >> 24 & 0x80) | (code < 0x7e ? code : 0x7e));
}

uint8_t lt_number_to_e2m1(float x)
{
    if (x != x) return 7;
    const uint32_t bits = bits_of(x), code = encode(bits & 0x7fffffff, 1, 1);
    return (uint8_t)(code == 0 ? 0 : (bits >> 28 & 8) | (code < 7 ? code : 7));
}
