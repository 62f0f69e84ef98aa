/* calls.h: what a kernel's text calls, as templates/prelude/cpu.h declares it (ORDER CALLS). Every
 * call says who calls and where. */
#ifndef LT_CPU_CALLS_H
#define LT_CPU_CALLS_H

#include "emulator.h"

#define LT_CALLER ((const void *)__builtin_return_address(0)) /* in the kernel */

/* block.c */
void lt_cpu_syncthreads(lt_thread *t, const char *file, int line);
void lt_cpu_bar(lt_thread *t, const char *file, int line, int id, int threads, int waits);
uint32_t lt_cpu_atomic_add_u32(lt_thread *t, const char *file, int line, uint32_t *p, uint32_t v);
int lt_cpu_last_block(lt_thread *t, const char *file, int line, uint32_t *counter, uint32_t blocks);
void lt_cpu_put(lt_thread *t, const char *file, int line, uint64_t *p, uint32_t value,
                uint32_t flag);
uint64_t lt_cpu_peek(lt_thread *t, const char *file, int line, const uint64_t *p);
int lt_cpu_look_again(lt_thread *t, const char *file, int line, int missing);
void lt_cpu_cluster_arrive(lt_thread *t, const char *file, int line, int shows);
void lt_cpu_cluster_wait(lt_thread *t, const char *file, int line);
void lt_cpu_pdl_wait(lt_thread *t, const char *file, int line);
void lt_cpu_pdl_launch(lt_thread *t, const char *file, int line);
void lt_cpu_pdl_launch_ahead(lt_thread *t, const char *file, int line);

/* cluster.c */
void *lt_cpu_cluster_place(lt_thread *t, const char *file, int line, const void *p, uint32_t rank,
                           int bytes);

/* warp.c */
uint32_t lt_cpu_shuffle(lt_thread *t, const char *file, int line, uint32_t mask, uint32_t v,
                        int kind, int arg);
uint32_t lt_cpu_ballot(lt_thread *t, const char *file, int line, uint32_t mask, int predicate);
uint32_t lt_cpu_redux(lt_thread *t, const char *file, int line, uint32_t v, int kind);
float lt_cpu_warp_reduce(lt_thread *t, const char *file, int line, float v, int kind);
void lt_cpu_syncwarp(lt_thread *t, const char *file, int line, uint32_t mask);
int lt_cpu_last_warp(lt_thread *t, const char *file, int line, uint32_t *counter, uint32_t blocks);
void lt_cpu_ldmatrix_x4(lt_thread *t, const char *file, int line, uint32_t *d, const void *row,
                        int trans);
void lt_cpu_mma(lt_thread *t, const char *file, int line, int kind, void *d, const uint32_t *a,
                const uint32_t *b, const void *c, uint32_t sa, uint32_t sb);
void lt_cpu_mma_run(lt_thread *t, const char *file, int line, int kind, float *d, const uint32_t *a,
                    const uint32_t *b, int steps);

/* copy.c */
void lt_cpu_cp_async16(lt_thread *t, const char *file, int line, void *to, const void *from);
void lt_cpu_cp_commit(lt_thread *t, const char *file, int line);
void lt_cpu_cp_wait(lt_thread *t, const char *file, int line, int groups);
void lt_cpu_mbar_init(lt_thread *t, const char *file, int line, uint64_t *bar, uint32_t arrivals);
void lt_cpu_mbar_fence(lt_thread *t, const char *file, int line);
void lt_cpu_mbar_arrive(lt_thread *t, const char *file, int line, uint64_t *bar, uint32_t bytes);
void lt_cpu_cluster_give(lt_thread *t, const char *file, int line, const void *p, uint32_t rank,
                         const void *v, const uint64_t *bar);
void lt_cpu_mbar_wait(lt_thread *t, const char *file, int line, uint64_t *bar, uint32_t parity);
void lt_cpu_bulk_load(lt_thread *t, const char *file, int line, void *to, const void *from,
                      uint32_t bytes, uint64_t *bar);
void lt_cpu_bulk_prefetch(lt_thread *t, const char *file, int line, const void *p, uint32_t bytes);

/* shared.c */
char *lt_cpu_shared(lt_thread *t, const char *file, int line, const char *name, size_t bytes);

/* access.c */
void lt_cpu_access(lt_thread *t, const void *pc, const void *p, size_t bytes, int how);

/* memory.c */
void lt_cpu_misaligned(lt_thread *t, const char *file, int line, const void *p, int bytes);

#endif
