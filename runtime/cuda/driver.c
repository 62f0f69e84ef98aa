/* driver.c: finds the CUDA driver and its functions. Knows nothing of devices. */
#define _GNU_SOURCE /* dlinfo */
#include "driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

typedef struct {
    const char *symbol;
    int since;
    size_t place; /* in lt_cuda_api */
} call;

static const call calls[] = {
#define CALL(name, since, parameters) {"cu" #name, since, offsetof(lt_cuda_api, name)},
    LT_CUDA_CALLS(CALL)
#undef CALL
};

static const lt_cuda_api *replacement; /* NULL: the driver */

void lt_cuda_api_use(const lt_cuda_api *fake)
{
    replacement = fake;
}

static int check_version(int version, lt_err *err)
{
    if (version >= LT_CUDA_OLDEST) return 0;
    return lt_fail(err,
                   "cuda: the driver supports CUDA %d.%d, %d.%d or later is needed (install a "
                   "driver of release 580 or later, or use the device cpu)",
                   version / 1000, version % 1000 / 10, LT_CUDA_OLDEST / 1000,
                   LT_CUDA_OLDEST % 1000 / 10);
}

int lt_cuda_api_fill(lt_cuda_api *out, lt_cu_get_proc_address *find, int version, lt_err *err)
{
    if (check_version(version, err)) return -1;
    lt_cuda_api api = {.version = version};
    for (size_t i = 0; i < lt_countof(calls); i++) {
        void *function = NULL;
        int status = 0;
        const lt_cu_result result = find(calls[i].symbol, &function, calls[i].since,
                                         LT_CU_GET_PROC_ADDRESS_DEFAULT, &status);
        if (result || !function)
            return lt_fail(err,
                           "cuda: the driver has no %s of CUDA %d.%d (result %d, status %d; "
                           "reinstall the driver)",
                           calls[i].symbol, calls[i].since / 1000, calls[i].since % 1000 / 10,
                           result, status);
        memcpy((char *)&api + calls[i].place, &function, sizeof function);
    }
    *out = api;
    return 0;
}

/* The driver's release is the end of its file's name: libcuda.so.580.159.04. Empty where the file
 * is named otherwise. */
static void read_release(void *library, char *out, size_t bytes)
{
    struct link_map *map = NULL;
    char path[PATH_MAX];
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) || !map || !realpath(map->l_name, path)) return;
    const char *end = strstr(path, "libcuda.so.");
    if (!end) return;
    end += strlen("libcuda.so.");
    if (strchr(end, '.') && strspn(end, "0123456789.") == strlen(end) && strlen(end) < bytes)
        memcpy(out, end, strlen(end) + 1);
}

int lt_cuda_api_load(lt_cuda_api *out, const char *library, lt_err *err)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return lt_fail(err,
                       "cuda: no driver: %s (install the NVIDIA driver, release 580 or later, "
                       "or use the device cpu)",
                       dlerror());
    lt_cu_get_proc_address *find;
    lt_cu_result (*get_version)(int *version);
    *(void **)&find = dlsym(handle, "cuGetProcAddress_v2");
    *(void **)&get_version = dlsym(handle, "cuDriverGetVersion");
    int version = 0;
    const bool is_driver = get_version && !get_version(&version);
    if (!is_driver || (!find && version >= LT_CUDA_OLDEST))
        return lt_fail(err,
                       "cuda: %s is not a CUDA driver (install the NVIDIA driver, release 580 "
                       "or later, or use the device cpu)",
                       library);
    if (lt_cuda_api_fill(out, find, version, err)) return -1; /* an old driver has no find */
    read_release(handle, out->release, sizeof out->release);
    return 0;
}

int lt_cuda_api_open(lt_cuda_api *out, lt_err *err)
{
    if (!replacement) return lt_cuda_api_load(out, LIBRARY, err);
    if (check_version(replacement->version, err)) return -1;
    *out = *replacement;
    return 0;
}

int lt_cuda_check(const lt_cuda_api *cu, lt_cu_result result, const char *call_name, lt_err *err)
{
    if (!result) return 0;
    const char *text = NULL;
    if (cu->GetErrorString(result, &text) || !text) text = "an error that the driver cannot name";
    return lt_fail(err, "%s: %s (%d)", call_name, text, result);
}
