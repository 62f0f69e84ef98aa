/* driver_clock.c: a libcuda.so.1 that hands every call of lathe on to the real driver, the file
 * that CLOCK_DRIVER names, and says at the end how long they took until the context was given
 * back: what a run takes longer than its calls one after the other is lathe's own. Blocking calls
 * and opening the driver count as the driver's. CLOCK_BEGIN: when the process was started,
 * nanoseconds since 1970. */
#define _GNU_SOURCE
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* handed on as they lie */

#define STACK 128 /* bytes of arguments on the stack; LibraryLoadData has 16 */

static struct {
    lt_cuda_api api;
    lt_cu_get_proc_address *find;
    lt_cu_result (*version)(int *version);
} real;

typedef struct {
    const char *name;
    int calls;
    double ms;
} row;

static double opening_ms, end_ms; /* end: of the run; 0 = it has not ended */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

#define CALL(name, since, parameters)                                                              \
    static row row_##name = {#name, 0, 0.0};                                                       \
    static lt_cu_result clock_##name parameters                                                    \
    {                                                                                              \
        void *given = __builtin_apply_args();                                                      \
        const double began = now_ms();                                                             \
        if (!strcmp(#name, "DevicePrimaryCtxRelease")) end_ms = began;                             \
        void *came = __builtin_apply((void (*)(void))real.api.name, given, STACK);                 \
        if (end_ms == 0.0) row_##name.ms += now_ms() - began;                                      \
        row_##name.calls++;                                                                        \
        __builtin_return(came);                                                                    \
    }
LT_CUDA_CALLS(CALL)
#undef CALL

static row *const rows[] = {
#define CALL(name, since, parameters) &row_##name,
    LT_CUDA_CALLS(CALL)
#undef CALL
};

static void open_real(void)
{
    if (real.find) return;
    const char *path = getenv("CLOCK_DRIVER");
    const double began = now_ms();
    void *handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    opening_ms = now_ms() - began;
    if (!handle) {
        fprintf(stderr, "driver_clock: CLOCK_DRIVER names no library\n");
        exit(2);
    }
    *(void **)&real.find = dlsym(handle, "cuGetProcAddress_v2");
    *(void **)&real.version = dlsym(handle, "cuDriverGetVersion");
}

lt_cu_result cuDriverGetVersion(int *version);
lt_cu_result cuDriverGetVersion(int *version)
{
    open_real();
    return real.version(version);
}

lt_cu_get_proc_address cuGetProcAddress_v2;
lt_cu_result cuGetProcAddress_v2(const char *symbol, void **out, int since, uint64_t flags,
                                 int *status)
{
    void *found = NULL;
    const lt_cu_result result = real.find(symbol, &found, since, flags, status);
    *out = found;
#define CALL(name, old, parameters)                                                                \
    if (found && !strcmp(symbol, "cu" #name)) {                                                    \
        memcpy(&real.api.name, &found, sizeof found);                                              \
        *out = (void *)clock_##name;                                                               \
    }
    LT_CUDA_CALLS(CALL)
#undef CALL
    return result;
}

__attribute__((destructor)) static void tell(void)
{
    const char *begin = getenv("CLOCK_BEGIN");
    double ms = opening_ms;
    for (size_t i = 0; i < lt_countof(rows); i++) {
        ms += rows[i]->ms;
        if (rows[i]->ms >= 1.0)
            fprintf(stderr, "  %-28s %6d calls %8.1f ms\n", rows[i]->name, rows[i]->calls,
                    rows[i]->ms);
    }
    if (!begin || end_ms == 0.0) return;
    const double all = end_ms - strtod(begin, NULL) / 1e6;
    fprintf(stderr, "  opening the driver %24.1f ms\nrun: %.1f ms, driver %.1f ms, lathe %.1f ms\n",
            opening_ms, all, ms, all - ms);
}
