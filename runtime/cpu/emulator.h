/* emulator.h: the inside of the CPU device: one block at a time, a fiber for each of its threads.
 * The blocks of a cluster are there together and take turns where they wait for each other.
 *
 * The device owns everything; kernels and buffers belong to its user until unloaded or freed. All
 * of it runs in the OS thread that launches. A fault leaves the fibers where they are and jumps to
 * the launcher, so that nothing on a fiber's stack may own memory. */
#ifndef LT_CPU_EMULATOR_H
#define LT_CPU_EMULATOR_H

#include "checker.h"
#include "fiber.h"
#include "tensor_core.h"

#include "runtime/device.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>

typedef struct lt_emulator lt_emulator;
typedef struct lt_warp lt_warp;

typedef struct {
    uint32_t x, y, z;
} lt_dim3;

typedef struct {
    const char *file; /* of the kernel's text; NULL: none */
    int line;
} lt_site;

static inline bool lt_site_is(lt_site a, lt_site b) /* equal names may lie apart */
{
    return a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file));
}

enum {
    LT_BLOCK_THREADS = 1024,
    LT_BLOCK_WARPS = 32,
    LT_CLUSTER_BLOCKS = 16, /* of a cluster; 8 on some GPUs */
    LT_QUEUE = 2048,        /* a power of two, larger than a block */
    LT_COLLECTIVES = 32,    /* masks in flight in a warp: a lane is in one at most */
    LT_BARRIERS = 16,       /* 0: __syncthreads */
    LT_COPIES = 256,        /* cp.async copies in flight of a thread */
    LT_COPY_GROUPS = 64,
    LT_BULK_COPIES = 2048, /* in flight of a block */
    LT_UNFENCED = 64,      /* mbarriers between their init and the fence */
    LT_SLOTS = 64,         /* shared arrays of a kernel */
    LT_PAGE = 4096,
    LT_SHARED_BYTES = 232448,         /* a block's shared memory, static and dynamic, as on sm_90 */
    LT_STATIC_SHARED_BYTES = 48 << 10 /* more is an error of the assembler on the GPU */
};

/* ---- buffers and kernels ---- */

typedef struct lt_cpu_buffer {
    lt_buffer base;
    lt_emulator *owner;
    char *map, *data; /* map: guard, pages, guard */
    size_t map_bytes;
    int protection; /* of the pages: PROT_READ, or with PROT_WRITE, or PROT_NONE */
    struct lt_cpu_buffer *next, **link;  /* all buffers; link: what points here */
    struct lt_cpu_buffer *next_writable; /* those that the host or the last launch could write */
    uint64_t out_of;                     /* number of the last launch that may write it */
    uint64_t flight;                     /* of the last launch that writes it */
    char writer[256];                    /* that launch's kernel */
    lt_shadow shadow;
} lt_cpu_buffer;

typedef struct {
    lt_kernel base;
    char *code; /* pages of its own; in checking mode those of the library */
    size_t code_bytes;
    void (*entry)(void **arguments);
    lt_thread **cur; /* the text's lt_cur */
    char *text;      /* to find the line of a fault */
    int model;       /* of the tensor cores: 90 or 120 */
    void *library;   /* in checking mode: gcc's shared object; else NULL */
    int library_file;
} lt_cpu_kernel;

/* ---- a thread ---- */

typedef enum {
    LT_RUNS,
    LT_IN_BARRIER,
    LT_IN_COLLECTIVE,
    LT_IN_MBARRIER,
    LT_STOPPED,
    LT_RETURNED
} lt_state;

struct lt_copy;

