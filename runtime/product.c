/* product.c: a few rows of w are read once, for all rows of x; threads share the rows of w. */
#include "product.h"

#include <math.h>
#include <stdlib.h>

#include "parallel.h"

enum {
    ABREAST = 4, /* rows of w whose sums grow side by side: an addition takes as many cycles */
    GRAIN = 16,  /* rows of w that a thread takes at least */
};

typedef struct {
    double *y, *magnitude;
    const double *x; /* M rows of K */
    lt_rows w;
    int64_t M, N, K;
} job;

/* Rows n to n + count - 1 of w, number by number; row: room for one. */
static void read_abreast(const job *j, int64_t n, int64_t count, double *row, double *abreast)
{
    for (int64_t c = 0; c < ABREAST; c++) {
        if (c < count) j->w.read(j->w.data, n + c, j->K, row);
        for (int64_t k = 0; k < j->K; k++) abreast[k * ABREAST + c] = c < count ? row[k] : 0;
    }
}

static void dot(double *sum, double *magnitude, const double *x, const double *w, int64_t count)
{
    double s[ABREAST] = {0}, m[ABREAST] = {0};
    for (int64_t k = 0; k < count; k++)
        for (int c = 0; c < ABREAST; c++) {
            const double product = x[k] * w[k * ABREAST + c];
            s[c] += product;
            m[c] += fabs(product);
        }
    for (int c = 0; c < ABREAST; c++) {
        sum[c] = s[c];
        magnitude[c] = m[c];
    }
}

static void multiply(void *ctx, size_t from, size_t end)
{
    const job *j = ctx;
    double *abreast = malloc((size_t)j->K * (ABREAST + 1) * sizeof *abreast);
    double *row = abreast + j->K * ABREAST, sum[ABREAST], magnitude[ABREAST];
    for (int64_t n = (int64_t)from; abreast && n < (int64_t)end; n += ABREAST) {
        const int64_t left = (int64_t)end - n, count = left < ABREAST ? left : ABREAST;
        read_abreast(j, n, count, row, abreast);
        for (int64_t m = 0; m < j->M; m++) {
            dot(sum, magnitude, j->x + m * j->K, abreast, j->K);
            for (int64_t c = 0; c < count; c++) {
                j->y[m * j->N + n + c] = sum[c];
                j->magnitude[m * j->N + n + c] = magnitude[c];
            }
        }
    }
    free(abreast);
}

void lt_product(double *y, double *magnitude, lt_rows x, lt_rows w, int64_t M, int64_t N, int64_t K)
{
    double *rows = malloc((size_t)(M * K) * sizeof *rows);
    if (!rows) return;
    for (int64_t m = 0; m < M; m++) x.read(x.data, m, K, rows + m * K);
    job j = {y, magnitude, rows, w, M, N, K};
    lt_parallel((size_t)N, GRAIN, multiply, &j);
    free(rows);
}
