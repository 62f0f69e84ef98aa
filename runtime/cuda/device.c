/* device.c: a GPU: its context, its one stream, its memory, and whose fault an error is. Sizes and
 * ranges were checked by runtime/device.c. */
#include "device.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After these the context refuses every call: nothing that it answers may be trusted. */
static bool is_fatal(lt_cu_result result)
{
    switch (result) {
    case LT_CU_DEINITIALIZED:
    case LT_CU_ECC_UNCORRECTABLE:
    case LT_CU_NVLINK_UNCORRECTABLE:
    case LT_CU_CONTAINED:
    case LT_CU_ILLEGAL_ADDRESS:
    case LT_CU_LAUNCH_TIMEOUT:
    case LT_CU_CONTEXT_IS_DESTROYED:
    case LT_CU_ASSERT:
    case LT_CU_HARDWARE_STACK:
    case LT_CU_ILLEGAL_INSTRUCTION:
    case LT_CU_MISALIGNED_ADDRESS:
    case LT_CU_INVALID_ADDRESS_SPACE:
    case LT_CU_INVALID_PC:
    case LT_CU_LAUNCH_FAILED:
    case LT_CU_TENSOR_MEMORY_LEAK:
    case LT_CU_EXTERNAL_DEVICE:
    case LT_CU_UNKNOWN: return true;
    default: return false;
    }
}

/* The names of the last launches that may have raised an error, each once in a row. */
static void list_suspects(const lt_cuda_device *d, char *out, size_t bytes)
{
    uint64_t n = d->settled;
    if (d->launches - n > LT_CUDA_NOTES) n = d->launches - LT_CUDA_NOTES;
    size_t used = 0;
    out[0] = 0;
    const char *last = "";
    for (; n < d->launches; n++) {
        const char *name = d->notes[n % LT_CUDA_NOTES].kernel;
        if (!strcmp(name, last)) continue;
        const int len = snprintf(out + used, bytes - used, "%s%s", used ? ", " : "", name);
        if (len < 0 || (size_t)len >= bytes - used) {
            out[used] = 0;
            return;
        }
        used += (size_t)len;
        last = name;
    }
}

/* Says which launches an asynchronous error may come from: it is reported later than it happens. */
static void blame(const lt_cuda_device *d, const char *call, lt_err *err)
{
    const lt_err what = *err;
    const uint64_t pending = d->launches - d->settled;
    if (!pending) {
        lt_fail(err, "%s; no launch since the last sync", what.text);
    } else if (pending == 1) {
        const lt_cuda_note *n = &d->notes[d->settled % LT_CUDA_NOTES];
        lt_fail(err,
                "%s; reported at %s, raised by launch %" PRIu64
                ": %s (grid %ux%ux%u, block %ux%ux%u)",
                what.text, call, d->launches, n->kernel, n->grid[0], n->grid[1], n->grid[2],
                n->block[0], n->block[1], n->block[2]);
    } else {
        char names[600];
        list_suspects(d, names, sizeof names);
        lt_fail(err,
                "%s; reported at %s, raised by one of launches %" PRIu64 "..%" PRIu64
                " since the last sync%s: %s (LATHE_DEBUG=5 waits after each launch)",
                what.text, call, d->settled + 1, d->launches,
                pending > LT_CUDA_NOTES ? ", the last of which are" : "", names);
    }
}

int lt_cuda_result(lt_cuda_device *d, lt_cu_result result, const char *call, lt_err *err)
{
    if (!result) return 0;
    lt_err what;
    lt_cuda_check(&d->cu, result, call, &what);
    lt_wrap(&what, "%s", d->base.info.name);
    if (is_fatal(result)) {
        blame(d, call, &what);
        d->dead = what;
    }
    return lt_fail(err, "%s", what.text);
}

/* The context is there, or d->dead says why not. */
static void wait_for_context(lt_cuda_device *d)
{
    if (d->opening) pthread_join(d->opener, NULL);
    d->opening = false;
}

int lt_cuda_enter(lt_cuda_device *d, lt_err *err)
{
    wait_for_context(d);
    if (d->dead.text[0]) return lt_fail(err, "%s", d->dead.text);
    return lt_cuda_try(d, CtxSetCurrent, (d->context), err);
}

int lt_cuda_settle(lt_cuda_device *d, lt_err *err)
{
    if (lt_cuda_try(d, StreamSynchronize, (d->stream), err)) return -1;
    d->settled = d->launches;
    return 0;
}

void lt_cuda_record(lt_cuda_device *d, const lt_kernel *k, const lt_launch *l)
{
    lt_cuda_note *n = &d->notes[d->launches++ % LT_CUDA_NOTES];
    snprintf(n->kernel, sizeof n->kernel, "%s", k->name);
    memcpy(n->grid, l->grid, sizeof n->grid);
    memcpy(n->block, l->block, sizeof n->block);
}

