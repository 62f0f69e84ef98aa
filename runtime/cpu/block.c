/* block.c: the threads of one block take turns: who runs next, where they meet, how they end. A
 * thread runs until it waits, and then switches directly to the next that is ready. It must not
 * know how a launch is made. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

/* ---- who runs next ---- */

uint64_t lt_block_random(lt_emulator *e)
{
    uint64_t x = e->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return e->random = x;
}

void lt_block_ready(lt_thread *t)
{
    lt_resident *r = t->emu->at;
    t->state = LT_RUNS;
    r->ready[r->tail++ % LT_QUEUE] = t;
}

/* First come first served, the last first, or by chance; NULL: nobody can run. Bulk copies that are
 * late land only when nobody can run without them. */
static lt_thread *take_ready(lt_emulator *e)
{
    while (e->at->head == e->at->tail)
        if (!lt_copy_land_bulk(e)) return NULL;
    if (e->play.order == 1) return e->at->ready[--e->at->tail % LT_QUEUE];
    lt_thread **first = &e->at->ready[e->at->head++ % LT_QUEUE];
    lt_thread *t = *first;
    if (e->play.order == 0) return t;
    const uint32_t waiting = e->at->tail - e->at->head + 1;
    lt_thread **pick =
        &e->at->ready[(e->at->head - 1 + (lt_block_random(e) >> 20) % waiting) % LT_QUEUE];
    t = *pick;
    *pick = *first;
    return t;
}

/* Where a thread is, for messages: "3", or "(3,0,1)" where the block has more dimensions. */
static void name_thread(const lt_thread *t, char out[48])
{
    if (t->bdim.y == 1 && t->bdim.z == 1)
        snprintf(out, 48, "%u", t->tidx.x);
    else
        snprintf(out, 48, "(%u,%u,%u)", t->tidx.x, t->tidx.y, t->tidx.z);
}

static _Noreturn void blame_returned(lt_thread *waiting, lt_site site, const char *what)
{
    char who[48];
    name_thread(&waiting->emu->at->threads[waiting->emu->at->block.returned_thread], who);
    lt_fault(waiting, site, "%s waits for thread %s, which has returned", what, who);
}

static void leave_block(lt_thread *t)
{
    lt_block *b = &t->emu->at->block;
    t->state = LT_RETURNED;
    b->live--;
    b->returned++;
    b->returned_thread = t->index;
    t->warp->alive &= ~(1u << t->lane);
    const lt_barrier *bar = &b->barriers[0];
    if (bar->arrived) blame_returned(bar->first, bar->site, bar->what);
    lt_warp_leave(t);
    lt_copy_leave(t);
}

/* A fiber. A thread that ends gives its stack to one that has not begun, so that a kernel in which
 * nobody waits uses one stack and never switches. */
static void run_threads(void *arg)
{
    lt_emulator *e = arg;
    lt_fiber_begin(&e->main);
    for (;;) {
        e->kernel->entry(e->arguments);
        lt_thread *t = *e->cur;
        leave_block(t);
        lt_thread *next = take_ready(e);
        if (next && next->stack < 0) {
            next->stack = t->stack;
            next->fiber = t->fiber;
            *e->cur = next;
            continue;
        }
        e->at->free_stacks[e->at->free_count++] = t->stack;
        if (!next) lt_fiber_jump(&e->main);
        *e->cur = next;
        lt_fiber_jump(&next->fiber);
    }
}

static void enter(lt_emulator *e, lt_thread *t)
{
    if (t->stack < 0) {
        t->stack = e->at->free_stacks[--e->at->free_count];
        lt_fiber_prepare(&t->fiber, &e->at->stacks, t->stack, run_threads, e);
    }
    *e->cur = t;
}

void lt_block_pause(lt_thread *t)
{
    lt_emulator *e = t->emu;
    lt_thread *next = take_ready(e);
    if (next == t) return;
    if (next) enter(e, next);
    lt_fiber_switch(&t->fiber, next ? &next->fiber : &e->main);
}

