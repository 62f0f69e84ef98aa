/* time.c: how long a sequence of launches takes: repeated in one graph, replayed between events.
 * Briefly: with a shorter graph, fewer replays and clocks as they are. The clocks go up by work of
 * 50 ms, which is left out soon after another such timing. */
#include "device.h"

#include <math.h>
#include <stdlib.h>

#define WARM_US 50e3  /* after which the clocks are up */
#define STAY_US 100e3 /* how long they are so without work, at least */

enum {
    BLOCK = 15,   /* replays; two blocks, whose medians must agree */
    BRIEF = 3,    /* the same, briefly */
    NODES = 4096, /* at most: an empty node takes half a microsecond, so 2400 make a replay */
    ROUNDS = 3,   /* of finding how often to repeat: the first also sees the events' own time */
};

/* One replay: some 500 times the events' resolution, briefly 125 times. */
static const double graph_us[] = {[false] = 1200.0, [true] = 300.0};

typedef struct {
    lt_cuda_device *d;
    const lt_step *steps;
    int count, repeats;
    bool brief;
    lt_cu_exec exec;
} run;

static void drop_graph(run *r)
{
    if (r->exec) r->d->cu.GraphExecDestroy(r->exec);
    r->exec = NULL;
}

static int make_graph(run *r, lt_err *err)
{
    drop_graph(r);
    return lt_cuda_graph_make(r->d, r->steps, r->count, r->repeats, &r->exec, err);
}

/* Names the steps as suspects and starts the graph. */
static int start(run *r, lt_err *err)
{
    return lt_cuda_graph_start(r->d, r->steps, r->count, r->exec, err);
}

static int replay(run *r, double *us, lt_err *err)
{
    lt_cuda_device *d = r->d;
    float ms = 0;
    if (lt_cuda_try(d, EventRecord, (d->from, d->stream), err) || start(r, err) ||
        lt_cuda_try(d, EventRecord, (d->to, d->stream), err) || lt_cuda_settle(d, err) ||
        lt_cuda_try(d, EventElapsedTime, (&ms, d->from, d->to), err))
        return -1;
    *us = (double)ms * 1e3;
    return 0;
}

/* Repeats the steps until one replay takes about graph_us; us: what it takes. */
static int size_graph(run *r, double *us, lt_err *err)
{
    const int most = r->count < NODES ? NODES / r->count : 1;
    const double enough = graph_us[r->brief];
    r->repeats = 1;
    for (int round = 0;; round++) {
        if (make_graph(r, err) || replay(r, us, err) || replay(r, us, err)) return -1;
        if (round == ROUNDS - 1 || r->repeats == most || *us >= enough / 2) return 0;
        const double wanted = ceil(enough / (*us > 0 ? *us : 1) * r->repeats);
        r->repeats = wanted < most ? (int)wanted : most;
    }
}

static int warm_up(run *r, double us, lt_err *err)
{
    const double last = r->d->busy_until;
    if (last > 0 && lt_now_us() - last < STAY_US) return 0;
    for (double done = 0; done<WARM_US; done += us> 1 ? us : 1)
        if (start(r, err)) return -1;
    return lt_cuda_settle(r->d, err);
}

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sort_median(double *us, int count)
{
    qsort(us, (size_t)count, sizeof *us, compare_times);
    return count % 2 ? us[count / 2] : (us[count / 2 - 1] + us[count / 2]) / 2;
}

static int measure(run *r, lt_timing *out, lt_err *err)
{
    const int block = r->brief ? BRIEF : BLOCK;
    double us[2 * BLOCK], once;
    if (size_graph(r, &once, err)) return -1;
    if (!r->brief && warm_up(r, once, err)) return -1;
    for (int i = 0; i < 2 * block; i++)
        if (replay(r, &us[i], err)) return -1;
    if (!r->brief) r->d->busy_until = lt_now_us();
    const double first = sort_median(us, block), second = sort_median(us + block, block);
    const double all = sort_median(us, 2 * block);
    const int nodes = r->repeats * r->count;
    *out = (lt_timing){.us = all / nodes,
                       .spread = all > 0 ? fabs(first - second) / all : 0,
                       .replays = 2 * block,
                       .nodes = nodes};
    return 0;
}

int lt_cuda_time(lt_device *dev, const lt_step *steps, int count, bool brief, lt_timing *out,
                 lt_err *err)
{
    run r = {.d = (lt_cuda_device *)dev, .steps = steps, .count = count, .brief = brief};
    if (lt_cuda_enter(r.d, err)) return -1;
    const int failed = lt_cuda_settle(r.d, err) || measure(&r, out, err);
    drop_graph(&r);
    if (!failed) return 0;
    return lt_wrap(err, count == 1 ? "timing %s" : "timing %s and what follows it",
                   steps[0].kernel->name);
}
