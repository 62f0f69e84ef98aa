/* compare.h: an output array against the truth. */
#ifndef LT_COMPARE_H
#define LT_COMPARE_H

#include "ctype.h"

typedef struct {
    double ulp;      /* allowed, of the output's format, plus 2^-16 of the magnitude */
    double relative; /* or, where it is not 0: of the larger of |reference| and the row's root mean
                        square */
    size_t row;      /* elements in a row; relative only */
    bool exact;      /* or: the reference, rounded once, and nothing else */
    bool sampled;    /* not every block ran: elements that are still poison are not counted */
} lt_limit;

typedef struct {
    size_t compared, failures, first; /* first: index of the first failure */
    double got, want;                 /* there */
    double ulp;                       /* largest error of all, in units of the last place */
    double part;                      /* largest error as a part of what is allowed */
} lt_difference;

/* Bit for bit. ulp and part stay 0. */
void lt_compare_bits(lt_ctype type, const void *got, const void *want, size_t count, bool sampled,
                     lt_difference *out);
/* magnitude: the sum of the absolute products behind each element, scaled like the output. NaN
 * where the reference is a number is a failure. */
void lt_compare_near(lt_ctype type, const void *got, const double *want, const double *magnitude,
                     size_t count, const lt_limit *limit, lt_difference *out);

#endif