/* ---- where they meet ---- */

static void arrive(lt_barrier *bar, lt_thread *t)
{
    bar->present[t->index / 32] |= 1u << t->lane;
    bar->arrived++;
}

static void wait_in(lt_barrier *bar, lt_thread *t, lt_site site, const char *what, uint32_t id)
{
    t->state = LT_IN_BARRIER;
    t->site = site;
    t->what = what;
    t->mask = id;
    if (!bar->first) {
        t->next = NULL;
        bar->first = bar->last = t;
    } else if (t->emu->play.order == 1) { /* the last of them runs first again */
        t->next = bar->first;
        bar->first = t;
    } else {
        t->next = NULL;
        bar->last = bar->last->next = t;
    }
}

static void open_barrier(lt_barrier *bar)
{
    for (lt_thread *t = bar->first, *next; t; t = next) {
        next = t->next;
        lt_block_ready(t);
    }
    memset(bar, 0, sizeof *bar);
}

/* All threads of the block have met. */
static void open_block(lt_emulator *e)
{
    lt_order_barrier(e);
    open_barrier(&e->at->block.barriers[0]);
}

/* All threads of the block, from one place in the text. True for the last. */
static bool meet(lt_thread *t, lt_site site, const char *what)
{
    lt_block *b = &t->emu->at->block;
    lt_barrier *bar = &b->barriers[0];
    if (b->returned) blame_returned(t, site, what);
    if (!bar->arrived) {
        bar->site = site;
        bar->what = what;
    } else if (!lt_site_is(bar->site, site)) {
        char who[48];
        name_thread(bar->first, who);
        lt_fault(t, site, "divergent %s: thread %s waits in %s at %s:%d", what, who, bar->what,
                 bar->site.file, bar->site.line);
    }
    arrive(bar, t);
    wait_in(bar, t, site, what, 0);
    return bar->arrived == b->threads;
}

void lt_cpu_syncthreads(lt_thread *t, const char *file, int line)
{
    if (meet(t, (lt_site){file, line}, "__syncthreads")) open_block(t->emu);
    lt_block_pause(t);
}

static void check_bar(lt_thread *t, lt_site site, const char *what, int id, int threads)
{
    const lt_block *b = &t->emu->at->block;
    if (id < 1 || id >= LT_BARRIERS)
        lt_fault(t, site, "%s: no barrier has the number %d (1 to %d)", what, id, LT_BARRIERS - 1);
    if (threads <= 0 || threads % 32 || threads > b->threads)
        lt_fault(t, site,
                 "%s: barrier %d cannot wait for %d threads (whole warps of a block of %d)", what,
                 id, threads, b->threads);
    const lt_barrier *bar = &b->barriers[id];
    if (bar->arrived && bar->threads != threads)
        lt_fault(t, site, "%s: barrier %d waits for %d threads here and for %d at %s:%d", what, id,
                 threads, bar->threads, bar->site.file, bar->site.line);
    if (bar->present[t->index / 32] >> t->lane & 1)
        lt_fault(t, site, "%s: arrives a second time at barrier %d, which has not opened", what,
                 id);
}

void lt_cpu_bar(lt_thread *t, const char *file, int line, int id, int threads, int waits)
{
    const lt_site site = {file, line};
    const char *what = waits ? "lt_bar_sync" : "lt_bar_arrive";
    check_bar(t, site, what, id, threads);
    lt_barrier *bar = &t->emu->at->block.barriers[id];
    if (!bar->arrived) {
        bar->threads = threads;
        bar->site = site;
    }
    arrive(bar, t);
    lt_order_arrive(t, id);
    if (waits) wait_in(bar, t, site, what, (uint32_t)id);
    if (bar->arrived == threads) {
        lt_order_open_some(t->emu, id, bar->first);
        open_barrier(bar);
    }
    if (waits) lt_block_pause(t);
}

