/* draw.h: the random numbers of the arithmetic tests: the same ones in every run. */
#ifndef LT_TESTS_DRAW_H
#define LT_TESTS_DRAW_H

#include <stdint.h>

static uint64_t draw_state;

static inline void draw_from(uint64_t seed)
{
    draw_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 88172645463325252u;
}

static inline uint32_t draw(void)
{
    draw_state ^= draw_state << 13;
    draw_state ^= draw_state >> 7;
    draw_state ^= draw_state << 17;
    return (uint32_t)(draw_state >> 16);
}

#endif
