/* cuda_fake.c: see cuda_fake.h. The driver's functions have no context parameter, so the fake is
 * one static struct. */
#include "cuda_fake.h"

#include "runtime/cuda/cubin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    void *to;
    const void *from; /* NULL: fill with byte */
    unsigned char byte;
    size_t bytes;
} work;

struct lt_cu_library_body {
    const void *image;
    lt_cubin kernel;
};
struct lt_cu_graph_body {
    int nodes;
};
struct lt_cu_event_body {
    double us;
};

static lt_cuda_fake fake;
static struct {
    int fault;   /* sticky */
    int pending; /* a fault that is not told yet */
    bool capturing, spoilt;
    double now_us;
    work queue[64];
    int queued;
    char context, stream; /* their addresses are the handles */
} inside;

/* First in each call. in_capture: the driver allows it while a stream is captured. */
static lt_cu_result enter(const char *name, bool in_capture)
{
    if (++fake.calls == fake.fail_at) {
        fake.failed = name;
        return fake.fail_with;
    }
    if (inside.fault) return inside.fault;
    if (inside.pending && !strcmp(name, fake.told_by)) return inside.fault = inside.pending;
    if (inside.capturing && !in_capture) {
        inside.spoilt = true;
        return LT_CU_CAPTURE_INVALIDATED;
    }
    return 0;
}

#define enter_or_return(name, in_capture)                                                          \
    do {                                                                                           \
        const lt_cu_result entered = enter(name, in_capture);                                      \
        if (entered) return entered;                                                               \
    } while (0)

static lt_cu_result get_error_string(lt_cu_result result, const char **text)
{
    *text = result == LT_CU_OUT_OF_MEMORY     ? "out of memory"
            : result == LT_CU_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
            : result == LT_CU_INVALID_IMAGE   ? "device kernel image is invalid"
            : result == LT_CU_NOT_FOUND       ? "named symbol not found"
                                              : NULL;
    return *text ? 0 : LT_CU_INVALID_VALUE;
}

static lt_cu_result init(unsigned flags)
{
    enter_or_return("Init", false);
    return flags ? LT_CU_INVALID_VALUE : 0;
}

static lt_cu_result device_get_count(int *count)
{
    enter_or_return("DeviceGetCount", false);
    *count = fake.gpus;
    return 0;
}

static lt_cu_result device_get(lt_cu_device *device, int ordinal)
{
    enter_or_return("DeviceGet", false);
    *device = ordinal + 40; /* a handle is not an index */
    return 0;
}

static lt_cu_result device_get_name(char *name, int bytes, lt_cu_device device)
{
    enter_or_return("DeviceGetName", false);
    (void)device;
    snprintf(name, (size_t)bytes, "%s", fake.model);
    return 0;
}

static lt_cu_result device_get_attribute(int *value, int attribute, lt_cu_device device)
{
    enter_or_return("DeviceGetAttribute", false);
    (void)device;
    switch (attribute) {
    case LT_CU_DEVICE_SMS: *value = 132; return 0;
    case LT_CU_DEVICE_MAJOR: *value = fake.major; return 0;
    case LT_CU_DEVICE_MINOR: *value = fake.minor; return 0;
    case LT_CU_DEVICE_SHARED_OPTIN: *value = fake.shared_most; return 0;
    default: return LT_CU_INVALID_VALUE;
    }
}

static lt_cu_result device_total_mem(size_t *bytes, lt_cu_device device)
{
    enter_or_return("DeviceTotalMem", false);
    (void)device;
    *bytes = (size_t)141 << 30;
    return 0;
}

static lt_cu_result retain(lt_cu_context *context, lt_cu_device device)
{
    enter_or_return("DevicePrimaryCtxRetain", false);
    (void)device;
    fake.contexts++;
    *context = (lt_cu_context)(void *)&inside.context;
    return 0;
}

/* What ends a life ends it, whatever it answers. */
static lt_cu_result release(lt_cu_device device)
{
    (void)device;
    fake.contexts--;
    return enter("DevicePrimaryCtxRelease", false);
}

