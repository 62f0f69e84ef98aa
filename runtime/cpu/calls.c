/* calls.c: the table of what a kernel's text calls and that needs to know the running thread: for
 * both compilers of the CPU device. */
#include "calls.h"
#include "intrinsics.h"

#define CALL(name)                                                                                 \
    {                                                                                              \
#name, (void *)name                                                                        \
    }

const lt_symbol lt_cpu_calls[] = {
    /* ORDER CALLS */
    CALL(lt_cpu_syncthreads),
    CALL(lt_cpu_bar),
    CALL(lt_cpu_atomic_add_u32),
    CALL(lt_cpu_last_block),
    CALL(lt_cpu_put),
    CALL(lt_cpu_peek),
    CALL(lt_cpu_look_again),
    CALL(lt_cpu_cluster_arrive),
    CALL(lt_cpu_cluster_wait),
    CALL(lt_cpu_cluster_place),
    CALL(lt_cpu_cluster_give),
    CALL(lt_cpu_pdl_wait),
    CALL(lt_cpu_pdl_launch),
    CALL(lt_cpu_pdl_launch_ahead),
    CALL(lt_cpu_shuffle),
    CALL(lt_cpu_ballot),
    CALL(lt_cpu_redux),
    CALL(lt_cpu_warp_reduce),
    CALL(lt_cpu_syncwarp),
    CALL(lt_cpu_last_warp),
    CALL(lt_cpu_ldmatrix_x4),
    CALL(lt_cpu_mma),
    CALL(lt_cpu_mma_run),
    CALL(lt_cpu_cp_async16),
    CALL(lt_cpu_cp_commit),
    CALL(lt_cpu_cp_wait),
    CALL(lt_cpu_mbar_init),
    CALL(lt_cpu_mbar_fence),
    CALL(lt_cpu_mbar_arrive),
    CALL(lt_cpu_mbar_wait),
    CALL(lt_cpu_bulk_load),
    CALL(lt_cpu_bulk_prefetch),
    CALL(lt_cpu_shared),
    CALL(lt_cpu_misaligned),
    CALL(lt_cpu_access),
    {NULL, NULL},
};
