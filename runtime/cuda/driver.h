/* driver.h: the CUDA driver as a table of functions, found at run time.
 *
 * The table is a value: who opens one keeps its own copy, nothing is to be closed (the driver
 * cannot be unloaded). A test puts a fake in its place with lt_cuda_api_use. */
#ifndef LT_CUDA_DRIVER_H
#define LT_CUDA_DRIVER_H

#include "../lathe.h"
#include "abi.h"

enum { LT_CUDA_OLDEST = 13000 }; /* CUDA 13.0: what cubins of NVRTC 13 ask of a driver */

/* name without "cu", the version in which this signature appeared (not the driver's), parameters */
// clang-format off
#define LT_CUDA_CALLS(X)                                                                           \
    X(GetErrorString, 6000, (lt_cu_result result, const char **text))                              \
    X(Init, 2000, (unsigned flags))                                                                \
    X(DeviceGetCount, 2000, (int *count))                                                          \
    X(DeviceGet, 2000, (lt_cu_device *device, int ordinal))                                        \
    X(DeviceGetName, 2000, (char *name, int bytes, lt_cu_device device))                           \
    X(DeviceGetAttribute, 2000, (int *value, int attribute, lt_cu_device device))                  \
    X(DeviceTotalMem, 3020, (size_t *bytes, lt_cu_device device))                                  \
    X(DevicePrimaryCtxRetain, 7000, (lt_cu_context *context, lt_cu_device device))                 \
    X(DevicePrimaryCtxRelease, 11000, (lt_cu_device device))                                       \
    X(CtxSetCurrent, 4000, (lt_cu_context context))                                                \
    X(StreamCreate, 2000, (lt_cu_stream *stream, unsigned flags))                                  \
    X(StreamDestroy, 4000, (lt_cu_stream stream))                                                  \
    X(StreamSynchronize, 2000, (lt_cu_stream stream))                                              \
    X(StreamBeginCapture, 10010, (lt_cu_stream stream, int mode))                                  \
    X(StreamEndCapture, 10000, (lt_cu_stream stream, lt_cu_graph *graph))                          \
    X(EventCreate, 2000, (lt_cu_event *event, unsigned flags))                                     \
    X(EventDestroy, 4000, (lt_cu_event event))                                                     \
    X(EventRecord, 2000, (lt_cu_event event, lt_cu_stream stream))                                 \
    X(EventElapsedTime, 2000, (float *ms, lt_cu_event from, lt_cu_event to))                       \
    X(MemAlloc, 3020, (lt_cu_pointer *out, size_t bytes))                                          \
    X(MemFree, 3020, (lt_cu_pointer p))                                                            \
    X(MemsetD8Async, 3020, (lt_cu_pointer to, unsigned char byte, size_t n, lt_cu_stream stream))  \
    X(MemcpyHtoDAsync, 3020,                                                                       \
      (lt_cu_pointer to, const void *from, size_t bytes, lt_cu_stream stream))                     \
    X(MemcpyDtoHAsync, 3020, (void *to, lt_cu_pointer from, size_t bytes, lt_cu_stream stream))    \
    X(LibraryLoadData, 12000,                                                                      \
      (lt_cu_library *library, const void *image, int *jit_options, void **jit_values,             \
       unsigned jit_count, int *options, void **values, unsigned count))                           \
    X(LibraryUnload, 12000, (lt_cu_library library))                                               \
    X(LibraryGetKernel, 12000, (lt_cu_kernel *kernel, lt_cu_library library, const char *name))    \
    X(KernelGetFunction, 12000, (lt_cu_function *function, lt_cu_kernel kernel))                   \
    X(FuncLoad, 12040, (lt_cu_function function))                                                  \
    X(FuncSetAttribute, 9000, (lt_cu_function function, int attribute, int value))                 \
    X(LaunchKernelEx, 11060,                                                                       \
      (const lt_cu_launch_config *config, lt_cu_function function, void **params, void **extra))   \
    X(GraphInstantiateWithFlags, 11040,                                                            \
      (lt_cu_exec *exec, lt_cu_graph graph, unsigned long long flags))                             \
    X(GraphUpload, 11010, (lt_cu_exec exec, lt_cu_stream stream))                                  \
    X(GraphLaunch, 10000, (lt_cu_exec exec, lt_cu_stream stream))                                  \
    X(GraphExecDestroy, 10000, (lt_cu_exec exec))                                                  \
    X(GraphDestroy, 10000, (lt_cu_graph graph))
// clang-format on

typedef struct {
    int version;      /* of CUDA, that the driver supports: 13000 */
    char release[16]; /* of the driver: "580.159.04"; empty where it is not known */
#define LT_CUDA_MEMBER(name, since, parameters) lt_cu_result(*name) parameters;
    LT_CUDA_CALLS(LT_CUDA_MEMBER)
#undef LT_CUDA_MEMBER
} lt_cuda_api;

/* Fills the table from libcuda, or copies the fake in use. */
int lt_cuda_api_open(lt_cuda_api *out, lt_err *err);
/* Tests: from now on lt_cuda_api_open gives a copy of this table; NULL = the driver again. */
void lt_cuda_api_use(const lt_cuda_api *fake);

/* The two steps of lt_cuda_api_open: a library by its name, then a table from the library's finder
 * of functions. */
int lt_cuda_api_load(lt_cuda_api *out, const char *library, lt_err *err);
int lt_cuda_api_fill(lt_cuda_api *out, lt_cu_get_proc_address *find, int version, lt_err *err);

/* 0, or -1 and "cuXxx: text (number)". call: "cuMemAlloc". */
int lt_cuda_check(const lt_cuda_api *cu, lt_cu_result result, const char *call, lt_err *err);

#endif