static int sync_device(lt_device *dev, lt_err *err)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    if (lt_cuda_enter(d, err)) return -1;
    return lt_cuda_settle(d, err);
}

/* ---- memory ---- */

static int fill_buffer(lt_device *dev, lt_buffer *buf, int byte, lt_err *err)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    const lt_cuda_buffer *b = (const lt_cuda_buffer *)buf;
    if (lt_cuda_enter(d, err)) return -1;
    return lt_cuda_try(d, MemsetD8Async, (b->address, (unsigned char)byte, buf->bytes, d->stream),
                       err);
}

static void free_buffer(lt_device *dev, lt_buffer *buf)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    lt_cuda_buffer *b = (lt_cuda_buffer *)buf;
    if (!b) return;
    if (b->address) {
        d->cu.CtxSetCurrent(d->context);
        d->cu.MemFree(b->address);
    }
    free(b);
}

static int alloc_buffer(lt_device *dev, size_t bytes, lt_buffer **out, lt_err *err)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    lt_cuda_buffer *b = calloc(1, sizeof *b);
    if (!b) return lt_fail(err, "%s: out of memory", dev->info.name);
    b->base.bytes = bytes;
    if (lt_cuda_enter(d, err)) goto fail;
    if (lt_cuda_try(d, MemAlloc, (&b->address, bytes), err)) {
        lt_wrap(err, "buffer of %zu bytes", bytes);
        goto fail;
    }
    if (fill_buffer(dev, &b->base, 0xff, err)) goto fail;
    *out = &b->base;
    return 0;
fail:
    free_buffer(dev, &b->base);
    return -1;
}

/* The copy goes through our own stream and is waited for: a copy of the default stream would not be
 * ordered with a stream that does not wait for it. */
static int write_buffer(lt_device *dev, lt_buffer *buf, size_t offset, lt_span from, lt_err *err)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    const lt_cuda_buffer *b = (const lt_cuda_buffer *)buf;
    if (lt_cuda_enter(d, err)) return -1;
    if (lt_cuda_try(d, MemcpyHtoDAsync, (b->address + offset, from.ptr, from.len, d->stream), err))
        return -1;
    return lt_cuda_settle(d, err);
}

static int read_buffer(lt_device *dev, const lt_buffer *buf, size_t offset, void *to, size_t bytes,
                       lt_err *err)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    const lt_cuda_buffer *b = (const lt_cuda_buffer *)buf;
    if (lt_cuda_enter(d, err)) return -1;
    if (lt_cuda_try(d, MemcpyDtoHAsync, (to, b->address + offset, bytes, d->stream), err))
        return -1;
    return lt_cuda_settle(d, err);
}

/* ---- opening ---- */

