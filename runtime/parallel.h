/* parallel.h: independent work on a range. */
#ifndef LT_PARALLEL_H
#define LT_PARALLEL_H

#include "lathe.h"

typedef void lt_range_work(void *ctx, size_t from, size_t end);

int lt_cores(void); /* that this process may use */
/* Calls work for parts that together are 0 .. count - 1, from several threads; each begins at a
 * multiple of grain. Returns when all is done; where no thread can be had the caller does it. */
void lt_parallel(size_t count, size_t grain, lt_range_work *work, void *ctx);

#endif
