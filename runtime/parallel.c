/* parallel.c: independent work on a range, by as many threads as there are cores. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "parallel.h"

#include <pthread.h>
#include <sched.h>

enum { MOST = 16 };

typedef struct {
    lt_range_work *work;
    void *ctx;
    size_t from, end;
} share;

int lt_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    return CPU_COUNT(&set);
}

static void *do_share(void *arg)
{
    const share *s = arg;
    s->work(s->ctx, s->from, s->end);
    return NULL;
}

void lt_parallel(size_t count, size_t grain, lt_range_work *work, void *ctx)
{
    share shares[MOST];
    pthread_t threads[MOST];
    bool started[MOST] = {false};
    const size_t grains = (count + grain - 1) / grain, cores = (size_t)lt_cores();
    size_t parts = grains < cores ? grains : cores;
    if (parts > MOST) parts = MOST;
    for (size_t i = 0; i < parts; i++) {
        const size_t from = grains * i / parts * grain, end = grains * (i + 1) / parts * grain;
        shares[i] = (share){work, ctx, from, end < count ? end : count};
        if (i > 0) started[i] = !pthread_create(&threads[i], NULL, do_share, &shares[i]);
    }
    for (size_t i = 0; i < parts; i++) /* the first one, and those that found no thread */
        if (!started[i]) do_share(&shares[i]);
    for (size_t i = 0; i < parts; i++)
        if (started[i]) pthread_join(threads[i], NULL);
}