struct lt_thread { /* ORDER THREAD: templates/prelude/cpu.h declares the first fields */
    lt_dim3 tidx, bidx, bdim, gdim;
    char *dynamic;
    /* the kernel does not know what follows */
    lt_emulator *emu;
    lt_warp *warp;
    lt_fiber fiber;
    int index, stack; /* stack: -1 before it runs */
    unsigned lane;
    lt_state state;
    lt_site site;     /* where it waits */
    const char *what; /* in what */
    uint32_t mask;    /* of the collective; id of the barrier; parity of the mbarrier */
    uint64_t *mbarrier;
    lt_thread *next; /* that waits for the same */
    struct lt_copy *copies;
    int copy_count, group_count, group_end[LT_COPY_GROUPS]; /* a group ends before that copy */
    bool at_cluster; /* has arrived at its cluster's barrier, and not waited yet */
};
_Static_assert(offsetof(lt_thread, tidx) == 0 && offsetof(lt_thread, bidx) == 12 &&
                   offsetof(lt_thread, bdim) == 24 && offsetof(lt_thread, gdim) == 36 &&
                   offsetof(lt_thread, dynamic) == 48,
               "ORDER THREAD");

/* ---- a warp ---- */

typedef struct {
    uint32_t mask, arrived;
    int leaving; /* lanes that were released and have not read yet */
    int parity;  /* of the posted values: a fast lane posts again before a slow one has read */
    int kind;
    lt_site site;
    uint32_t value[2][32];
} lt_collective;

struct lt_warp {
    uint32_t alive;
    int count;
    lt_collective collectives[LT_COLLECTIVES];
    lt_fragments fragments; /* of an mma */
    int steps;              /* of a run of them */
    uint32_t rows[32][4];   /* of an ldmatrix */
    uint32_t *to[32];
};

/* ---- asynchronous copies ---- */

typedef struct lt_copy {
    char *to;
    const char *from;
    lt_site site;
} lt_copy; /* 16 bytes */

typedef struct {
    char *to;
    const char *from;
    uint32_t bytes;
    uint64_t *mbarrier;
    lt_thread *thread;
    lt_site site;
    bool landed;
} lt_bulk;

/* ---- a block ---- */

typedef struct {
    lt_thread *first, *last;
    int arrived, threads; /* threads: that open it */
    lt_site site;         /* of the first to arrive */
    const char *what;
    uint32_t present[LT_BLOCK_WARPS];
} lt_barrier;

typedef struct {
    int threads, live;
    int returned, stopped; /* threads that ended; that go no further in this run of the block */
    int returned_thread, stopped_thread; /* one of them */
    lt_barrier barriers[LT_BARRIERS];
    lt_thread *mbarrier_waiters;
    lt_bulk *bulk; /* LT_BULK_COPIES */
    int bulk_count, bulk_pending;
    struct {
        const lt_thread *thread;
        uint64_t *mbarrier;
    } unfenced[LT_UNFENCED];
    int unfenced_count;
    int last;          /* answer of lt_last_block */
    uint32_t *counter; /* of lt_last_block */
    uint32_t blocks;
} lt_block;

/* ---- shared memory ---- */

typedef struct {
    char *end; /* a guard page begins here */
    int pages; /* in front of it that can be used */
    char *data;
    size_t bytes;
    const char *name; /* NULL: free */
    lt_site site;
} lt_slot; /* slot 0: the dynamic shared memory */

/* ---- a block and all that it needs while it is there: the others of a cluster keep theirs ---- */

typedef struct {
    enum {
        LT_NOT_BEGUN,
        LT_BEGUN,
        LT_PARKED,
        LT_STARVED,
        LT_ENDED
    } state;      /* waits for its cluster:
parked at the barrier, starved at mbarriers */
    size_t index; /* of the block in the grid */
    lt_thread *ready[LT_QUEUE];
    uint32_t head, tail;
    lt_thread *threads;
    lt_warp *warps;
    lt_block block;
    lt_dim3 block_index;
    lt_stacks stacks;
    int free_stacks[LT_BLOCK_THREADS], free_count;
    lt_slot slots[LT_SLOTS];
    int slot_count; /* in use */
    lt_copy *copies;
} lt_resident;

/* ---- faults ---- */

typedef struct {
    int signal; /* 0: none */
    int code;
    bool write;
    const char *address, *pc, *sp;
} lt_caught;

/* ---- the device ---- */

struct lt_emulator {
    lt_device base;
    lt_play play;
    lt_cpu_buffer *buffers, *writable;
    uint64_t launches, flight, landed; /* flights up to `landed` have ended */
    bool careful;                      /* a compile has failed: see tcc.c */
    lt_checker *checker;               /* NULL: the device does not check */

