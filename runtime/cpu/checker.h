/* checker.h: what the CPU device knows in its checking mode of every byte that a kernel can reach:
 * who touched it last, and whether that is ordered before what touches it now.
 *
 * The kernel is gcc's then (gcc.c), and tells of each access (access.c). A device that does not
 * check has no checker, and the functions of order.c do nothing. */
#ifndef LT_CPU_CHECKER_H
#define LT_CPU_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LT_STAMP_PLAIN,
    LT_STAMP_ATOMIC, /* among themselves in no conflict */
    LT_STAMP_FLIES,  /* an asynchronous copy that nobody has waited for */
    LT_STAMP_BULK    /* a bulk copy that has landed: seen by who waits for its mbarrier */
};

enum { LT_CODE_BYTES = 1 << 20 }; /* of a kernel: what a stamp's pc can tell apart */

/* Who touched a byte: ticks count what orders accesses. */
typedef struct {
    uint32_t tick; /* 0: nobody in this launch */
    uint32_t pc : 20, thread : 10, kind : 2;
} lt_stamp;

/* Two readers suffice: the last, and the one that is farthest from it. */
typedef struct {
    lt_stamp written, read, other;
} lt_cell;

typedef struct {
    uint8_t *known; /* a byte each: has it been written since it was allocated? */
    lt_cell *cells; /* a byte each; NULL: no launch was allowed to write the buffer */
    size_t bytes;
    bool used; /* has anybody written anything of it? */
} lt_shadow;

typedef enum { LT_FOUND_NOTHING, LT_FOUND_MISALIGNED, LT_FOUND_UNKNOWN, LT_FOUND_RACE } lt_finding;

typedef struct lt_thread lt_thread;

/* What an access does wrong. */
typedef struct {
    lt_finding finding;
    const lt_thread *thread;
    const char *p, *pc;
    size_t bytes;
    bool writes;
    lt_stamp against; /* of a race */
    bool wrote;       /* that one */
} lt_found;

typedef struct lt_order lt_order;

typedef struct {
    lt_order *order;
    lt_cell *shared; /* of the shared arrays' pages */
    lt_found found;
} lt_checker;

#endif
