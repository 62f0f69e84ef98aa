/* cluster.c: the blocks of a cluster are there together: each runs until all its threads wait for
 * the others, at the cluster's barrier or for what they give, then the next one does. What one
 * writes into the shared memory of another. A launch without clusters has clusters of one block. */
#include "calls.h"

#include <stdlib.h>

/* ---- the memory that a block has while it is there ---- */

static void close_resident(lt_resident *r)
{
    lt_stacks_close(&r->stacks);
    free(r->threads);
    free(r->warps);
    free(r->copies);
    free(r->block.bulk);
    *r = (lt_resident){0};
}

static int open_resident(lt_emulator *e, int i)
{
    lt_resident *r = &e->residents[i];
    r->threads = calloc(LT_BLOCK_THREADS, sizeof *r->threads);
    r->warps = calloc(LT_BLOCK_WARPS, sizeof *r->warps);
    r->copies = calloc((size_t)LT_BLOCK_THREADS * LT_COPIES, sizeof *r->copies);
    r->block.bulk = calloc(LT_BULK_COPIES, sizeof *r->block.bulk);
    lt_shared_settle(e, i);
    if (r->threads && r->warps && r->copies && r->block.bulk &&
        !lt_stacks_open(&r->stacks, LT_BLOCK_THREADS) && !lt_order_settle(e, i))
        return 0;
    close_resident(r);
    return -1;
}

int lt_residents_open(lt_emulator *e, int count)
{
    for (; e->resident_count < count; e->resident_count++)
        if (open_resident(e, e->resident_count)) return -1;
    return 0;
}

void lt_residents_close(lt_emulator *e)
{
    while (e->resident_count) close_resident(&e->residents[--e->resident_count]);
}

/* ---- a cluster from its begin to its end ---- */

void lt_cluster_turn(lt_emulator *e, lt_resident *r)
{
    e->at = r;
    lt_order_turn(e);
}

/* Which of count blocks runs as the i-th: in their order, the last first, or from any on. */
static int turn(lt_emulator *e, int i, int count, int first)
{
    return e->play.order == 1 ? count - 1 - i : (first + i) % count;
}

static int count_of(const lt_emulator *e, int count, int state)
{
    int found = 0;
    for (int i = 0; i < count; i++) found += (int)e->residents[i].state == state;
    return found;
}

static int first_of(const lt_emulator *e, int state)
{
    int i = 0;
    while ((int)e->residents[i].state != state) i++;
    return i;
}

/* Blocks wait, and those that they wait for do too, or have ended. */
static int note_waiting(lt_emulator *e, int count)
{
    if (count_of(e, count, LT_STARVED)) {
        e->at = &e->residents[first_of(e, LT_STARVED)];
        lt_block_report(e);
        return -1;
    }
    e->at = &e->residents[first_of(e, LT_PARKED)];
    const lt_thread *t = &e->at->threads[0];
    lt_fault_note(e, t, t->site,
                  "lt_cluster_wait waits for block %d of the cluster, which has ended",
                  first_of(e, LT_ENDED));
    return -1;
}

/* met: all have come to the barrier. */
static bool goes_on(const lt_resident *r, bool met)
{
    return r->state == LT_PARKED ? met : r->state == LT_STARVED && r->head != r->tail;
}

/* One turn of each block that can run. How many did; -1: a fault, -2: the only one has to begin
 * again. */
static int run_all(lt_emulator *e, size_t cluster, int count, bool met)
{
    const int first = e->play.order > 1 ? (int)((lt_block_random(e) >> 20) % (unsigned)count) : 0;
    int ran = 0;
    for (int i = 0; i < count; i++) {
        const int rank = turn(e, i, count, first);
        lt_resident *r = &e->residents[rank];
        const bool begins = r->state == LT_NOT_BEGUN;
        if (!begins && !goes_on(r, met)) continue;
        lt_cluster_turn(e, r);
        const lt_block_end end =
            begins ? lt_block_run(e, cluster * (size_t)count + (size_t)rank) : lt_block_resume(e);
        if (end == LT_BLOCK_FAULT) return -1;
        if (end == LT_BLOCK_AGAIN) return -2;
        ran++;
    }
    return ran;
}

int lt_cluster_run(lt_emulator *e, size_t cluster)
{
    const int count = e->kernel->base.cluster;
    for (int i = 0; i < count; i++) e->residents[i].state = LT_NOT_BEGUN;
    lt_order_begin_cluster(e);
    bool met = false;
    for (;;) {
        const int ran = run_all(e, cluster, count, met);
        if (ran < 0) return ran == -2 ? 1 : -1;
        if (count_of(e, count, LT_ENDED) == count) return 0;
        if (!ran) return note_waiting(e, count);
        met = count_of(e, count, LT_PARKED) == count;
        if (met) lt_order_cluster_open(e);
    }
}

/* ---- what a block writes into another one's shared memory ---- */

static bool is_there(const lt_resident *r)
{
    return r->state == LT_BEGUN || r->state == LT_PARKED || r->state == LT_STARVED;
}

static bool is_own(const lt_emulator *e, const void *p, size_t bytes) /* of the block that runs */
{
    return lt_shared_resident(e, p) == (int)(e->at - e->residents) && lt_shared_holds(e, p, bytes);
}

/* Names what stops `what`, which writes `bytes` at p into block `rank`. */
static _Noreturn void refuse(lt_thread *t, lt_site site, const char *what, const void *p,
                             uint32_t rank, int bytes)
{
    lt_emulator *e = t->emu;
    char where[160];
    if (rank >= (uint32_t)e->kernel->base.cluster)
        lt_fault(t, site, "%s: block %u of a cluster of %d", what, rank, e->kernel->base.cluster);
    lt_memory_align(t, site, what, p, bytes);
    lt_memory_describe(e, p, where, sizeof where);
    if (!is_own(e, p, (size_t)bytes))
        lt_fault(t, site, "%s: %s is not in a shared array of the block", what, where);
    if (!is_there(&e->residents[rank]))
        lt_fault(t, site, "%s: block %u of the cluster %s (lt_cluster_wait orders them)", what,
                 rank, e->residents[rank].state == LT_ENDED ? "has ended" : "has not begun");
    lt_fault(t, site, "%s: block %u of the cluster has no %s yet (lt_cluster_wait first)", what,
             rank, where);
}

void *lt_cluster_place(lt_thread *t, lt_site site, const char *what, const void *p, uint32_t rank,
                       int bytes)
{
    const lt_emulator *e = t->emu;
    const bool may = rank < (uint32_t)e->kernel->base.cluster &&
                     !((uintptr_t)p % (unsigned)bytes) && is_own(e, p, (size_t)bytes) &&
                     is_there(&e->residents[rank]);
    void *there = may ? lt_shared_other(e, p, &e->residents[rank]) : NULL;
    if (!there) refuse(t, site, what, p, rank, bytes);
    return there;
}

void *lt_cpu_cluster_place(lt_thread *t, const char *file, int line, const void *p, uint32_t rank,
                           int bytes)
{
    const char *const what = bytes == 4 ? "lt_cluster_st32" : "lt_cluster_st128";
    return lt_cluster_place(t, (lt_site){file, line}, what, p, rank, bytes);
}
