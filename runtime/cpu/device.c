/* device.c: the CPU device behind the interface of runtime/device.h. Everything happens in the call
 * that asks for it, so that there is nothing to wait for. */
#include "emulator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPLAYS_BRIEF = 2, REPLAYS_LEAST = 5, REPLAYS_MOST = 64 };

#define TIMED_US 20000.0 /* of replays, unless 5 of them take longer */

static lt_emulator *emulator(lt_device *dev)
{
    return (lt_emulator *)dev;
}

static void close_device(lt_device *dev)
{
    lt_emulator *e = emulator(dev);
    if (!e) return;
    while (e->buffers) lt_memory_free(e, e->buffers);
    lt_residents_close(e);
    lt_shared_close(e);
    lt_fault_close(e);
    lt_checker_close(e);
    free(e);
}

static int play(lt_device *dev, const lt_play *p, lt_err *err)
{
    if (p->order < 0) return lt_fail(err, "cpu: order %d (0, 1 or more)", p->order);
    emulator(dev)->play = *p;
    return 0;
}

/* ---- buffers ---- */

static int alloc_buffer(lt_device *dev, size_t bytes, lt_buffer **out, lt_err *err)
{
    lt_cpu_buffer *b;
    if (lt_memory_alloc(emulator(dev), bytes, &b, err)) return -1;
    *out = &b->base;
    return 0;
}

static void free_buffer(lt_device *dev, lt_buffer *buf)
{
    lt_memory_free(emulator(dev), (lt_cpu_buffer *)buf);
}

static int check_range(const lt_buffer *buf, size_t offset, size_t bytes, lt_err *err)
{
    if (offset <= buf->bytes && bytes <= buf->bytes - offset) return 0;
    return lt_fail(err, "cpu: %zu bytes at %zu of a buffer of %zu", bytes, offset, buf->bytes);
}

static int write_buffer(lt_device *dev, lt_buffer *buf, size_t offset, lt_span from, lt_err *err)
{
    lt_cpu_buffer *b = (lt_cpu_buffer *)buf;
    if (check_range(buf, offset, from.len, err)) return -1;
    if (lt_memory_unlock(emulator(dev), b, err)) return -1;
    if (from.len) memcpy(b->data + offset, from.ptr, from.len);
    lt_shadow_know(&b->shadow, offset, from.len, true);
    return 0;
}

static int read_buffer(lt_device *dev, const lt_buffer *buf, size_t offset, void *to, size_t bytes,
                       lt_err *err)
{
    (void)dev;
    if (check_range(buf, offset, bytes, err)) return -1;
    if (bytes) memcpy(to, ((const lt_cpu_buffer *)buf)->data + offset, bytes);
    return 0;
}

static int fill_buffer(lt_device *dev, lt_buffer *buf, int byte, lt_err *err)
{
    lt_cpu_buffer *b = (lt_cpu_buffer *)buf;
    if (lt_memory_unlock(emulator(dev), b, err)) return -1;
    memset(b->data, byte, buf->bytes);
    lt_shadow_know(&b->shadow, 0, buf->bytes, (byte & 0xff) != LT_FILL); /* poison is no value */
    return 0;
}

/* ---- kernels ---- */

static void unload(lt_device *dev, lt_kernel *kernel)
{
    lt_cpu_kernel *k = (lt_cpu_kernel *)kernel;
    (void)dev;
    if (!k) return;
    if (k->library)
        lt_gcc_unload(k);
    else
        lt_tcc_unload(k);
    free(k->text);
    free(k);
}

static int check_source(const lt_source *src, lt_err *err)
{
    if (src->param_count < 0 || src->param_count > LT_MAX_PARAMS)
        return lt_fail(err, "%s: %d parameters (at most %d)", src->name, src->param_count,
                       LT_MAX_PARAMS);
    if (src->cluster < 0 || src->cluster > LT_CLUSTER_BLOCKS)
        return lt_fail(err, "%s: clusters of %d blocks (at most %d)", src->name, src->cluster,
                       LT_CLUSTER_BLOCKS);
    if (src->model != 90 && src->model != 120)
        return lt_fail(err, "%s: no tensor-core model %d (90, 120)", src->name, src->model);
    if (memchr(src->text.ptr, 0, src->text.len))
        return lt_fail(err, "%s: the text has a zero byte", src->name);
    return 0;
}

static int load(lt_device *dev, const lt_source *src, lt_span image, lt_kernel **out, lt_err *err)
{
    (void)image;
    if (check_source(src, err)) return -1;
    lt_cpu_kernel *k = calloc(1, sizeof *k);
    if (!k) return lt_fail(err, "%s: out of memory", src->name);
    snprintf(k->base.name, sizeof k->base.name, "%s", src->name);
    memcpy(k->base.params, src->params, (size_t)src->param_count * sizeof *src->params);
    k->base.param_count = src->param_count;
    k->base.threads = src->threads;
    k->base.cluster = src->cluster ? src->cluster : 1;
    k->model = src->model;
    k->text = strndup(src->text.ptr, src->text.len);
    if (!k->text) {
        lt_fail(err, "%s: out of memory", src->name);
        goto fail;
    }
    lt_emulator *e = emulator(dev);
    if (e->checker ? lt_gcc_load(k, err) : lt_tcc_load(e, k, err)) goto fail;
    *out = &k->base;
    return 0;
fail:
    unload(dev, &k->base);
    return -1;
}

