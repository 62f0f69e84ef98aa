/* sample.c: a counter-based generator: element i is a hash of (seed, name, i). Whole-number
 * arithmetic and single exact roundings only, so that every machine draws the same bits. */
#include "sample.h"

#include "parallel.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 1 << 18 }; /* elements that are worth a thread: a millisecond */

static const char *const names[LT_DRAWS] = {
    [LT_DRAW_NORMAL] = "normal", [LT_DRAW_UNIFORM] = "uniform", [LT_DRAW_BYTES] = "bytes",
    [LT_DRAW_SCALES] = "scales", [LT_DRAW_SCALE32] = "scale32", [LT_DRAW_INTEGERS] = "integers",
    [LT_DRAW_COUNTS] = "counts", [LT_DRAW_ZEROS] = "zeros",     [LT_DRAW_ONES] = "ones",
};

int lt_sample_parse(const char *name, lt_draw *out, lt_err *err)
{
    for (lt_draw d = 0; d < LT_DRAWS; d++)
        if (!strcmp(name, names[d])) {
            *out = d;
            return 0;
        }
    return lt_fail(err,
                   "draw '%s': no such distribution (known: normal uniform bytes scales scale32 "
                   "integers counts zeros ones)",
                   name);
}

/* The finaliser of splitmix64: every bit of x reaches every bit of the result. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t draw_word(uint64_t key, uint64_t i)
{
    return mix(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t key_of(uint64_t seed, const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *name; name++) h = (h ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    return mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ h);
}

/* A hash to 32 bits below n, without a noticeable bias for small n. */
static int below(uint64_t word, int n)
{
    return (int)((word >> 32) * (uint64_t)n >> 32);
}

static int sum16(uint64_t w)
{
    return (int)(w & 0xffff) + (int)(w >> 16 & 0xffff) + (int)(w >> 32 & 0xffff) + (int)(w >> 48);
}

/* The sum of 8 uniform numbers of 16 bits, centred: deviation 65536 * sqrt(8 / 12). */
static double normal(uint64_t word)
{
    const int sum = sum16(word) + sum16(mix(word ^ UINT64_C(0x5851f42d4c957f2d)));
    return (sum - 4 * 65535) * 0x1.39881p-16; /* 1 / (65536 * sqrt(2/3)) */
}

static double value_of(lt_draw draw, uint64_t word)
{
    switch (draw) {
    case LT_DRAW_NORMAL: return normal(word);
    case LT_DRAW_UNIFORM: return (double)((int64_t)word >> 32) * 0x1p-31;
    case LT_DRAW_SCALES: return (double)lt_number_e4m3((uint8_t)(0x28 + below(word, 0x28)));
    case LT_DRAW_SCALE32: /* 2^23 steps in each of two octaves */
        return ldexp((double)(0x800000 + (int)(word >> 40 & 0x7fffff)), (word & 1) ? -30 : -29);
    case LT_DRAW_INTEGERS: return below(word, 9) - 4;
    case LT_DRAW_COUNTS: return 1 + below(word, 4);
    case LT_DRAW_ONES: return 1;
    default: return 0;
    }
}

typedef struct {
    void *to;
    lt_ctype type;
    lt_draw draw;
    uint64_t key;
} filling;

/* Byte i of the array is byte i % 8 of word i / 8. */
static void fill_bytes(void *ctx, size_t from, size_t end)
{
    const filling *f = ctx;
    uint8_t *to = f->to;
    for (size_t i = from; i < end; i += 8) {
        const uint64_t word = draw_word(f->key, i / 8);
        for (size_t j = 0; j < 8 && i + j < end; j++) {
            uint8_t b = (uint8_t)(word >> 8 * j);
            if (f->type == LT_E4M3 && (b & 0x7f) == 0x7f) b ^= 0x40; /* NaN becomes +-1.875 */
            to[i + j] = b;
        }
    }
}

/* Two elements a byte: the hash of element 2i draws both halves. */
static void fill_pairs(void *ctx, size_t from, size_t end)
{
    const filling *f = ctx;
    uint8_t *to = f->to;
    for (size_t i = from; i < end; i++) {
        const double low = value_of(f->draw, draw_word(f->key, 2 * i));
        const double high = value_of(f->draw, draw_word(f->key, 2 * i + 1));
        to[i] = (uint8_t)(lt_number_to_e2m1((float)low) | lt_number_to_e2m1((float)high) << 4);
    }
}

static void fill_numbers(void *ctx, size_t from, size_t end)
{
    const filling *f = ctx;
    for (size_t i = from; i < end; i++)
        lt_ctype_set(f->type, f->to, i, value_of(f->draw, draw_word(f->key, i)));
}

static bool fits(lt_ctype type, lt_draw draw)
{
    if (draw == LT_DRAW_ZEROS || draw == LT_DRAW_ONES || draw == LT_DRAW_COUNTS) return true;
    if (draw == LT_DRAW_BYTES) return !lt_ctype_is_float(type) || type == LT_E4M3;
    if (draw == LT_DRAW_INTEGERS) return type != LT_U8 && type != LT_U16 && type != LT_U32;
    if (draw == LT_DRAW_SCALE32) return type == LT_F32 || type == LT_F64 || type == LT_BF16;
    if (draw == LT_DRAW_SCALES) return lt_ctype_is_float(type);
    return lt_ctype_is_float(type) || type == LT_E2M1X2;
}

int lt_sample_fill(void *to, size_t count, lt_ctype type, lt_draw draw, uint64_t seed,
                   const char *name, lt_err *err)
{
    if (!fits(type, draw))
        return lt_fail(err, "%s: %s cannot be drawn as '%s'", name, lt_ctype_name(type),
                       names[draw]);
    filling f = {to, type, draw, key_of(seed, name)};
    if (draw == LT_DRAW_BYTES)
        lt_parallel(count * lt_ctype_bytes(type), GRAIN, fill_bytes, &f);
    else
        lt_parallel(count, GRAIN, type == LT_E2M1X2 ? fill_pairs : fill_numbers, &f);
    return 0;
}