    /* the launch */
    lt_cpu_kernel *kernel;
    const lt_launch *launch;
    const lt_arg *args;
    void *pointers[LT_MAX_PARAMS], *arguments[LT_MAX_PARAMS];
    bool lazy, ahead; /* ahead: the pass over what is in front of lt_pdl_wait */
    bool hurries;     /* lets the next launch begin there */
    uint64_t random;
    lt_thread **cur; /* the kernel's lt_cur */

    lt_fiber main;   /* the launcher */
    lt_resident *at; /* the block that runs */
    lt_resident residents[LT_CLUSTER_BLOCKS];
    int resident_count; /* that have their memory */
    char *arena;        /* of the shared memory of all of them */

    /* faults */
    char fault[1024]; /* empty: none */
    lt_caught caught;
    lt_site touching; /* where the host reads or writes for the kernel */
    lt_thread *toucher;
    void *signal_stack;
    stack_t old_stack;
    struct sigaction old_actions[5];
    struct itimerval old_timer;
    bool running;
};

/* ---- block.c ---- */

typedef enum { LT_BLOCK_FAULT, LT_BLOCK_ENDED, LT_BLOCK_AGAIN, LT_BLOCK_WAITS } lt_block_end;

void lt_block_set_up(lt_emulator *e);                    /* the threads of a launch */
lt_block_end lt_block_run(lt_emulator *e, size_t index); /* a fault: e->fault says which */
lt_block_end lt_block_resume(lt_emulator *e);            /* one that waited for its cluster */
void lt_block_report(lt_emulator *e);                    /* a fault: its threads wait for ever */
void lt_block_ready(lt_thread *t);                       /* puts it into the queue */
void lt_block_pause(lt_thread *t); /* runs others; returns when t's turn has come */
bool lt_count_block(lt_thread *t, lt_site site, const char *what, uint32_t *counter,
                    uint32_t blocks); /* one more: is it the last? */
uint64_t lt_block_random(lt_emulator *e);

/* ---- cluster.c ---- */

int lt_residents_open(lt_emulator *e, int count); /* those of a cluster; 0, or -1: no memory */
void lt_residents_close(lt_emulator *e);
int lt_cluster_run(lt_emulator *e, size_t cluster); /* 0, 1: to be run again, -1: a fault */
/* Where p, in a shared array of the block that runs, is in block `rank`, which is there. */
void *lt_cluster_place(lt_thread *t, lt_site site, const char *what, const void *p, uint32_t rank,
                       int bytes);
void lt_cluster_turn(lt_emulator *e, lt_resident *r); /* that block's turn, for a moment too */

/* ---- warp.c ---- */

void lt_warp_leave(lt_thread *t); /* t returns: nobody may wait for it */

/* ---- copy.c ---- */

void lt_copy_leave(lt_thread *t);       /* t returns: nothing of it may be in flight */
bool lt_copy_land_bulk(lt_emulator *e); /* the oldest that is in flight; false: none */
void lt_copy_end(lt_emulator *e);       /* the block has ended: what was never waited for */
void lt_copy_describe_wait(const lt_thread *t, char *out, size_t size); /* of an mbarrier */

/* ---- memory.c ---- */

enum { LT_FILL = 0xff }; /* NaN in every format, -1 as an index */

bool lt_memory_is_filled(const char *p, const char *end); /* all bytes from p to end */

