/* case.h: what a test of the preludes is: one small kernel as text, its inputs, and in plain C what
 * must come out. The same cases run on the CPU device and on a GPU. */
#ifndef LT_TESTS_CASE_H
#define LT_TESTS_CASE_H

#include "draw.h"

#include "runtime/cpu/intrinsics.h"
#include "runtime/lathe.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum { /* when two words that differ are the same result: they are NaN in both places */
               SAME_BITS,
               SAME_FLOATS,
               SAME_F16S /* two halves */
} case_sameness;

/* Every kernel is (u32 *out, const u32 *in, u32 *work). out begins as 0xff, work as zeros. */
typedef struct {
    const char *name; /* of the kernel too */
    const char *text;
    const char *next_name, *next; /* a kernel launched behind it, programmatically; NULL: none */
    unsigned threads, blocks, shared; /* of both */
    int cluster;                      /* blocks; 0: no clusters */
    int launches;
    size_t in, out, work; /* words */
    case_sameness same;
    bool fp4; /* the text is for sm_120 and later */
    void (*fill)(uint32_t *in, size_t words);
    void (*expect)(const uint32_t *in, uint32_t *out, size_t words, int model); /* words: of out */
} prelude_case;

static inline float case_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t case_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The host function that kernels on the CPU device call by that name. */
static inline void *case_host(const char *name)
{
    for (const lt_symbol *s = lt_cpu_symbols; s->name; s++)
        if (strcmp(s->name, name) == 0) return s->address;
    return NULL;
}

static inline bool case_is_nan16(uint32_t code)
{
    return (code & 0x7fff) > 0x7c00;
}

static inline bool case_same(case_sameness same, uint32_t x, uint32_t y)
{
    if (x == y) return true;
    if (same == SAME_FLOATS) return (x & 0x7fffffff) > 0x7f800000 && (y & 0x7fffffff) > 0x7f800000;
    if (same != SAME_F16S) return false;
    for (int i = 0; i < 32; i += 16) {
        const uint32_t a = x >> i & 0xffff, b = y >> i & 0xffff;
        if (a != b && !(case_is_nan16(a) && case_is_nan16(b))) return false;
    }
    return true;
}

static inline void fill_random(uint32_t *in, size_t words)
{
    draw_from(words);
    for (size_t i = 0; i < words; i++) in[i] = draw();
}

/* Every 16-bit code in the low half, something else in the high half. */
static inline void fill_codes(uint32_t *in, size_t words)
{
    for (uint32_t i = 0; i < words; i++) in[i] = (i & 0xffff) | (i * 40503 + 77) << 16;
}

enum { DENSE = 512 * 64 * 8 };

/* Every sign and exponent, 64 leading mantissa bits, and ends at and around the ties of bf16 and
 * f16; with the trailing zeros those of the smaller formats and of subnormals too. */
static inline void fill_floats(uint32_t *in, size_t words)
{
    static const uint32_t low[8] = {0, 1, 0x1ffff, 0x8000, 0x18000, 0x7fff, 0x1000, 0x3000};
    for (uint32_t i = 0; i < words; i++) in[i] = (i / 8) << 17 | low[i % 8];
}

#endif