uint32_t lt_cpu_atomic_add_u32(lt_thread *t, const char *file, int line, uint32_t *p, uint32_t v)
{
    const lt_site site = {file, line};
    lt_memory_align(t, site, "lt_atomic_add_u32", p, 4);
    lt_access_atomic(t, LT_CALLER, p, sizeof *p);
    lt_touch_begin(t, site);
    const uint32_t old = *p;
    *p = old + v;
    lt_touch_end(t);
    return old;
}

bool lt_count_block(lt_thread *t, lt_site site, const char *what, uint32_t *counter,
                    uint32_t blocks)
{
    lt_touch_begin(t, site);
    const uint32_t before = *counter;
    if (before >= blocks)
        lt_fault(t, site,
                 "%s: the counter holds %u, with %u blocks (it must be zero before "
                 "the launch)",
                 what, before, blocks);
    const bool last = before == blocks - 1;
    *counter = last ? 0 : before + 1;
    lt_touch_end(t);
    return last;
}

int lt_cpu_last_block(lt_thread *t, const char *file, int line, uint32_t *counter, uint32_t blocks)
{
    static const char what[] = "lt_last_block";
    const lt_site site = {file, line};
    lt_block *b = &t->emu->at->block;
    lt_memory_align(t, site, what, counter, 4);
    const bool first = !b->barriers[0].arrived, full = meet(t, site, what);
    if (first) {
        b->counter = counter;
        b->blocks = blocks;
    } else if (b->counter != counter || b->blocks != blocks) {
        lt_fault(t, site, "%s: the threads of the block give different arguments", what);
    }
    if (full) {
        b->last = lt_count_block(t, site, what, counter, blocks);
        open_block(t->emu);
        lt_order_last_block(t->emu, counter, b->last);
    }
    lt_block_pause(t);
    return b->last;
}

/* ---- what blocks put for each other ---- */

void lt_cpu_put(lt_thread *t, const char *file, int line, uint64_t *p, uint32_t value,
                uint32_t flag)
{
    const lt_site site = {file, line};
    lt_memory_align(t, site, "lt_put", p, 8);
    lt_access_atomic(t, LT_CALLER, p, sizeof *p);
    lt_touch_begin(t, site);
    *p = (uint64_t)flag << 32 | value;
    lt_touch_end(t);
}

uint64_t lt_cpu_peek(lt_thread *t, const char *file, int line, const uint64_t *p)
{
    const lt_site site = {file, line};
    lt_memory_align(t, site, "lt_peek", p, 8);
    lt_access_atomic(t, LT_CALLER, p, sizeof *p);
    lt_touch_begin(t, site);
    const uint64_t pair = *p;
    lt_touch_end(t);
    return pair;
}

static void stop(lt_thread *t, lt_site site)
{
    lt_block *b = &t->emu->at->block;
    t->state = LT_STOPPED;
    t->site = site;
    b->live--;
    b->stopped++;
    b->stopped_thread = t->index;
    lt_block_pause(t);
}

/* The block begins again when others have run; those of a cluster cannot one by one. */
int lt_cpu_look_again(lt_thread *t, const char *file, int line, int missing)
{
    const lt_site site = {file, line};
    if (t->emu->kernel->base.cluster > 1)
        lt_fault(t, site, "lt_look_again: the CPU device has none in a cluster");
    if (missing) stop(t, site);
    return 0;
}

/* ---- the barrier of a cluster ---- */

/* shows: those behind the wait see what t wrote in front of this. */
void lt_cpu_cluster_arrive(lt_thread *t, const char *file, int line, int shows)
{
    if (t->at_cluster)
        lt_fault(t, (lt_site){file, line}, "%s: a second time before lt_cluster_wait",
                 shows ? "lt_cluster_arrive" : "lt_cluster_begin");
    t->at_cluster = true;
    if (shows) lt_order_cluster_arrive(t);
}

