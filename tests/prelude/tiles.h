/* tiles.h: random operands of the tensor-core instructions. */
#ifndef LT_TESTS_TILES_H
#define LT_TESTS_TILES_H

#include "draw.h"
#include "model.h"

typedef struct {
    int kind, span; /* exponents in a window of that many around 1 */
    bool c;         /* random, else zero */
    int specials;   /* one in so many elements is infinite, NaN or zero; 0: none */
} drawing;

/* A floating-point code of e exponent and m mantissa bits; where the window leaves the format,
 * exponents stop at subnormals and at the largest finite. */
static inline uint32_t draw_code(int e, int m, int span)
{
    const int bias = (1 << (e - 1)) - 1, top = 2 * bias;
    int field = bias - span / 2 + (int)(draw() % (uint32_t)span);
    field = field < 0 ? 0 : field > top ? top : field;
    return (draw() & 1) << (e + m) | (uint32_t)field << m | (draw() & ((1u << m) - 1));
}

static inline uint32_t draw_element(const drawing *d, int e, int m)
{
    if (d->specials == 0 || draw() % (uint32_t)d->specials) return draw_code(e, m, d->span);
    const uint32_t infinite = ((1u << e) - 1) << m, sign = (draw() & 1) << (e + m);
    const uint32_t kinds[4] = {0, infinite, infinite, infinite | (1 + draw() % ((1u << m) - 1))};
    return sign | kinds[draw() % 4];
}

static inline uint32_t draw_register(const drawing *d)
{
    if (d->kind == LT_MMA_BF16) return draw_element(d, 8, 7) | draw_element(d, 8, 7) << 16;
    if (d->kind == LT_MMA_F16) return draw_element(d, 5, 10) | draw_element(d, 5, 10) << 16;
    if (d->kind != LT_MMA_E4M3) return draw();
    uint32_t word = 0;
    for (int i = 0; i < 32; i += 8) {
        uint32_t code = d->span < 64 ? draw_code(4, 3, d->span) : draw() & 255;
        if ((code & 0x7f) == 0x7f && !d->specials) code ^= 1;
        word |= code << i;
    }
    return word;
}

static inline void draw_tile(const drawing *d, model_tile *t)
{
    for (int l = 0; l < 32; l++) {
        for (int r = 0; r < 4; r++) t->a[l][r] = draw_register(d);
        for (int r = 0; r < 2; r++) t->b[l][r] = draw_register(d);
        for (int r = 0; r < 4; r++)
            t->c[l][r] = !d->c ? 0 : d->kind == LT_MMA_S8 ? draw() : draw_element(d, 8, 23);
        t->sa[l] = draw();
        t->sb[l] = draw();
    }
}

/* Codes of bf16 with exponent fields from `first` on, and c around their products' exponents. */
static inline void draw_end(model_tile *t, uint32_t first)
{
    const uint32_t c = first < 127 ? 1 : 2 * first - 127;
    for (int l = 0; l < 32; l++) {
        uint32_t code[6][2];
        for (int r = 0; r < 12; r++)
            code[r / 2][r % 2] = (draw() & 0x8000) | (first + draw() % 8) << 7 | (draw() & 127);
        for (int r = 0; r < 4; r++) {
            t->a[l][r] = code[r][0] | code[r][1] << 16;
            t->c[l][r] = (draw() & 0x80000000) | (c + draw() % 6 - 1) << 23 | draw() >> 9;
        }
        for (int r = 0; r < 2; r++) t->b[l][r] = code[4 + r][0] | code[4 + r][1] << 16;
    }
}

#endif
