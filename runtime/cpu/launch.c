/* launch.c: one launch: its limits are checked, its buffers opened, its blocks run one after
 * another.
 *
 * Programmatic dependent launch is played as its worst case. What stands in front of lt_pdl_wait is
 * run for all blocks before anything else, while what launches in flight may write is out of reach
 * and nothing can be written; that pass is thrown away. A sequence that ran to its end once has it
 * no more (replay). In flight is the launch in front, which lets the next one begin after its own
 * wait, when all in front of it have ended; where it does so before, those too. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_GRID_YZ = 65535, MOST_BLOCK_Z = 64 };

/* ---- limits, as on the GPU ---- */

static int check_dimensions(const lt_kernel *k, const lt_launch *l, lt_err *err)
{
    const unsigned *g = l->grid, *b = l->block;
    if (!g[0] || !g[1] || !g[2] || g[0] > INT32_MAX || g[1] > MOST_GRID_YZ || g[2] > MOST_GRID_YZ ||
        (uint64_t)g[0] * g[1] > UINT32_MAX || (uint64_t)g[0] * g[1] * g[2] > UINT32_MAX)
        return lt_fail(err, "%s: a grid of (%u,%u,%u) blocks cannot be launched", k->name, g[0],
                       g[1], g[2]);
    const bool small = b[0] <= LT_BLOCK_THREADS && b[1] <= LT_BLOCK_THREADS && b[2] <= MOST_BLOCK_Z;
    const unsigned threads = small ? b[0] * b[1] * b[2] : 0;
    if (!threads || threads > LT_BLOCK_THREADS)
        return lt_fail(err, "%s: a block of (%u,%u,%u) threads cannot be launched (1 to %d)",
                       k->name, b[0], b[1], b[2], LT_BLOCK_THREADS);
    if (k->threads && threads > (unsigned)k->threads)
        return lt_fail(err, "%s: %u threads a block, and the text's launch bounds say %d", k->name,
                       threads, k->threads);
    if (l->shared > LT_SHARED_BYTES)
        return lt_fail(err, "%s: %u bytes of dynamic shared memory, and a block has %d", k->name,
                       l->shared, LT_SHARED_BYTES);
    const size_t blocks = (size_t)g[0] * g[1] * g[2];
    for (size_t i = 0; l->sample && i < l->samples; i++)
        if (l->sample[i] >= blocks)
            return lt_fail(err, "%s: block %u is not one of the grid's %zu", k->name, l->sample[i],
                           blocks);
    return 0;
}

static int check_arguments(const lt_emulator *e, const lt_kernel *k, const lt_arg *args,
                           lt_err *err)
{
    for (int i = 0; i < k->param_count; i++) {
        const lt_cpu_buffer *b = (const lt_cpu_buffer *)args[i].buffer;
        if (!b || b->owner != e)
            return lt_fail(err, "%s: '%s' is no buffer of this device", k->name, k->params[i].name);
        if (args[i].offset > b->base.bytes)
            return lt_fail(err, "%s: '%s' begins at byte %zu of a buffer of %zu", k->name,
                           k->params[i].name, args[i].offset, b->base.bytes);
    }
    return 0;
}

/* ---- the blocks in their order ---- */

