/* intrinsics.h: the host functions that kernels on the CPU device call by name, all but those that
 * need to know the running thread. */
#ifndef LT_CPU_INTRINSICS_H
#define LT_CPU_INTRINSICS_H

typedef struct {
    const char *name;
    void *address;
} lt_symbol;

extern const lt_symbol lt_cpu_symbols[]; /* a NULL name ends them */
extern const lt_symbol lt_cpu_calls[];   /* those that do: calls.c */

#endif
