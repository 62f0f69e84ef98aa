/* graph.c: a sequence of launches becomes a CUDA graph: captured once, started as often as wanted.
 * Programmatic launches become programmatic edges. Nothing is loaded or allocated in a capture. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

/* A capture that was begun is ended, whatever happened in it; the first error is the one told. */
static int capture(lt_cuda_device *d, const lt_step *steps, int count, int repeats,
                   lt_cu_graph *out, lt_err *err)
{
    if (lt_cuda_try(d, StreamBeginCapture, (d->stream, LT_CU_CAPTURE_THREAD_LOCAL), err)) return -1;
    int failed = 0;
    for (int n = 0; n < repeats && !failed; n++)
        for (int i = 0; i < count && !failed; i++)
            failed = lt_cuda_enqueue(d, steps[i].kernel, &steps[i].launch, steps[i].args, err);
    lt_cu_graph graph = NULL;
    const lt_cu_result ended = d->cu.StreamEndCapture(d->stream, &graph);
    if (!failed) failed = lt_cuda_result(d, ended, "cuStreamEndCapture", err);
    if (failed && graph) d->cu.GraphDestroy(graph);
    if (failed) return -1;
    *out = graph;
    return 0;
}

int lt_cuda_graph_make(lt_cuda_device *d, const lt_step *steps, int count, int repeats,
                       lt_cu_exec *out, lt_err *err)
{
    lt_cu_graph graph = NULL;
    lt_cu_exec exec = NULL;
    if (capture(d, steps, count, repeats, &graph, err)) return -1;
    const int failed = lt_cuda_try(d, GraphInstantiateWithFlags, (&exec, graph, 0), err);
    d->cu.GraphDestroy(graph);
    if (failed) return -1;
    if (lt_cuda_try(d, GraphUpload, (exec, d->stream), err)) {
        d->cu.GraphExecDestroy(exec);
        return -1;
    }
    *out = exec;
    return 0;
}

int lt_cuda_graph_start(lt_cuda_device *d, const lt_step *steps, int count, lt_cu_exec exec,
                        lt_err *err)
{
    for (int i = 0; i < count; i++) lt_cuda_record(d, steps[i].kernel, &steps[i].launch);
    return lt_cuda_try(d, GraphLaunch, (exec, d->stream), err);
}

struct lt_graph {
    const lt_step *steps;
    int count;
    lt_cu_exec exec;
};

void lt_cuda_forget(lt_device *dev, lt_graph *g)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    if (!g) return;
    if (g->exec) {
        d->cu.CtxSetCurrent(d->context);
        d->cu.GraphExecDestroy(g->exec);
    }
    free(g);
}

int lt_cuda_record_graph(lt_device *dev, const lt_step *steps, int count, lt_graph **out,
                         lt_err *err)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    lt_graph *g = calloc(1, sizeof *g);
    if (!g) return lt_fail(err, "device %s: out of memory for a graph", dev->info.name);
    *g = (lt_graph){.steps = steps, .count = count};
    if (lt_cuda_enter(d, err) || lt_cuda_settle(d, err) ||
        lt_cuda_graph_make(d, steps, count, 1, &g->exec, err)) {
        lt_cuda_forget(dev, g);
        return lt_wrap(err, "a graph of %d launches", count);
    }
    *out = g;
    return 0;
}

int lt_cuda_replay_graph(lt_device *dev, lt_graph *g, lt_err *err)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    if (lt_cuda_enter(d, err)) return -1;
    return lt_cuda_graph_start(d, g->steps, g->count, g->exec, err);
}