int lt_memory_alloc(lt_emulator *e, size_t bytes, lt_cpu_buffer **out, lt_err *err);
void lt_memory_free(lt_emulator *e, lt_cpu_buffer *b);
int lt_memory_unlock(lt_emulator *e, lt_cpu_buffer *b, lt_err *err); /* for the host to write */
int lt_memory_begin(lt_emulator *e, lt_err *err); /* what the launch may write, and nothing else */
int lt_memory_hide(lt_emulator *e, lt_err *err);  /* what is in flight; nothing may be written */
int lt_memory_show(lt_emulator *e, lt_err *err);  /* undoes it */
void lt_memory_end(lt_emulator *e);               /* the launch has ended: what it overwrote */
const lt_cpu_buffer *lt_memory_find(const lt_emulator *e, const void *p); /* guards included */
int lt_memory_argument(const lt_emulator *e, const lt_cpu_buffer *b, const void *p);  /* -1: none */
void lt_memory_describe(const lt_emulator *e, const void *p, char *out, size_t size); /* 'x' + 4 */
void lt_memory_align(lt_thread *t, lt_site site, const char *what, const void *p,
                     int bytes); /* a fault where p is not aligned */

/* ---- shared.c ---- */

int lt_shared_open(lt_emulator *e);
void lt_shared_close(lt_emulator *e);
void lt_shared_settle(lt_emulator *e, int resident); /* where its arrays lie */
int lt_shared_begin(lt_emulator *e, size_t dynamic); /* forgets the arrays; 0 or -1 */
void lt_shared_poison(lt_emulator *e);               /* before a block */
void lt_shared_check(lt_emulator *e);                /* after a block */
const lt_slot *lt_shared_find(const lt_emulator *e, const void *p); /* guards included */
int lt_shared_resident(const lt_emulator *e, const void *p); /* whose array it is in; -1: none */
bool lt_shared_holds(const lt_emulator *e, const void *p, size_t bytes); /* inside one array */
size_t lt_shared_bytes(void);                                            /* of the arena */
/* The same place of the same array in another block of the cluster; NULL: it has none yet. */
char *lt_shared_other(const lt_emulator *e, const void *p, const lt_resident *other);

/* ---- shadow.c: nothing happens where the device does not check; 0, or -1: no memory ---- */

int lt_shadow_open(lt_emulator *e, lt_shadow *s, size_t bytes); /* of a new buffer */
void lt_shadow_close(lt_shadow *s);
void lt_shadow_know(lt_shadow *s, size_t offset, size_t bytes,
                    bool known);       /* the host writes them */
int lt_shadow_begin(lt_shadow *s);     /* the launch may write this buffer */
int lt_checker_open(lt_emulator *e);   /* makes the device one that checks */
void lt_checker_close(lt_emulator *e); /* of a device that does not check, too */
int lt_checker_begin(lt_emulator *e);  /* a launch, or its pass ahead */

/* ---- access.c: of the host for the kernel; pc: where the kernel's call returns to ---- */

void lt_access_read(lt_thread *t, const void *pc, const void *p, size_t bytes);
void lt_access_atomic(lt_thread *t, const void *pc, const void *p, size_t bytes);
void lt_access_copy(lt_thread *t, const void *pc, const void *to, const void *from, size_t bytes);
void lt_access_land(lt_thread *t, const void *to, size_t bytes); /* it was waited for */
void lt_access_land_bulk(lt_emulator *e, const void *to, size_t bytes, const uint64_t *bar);
void lt_access_explain(lt_emulator *e); /* turns what was found into the text */

/* ---- order.c ---- */