static int launch(lt_device *dev, lt_kernel *k, const lt_launch *l, const lt_arg *args, lt_err *err)
{
    return lt_launch_run(emulator(dev), (lt_cpu_kernel *)k, l, args, err);
}

/* Nothing is in flight afterwards. */
static int sync_device(lt_device *dev, lt_err *err)
{
    (void)err;
    emulator(dev)->landed = emulator(dev)->flight;
    return 0;
}

/* ---- time ---- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int count)
{
    double sorted[REPLAYS_MOST];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* Wall time of whole replays of the sequence; briefly: of two. */
static int time_steps(lt_device *dev, const lt_step *steps, int count, bool brief, lt_timing *out,
                      lt_err *err)
{
    const int least = brief ? REPLAYS_BRIEF : REPLAYS_LEAST;
    const int most = brief ? REPLAYS_BRIEF : REPLAYS_MOST;
    double us[REPLAYS_MOST], sum = 0;
    int n = 0;
    if (count < 1) return lt_fail(err, "cpu: no step to time");
    while (n < most && (n < least || sum < TIMED_US)) {
        const double start = lt_now_us();
        for (int i = 0; i < count; i++)
            if (launch(dev, steps[i].kernel, &steps[i].launch, steps[i].args, err)) return -1;
        us[n] = (lt_now_us() - start) / count;
        sum += us[n++] * count;
    }
    const double all = median(us, n), first = median(us, n / 2);
    const double second = median(us + n / 2, n - n / 2);
    *out =
        (lt_timing){.us = all, .spread = fabs(first - second) / all, .replays = n, .nodes = count};
    return 0;
}

/* ---- sequences ---- */

struct lt_graph {
    const lt_step *steps;
    int count;
    bool replayed; /* to its end */
};

static int record(lt_device *dev, const lt_step *steps, int count, lt_graph **out, lt_err *err)
{
    lt_graph *g = malloc(sizeof *g);
    if (!g) return lt_fail(err, "device %s: out of memory for a sequence", dev->info.name);
    *g = (lt_graph){steps, count, false};
    *out = g;
    return 0;
}

/* The first replay shows that no launch reads too early: order and arguments stay the same. */
static int replay(lt_device *dev, lt_graph *g, lt_err *err)
{
    for (int i = 0; i < g->count; i++) {
        const lt_step *s = &g->steps[i];
        lt_launch l = s->launch;
        l.programmatic = l.programmatic && !g->replayed;
        if (launch(dev, s->kernel, &l, s->args, err)) return -1;
    }
    g->replayed = true;
    return 0;
}

static void forget(lt_device *dev, lt_graph *g)
{
    (void)dev;
    free(g);
}

/* ---- open ---- */

static const lt_device_ops ops = {
    .close = close_device,
    .play = play,
    .alloc = alloc_buffer,
    .free = free_buffer,
    .write = write_buffer,
    .read = read_buffer,
    .fill = fill_buffer,
    .load = load,
    .unload = unload,
    .launch = launch,
    .sync = sync_device,
    .time = time_steps,
    .record = record,
    .replay = replay,
    .forget = forget,
};

static lt_device_info describe(void)
{
    lt_device_info info = {.name = "cpu",
                           .model = "CPU device",
                           .key = "cpu",
                           .arch = "cpu",
                           .sms = 1,
                           .shared_per_block = LT_SHARED_BYTES};
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && bytes > 0) info.memory = (size_t)pages * (size_t)bytes;
    return info;
}

int lt_cpu_open(lt_device **out, lt_err *err)
{
    const bool checks = lt_config_int(LT_SET_CPU_CHECK) != 0;
    if (checks && lt_gcc_find(err)) return -1;
    lt_emulator *e = calloc(1, sizeof *e);
    if (!e) return lt_fail(err, "cpu: out of memory");
    e->base = (lt_device){.ops = &ops, .info = describe(), .compiles = true};
    e->play = (lt_play){.order = (int)lt_config_int(LT_SET_CPU_ORDER),
                        .lazy = lt_config_int(LT_SET_CPU_LAZY) != 0,
                        .left = lt_config_int(LT_SET_CPU_LEFT) != 0};
    if (lt_shared_open(e) || lt_fault_open(e) || (checks && lt_checker_open(e)) ||
        lt_residents_open(e, 1)) {
        close_device(&e->base);
        return lt_fail(err, "cpu: no memory for the device");
    }
    *out = &e->base;
    return 0;
}