static size_t common_divisor(size_t a, size_t b)
{
    while (b) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int no_memory(lt_emulator *e)
{
    lt_fault_note(e, NULL, (lt_site){NULL, 0}, "no memory for the list of blocks");
    return -1;
}

/* Clusters that look for what others put begin again, until there is none. */
static int run_again(lt_emulator *e, size_t *waiting, size_t count)
{
    while (count) {
        size_t left = 0;
        for (size_t i = 0; i < count; i++) {
            const int rc = lt_cluster_run(e, waiting[i]);
            if (rc < 0) return -1;
            if (rc > 0) waiting[left++] = waiting[i];
        }
        if (left == count) {
            const lt_thread *t = &e->at->threads[e->at->block.stopped_thread];
            lt_fault_note(e, t, t->site, "deadlock: looks for what no block puts");
            return -1;
        }
        count = left;
    }
    return 0;
}

/* Forward, reversed, or by a step that meets every cluster once; of sampled blocks theirs. */
static int run_clusters(lt_emulator *e)
{
    const lt_launch *l = e->launch;
    const size_t each = (size_t)e->kernel->base.cluster;
    const size_t count =
        l->sample ? l->samples : (size_t)l->grid[0] * l->grid[1] * l->grid[2] / each;
    size_t at = e->play.order == 1 ? count - 1 : 0, step = e->play.order == 1 ? count - 1 : 1;
    if (e->play.order >= 2 && count > 2) {
        at = (lt_block_random(e) >> 20) % count;
        step = 1 + (lt_block_random(e) >> 20) % (count - 1);
        while (common_divisor(step, count) != 1) step++;
    }
    size_t *waiting = malloc(count * sizeof *waiting), left = 0;
    int rc = waiting ? 0 : no_memory(e);
    for (size_t i = 0; i < count && rc >= 0; i++, at = (at + step) % count) {
        const size_t index = l->sample ? l->sample[at] / each : at;
        rc = lt_cluster_run(e, index);
        if (rc > 0) waiting[left++] = index;
    }
    if (rc >= 0) rc = run_again(e, waiting, left);
    free(waiting);
    return rc;
}

/* ---- the launch ---- */

static int set_up(lt_emulator *e, lt_cpu_kernel *k, const lt_launch *l, const lt_arg *args,
                  lt_err *err)
{
    e->kernel = k;
    e->launch = l;
    e->args = args;
    e->cur = k->cur;
    e->random = 0x9e3779b97f4a7c15u * ((uint64_t)e->play.order + 1);
    e->fault[0] = 0;
    e->hurries = false;
    e->launches++;
    e->main = (lt_fiber){0};
    for (int i = 0; i < k->base.param_count; i++) {
        e->pointers[i] = ((lt_cpu_buffer *)args[i].buffer)->data + args[i].offset;
        e->arguments[i] = &e->pointers[i];
    }
    for (int i = 0; i < k->base.cluster; i++) {
        if (lt_residents_open(e, i + 1)) goto fail;
        e->at = &e->residents[i];
        if (lt_shared_begin(e, l->shared) ||
            lt_stacks_map(&e->at->stacks, (int)(l->block[0] * l->block[1] * l->block[2])))
            goto fail;
        lt_block_set_up(e);
    }
    return 0;
fail:
    return lt_fail(err, "%s: the system gives no memory for stacks and shared arrays",
                   k->base.name);
}

static int begin_checks(lt_emulator *e, lt_err *err)
{
    if (!lt_checker_begin(e)) return 0;
    return lt_fail(err, "%s: the system gives no memory to check it", e->kernel->base.name);
}

/* The pass over what stands in front of lt_pdl_wait. */
static int run_ahead(lt_emulator *e, lt_err *err)
{
    if (lt_memory_hide(e, err) || begin_checks(e, err)) return -1;
    e->ahead = true;
    e->lazy = false; /* a copy that is issued early may land early */
    const int rc = run_clusters(e);
    e->ahead = false;
    if (lt_memory_show(e, err)) return -1;
    return rc ? lt_fail(err, "%s: %s", e->kernel->base.name, e->fault) : 0;
}

static int run_whole(lt_emulator *e, lt_err *err)
{
    if (lt_memory_begin(e, err) || begin_checks(e, err)) return -1;
    e->lazy = e->play.lazy;
    run_clusters(e);
    lt_memory_end(e);
    return *e->fault ? lt_fail(err, "%s: %s", e->kernel->base.name, e->fault) : 0;
}

/* From now on what the launch writes is in flight, and what those in front of it write no more,
 * unless it lets the next one begin before its own wait. */
static void take_off(lt_emulator *e)
{
    const lt_kernel *k = &e->kernel->base;
    if (!e->hurries) e->landed = e->flight;
    e->flight++;
    for (int i = 0; i < k->param_count; i++) {
        lt_cpu_buffer *b = (lt_cpu_buffer *)e->args[i].buffer;
        if (!k->params[i].out) continue;
        b->flight = e->flight;
        memcpy(b->writer, k->name, sizeof b->writer);
    }
}

int lt_launch_run(lt_emulator *e, lt_cpu_kernel *k, const lt_launch *l, const lt_arg *args,
                  lt_err *err)
{
    if (check_dimensions(&k->base, l, err) || check_arguments(e, &k->base, args, err)) return -1;
    if (set_up(e, k, l, args, err)) return -1;
    lt_fault_arm(e, lt_config_int(LT_SET_CPU_SECONDS));
    const int rc = (l->programmatic && run_ahead(e, err)) || run_whole(e, err);
    lt_fault_disarm(e);
    take_off(e);
    e->kernel = NULL;
    return rc ? -1 : 0;
}
