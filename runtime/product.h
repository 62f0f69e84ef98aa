/* product.h: matrix products as references have them: in double, each sum beside that of its terms'
 * magnitudes. */
#ifndef LT_PRODUCT_H
#define LT_PRODUCT_H

#include <stdint.h>

/* Rows of a matrix in some format; read writes `count` numbers of row `row` to `to`. It is called
 * from several threads. */
typedef struct {
    const void *data;
    void (*read)(const void *data, int64_t row, int64_t count, double *to);
} lt_rows;

/* y[m,n] = sum over k of x[m,k] * w[n,k], magnitude[m,n] = the same of their magnitudes, in the
 * order of k; of M x N, row by row. Nothing is written where there is no memory for a row. */
void lt_product(double *y, double *magnitude, lt_rows x, lt_rows w, int64_t M, int64_t N,
                int64_t K);

#endif
