/* driver.c: a libcuda.so.1 without a GPU, for whole commands: the fake of tests/cpu, of which one
 * call fails. An error that a GPU's context does not survive is given to every later call too.
 *
 * DRIVER_CALL: which, without "cu". DRIVER_AT: which of those of a process, from 1; 0 fails none.
 * DRIVER_RESULT: what it answers. DRIVER_KERNEL: the kernel that faults, told when it is waited
 * for. DRIVER_LOG: a file that gets a line `fault NAME N` when it happens and, when the process
 * ends, `count NAME N` of each call and of Kernel, and `left objects N` of what was not given back.
 *
 * Of the kernels it computes rms_norm alone, by its reference; the others leave the zeros that
 * memory begins with. */
#include "reference.h"
#include "tests/cpu/cuda_fake.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* handed on as they lie */

enum { STACK = 128 }; /* bytes of arguments on the stack; LibraryLoadData has 16 */

static lt_cuda_fake *fake;
static lt_cuda_api api;    /* the fake's */
static const char *chosen; /* DRIVER_CALL */
static int at, told;       /* DRIVER_AT, DRIVER_RESULT */
static bool sticky;        /* every call answers DRIVER_RESULT from now on */

static void note(const char *fmt, ...)
{
    char line[128];
    va_list args;
    const char *path = getenv("DRIVER_LOG");
    const int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (fd < 0) return;
    va_start(args, fmt);
    const int len = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (write(fd, line, (size_t)len) != len) abort();
    close(fd);
}

/* Lets the fake's next call fail if it is number `at` of the chosen name, or after a sticky error.
 */
static void decide(const char *name, int n)
{
    if (!sticky && (n != at || strcmp(name, chosen))) return;
    if (!sticky) note("fault %s %d\n", name, n);
    if (told >= 700 && told < 800) sticky = true;
    fake->fail_at = fake->calls + 1;
    fake->fail_with = told;
}

/* ---- the one kernel ---- */

static void compute(const lt_cuda_fake_launch *l)
{
    lt_shape_rms_norm s;
    if (sscanf(l->kernel, "rms_norm__m%ld_k%ld__", &s.M, &s.K) != 2) return;
    const size_t count = (size_t)(s.M * s.K);
    double *y = calloc(2 * count, sizeof *y);
    if (!y || api.StreamSynchronize(NULL)) abort(); /* what was asked for before is done */
    lt_reference_rms_norm(&s, y, y + count, (const void *)l->params[1], (const void *)l->params[2]);
    for (size_t i = 0; i < count; i++)
        ((uint16_t *)l->params[0])[i] = lt_number_to_bf16((float)y[i]);
    free(y);
}

/* ---- the calls ---- */

#define CALL(name, since, parameters)                                                              \
    static int count_##name;                                                                       \
    static lt_cu_result fault_##name parameters                                                    \
    {                                                                                              \
        void *given = __builtin_apply_args();                                                      \
        decide(#name, ++count_##name);                                                             \
        void *came = __builtin_apply((void (*)(void))api.name, given, STACK);                      \
        __builtin_return(came);                                                                    \
    }
LT_CUDA_CALLS(CALL)
#undef CALL

static lt_cu_result get_error_string(lt_cu_result code, const char **text)
{
    return api.GetErrorString(code, text);
}

static lt_cu_result launch(const lt_cu_launch_config *config, lt_cu_function function,
                           void **params, void **extra)
{
    const int done = fake->launches;
    const lt_cu_result failed = fault_LaunchKernelEx(config, function, params, extra);
    const bool ran = fake->launches > done && (!fake->fault_at || fake->launches < fake->fault_at);
    if (!failed && ran) compute(&fake->last);
    return failed;
}

lt_cu_result cuDriverGetVersion(int *version);
lt_cu_result cuDriverGetVersion(int *version)
{
    *version = api.version;
    return 0;
}

lt_cu_get_proc_address cuGetProcAddress_v2;
lt_cu_result cuGetProcAddress_v2(const char *symbol, void **out, int since, uint64_t flags,
                                 int *status)
{
    *out = NULL;
#define CALL(name, old, parameters)                                                                \
    if (!strcmp(symbol, "cu" #name)) *out = (void *)fault_##name;
    LT_CUDA_CALLS(CALL)
#undef CALL
    if (!strcmp(symbol, "cuGetErrorString")) *out = (void *)get_error_string;
    if (!strcmp(symbol, "cuLaunchKernelEx")) *out = (void *)launch;
    return *out ? 0 : LT_CU_NOT_FOUND;
}

static int number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

__attribute__((constructor)) static void begin(void)
{
    lt_err err;
    fake = lt_cuda_fake_use();
    fake->zeros = true;
    fake->fault_at = number_of("DRIVER_KERNEL");
    chosen = getenv("DRIVER_CALL") ? getenv("DRIVER_CALL") : "";
    at = number_of("DRIVER_AT");
    told = number_of("DRIVER_RESULT");
    if (lt_cuda_api_open(&api, &err)) abort();
}

__attribute__((destructor)) static void end(void)
{
#define CALL(name, since, parameters)                                                              \
    if (count_##name) note("count " #name " %d\n", count_##name);
    LT_CUDA_CALLS(CALL)
#undef CALL
    note("count Kernel %d\n", fake->launches);
    note("left objects %d\n", lt_cuda_fake_alive());
}