int lt_order_open(lt_checker *c);
int lt_order_settle(lt_emulator *e, int resident); /* what it needs; 0, or -1: no memory */
void lt_order_close(lt_checker *c);
void lt_order_begin_launch(lt_emulator *e);
int lt_order_begin_block(lt_emulator *e, size_t index); /* -1: no memory */
int lt_order_resume(lt_emulator *e);                    /* a block that was parked; the same */
void lt_order_begin_cluster(lt_emulator *e);
void lt_order_turn(lt_emulator *e); /* of the block e->at */
void lt_order_cluster_arrive(const lt_thread *t);
void lt_order_cluster_open(lt_emulator *e); /* all of its blocks have met */
void lt_order_barrier(lt_emulator *e);      /* of all threads; it opens */
void lt_order_last_block(lt_emulator *e, const uint32_t *counter, bool last);
int lt_order_last_warp(const lt_thread *t, const uint32_t *counter, bool last); /* -1: no memory */
void lt_order_syncwarp(lt_thread *t, uint32_t mask); /* the last lane has come */
void lt_order_arrive(const lt_thread *t, int barrier);
void lt_order_open_some(lt_emulator *e, int barrier, const lt_thread *first);
int lt_order_mbarrier(lt_emulator *e, const uint64_t *bar); /* made; -1: too many */
void lt_order_mbarrier_arrive(const lt_thread *t, const uint64_t *bar);
uint32_t lt_order_mbarrier_land(lt_emulator *e, const uint64_t *bar); /* the bytes' tick */
void lt_order_mbarrier_give(lt_emulator *e, const uint64_t *bar, int rank);
void lt_order_mbarrier_end_phase(lt_emulator *e, const uint64_t *bar);
void lt_order_mbarrier_waited(const lt_thread *t, const uint64_t *bar);
uint32_t lt_order_now(const lt_checker *c);
typedef enum { LT_OWN_BLOCK, LT_OWN_CLUSTER, LT_OTHER_CLUSTER } lt_nearness;
uint32_t lt_order_begin(const lt_checker *c, int resident);        /* the tick at which it began */
size_t lt_order_block_at(const lt_checker *c, uint32_t tick);      /* what ran then */
lt_nearness lt_order_nearness(const lt_checker *c, uint32_t tick); /* of that and what runs now */
bool lt_order_repeats(const lt_thread *t, lt_stamp s);    /* an earlier run of t's block did that */
bool lt_order_knows(const lt_thread *t, lt_stamp s);      /* was it before what t does now? */
bool lt_order_knows_read(const lt_thread *t, lt_stamp s); /* the same of a read */

/* ---- fault.c ---- */

/* Ends the launch with "file:line: block B, thread T: what". */
_Noreturn void lt_fault(lt_thread *t, lt_site site, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for what no thread is there to be blamed for. t and site.file may be NULL; the first
 * fault of a launch stays. */
void lt_fault_note(lt_emulator *e, const lt_thread *t, lt_site site, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same at a machine instruction of the kernel. */
void lt_fault_at(lt_emulator *e, const lt_thread *t, const char *pc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void lt_fault_name_thread(const lt_thread *t, char *out, size_t size); /* "thread 3" */
int lt_fault_open(lt_emulator *e);                                     /* 0, or -1: no memory */
void lt_fault_close(lt_emulator *e);
void lt_fault_arm(lt_emulator *e, long seconds); /* takes over the signals for a launch */
void lt_fault_disarm(lt_emulator *e);
void lt_fault_explain(lt_emulator *e); /* turns a caught signal into the text */

/* What the host touches for the kernel between these two is the kernel's fault. */
static inline void lt_touch_begin(lt_thread *t, lt_site site)
{
    t->emu->touching = site;
    t->emu->toucher = t;
}

static inline void lt_touch_end(lt_thread *t)
{
    t->emu->touching.file = NULL;
}

/* ---- line.c ---- */

/* "file:line" of a machine instruction of the kernel; -1: unknown. */
int lt_line_find(const lt_cpu_kernel *k, const char *pc, char *out, size_t size);

/* ---- labels.c ---- */

int lt_labels_refuse(const char *text, lt_err *err); /* -1 where there is a goto or a label */

/* ---- tcc.c ---- */

#define LT_TCC_OPTIONS "-nostdlib -nostdinc" /* then libtcc needs no file of its own */
int lt_tcc_load(lt_emulator *e, lt_cpu_kernel *k, lt_err *err); /* k->text into code */
void lt_tcc_unload(lt_cpu_kernel *k);

/* ---- gcc.c ---- */

int lt_gcc_find(lt_err *err); /* -1: there is no gcc */
int lt_gcc_load(lt_cpu_kernel *k, lt_err *err);
void lt_gcc_unload(lt_cpu_kernel *k);
int lt_gcc_line(const lt_cpu_kernel *k, const char *pc, char *out,
                size_t size); /* as lt_line_find */

/* ---- launch.c ---- */

int lt_launch_run(lt_emulator *e, lt_cpu_kernel *k, const lt_launch *l, const lt_arg *args,
                  lt_err *err);

#endif
