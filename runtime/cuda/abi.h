/* abi.h: what we need of CUDA's driver API and of NVRTC, declared by hand: the program builds and
 * runs where neither is installed. tests/cpu/cuda_abi.c compares it with the toolkit's headers. */
#ifndef LT_CUDA_ABI_H
#define LT_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

/* ---- the driver ---- */

typedef int lt_cu_result; /* 0 = success */
typedef int lt_cu_device;
typedef uint64_t lt_cu_pointer; /* an address in device memory */
typedef struct lt_cu_context_body *lt_cu_context;
typedef struct lt_cu_stream_body *lt_cu_stream;
typedef struct lt_cu_event_body *lt_cu_event;
typedef struct lt_cu_library_body *lt_cu_library;
typedef struct lt_cu_kernel_body *lt_cu_kernel;
typedef struct lt_cu_function_body *lt_cu_function;
typedef struct lt_cu_graph_body *lt_cu_graph;
typedef struct lt_cu_exec_body *lt_cu_exec; /* an instantiated graph */

enum {
    LT_CU_INVALID_VALUE = 1,
    LT_CU_OUT_OF_MEMORY = 2,
    LT_CU_DEINITIALIZED = 4,
    LT_CU_NO_DEVICE = 100,
    LT_CU_INVALID_IMAGE = 200,
    LT_CU_NO_BINARY = 209,
    LT_CU_ECC_UNCORRECTABLE = 214,
    LT_CU_NVLINK_UNCORRECTABLE = 220,
    LT_CU_CONTAINED = 226,
    LT_CU_NOT_FOUND = 500,
    LT_CU_ILLEGAL_ADDRESS = 700,
    LT_CU_LAUNCH_TIMEOUT = 702,
    LT_CU_CONTEXT_IS_DESTROYED = 709,
    LT_CU_ASSERT = 710,
    LT_CU_HARDWARE_STACK = 714,
    LT_CU_ILLEGAL_INSTRUCTION = 715,
    LT_CU_MISALIGNED_ADDRESS = 716,
    LT_CU_INVALID_ADDRESS_SPACE = 717,
    LT_CU_INVALID_PC = 718,
    LT_CU_LAUNCH_FAILED = 719,
    LT_CU_TENSOR_MEMORY_LEAK = 721,
    LT_CU_CAPTURE_INVALIDATED = 901,
    LT_CU_EXTERNAL_DEVICE = 911,
    LT_CU_UNKNOWN = 999,
}; /* of lt_cu_result */

enum {
    LT_CU_DEVICE_SMS = 16,
    LT_CU_DEVICE_MAJOR = 75,
    LT_CU_DEVICE_MINOR = 76,
    LT_CU_DEVICE_SHARED_OPTIN = 97, /* a block's static and dynamic bytes together, at most */
};                                  /* attributes of a device */

enum {
    LT_CU_FUNC_MAX_DYNAMIC_SHARED = 8, /* bytes a launch may ask for; 48 KiB until it is set */
    LT_CU_FUNC_LARGE_CLUSTER = 14,     /* 1: of more than LT_CU_CLUSTER blocks */
};

enum { LT_CU_CLUSTER = 8 }; /* blocks that a cluster may have on every GPU with clusters */

enum {
    LT_CU_STREAM_NON_BLOCKING = 1,    /* does not wait for the default stream */
    LT_CU_CAPTURE_THREAD_LOCAL = 1,   /* other threads may go on calling the driver */
    LT_CU_ATTRIBUTE_PROGRAMMATIC = 6, /* a launch may begin before the one in front has ended */
    LT_CU_GET_PROC_ADDRESS_DEFAULT = 0,
};

typedef struct {
    int id; /* LT_CU_ATTRIBUTE_.. */
    char pad[4];
    union {
        char pad[64];
        int programmatic;
    } value;
} lt_cu_launch_attribute;

typedef struct {
    unsigned grid[3], block[3];
    unsigned shared; /* dynamic bytes */
    lt_cu_stream stream;
    lt_cu_launch_attribute *attributes;
    unsigned attribute_count;
} lt_cu_launch_config;

typedef lt_cu_result lt_cu_get_proc_address(const char *symbol, void **function, int version,
                                            uint64_t flags, int *status);

/* ---- NVRTC ---- */

typedef struct lt_nvrtc_program_body *lt_nvrtc_program;

enum { LT_NVRTC_INVALID_OPTION = 5, LT_NVRTC_COMPILATION = 6 }; /* of its results; 0 = success */

#endif