static lt_cu_result set_current(lt_cu_context context)
{
    (void)context;
    return enter("CtxSetCurrent", true);
}

static lt_cu_result stream_create(lt_cu_stream *stream, unsigned flags)
{
    enter_or_return("StreamCreate", false);
    if (flags != LT_CU_STREAM_NON_BLOCKING) return LT_CU_INVALID_VALUE;
    fake.streams++;
    *stream = (lt_cu_stream)(void *)&inside.stream;
    return 0;
}

static lt_cu_result stream_destroy(lt_cu_stream stream)
{
    (void)stream;
    inside.queued = 0;
    fake.streams--;
    return enter("StreamDestroy", false);
}

static void run_queue(void)
{
    for (int i = 0; i < inside.queued; i++) {
        const work *w = &inside.queue[i];
        if (w->from)
            memcpy(w->to, w->from, w->bytes);
        else
            memset(w->to, fake.zeros ? 0 : w->byte, w->bytes);
    }
    inside.queued = 0;
}

static lt_cu_result stream_synchronize(lt_cu_stream stream)
{
    (void)stream;
    const lt_cu_result entered = enter("StreamSynchronize", false);
    if (entered) inside.queued = 0; /* what could not be done will not be done */
    run_queue();
    return entered;
}

static lt_cu_result begin_capture(lt_cu_stream stream, int mode)
{
    enter_or_return("StreamBeginCapture", false);
    (void)stream;
    (void)mode;
    inside.capturing = true;
    inside.spoilt = false;
    fake.captures++;
    fake.nodes = 0;
    return 0;
}

/* Ends the capture even where it fails; then there is no graph. */
static lt_cu_result end_capture(lt_cu_stream stream, lt_cu_graph *graph)
{
    (void)stream;
    const lt_cu_result entered = enter("StreamEndCapture", true);
    inside.capturing = false;
    if (entered || inside.spoilt) return entered ? entered : LT_CU_CAPTURE_INVALIDATED;
    *graph = calloc(1, sizeof **graph);
    (*graph)->nodes = fake.nodes;
    fake.graphs++;
    return 0;
}

static lt_cu_result event_create(lt_cu_event *event, unsigned flags)
{
    enter_or_return("EventCreate", false);
    (void)flags;
    *event = calloc(1, sizeof **event);
    fake.events++;
    return 0;
}

static lt_cu_result event_destroy(lt_cu_event event)
{
    free(event);
    fake.events--;
    return enter("EventDestroy", false);
}

static lt_cu_result event_record(lt_cu_event event, lt_cu_stream stream)
{
    enter_or_return("EventRecord", false);
    (void)stream;
    event->us = inside.now_us;
    return 0;
}

static lt_cu_result event_elapsed(float *ms, lt_cu_event from, lt_cu_event to)
{
    enter_or_return("EventElapsedTime", false);
    *ms = (float)((to->us - from->us) * 1e-3);
    return 0;
}

static lt_cu_result mem_alloc(lt_cu_pointer *out, size_t bytes)
{
    enter_or_return("MemAlloc", false);
    if (!bytes) return LT_CU_INVALID_VALUE;
    *out = (lt_cu_pointer)(uintptr_t)calloc(1, bytes);
    fake.buffers++;
    return 0;
}

static lt_cu_result mem_free(lt_cu_pointer p)
{
    const lt_cu_result result = enter("MemFree", false);
    inside.queued = 0; /* the driver waits for what is under way */
    free((void *)(uintptr_t)p);
    fake.buffers--;
    return result;
}

static lt_cu_result later(const char *name, work w)
{
    enter_or_return(name, false);
    if (inside.queued == lt_countof(inside.queue)) run_queue();
    inside.queue[inside.queued++] = w;
    return 0;
}

static lt_cu_result memset_async(lt_cu_pointer to, unsigned char byte, size_t n,
                                 lt_cu_stream stream)
{
    (void)stream;
    return later("MemsetD8Async", (work){(void *)(uintptr_t)to, NULL, byte, n});
}

