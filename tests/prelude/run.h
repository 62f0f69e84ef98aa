/* run.h: one case, or one sweep, on a device. */
#ifndef LT_TESTS_RUN_H
#define LT_TESTS_RUN_H

#include "case.h"
#include "sweep.h"

#include <stdlib.h>

/* The prelude of an arch, with all its parts; the caller clears it. */
static inline int read_prelude(const char *arch, lt_bytes *out, lt_err *err)
{
    static const char *const cuda[] = {"templates/prelude/cuda.h", "templates/prelude/exact.h",
                                       "templates/prelude/cluster.h", "templates/prelude/wgmma.h",
                                       "templates/prelude/resident.h"};
    static const char *const cpu[] = {"templates/prelude/cpu.h", "templates/prelude/resident.h"};
    const bool is_cpu = strcmp(arch, "cpu") == 0;
    const char *const *files = is_cpu ? cpu : cuda;
    int rc = 0;
    for (size_t i = 0; i < (is_cpu ? lt_countof(cpu) : lt_countof(cuda)) && !rc; i++) {
        lt_bytes part = {0};
        rc = lt_files_read(files[i], &part, err) || lt_bytes_append(out, part.ptr, part.len, err);
        lt_bytes_clear(&part);
    }
    return rc ? -1 : 0;
}

/* What a compiler gets: prelude, kernel, and for the CPU device a function that takes the arguments
 * as a launch has them. */
static inline int whole_text(lt_span prelude, const char *name, const char *text, lt_bytes *out,
                             lt_err *err)
{
    return lt_bytes_print(out, err,
                          "%.*s%s\n#ifndef __CUDACC__\nvoid lt_entry(void **a) { %s(*(u32 **)a[0], "
                          "*(const u32 **)a[1], *(u32 **)a[2]); }\n#endif\n",
                          (int)prelude.len, (const char *)prelude.ptr, text, name);
}

typedef struct {
    lt_device *dev;
    lt_span prelude;
    int model; /* of the CPU device's tensor cores */
} case_place;

static inline int load_text(const case_place *at, const char *name, const char *text,
                            unsigned threads, int cluster, lt_kernel **out, lt_err *err)
{
    static const lt_param params[] = {{"out", true}, {"in", false}, {"work", true}};
    lt_jit_report report;
    lt_bytes whole = {0};
    int rc = -1;
    if (whole_text(at->prelude, name, text, &whole, err)) goto done;
    const lt_source src = {.name = name,
                           .arch = lt_device_describe(at->dev)->arch,
                           .text = lt_bytes_view(&whole),
                           .plain = lt_bytes_view(&whole),
                           .params = params,
                           .param_count = 3,
                           .threads = (int)threads,
                           .cluster = cluster,
                           .model = at->model};
    rc = lt_jit_load(at->dev, &src, out, &report, err);
done:
    lt_bytes_clear(&whole);
    return rc;
}

typedef struct {
    lt_buffer *out, *in, *work;
} case_buffers;

static inline void free_buffers(lt_device *dev, case_buffers *b)
{
    lt_device_free(dev, b->out);
    lt_device_free(dev, b->in);
    lt_device_free(dev, b->work);
}

static inline int make_buffers(lt_device *dev, size_t out, size_t work, lt_span in, case_buffers *b,
                               lt_err *err)
{
    if (lt_device_alloc(dev, 4 * out, &b->out, err)) return -1;
    if (lt_device_alloc(dev, in.len, &b->in, err)) return -1;
    if (lt_device_alloc(dev, 4 * (work ? work : 1), &b->work, err)) return -1;
    if (lt_device_write(dev, b->in, 0, in, err)) return -1;
    return lt_device_fill(dev, b->work, 0, err);
}

static inline int launch_pair(const case_place *at, const prelude_case *c, lt_kernel *first,
                              lt_kernel *next, const case_buffers *b, lt_err *err)
{
    const lt_arg args[3] = {{b->out, 0}, {b->in, 0}, {b->work, 0}};
    lt_launch l = {.grid = {c->blocks, 1, 1}, .block = {c->threads, 1, 1}, .shared = c->shared};
    for (int i = 0; i < (c->launches ? c->launches : 1); i++) {
        if (lt_device_launch(at->dev, first, &l, args, err)) return -1;
        l.programmatic = next != NULL;
        if (next && lt_device_launch(at->dev, next, &l, args, err)) return -1;
    }
    return lt_device_sync(at->dev, err);
}

/* Runs the case's kernels on in, c->in words, and reads c->out words. */
static inline int run_case(const case_place *at, const prelude_case *c, const uint32_t *in,
                           uint32_t *out, lt_err *err)
{
    lt_kernel *first = NULL, *next = NULL;
    case_buffers b = {0};
    int rc = -1;
    if (load_text(at, c->name, c->text, c->threads, c->cluster, &first, err)) goto done;
    if (c->next && load_text(at, c->next_name, c->next, c->threads, c->cluster, &next, err))
        goto done;
    if (make_buffers(at->dev, c->out, c->work, (lt_span){in, 4 * c->in}, &b, err)) goto done;
    if (launch_pair(at, c, first, next, &b, err)) goto done;
    rc = lt_device_read(at->dev, b.out, 0, out, 4 * c->out, err);
done:
    free_buffers(at->dev, &b);
    lt_kernel_unload(at->dev, first);
    lt_kernel_unload(at->dev, next);
    return rc ? lt_wrap(err, "%s", c->name) : 0;
}

/* The sum of a sweep's kernel over the inputs 0, stride, 2 stride, .. */
static inline int run_sweep(const case_place *at, const prelude_sweep *s, unsigned blocks,
                            uint32_t count, uint32_t stride, uint64_t *sum, lt_err *err)
{
    char text[4096];
    const uint32_t in[2] = {count, stride};
    const size_t threads = (size_t)blocks * SWEEP_THREADS;
    const prelude_case c = {.name = s->name,
                            .text = text,
                            .threads = SWEEP_THREADS,
                            .blocks = blocks,
                            .in = 2,
                            .out = 2 * threads};
    uint32_t *parts = malloc(8 * threads);
    if (!parts) return lt_fail(err, "%s: out of memory", s->name);
    sweep_text(s, text, sizeof text);
    const int rc = run_case(at, &c, in, parts, err);
    *sum = 0;
    for (size_t i = 0; i < threads; i++) *sum += parts[2 * i] | (uint64_t)parts[2 * i + 1] << 32;
    free(parts);
    return rc;
}

#endif
