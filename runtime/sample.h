/* sample.h: random inputs. Element i of an array depends on the seed, the array's name and i alone:
 * not on its length, the machine or what was drawn before. */
#ifndef LT_SAMPLE_H
#define LT_SAMPLE_H

#include "ctype.h"

typedef enum {
    LT_DRAW_NORMAL,   /* mean 0, deviation 1 */
    LT_DRAW_UNIFORM,  /* from -1 to 1 */
    LT_DRAW_BYTES,    /* every bit pattern; of e4m3 those that are numbers */
    LT_DRAW_SCALES,   /* positive, from 2^-2 to 7.5 in steps of e4m3 */
    LT_DRAW_SCALE32,  /* positive, from 2^-7 to 2^-5, every bit of the fraction in use */
    LT_DRAW_INTEGERS, /* -4 to 4: sums of their products are exact in any order */
    LT_DRAW_COUNTS,   /* 1 to 4: integers for a scale, which is positive */
    LT_DRAW_ZEROS,
    LT_DRAW_ONES,
    LT_DRAWS
} lt_draw;

int lt_sample_parse(const char *name, lt_draw *out, lt_err *err);
/* Fills count elements. A draw that the format cannot hold is an error. */
int lt_sample_fill(void *to, size_t count, lt_ctype type, lt_draw draw, uint64_t seed,
                   const char *name, lt_err *err);

#endif
