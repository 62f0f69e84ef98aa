/* kernel.h: for the tests of the CPU device: a kernel's text is compiled behind the real prelude,
 * run, and gives its output or the message of its fault. The text is the file "t.cut" from line 1
 * and defines the kernel `k`; every parameter is a pointer. */
#ifndef LT_TESTS_KERNEL_H
#define LT_TESTS_KERNEL_H

#include "runtime/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_PARAMS = 6 };

typedef struct {
    const char *params;          /* "x y!": their names; ! where the kernel may write */
    unsigned grid, block;        /* 1 where 0 */
    unsigned shared;             /* dynamic bytes */
    int cluster;                 /* as in lt_source */
    bool programmatic;           /* as in lt_launch */
    const unsigned *sample;      /* as in lt_launch */
    size_t samples;              /* as in lt_launch */
    int model;                   /* 90 where 0 */
    void *data[KERNEL_PARAMS];   /* what goes in; what may be written comes out */
    size_t bytes[KERNEL_PARAMS]; /* of each */
} kernel_job;

/* "x y!" as the runtime has it. */
static inline int kernel_params(const char *names, lt_param *out)
{
    int count = 0;
    for (const char *p = names + strspn(names, " "); *p; p += strspn(p, " ")) {
        const size_t len = strcspn(p, " "), mark = p[len - 1] == '!';
        out[count] = (lt_param){.out = mark};
        snprintf(out[count++].name, sizeof out->name, "%.*s", (int)(len - mark), p);
        p += len;
    }
    return count;
}

/* The prelude, the text, and the entry that hands the parameters over. */
static inline int kernel_text(const char *text, int params, lt_bytes *out, lt_err *err)
{
    if (lt_files_read("templates/prelude/cpu.h", out, err)) return -1;
    if (lt_bytes_print(out, err, "#line 1 \"t.cut\"\n%s\nvoid lt_entry(void **a) { k(", text))
        return -1;
    for (int i = 0; i < params; i++)
        if (lt_bytes_print(out, err, "%s*(void **)a[%d]", i ? ", " : "", i)) return -1;
    return lt_bytes_print(out, err, "); }\n");
}

static inline int kernel_load_job(lt_device *dev, const char *name, const char *text,
                                  const kernel_job *job, lt_kernel **out, lt_err *err)
{
    lt_param list[LT_MAX_PARAMS];
    lt_bytes whole = {0};
    const int count = kernel_params(job->params, list);
    int rc = kernel_text(text, count, &whole, err);
    if (!rc) {
        const lt_source src = {.name = name,
                               .arch = "cpu",
                               .text = lt_bytes_view(&whole),
                               .params = list,
                               .param_count = count,
                               .threads = 1024,
                               .cluster = job->cluster,
                               .model = job->model ? job->model : 90};
        rc = dev->ops->load(dev, &src, (lt_span){NULL, 0}, out, err);
    }
    lt_bytes_clear(&whole);
    return rc;
}

static inline int kernel_load(lt_device *dev, const char *name, const char *text,
                              const char *params, int model, lt_kernel **out, lt_err *err)
{
    const kernel_job job = {.params = params, .model = model};
    return kernel_load_job(dev, name, text, &job, out, err);
}

static inline lt_launch kernel_launch(const kernel_job *job)
{
    return (lt_launch){.grid = {job->grid ? job->grid : 1, 1, 1},
                       .block = {job->block ? job->block : 1, 1, 1},
                       .shared = job->shared,
                       .programmatic = job->programmatic,
                       .sample = job->sample,
                       .samples = job->samples};
}

/* Loads the text, launches it once on buffers of its own and fetches what it wrote, after a fault
 * too. */
static inline int kernel_run(lt_device *dev, const char *text, const kernel_job *job, lt_err *err)
{
    lt_kernel *k = NULL;
    lt_arg args[LT_MAX_PARAMS] = {{NULL, 0}};
    const lt_launch l = kernel_launch(job);
    int rc = kernel_load_job(dev, "k", text, job, &k, err);
    if (rc) return rc;
    for (int i = 0; i < k->param_count && !rc; i++) {
        rc = dev->ops->alloc(dev, job->bytes[i], &args[i].buffer, err);
        if (!rc)
            rc = dev->ops->write(dev, args[i].buffer, 0, (lt_span){job->data[i], job->bytes[i]},
                                 err);
    }
    if (!rc) rc = dev->ops->launch(dev, k, &l, args, err);
    for (int i = 0; i < k->param_count; i++) {
        lt_err ignored;
        if (k->params[i].out && args[i].buffer)
            dev->ops->read(dev, args[i].buffer, 0, job->data[i], job->bytes[i], &ignored);
        dev->ops->free(dev, args[i].buffer);
    }
    dev->ops->unload(dev, k);
    return rc;
}

/* A device that is played so; NULL: none. */
static inline lt_device *kernel_open(lt_play play)
{
    lt_device *dev = NULL;
    lt_err err;
    return lt_cpu_open(&dev, &err) || dev->ops->play(dev, &play, &err) ? NULL : dev;
}

/* The same with LATHE_CPU_CHECK on or off. */
static inline lt_device *kernel_open_checked(const char *checks, lt_play play)
{
    lt_err err;
    if (lt_config_set("cpu_check", checks, &err)) return NULL;
    lt_device *dev = kernel_open(play);
    return lt_config_set("cpu_check", "off", &err) ? NULL : dev;
}

typedef struct {
    float x[1024], y[1024];
    lt_err err;
    int rc;
} kernel_result;

/* Launches one block of `k(const float *x, float *y)` with `count` floats each: x[i] = i, y[i] =
 * -1. */
static inline void kernel_floats(lt_device *dev, const char *text, unsigned threads, size_t count,
                                 kernel_result *r)
{
    *r = (kernel_result){.rc = 0};
    for (size_t i = 0; i < count; i++) {
        r->x[i] = (float)i;
        r->y[i] = -1;
    }
    const kernel_job job = {.params = "x y!",
                            .block = threads,
                            .data = {r->x, r->y},
                            .bytes = {count * sizeof *r->x, count * sizeof *r->y}};
    r->rc = kernel_run(dev, text, &job, &r->err);
}

#endif
