/* cuda_fake.h: a GPU in memory, in the place of the driver: counts what is alive, refuses the n-th
 * call, faults at the n-th kernel, and carries out asynchronous work as late as it may. */
#ifndef LT_CUDA_FAKE_H
#define LT_CUDA_FAKE_H

#include "runtime/cuda/driver.h"

typedef struct {
    char kernel[256];
    unsigned grid[3], block[3], shared;
    bool programmatic;
    int param_count;
    uint64_t params[LT_MAX_PARAMS];
} lt_cuda_fake_launch;

typedef struct {
    /* set by the test */
    int gpus, major, minor;
    const char *model;
    int shared_most;           /* bytes a block may use */
    int fail_at;               /* this call fails, counted from 1; 0 = none */
    int fail_with;             /* with this result */
    int fault_at;              /* the kernel that faults, counted from 1; 0 = none */
    const char *told_by;       /* the call that tells of the fault: "StreamSynchronize" */
    bool zeros;                /* memory is filled with zeros, whatever byte is asked for */
    double node_us, replay_us; /* a kernel takes, a replay of a graph adds */
    double drift_us;           /* by which replay_us grows with each */
    /* seen by the test */
    int calls;
    const char *failed; /* the call that failed; NULL = none */
    int contexts, streams, events, buffers, libraries, graphs, execs; /* alive */
    int launches;                                                     /* kernels run */
    int captures, nodes;                                              /* nodes: of the last one */
    int dynamic_most;         /* what FuncSetAttribute was told */
    bool large_clusters;      /* too */
    lt_cuda_fake_launch last; /* launched or captured */
} lt_cuda_fake;

/* A fresh fake, in use from now on: one H200. */
lt_cuda_fake *lt_cuda_fake_use(void);
/* Everything that is alive, a capture too; 0 after a clean end. */
int lt_cuda_fake_alive(void);

typedef struct {
    const char *kernel;
    int params, threads, sm;
    bool exact;
    unsigned shared;  /* static */
    unsigned cluster; /* 0: none */
} lt_cuda_fake_image;

/* A cubin with no code, for the fake and for what reads cubins. */
void lt_cuda_fake_make(lt_bytes *out, const lt_cuda_fake_image *what);

#endif
