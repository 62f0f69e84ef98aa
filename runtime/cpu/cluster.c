/* cluster.c: the blocks of a cluster are there together: each runs until all its threads wait for
 * the others, then the next one does. What one writes into the shared memory of another. A launch
 * without clusters has clusters of one block. */
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

/* Which of count blocks runs as the i-th: in their order, the last first, or from any on. */
static int turn(lt_emulator *e, int i, int count, int first)
{
    return e->play.order == 1 ? count - 1 - i : (first + i) % count;
}

static int note_ended(lt_emulator *e, int count)
{
    int parked = 0, ended = 0;
    while (e->residents[parked].state != LT_PARKED) parked++;
    while (ended < count && e->residents[ended].state == LT_PARKED) ended++;
    e->at = &e->residents[parked];
    const lt_thread *t = &e->at->threads[0];
    lt_fault_note(e, t, t->site,
                  "lt_cluster_wait waits for block %d of the cluster, which has ended", ended);
    return -1;
}

/* One turn of each block. How many are parked; -1: a fault, -2: the only one has to begin again. */
static int run_all(lt_emulator *e, size_t cluster, int count, bool begin)
{
    const int first = e->play.order > 1 ? (int)((lt_block_random(e) >> 20) % (unsigned)count) : 0;
    int parked = 0;
    for (int i = 0; i < count; i++) {
        const int rank = turn(e, i, count, first);
        e->at = &e->residents[rank];
        const lt_block_end end =
            begin ? lt_block_run(e, cluster * (size_t)count + (size_t)rank) : lt_block_resume(e);
        if (end == LT_BLOCK_FAULT) return -1;
        if (end == LT_BLOCK_AGAIN) return -2;
        parked += end == LT_BLOCK_PARKED;
    }
    return parked;
}

int lt_cluster_run(lt_emulator *e, size_t cluster)
{
    const int count = e->kernel->base.cluster;
    for (int i = 0; i < count; i++) e->residents[i].state = LT_NOT_BEGUN;
    lt_order_begin_cluster(e);
    int parked = run_all(e, cluster, count, true);
    while (parked == count) {
        lt_order_cluster_open(e);
        parked = run_all(e, cluster, count, false);
    }
    if (parked > 0) return note_ended(e, count);
    return parked == -2 ? 1 : parked;
}

/* ---- what a block writes into another one's shared memory ---- */

static bool is_there(const lt_resident *r)
{
    return r->state == LT_BEGUN || r->state == LT_PARKED;
}

static bool is_own(const lt_emulator *e, const void *p, size_t bytes) /* of the block that runs */
{
    return lt_shared_resident(e, p) == (int)(e->at - e->residents) && lt_shared_holds(e, p, bytes);
}

/* Names what stops a store of `bytes` at p into block `rank`. */
static _Noreturn void refuse(lt_thread *t, lt_site site, const void *p, uint32_t rank, int bytes)
{
    const char *const what = bytes == 4 ? "lt_cluster_st32" : "lt_cluster_st128";
    lt_emulator *e = t->emu;
    char where[160];
    if (rank >= (uint32_t)e->kernel->base.cluster)
        lt_fault(t, site, "%s: block %u of a cluster of %d", what, rank, e->kernel->base.cluster);
    lt_memory_describe(e, p, where, sizeof where);
    if ((uintptr_t)p % (unsigned)bytes)
        lt_fault(t, site, "%s: %s is not %d-byte aligned", what, where, bytes);
    if (!is_own(e, p, (size_t)bytes))
        lt_fault(t, site, "%s: %s is not in a shared array of the block", what, where);
    if (!is_there(&e->residents[rank]))
        lt_fault(t, site, "%s: block %u of the cluster %s (lt_cluster_wait orders them)", what,
                 rank, e->residents[rank].state == LT_ENDED ? "has ended" : "has not begun");
    lt_fault(t, site, "%s: block %u of the cluster has no %s yet (lt_cluster_wait first)", what,
             rank, where);
}

void *lt_cpu_cluster_place(lt_thread *t, const char *file, int line, void *p, uint32_t rank,
                           int bytes)
{
    const lt_emulator *e = t->emu;
    const bool may = rank < (uint32_t)e->kernel->base.cluster &&
                     !((uintptr_t)p % (unsigned)bytes) && is_own(e, p, (size_t)bytes) &&
                     is_there(&e->residents[rank]);
    void *to = may ? lt_shared_other(e, p, &e->residents[rank]) : NULL;
    if (!to) refuse(t, (lt_site){file, line}, p, rank, bytes);
    return to;
}