/* The block is parked when its last thread comes. */
void lt_cpu_cluster_wait(lt_thread *t, const char *file, int line)
{
    const lt_site site = {file, line};
    if (!t->at_cluster) lt_fault(t, site, "lt_cluster_wait without lt_cluster_arrive");
    if (meet(t, site, "lt_cluster_wait")) t->emu->at->state = LT_PARKED;
    lt_block_pause(t);
    t->at_cluster = false;
}

/* ---- programmatic dependent launch ---- */

/* In the pass ahead a thread ends here: what follows may be late, what was in front is early. */
void lt_cpu_pdl_wait(lt_thread *t, const char *file, int line)
{
    if (t->emu->ahead) stop(t, (lt_site){file, line});
}

/* The next launch counts on it that what is in front of this one has ended. */
void lt_cpu_pdl_launch(lt_thread *t, const char *file, int line)
{
    if (t->emu->ahead) lt_fault(t, (lt_site){file, line}, "lt_pdl_launch before lt_pdl_wait");
}

/* The next launch does not count on it. */
void lt_cpu_pdl_launch_ahead(lt_thread *t, const char *file, int line)
{
    (void)file, (void)line;
    t->emu->hurries |= t->emu->ahead;
}

/* ---- a block from its begin to its end ---- */

void lt_block_set_up(lt_emulator *e)
{
    const unsigned *block = e->launch->block, *grid = e->launch->grid;
    e->at->block.threads = (int)(block[0] * block[1] * block[2]);
    for (int i = 0; i < e->at->block.threads; i++) {
        lt_thread *t = &e->at->threads[i];
        const unsigned n = (unsigned)i;
        t->tidx = (lt_dim3){n % block[0], n / block[0] % block[1], n / block[0] / block[1]};
        t->bdim = (lt_dim3){block[0], block[1], block[2]};
        t->gdim = (lt_dim3){grid[0], grid[1], grid[2]};
        t->dynamic = e->at->slots[0].data;
        t->emu = e;
        t->warp = &e->at->warps[n / 32];
        t->index = i;
        t->lane = n % 32;
        t->copies = e->at->copies + (size_t)i * LT_COPIES;
    }
}

static int begin_block(lt_emulator *e, size_t index)
{
    const unsigned *grid = e->launch->grid;
    lt_block *b = &e->at->block;
    e->at->index = index;
    e->at->block_index =
        (lt_dim3){(uint32_t)(index % grid[0]), (uint32_t)(index / grid[0] % grid[1]),
                  (uint32_t)(index / grid[0] / grid[1])};
    b->live = b->threads;
    b->returned = b->stopped = b->bulk_count = b->bulk_pending = b->unfenced_count = 0;
    b->mbarrier_waiters = NULL;
    memset(b->barriers, 0, sizeof b->barriers);
    for (int i = 0; i < b->threads; i += 32) {
        lt_warp *w = &e->at->warps[i / 32];
        const int lanes = b->threads - i;
        w->alive = lanes >= 32 ? 0xffffffffu : (1u << lanes) - 1;
        w->count = 0;
    }
    e->at->head = e->at->tail = 0;
    for (int i = 0; i < b->threads; i++) {
        lt_thread *t = &e->at->threads[i];
        t->bidx = e->at->block_index;
        t->stack = -1;
        t->copy_count = t->group_count = 0;
        t->at_cluster = false;
        lt_block_ready(t);
    }
    for (int i = 0; i < b->threads; i++) e->at->free_stacks[i] = b->threads - 1 - i;
    e->at->free_count = b->threads;
    return lt_order_begin_block(e, index);
}

static bool waits_alike(const lt_thread *a, const lt_thread *b)
{
    return a->state == b->state && a->mask == b->mask && !strcmp(a->what, b->what) &&
           lt_site_is(a->site, b->site);
}

static bool waits(const lt_thread *t)
{
    return t->state == LT_IN_BARRIER || t->state == LT_IN_COLLECTIVE || t->state == LT_IN_MBARRIER;
}