static lt_cu_result copy_in(lt_cu_pointer to, const void *from, size_t bytes, lt_cu_stream stream)
{
    (void)stream;
    return later("MemcpyHtoDAsync", (work){(void *)(uintptr_t)to, from, 0, bytes});
}

static lt_cu_result copy_out(void *to, lt_cu_pointer from, size_t bytes, lt_cu_stream stream)
{
    (void)stream;
    return later("MemcpyDtoHAsync", (work){to, (const void *)(uintptr_t)from, 0, bytes});
}

static lt_cu_result library_load(lt_cu_library *library, const void *image, int *jit_options,
                                 void **jit_values, unsigned jit_count, int *options, void **values,
                                 unsigned count)
{
    enter_or_return("LibraryLoadData", false);
    if (jit_options || jit_values || jit_count || options || values || count)
        return LT_CU_INVALID_VALUE;
    if (memcmp(image, "\177ELF", 4)) return LT_CU_INVALID_IMAGE;
    *library = calloc(1, sizeof **library);
    (*library)->image = image;
    fake.libraries++;
    return 0;
}

static lt_cu_result library_unload(lt_cu_library library)
{
    free(library);
    fake.libraries--;
    return enter("LibraryUnload", false);
}

static lt_cu_result get_kernel(lt_cu_kernel *kernel, lt_cu_library library, const char *name)
{
    enter_or_return("LibraryGetKernel", false);
    uint64_t sections;
    uint16_t count;
    lt_err err;
    memcpy(&sections, (const char *)library->image + 40, sizeof sections);
    memcpy(&count, (const char *)library->image + 60, sizeof count);
    const lt_span image = {library->image, sections + (size_t)count * 64};
    if (lt_cubin_read(image, name, &library->kernel, &err)) return LT_CU_NOT_FOUND;
    *kernel = (lt_cu_kernel)(void *)library;
    return 0;
}

static lt_cu_result get_function(lt_cu_function *function, lt_cu_kernel kernel)
{
    enter_or_return("KernelGetFunction", false);
    *function = (lt_cu_function)(void *)kernel;
    return 0;
}

static lt_cu_result func_load(lt_cu_function function)
{
    (void)function;
    return enter("FuncLoad", false);
}

static lt_cu_result func_set(lt_cu_function function, int attribute, int value)
{
    enter_or_return("FuncSetAttribute", false);
    (void)function;
    if (attribute == LT_CU_FUNC_MAX_DYNAMIC_SHARED && value >= 0)
        fake.dynamic_most = value;
    else if (attribute == LT_CU_FUNC_LARGE_CLUSTER)
        fake.large_clusters = value;
    else
        return LT_CU_INVALID_VALUE;
    return 0;
}

static void run_kernels(int count)
{
    for (int i = 0; i < count; i++)
        if (++fake.launches == fake.fault_at) inside.pending = LT_CU_ILLEGAL_ADDRESS;
    inside.now_us += fake.node_us * count;
}

static lt_cu_result launch(const lt_cu_launch_config *c, lt_cu_function function, void **params,
                           void **extra)
{
    enter_or_return("LaunchKernelEx", true);
    const lt_cubin *kernel = &((lt_cu_library)(void *)function)->kernel;
    if (extra || c->stream != (lt_cu_stream)(void *)&inside.stream) return LT_CU_INVALID_VALUE;
    lt_cuda_fake_launch l = {.shared = c->shared, .param_count = kernel->param_count};
    snprintf(l.kernel, sizeof l.kernel, "%s", kernel->name);
    memcpy(l.grid, c->grid, sizeof l.grid);
    memcpy(l.block, c->block, sizeof l.block);
    for (unsigned i = 0; i < c->attribute_count; i++)
        if (c->attributes[i].id == LT_CU_ATTRIBUTE_PROGRAMMATIC)
            l.programmatic = c->attributes[i].value.programmatic == 1;
    for (int i = 0; i < kernel->param_count; i++)
        memcpy(&l.params[i], params[i], sizeof l.params[i]);
    fake.last = l;
    if (inside.capturing)
        fake.nodes++;
    else
        run_kernels(1);
    return 0;
}

