/* cuda_abi.c: our own declarations of the driver and of NVRTC against the toolkit's headers, where
 * these are installed; a difference does not compile. */
#include "runtime/cuda/driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if __has_include("/usr/local/cuda/include/cuda.h") &&                                             \
                  __has_include("/usr/local/cuda/include/nvrtc.h") &&                              \
                                __has_include("/usr/local/cuda/include/cudaTypedefs.h")
#define HAS_TOOLKIT 1
#define NVRTC_GET_TYPE_NAME                                                                        \
    0 /* the header asks for both without looking whether they are there                           \
       */
#define __DOXYGEN_ONLY__ 0
#include "/usr/local/cuda/include/cuda.h"
#include "/usr/local/cuda/include/nvrtc.h"
#include "/usr/local/cuda/include/cudaTypedefs.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)

SAME(LT_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(LT_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(LT_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(LT_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(LT_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(LT_CU_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(LT_CU_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(LT_CU_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(LT_CU_CONTAINED, CUDA_ERROR_CONTAINED);
SAME(LT_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(LT_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(LT_CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(LT_CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(LT_CU_ASSERT, CUDA_ERROR_ASSERT);
SAME(LT_CU_HARDWARE_STACK, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(LT_CU_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(LT_CU_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(LT_CU_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(LT_CU_INVALID_PC, CUDA_ERROR_INVALID_PC);
SAME(LT_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(LT_CU_TENSOR_MEMORY_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK);
SAME(LT_CU_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(LT_CU_EXTERNAL_DEVICE, CUDA_ERROR_EXTERNAL_DEVICE);
SAME(LT_CU_UNKNOWN, CUDA_ERROR_UNKNOWN);
SAME(LT_CU_DEVICE_SMS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(LT_CU_DEVICE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(LT_CU_DEVICE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(LT_CU_DEVICE_SHARED_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(LT_CU_FUNC_MAX_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(LT_CU_FUNC_LARGE_CLUSTER, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME(LT_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(LT_CU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(LT_CU_ATTRIBUTE_PROGRAMMATIC, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(LT_CU_GET_PROC_ADDRESS_DEFAULT, CU_GET_PROC_ADDRESS_DEFAULT);
SAME(LT_NVRTC_INVALID_OPTION, NVRTC_ERROR_INVALID_OPTION);
SAME(LT_NVRTC_COMPILATION, NVRTC_ERROR_COMPILATION);

#define SAME_PLACE(our_type, ours, their_type, theirs)                                             \
    SAME(offsetof(our_type, ours), offsetof(their_type, theirs))

SAME(sizeof(lt_cu_result), sizeof(CUresult));
SAME(sizeof(lt_cu_device), sizeof(CUdevice));
SAME(sizeof(lt_cu_pointer), sizeof(CUdeviceptr));
SAME(sizeof(lt_cu_stream), sizeof(CUstream));
SAME(sizeof(lt_cu_launch_attribute), sizeof(CUlaunchAttribute));
SAME_PLACE(lt_cu_launch_attribute, value, CUlaunchAttribute, value);
SAME(sizeof(lt_cu_launch_config), sizeof(CUlaunchConfig));
SAME_PLACE(lt_cu_launch_config, grid, CUlaunchConfig, gridDimX);
SAME_PLACE(lt_cu_launch_config, block, CUlaunchConfig, blockDimX);
SAME_PLACE(lt_cu_launch_config, shared, CUlaunchConfig, sharedMemBytes);
SAME_PLACE(lt_cu_launch_config, stream, CUlaunchConfig, hStream);
SAME_PLACE(lt_cu_launch_config, attributes, CUlaunchConfig, attrs);
SAME_PLACE(lt_cu_launch_config, attribute_count, CUlaunchConfig, numAttrs);

/* Is there a function type of the toolkit for this name and version? If not, this does not compile:
 * the version is the one in which the signature appeared. */
typedef struct {
#define TYPED(name, since, parameters) PFN_cu##name##_v##since name;
    LT_CUDA_CALLS(TYPED)
#undef TYPED
    int end;
} toolkit_calls;
#else
#define HAS_TOOLKIT 0
#endif

static void our_declarations_are_the_toolkits(void **state)
{
    (void)state;
    if (!HAS_TOOLKIT) skip();
#if HAS_TOOLKIT
    assert_true(sizeof(toolkit_calls) > sizeof(int)); /* the asserts above are the test */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(our_declarations_are_the_toolkits)};
    return cmocka_run_group_tests_name("cuda_abi", tests, NULL, NULL);
}
