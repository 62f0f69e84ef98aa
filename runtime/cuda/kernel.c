/* kernel.c: an image becomes a kernel that can be launched. Everything that the driver may put off
 * until the first launch is done at load, so that no capture meets it. */
#include "cubin.h"
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lt_cuda_unload(lt_device *dev, lt_kernel *kernel)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    lt_cuda_kernel *k = (lt_cuda_kernel *)kernel;
    if (!k) return;
    if (k->library) {
        d->cu.CtxSetCurrent(d->context);
        d->cu.LibraryUnload(k->library);
    }
    free(k);
}

/* What the image says must agree with the source: a launch could not tell. Static and dynamic
 * memory share the device's limit, which the driver's own reserve is no part of. */
static int check_image(const lt_cuda_device *d, const lt_source *src, lt_span image,
                       lt_cuda_kernel *k, lt_err *err)
{
    lt_cubin cubin;
    if (lt_cubin_read(image, src->name, &cubin, err) || lt_cubin_compare(&cubin, src, err))
        return -1;
    const size_t fixed = (size_t)cubin.facts.shared_bytes, most = d->base.info.shared_per_block;
    if (fixed > most)
        return lt_fail(err, "%s: %zu bytes of static shared memory, %s has %zu a block", src->name,
                       fixed, d->base.info.name, most);
    k->shared_most = most - fixed;
    snprintf(k->base.name, sizeof k->base.name, "%s", src->name);
    memcpy(k->base.params, src->params, (size_t)src->param_count * sizeof *src->params);
    k->base.param_count = src->param_count;
    k->base.threads = src->threads;
    k->base.cluster = src->cluster ? src->cluster : 1;
    return 0;
}

static int load_image(lt_cuda_device *d, lt_span image, lt_cuda_kernel *k, lt_err *err)
{
    lt_cu_kernel handle = NULL;
    if (lt_cuda_try(d, LibraryLoadData, (&k->library, image.ptr, NULL, NULL, 0, NULL, NULL, 0),
                    err) ||
        lt_cuda_try(d, LibraryGetKernel, (&handle, k->library, k->base.name), err) ||
        lt_cuda_try(d, KernelGetFunction, (&k->function, handle), err) ||
        lt_cuda_try(d, FuncLoad, (k->function), err))
        return -1;
    if (k->base.cluster > LT_CU_CLUSTER &&
        lt_cuda_try(d, FuncSetAttribute, (k->function, LT_CU_FUNC_LARGE_CLUSTER, 1), err))
        return -1;
    return lt_cuda_try(d, FuncSetAttribute,
                       (k->function, LT_CU_FUNC_MAX_DYNAMIC_SHARED, (int)k->shared_most), err);
}

int lt_cuda_load(lt_device *dev, const lt_source *src, lt_span image, lt_kernel **out, lt_err *err)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    lt_cuda_kernel *k = calloc(1, sizeof *k);
    if (!k) return lt_fail(err, "%s: out of memory", src->name);
    if (check_image(d, src, image, k, err)) goto fail;
    if (lt_cuda_enter(d, err) || load_image(d, image, k, err)) {
        lt_wrap(err, "%s for %s on an %s", src->name, src->arch, dev->info.arch);
        goto fail;
    }
    *out = &k->base;
    return 0;
fail:
    lt_cuda_unload(dev, &k->base);
    return -1;
}

int lt_cuda_enqueue(lt_cuda_device *d, lt_kernel *kernel, const lt_launch *l, const lt_arg *args,
                    lt_err *err)
{
    const lt_cuda_kernel *k = (const lt_cuda_kernel *)kernel;
    lt_cu_pointer values[LT_MAX_PARAMS];
    void *params[LT_MAX_PARAMS]; /* the driver copies what they point at before it returns */
    if (l->shared > k->shared_most)
        return lt_fail(err, "%s: %u bytes of dynamic shared memory, at most %zu are left here",
                       k->base.name, l->shared, k->shared_most);
    for (int i = 0; i < k->base.param_count; i++) {
        const lt_cuda_buffer *b = (const lt_cuda_buffer *)args[i].buffer;
        values[i] = b->address + args[i].offset;
        params[i] = &values[i];
    }
    lt_cu_launch_attribute attribute = {.id = LT_CU_ATTRIBUTE_PROGRAMMATIC,
                                        .value.programmatic = 1};
    const lt_cu_launch_config config = {
        .grid = {l->grid[0], l->grid[1], l->grid[2]},
        .block = {l->block[0], l->block[1], l->block[2]},
        .shared = l->shared,
        .stream = d->stream,
        .attributes = &attribute,
        .attribute_count = l->programmatic ? 1 : 0,
    };
    if (!lt_cuda_try(d, LaunchKernelEx, (&config, k->function, params, NULL), err)) return 0;
    return lt_wrap(err, "%s (grid %ux%ux%u, block %ux%ux%u, %u bytes of shared memory)",
                   k->base.name, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                   l->block[2], l->shared);
}

int lt_cuda_launch(lt_device *dev, lt_kernel *k, const lt_launch *l, const lt_arg *args,
                   lt_err *err)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    if (lt_cuda_enter(d, err) || lt_cuda_enqueue(d, k, l, args, err)) return -1;
    lt_cuda_record(d, k, l);
    if (lt_config_int(LT_SET_DEBUG) < 5) return 0;
    return lt_cuda_settle(d, err);
}