/* "32 in __syncwarp at a.cut:7 (the first is thread 0)" for the threads that wait like t. */
static int describe_group(const lt_emulator *e, int first, const char *separator, char *out,
                          size_t size)
{
    const lt_thread *t = &e->at->threads[first];
    char who[48], detail[256] = "";
    int count = 0;
    for (int i = first; i < e->at->block.threads; i++)
        count += waits(&e->at->threads[i]) && waits_alike(t, &e->at->threads[i]);
    name_thread(t, who);
    if (t->state == LT_IN_COLLECTIVE) snprintf(detail, sizeof detail, ", mask %08x", t->mask);
    if (t->state == LT_IN_BARRIER && t->mask)
        snprintf(detail, sizeof detail, ", barrier %u (%d of %d threads)", t->mask,
                 e->at->block.barriers[t->mask].arrived, e->at->block.barriers[t->mask].threads);
    if (t->state == LT_IN_MBARRIER) lt_copy_describe_wait(t, detail, sizeof detail);
    return snprintf(out, size, "%s%d in %s at %s:%d%s (the first is thread %s)", separator, count,
                    t->what, t->site.file, t->site.line, detail, who);
}

void lt_block_report(lt_emulator *e)
{
    char text[800] = "";
    size_t used = 0;
    const lt_thread *blamed = NULL;
    for (int i = 0; i < e->at->block.threads; i++) {
        const lt_thread *t = &e->at->threads[i];
        bool seen = !waits(t);
        for (int j = 0; j < i && !seen; j++)
            seen = waits(&e->at->threads[j]) && waits_alike(&e->at->threads[j], t);
        if (seen || used >= sizeof text) continue;
        if (!blamed) blamed = t;
        used += (size_t)describe_group(e, i, used ? "; " : "", text + used, sizeof text - used);
    }
    lt_fault_note(e, blamed, blamed ? blamed->site : (lt_site){NULL, 0},
                  "deadlock: %d threads never end: %s", e->at->block.live, text);
}

/* The queue has run dry, or a thread has failed. */
static lt_block_end end_block(lt_emulator *e)
{
    const lt_block *b = &e->at->block;
    if (e->caught.signal) lt_fault_explain(e);
    if (e->checker) lt_access_explain(e);
    if (*e->fault) return LT_BLOCK_FAULT;
    if (e->at->state == LT_PARKED) return LT_BLOCK_WAITS;
    if (e->kernel->base.cluster > 1 && b->mbarrier_waiters) {
        e->at->state = LT_STARVED;
        return LT_BLOCK_WAITS;
    }
    e->at->state = LT_ENDED;
    if (b->stopped) return e->ahead ? LT_BLOCK_ENDED : LT_BLOCK_AGAIN;
    if (b->live)
        lt_block_report(e);
    else if (e->ahead)
        lt_fault_note(e, &e->at->threads[0], (lt_site){NULL, 0},
                      "no thread of the block calls lt_pdl_wait, and the launch is programmatic");
    else
        lt_copy_end(e);
    if (!*e->fault) lt_shared_check(e);
    return *e->fault ? LT_BLOCK_FAULT : LT_BLOCK_ENDED;
}

static lt_block_end run_ready(lt_emulator *e)
{
    e->at->state = LT_BEGUN;
    lt_thread *first = take_ready(e);
    enter(e, first);
    e->running = true;
    lt_fiber_switch(&e->main, &first->fiber);
    e->running = false;
    return end_block(e);
}

static lt_block_end no_memory(lt_emulator *e)
{
    lt_fault_note(e, NULL, (lt_site){NULL, 0}, "no memory to check block %zu", e->at->index);
    return LT_BLOCK_FAULT;
}

lt_block_end lt_block_run(lt_emulator *e, size_t index)
{
    if (begin_block(e, index)) return no_memory(e);
    lt_shared_poison(e);
    return run_ready(e);
}

lt_block_end lt_block_resume(lt_emulator *e)
{
    if (lt_order_resume(e)) return no_memory(e);
    if (e->at->state == LT_PARKED) open_barrier(&e->at->block.barriers[0]);
    return run_ready(e);
}
