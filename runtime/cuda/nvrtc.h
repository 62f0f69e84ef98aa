/* nvrtc.h: from text to an image by NVRTC, which runs in a process of its own: a crash of the
 * compiler, or one that does not end, costs one kernel.
 *
 * The child is this program again, called with the one argument "--nvrtc-child"; main answers it
 * with lt_nvrtc_child. It asks on stdin, answers on stdout and ends with its parent. */
#ifndef LT_CUDA_NVRTC_H
#define LT_CUDA_NVRTC_H

#include "../lathe.h"

#define LT_NVRTC_CHILD "--nvrtc-child"

typedef struct {
    const char *name; /* of the kernel */
    const char *arch; /* "sm_90a" */
    lt_span text;
    /* the rest is filled; whoever owns the job frees image and log */
    lt_bytes image;     /* the cubin; empty where it failed */
    lt_bytes log;       /* all that the compiler said */
    char library[1024]; /* of the compiler that was asked */
    double ms;          /* from the start of the process to its end */
    bool failed;
    lt_err err;
} lt_nvrtc_job;

typedef struct {
    const char *program; /* the child; NULL = this program */
    double seconds;      /* after which a child is killed; 0 = LATHE_COMPILE_SECONDS */
    int at_once;         /* children; 0 = LATHE_JOBS, or one a core */
} lt_nvrtc_limits;

typedef struct {
    char identity[64];  /* "nvrtc 13.0 <16 hex>": of what the compiler says about itself */
    char library[1024]; /* the file it came from */
} lt_nvrtc_compiler;

/* The options of every compile, without the architecture, separated by spaces. */
const char *lt_nvrtc_options(void);
/* 0, or -1 where the job failed: job->err is copied to err. limits may be NULL. */
int lt_nvrtc_compile(lt_nvrtc_job *job, const lt_nvrtc_limits *limits, lt_err *err);
/* Compiles all jobs, several at once; one that fails says so itself. Calls each, which may be NULL,
 * as a job ends; a non-zero answer stops the rest. 0, or -1 when stopped. */
int lt_nvrtc_compile_many(lt_nvrtc_job *jobs, size_t count, const lt_nvrtc_limits *limits,
                          int (*each)(void *ctx, lt_nvrtc_job *job), void *ctx, lt_err *err);
/* Which compiler is here, asked in a child. */
int lt_nvrtc_identity(lt_nvrtc_compiler *out, const lt_nvrtc_limits *limits, lt_err *err);

/* The child's whole life; its exit status. */
int lt_nvrtc_child(void);

#endif