static lt_cu_result instantiate(lt_cu_exec *exec, lt_cu_graph graph, unsigned long long flags)
{
    enter_or_return("GraphInstantiateWithFlags", false);
    if (flags) return LT_CU_INVALID_VALUE;
    lt_cu_graph copy = calloc(1, sizeof *copy);
    *copy = *graph;
    *exec = (lt_cu_exec)(void *)copy;
    fake.execs++;
    return 0;
}

static lt_cu_result upload(lt_cu_exec exec, lt_cu_stream stream)
{
    (void)exec;
    (void)stream;
    return enter("GraphUpload", false);
}

static lt_cu_result graph_launch(lt_cu_exec exec, lt_cu_stream stream)
{
    enter_or_return("GraphLaunch", false);
    (void)stream;
    run_kernels(((lt_cu_graph)(void *)exec)->nodes);
    inside.now_us += fake.replay_us;
    fake.replay_us += fake.drift_us;
    return 0;
}

static lt_cu_result exec_destroy(lt_cu_exec exec)
{
    free(exec);
    fake.execs--;
    return enter("GraphExecDestroy", false);
}

static lt_cu_result graph_destroy(lt_cu_graph graph)
{
    free(graph);
    fake.graphs--;
    return enter("GraphDestroy", false);
}

static const lt_cuda_api api = {
    .version = 13000,
    .release = "580.159.04",
    .GetErrorString = get_error_string,
    .Init = init,
    .DeviceGetCount = device_get_count,
    .DeviceGet = device_get,
    .DeviceGetName = device_get_name,
    .DeviceGetAttribute = device_get_attribute,
    .DeviceTotalMem = device_total_mem,
    .DevicePrimaryCtxRetain = retain,
    .DevicePrimaryCtxRelease = release,
    .CtxSetCurrent = set_current,
    .StreamCreate = stream_create,
    .StreamDestroy = stream_destroy,
    .StreamSynchronize = stream_synchronize,
    .StreamBeginCapture = begin_capture,
    .StreamEndCapture = end_capture,
    .EventCreate = event_create,
    .EventDestroy = event_destroy,
    .EventRecord = event_record,
    .EventElapsedTime = event_elapsed,
    .MemAlloc = mem_alloc,
    .MemFree = mem_free,
    .MemsetD8Async = memset_async,
    .MemcpyHtoDAsync = copy_in,
    .MemcpyDtoHAsync = copy_out,
    .LibraryLoadData = library_load,
    .LibraryUnload = library_unload,
    .LibraryGetKernel = get_kernel,
    .KernelGetFunction = get_function,
    .FuncLoad = func_load,
    .FuncSetAttribute = func_set,
    .LaunchKernelEx = launch,
    .GraphInstantiateWithFlags = instantiate,
    .GraphUpload = upload,
    .GraphLaunch = graph_launch,
    .GraphExecDestroy = exec_destroy,
    .GraphDestroy = graph_destroy,
};

lt_cuda_fake *lt_cuda_fake_use(void)
{
    memset(&inside, 0, sizeof inside);
    fake = (lt_cuda_fake){.gpus = 1,
                          .major = 9,
                          .model = "NVIDIA H200",
                          .shared_most = 232448,
                          .told_by = "StreamSynchronize",
                          .node_us = 100};
    lt_cuda_api_use(&api);
    return &fake;
}

int lt_cuda_fake_alive(void)
{
    return fake.contexts + fake.streams + fake.events + fake.buffers + fake.libraries +
           fake.graphs + fake.execs + inside.capturing;
}

/* ---- a cubin ---- */

enum { NAMES = 1, STRINGS, SYMBOLS, COMMON, COMPAT, OWN, TEXT, SHARED, SECTIONS };

