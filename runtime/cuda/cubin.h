/* cubin.h: facts about a compiled kernel, read from the image itself; no GPU, no disassembler.
 * Values only, nothing to free. */
#ifndef LT_CUDA_CUBIN_H
#define LT_CUDA_CUBIN_H

#include "../lathe.h"

typedef struct {
    unsigned offset, bytes;
} lt_cubin_param;

typedef struct {
    char name[256]; /* of the kernel */
    int sm;         /* 90, 121 */
    bool exact;     /* runs on this compute capability alone: an `a` target */
    lt_facts facts;
    unsigned max_threads[3]; /* of __launch_bounds__; zero without */
    unsigned cluster[3];     /* blocks; 1 without */
    int param_count;
    lt_cubin_param params[LT_MAX_PARAMS];
} lt_cubin;

/* The facts of the kernel of this name. Any bytes are safe to give: what is no whole cubin is an
 * error. */
int lt_cubin_read(lt_span image, const char *kernel, lt_cubin *out, lt_err *err);

/* 16 hex of the machine code's SHA-256: equal in two images that differ in names alone. facts: the
 * image's. */
int lt_cubin_digest(lt_span image, const lt_facts *facts, char code[17], lt_err *err);

/* 0 where the image agrees with what the generator believes: the kernel's name, the architecture,
 * the parameters' count, offsets and sizes, the threads of a block, the blocks of a cluster. */
int lt_cubin_compare(const lt_cubin *cubin, const lt_source *src, lt_err *err);

#endif