/* "NVIDIA H200" -> "nvidia-h200" */
static void write_key(const char *model, char *out, size_t bytes)
{
    size_t n = 0;
    for (const char *p = model; *p && n + 1 < bytes; p++) {
        const unsigned char c = (unsigned char)*p;
        if (isalnum(c))
            out[n++] = (char)tolower(c);
        else if (n && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n && out[n - 1] == '-') n--;
    out[n] = 0;
}

/* The text that a device runs: the one that may use all its instructions. */
static int find_arch(lt_device_info *info, int major, int minor, lt_err *err)
{
    static const struct {
        int major, minor;
        const char *arch;
    } archs[] = {{9, 0, "sm_90a"}, {10, 0, "sm_100a"}, {12, 0, "sm_120a"}, {12, 1, "sm_121a"}};
    for (size_t i = 0; i < lt_countof(archs); i++)
        if (archs[i].major == major && archs[i].minor == minor) {
            snprintf(info->arch, sizeof info->arch, "%s", archs[i].arch);
            return 0;
        }
    return lt_fail(err,
                   "%s: %s has compute capability %d.%d, kernels are made for 9.0, 10.0, 12.0 and "
                   "12.1 (use the device cpu)",
                   info->name, info->model, major, minor);
}

static int read_facts(lt_cuda_device *d, lt_err *err)
{
    lt_device_info *info = &d->base.info;
    int major, minor, shared;
    const struct {
        int attribute;
        int *value;
    } wanted[] = {{LT_CU_DEVICE_MAJOR, &major},
                  {LT_CU_DEVICE_MINOR, &minor},
                  {LT_CU_DEVICE_SMS, &info->sms},
                  {LT_CU_DEVICE_SHARED_OPTIN, &shared}};
    for (size_t i = 0; i < lt_countof(wanted); i++)
        if (lt_cuda_try(d, DeviceGetAttribute, (wanted[i].value, wanted[i].attribute, d->device),
                        err))
            return -1;
    if (lt_cuda_try(d, DeviceGetName, (info->model, (int)sizeof info->model, d->device), err) ||
        lt_cuda_try(d, DeviceTotalMem, (&info->memory, d->device), err))
        return -1;
    info->model[sizeof info->model - 1] = 0;
    info->shared_per_block = (size_t)shared;
    write_key(info->model, info->key, sizeof info->key);
    const unsigned version = (unsigned)d->cu.version / 10;
    const bool named = d->cu.release[0];
    snprintf(info->driver, sizeof info->driver, "%s%sCUDA %u.%u%s", d->cu.release,
             named ? " (" : "", version / 100 % 100, version % 10, named ? ")" : "");
    return find_arch(info, major, minor, err);
}

static void close_device(lt_device *dev)
{
    lt_cuda_device *d = (lt_cuda_device *)dev;
    if (!d) return;
    wait_for_context(d);
    if (d->context) d->cu.CtxSetCurrent(d->context);
    if (d->from) d->cu.EventDestroy(d->from);
    if (d->to) d->cu.EventDestroy(d->to);
    if (d->stream) d->cu.StreamDestroy(d->stream);
    if (d->context) d->cu.CtxSetCurrent(NULL);
    if (d->retained) d->cu.DevicePrimaryCtxRelease(d->device);
    free(d);
}

static const lt_device_ops ops = {
    .close = close_device,
    .alloc = alloc_buffer,
    .free = free_buffer,
    .write = write_buffer,
    .read = read_buffer,
    .fill = fill_buffer,
    .load = lt_cuda_load,
    .unload = lt_cuda_unload,
    .launch = lt_cuda_launch,
    .sync = sync_device,
    .time = lt_cuda_time,
    .record = lt_cuda_record_graph,
    .replay = lt_cuda_replay_graph,
    .forget = lt_cuda_forget,
};

static int find_device(lt_cuda_device *d, int index, lt_err *err)
{
    int count = 0;
    if (lt_cuda_try(d, Init, (0), err) || lt_cuda_try(d, DeviceGetCount, (&count), err)) return -1;
    if (index < 0 || index >= count)
        return lt_fail(err, "%s: there %s %d GPU%s, counted from 0", d->base.info.name,
                       count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    return lt_cuda_try(d, DeviceGet, (&d->device, index), err);
}

static int make_context(lt_cuda_device *d, lt_err *err)
{
    if (lt_cuda_try(d, DevicePrimaryCtxRetain, (&d->context, d->device), err)) return -1;
    d->retained = true;
    if (lt_cuda_try(d, CtxSetCurrent, (d->context), err) ||
        lt_cuda_try(d, StreamCreate, (&d->stream, LT_CU_STREAM_NON_BLOCKING), err) ||
        lt_cuda_try(d, EventCreate, (&d->from, 0), err))
        return -1;
    return lt_cuda_try(d, EventCreate, (&d->to, 0), err);
}

static void *open_context(void *device)
{
    lt_cuda_device *d = device;
    lt_err why;
    if (make_context(d, &why)) d->dead = why;
    return NULL;
}

/* What the device is, is known when this returns; its context comes meanwhile, and whether that
 * failed the first operation says. */
int lt_cuda_open(lt_device **out, int index, lt_err *err)
{
    lt_cuda_device *d = calloc(1, sizeof *d);
    if (!d) return lt_fail(err, "cuda:%d: out of memory", index);
    d->base.ops = &ops;
    snprintf(d->base.info.name, sizeof d->base.info.name, "cuda:%d", index);
    if (lt_cuda_api_open(&d->cu, err) || find_device(d, index, err) || read_facts(d, err))
        goto fail;
    if (pthread_create(&d->opener, NULL, open_context, d)) {
        lt_fail(err, "cuda:%d: no thread for its context (too many processes?)", index);
        goto fail;
    }
    d->opening = true;
    *out = &d->base;
    return 0;
fail:
    close_device(&d->base);
    return -1;
}

int lt_cuda_count(void)
{
    lt_cuda_api cu;
    lt_err err;
    int count = 0;
    if (lt_cuda_api_open(&cu, &err)) {
        lt_debug(1, "%s", err.text);
        return 0;
    }
    const char *call = "cuInit";
    lt_cu_result result = cu.Init(0);
    if (!result) {
        call = "cuDeviceGetCount";
        result = cu.DeviceGetCount(&count);
    }
    if (!result) return count;
    lt_cuda_check(&cu, result, call, &err);
    lt_debug(result == LT_CU_NO_DEVICE ? 1 : 0, "cuda: no GPU can be used: %s", err.text);
    return 0;
}