typedef struct {
    lt_bytes *file;
    lt_bytes names;
    uint64_t headers[SECTIONS][8]; /* an ELF section header is 64 bytes */
} maker;

static void put(lt_bytes *b, const void *ptr, size_t len)
{
    if (lt_bytes_append(b, ptr, len, NULL)) abort();
}

static void put32(lt_bytes *b, uint32_t value)
{
    put(b, &value, sizeof value);
}

static void begin(maker *m, int index, const char *name, const char *kernel, uint32_t type,
                  uint32_t link)
{
    uint64_t *h = m->headers[index];
    while (m->file->len % 8) put(m->file, "", 1);
    h[0] = m->names.len | (uint64_t)type << 32;
    h[3] = m->file->len;
    h[5] = link;
    put(&m->names, name, strlen(name));
    put(&m->names, kernel, strlen(kernel) + 1);
}

static void end(maker *m, int index)
{
    m->headers[index][4] = m->file->len - m->headers[index][3];
}

static void put_own(lt_bytes *f, const lt_cuda_fake_image *what)
{
    for (int i = what->params - 1; i >= 0; i--) {
        put32(f, 0x000c1704);
        put32(f, 0);
        put32(f, (uint32_t)i | (uint32_t)(8 * i) << 16);
        put32(f, 8u << 18 | 0x1f000);
    }
    put32(f, 0x00014c02); /* one barrier */
    put32(f, 0x000c0504);
    put32(f, (uint32_t)what->threads);
    put32(f, 1);
    put32(f, 1);
    put32(f, (uint32_t)(8 * what->params) << 16 | 0x1903);
    if (what->cluster) put(f, (uint32_t[]){0x000c3d04, what->cluster, 1, 1}, 16);
}

void lt_cuda_fake_make(lt_bytes *out, const lt_cuda_fake_image *what)
{
    maker m = {.file = out};
    const char *kernel = what->kernel;
    put(out, (char[64]){0}, 64);
    begin(&m, STRINGS, ".strtab", "", 3, 0);
    put(out, "", 1);
    put(out, kernel, strlen(kernel) + 1);
    end(&m, STRINGS);
    begin(&m, SYMBOLS, ".symtab", "", 2, STRINGS);
    put(out, (char[24]){0}, 24);
    put32(out, 1);
    put(out, (unsigned char[20]){0x12, 0x10, TEXT}, 20);
    end(&m, SYMBOLS);
    begin(&m, COMMON, ".nv.info", "", 0x70000000, SYMBOLS);
    put(out, (uint32_t[]){0x00082f04, 1, 40, 0x00081104, 1, 16}, 24); /* registers, frame */
    end(&m, COMMON);
    begin(&m, COMPAT, ".nv.compat", "", 0x70000086, 0);
    put(out, what->exact ? "\2\11\1\0" : "\2\11\0\0", 4);
    end(&m, COMPAT);
    begin(&m, OWN, ".nv.info.", kernel, 0x70000000, SYMBOLS);
    put_own(out, what);
    end(&m, OWN);
    begin(&m, TEXT, ".text.", kernel, 1, SYMBOLS);
    put(out, (char[128]){0}, 128);
    end(&m, TEXT);
    begin(&m, SHARED, ".nv.shared.", kernel, 8, 0);
    m.headers[SHARED][4] = what->shared + 1024u;
    begin(&m, NAMES, ".shstrtab", "", 3, 0);
    put(out, m.names.ptr, m.names.len);
    end(&m, NAMES);
    while (out->len % 8) put(out, "", 1);
    const uint64_t sections = out->len;
    put(out, m.headers, sizeof m.headers);
    unsigned char *h = (unsigned char *)out->ptr;
    memcpy(h, "\177ELF\2\1\1\101\10", 9);
    h[18] = 190;
    memcpy(h + 40, &sections, sizeof sections);
    h[49] = (unsigned char)what->sm;
    h[58] = 64;
    h[60] = SECTIONS;
    h[62] = NAMES;
    lt_bytes_clear(&m.names);
}
