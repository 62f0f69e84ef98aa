/* access.c: one access of a kernel against all that came before: is it aligned, inside, is what it
 * reads written, is it ordered with those that touched the same bytes? What is on a thread's own
 * stack is its own. The first finding ends the launch. */
#include "calls.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* ORDER ACCESS: templates/prelude/hooks.h */
enum { READS, WRITES, ANYWHERE };

typedef struct {
    lt_thread *thread;
    const char *pc, *p; /* pc: where the call returns to */
    size_t bytes;
    bool writes;
    unsigned kind; /* of the stamp */
} access;

/* What is known of the bytes of an access. */
typedef struct {
    lt_cell *cells; /* NULL: nobody may write them in this launch */
    uint8_t *known; /* NULL: written where the cell says so, or, without cells, taken for it */
    uint32_t since; /* cells with earlier ticks say nothing */
} place;

static _Noreturn void end_launch(lt_emulator *e)
{
    lt_fiber_jump(&e->main);
}

static _Noreturn void report(const access *a, lt_finding finding, size_t at, lt_stamp against,
                             bool wrote)
{
    lt_emulator *e = a->thread->emu;
    e->checker->found = (lt_found){.finding = finding,
                                   .thread = a->thread,
                                   .p = a->p + at,
                                   .pc = a->pc,
                                   .bytes = a->bytes,
                                   .writes = a->writes,
                                   .against = against,
                                   .wrote = wrote};
    end_launch(e);
}

/* The same fault as at a guard page. */
static _Noreturn void end_outside(const access *a, const char *address)
{
    lt_emulator *e = a->thread->emu;
    e->caught = (lt_caught){.signal = SIGSEGV,
                            .code = SEGV_ACCERR,
                            .write = a->writes,
                            .address = address,
                            .pc = a->pc - 1};
    end_launch(e);
}

/* Is it inside of what it meant, to the byte and on both sides? */
static void check_bounds(const access *a, const char *data, size_t bytes)
{
    const char *end = data + bytes;
    if (a->p >= data && a->p + a->bytes <= end) return;
    const bool starts_inside = a->p >= data && a->p < end;
    end_outside(a, starts_inside ? end : a->p);
}

static bool is_in(const char *p, const void *first, size_t bytes)
{
    return (uintptr_t)p - (uintptr_t)first < bytes;
}

/* Is it neither a buffer's nor a shared array's, and yet the kernel's: a thread's stack, constants,
 * what lt_entry is called with? */
static bool is_own(const lt_emulator *e, const char *p)
{
    return lt_stacks_holds(&e->at->stacks, p) || is_in(p, e->kernel->code, e->kernel->code_bytes) ||
           is_in(p, e->pointers, sizeof e->pointers) || is_in(p, e->arguments, sizeof e->arguments);
}

/* What a launch only reads may be a cache whose pages are read whole and filled one by one: it is
 * enough that somebody wrote some of it. False: the bytes are the kernel's own, or their page lets
 * nobody touch them: that fault is named when it happens. */
static bool find_place(const access *a, place *out)
{
    const lt_emulator *e = a->thread->emu;
    if (is_own(e, a->p)) return false;
    const lt_slot *s = lt_shared_find(e, a->p);
    if (s) {
        check_bounds(a, s->data, s->name ? s->bytes : 0);
        *out = (place){.cells = e->checker->shared + (a->p - e->arena),
                       .since = lt_order_begin(e->checker, lt_shared_resident(e, a->p))};
        return true;
    }
    const lt_cpu_buffer *b = lt_memory_find(e, a->p);
    if (!b) end_outside(a, a->p);
    check_bounds(a, b->data, b->base.bytes);
    if (!(b->protection & (a->writes ? PROT_WRITE : PROT_READ))) return false;
    const size_t at = (size_t)(a->p - b->data);
    const bool writable = b->out_of == e->launches && b->shadow.cells;
    *out = (place){.cells = writable ? b->shadow.cells + at : NULL,
                   .known = writable || !b->shadow.used ? b->shadow.known + at : NULL,
                   .since = 1};
    return true;
}

/* ---- one byte ---- */

static bool may_conflict(const access *a, lt_stamp with, uint32_t since)
{
    if (with.tick < since) return false;
    return a->kind != LT_STAMP_ATOMIC || with.kind != LT_STAMP_ATOMIC;
}

static void check_races(const access *a, const lt_cell *c, uint32_t since, size_t at)
{
    if (may_conflict(a, c->written, since) && !lt_order_knows(a->thread, c->written))
        report(a, LT_FOUND_RACE, at, c->written, true);
    if (!a->writes) return;
    const lt_stamp readers[] = {c->read, c->other};
    for (int i = 0; i < 2; i++)
        if (may_conflict(a, readers[i], since) && !lt_order_knows_read(a->thread, readers[i]) &&
            !lt_order_repeats(a->thread, readers[i]))
            report(a, LT_FOUND_RACE, at, readers[i], false);
}

/* How much a reader adds to the knowledge of another: 0, it is the same thread; 1 to 3, its warp,
 * its block, the grid. */
static int distance(const lt_emulator *e, lt_stamp from, lt_stamp to, uint32_t since)
{
    if (from.tick < since) return 0;
    if (lt_order_nearness(e->checker, from.tick) != LT_OWN_BLOCK) return 3;
    if (from.thread / 32 != to.thread / 32) return 2;
    return from.thread != to.thread;
}

static void keep_reader(const lt_emulator *e, lt_cell *c, lt_stamp by, uint32_t since)
{
    if (distance(e, c->read, by, since) >= distance(e, c->other, by, since)) c->other = c->read;
    c->read = by;
}

static lt_stamp stamp(const lt_thread *t, const char *pc, unsigned kind)
{
    const lt_emulator *e = t->emu;
    return (lt_stamp){.tick = lt_order_now(e->checker),
                      .pc = (uint32_t)(pc - e->kernel->code) & (LT_CODE_BYTES - 1),
                      .thread = (uint32_t)t->index & (LT_BLOCK_THREADS - 1),
                      .kind = kind & 3};
}

static void check(const access *a)
{
    place at;
    if (!find_place(a, &at)) return;
    const lt_stamp mine = stamp(a->thread, a->pc, a->kind);
    for (size_t i = 0; i < a->bytes; i++) {
        lt_cell *c = at.cells ? at.cells + i : NULL;
        const bool known = at.known ? at.known[i] : !c || c->written.tick >= at.since;
        const bool reads = !a->writes || a->kind == LT_STAMP_ATOMIC;
        if (reads && !known) report(a, LT_FOUND_UNKNOWN, i, mine, false);
        if (c) check_races(a, c, at.since, i);
        if (c && a->writes) *c = (lt_cell){.written = mine};
        if (c && !a->writes) keep_reader(a->thread->emu, c, mine, at.since);
        if (a->writes && at.known) at.known[i] = 1;
    }
}

/* ---- from the text, from the host ---- */

void lt_cpu_access(lt_thread *t, const void *pc, const void *p, size_t bytes, int how)
{
    const access a = {t, pc, p, bytes, how & WRITES, LT_STAMP_PLAIN};
    if (!(how & ANYWHERE) && (uintptr_t)p % bytes)
        report(&a, LT_FOUND_MISALIGNED, 0, (lt_stamp){0}, false);
    check(&a);
}

void lt_access_read(lt_thread *t, const void *pc, const void *p, size_t bytes)
{
    const access a = {t, pc, p, bytes, false, LT_STAMP_PLAIN};
    if (t->emu->checker) check(&a);
}

void lt_access_atomic(lt_thread *t, const void *pc, const void *p, size_t bytes)
{
    const access a = {t, pc, p, bytes, true, LT_STAMP_ATOMIC};
    if (t->emu->checker) check(&a);
}

void lt_access_copy(lt_thread *t, const void *pc, const void *to, const void *from, size_t bytes)
{
    const access a = {t, pc, to, bytes, true, LT_STAMP_FLIES};
    lt_access_read(t, pc, from, bytes);
    if (t->emu->checker) check(&a);
}

static void land(lt_emulator *e, const char *to, size_t bytes, unsigned kind, uint32_t tick)
{
    lt_cell *c = e->checker->shared + (to - e->arena);
    for (size_t i = 0; i < bytes; i++) {
        c[i].written.tick = tick;
        c[i].written.kind = kind & 3;
    }
}

void lt_access_land(lt_thread *t, const void *to, size_t bytes)
{
    lt_emulator *e = t->emu;
    if (e->checker) land(e, to, bytes, LT_STAMP_PLAIN, lt_order_now(e->checker));
}

void lt_access_land_bulk(lt_emulator *e, const void *to, size_t bytes, const uint64_t *bar)
{
    if (e->checker) land(e, to, bytes, LT_STAMP_BULK, lt_order_mbarrier_land(e, bar));
}

/* ---- the sentence ---- */

/* "which thread 3 writes at t.cut:3 (no barrier orders them)": the access that is in the way. */
static void describe_other(lt_emulator *e, const lt_found *f, char *out, size_t size)
{
    static const char *const by[] = {[LT_OWN_BLOCK] = "no barrier orders them",
                                     [LT_OWN_CLUSTER] = "no lt_cluster_wait orders them",
                                     [LT_OTHER_CLUSTER] = "only lt_last_block/warp order blocks"};
    char line[420], who[64] = "";
    const lt_stamp s = f->against;
    const lt_nearness near = lt_order_nearness(e->checker, s.tick);
    if (lt_line_find(e->kernel, e->kernel->code + s.pc - 1, line, sizeof line))
        snprintf(line, sizeof line, "an unknown line");
    if (s.kind == LT_STAMP_FLIES || s.kind == LT_STAMP_BULK) {
        snprintf(out, size, "to which the copy of %.400s is %s", line,
                 s.kind == LT_STAMP_FLIES ? "under way (wait for it first)"
                                          : "made (wait for its mbarrier first)");
        return;
    }
    if (near != LT_OWN_BLOCK)
        snprintf(who, sizeof who, "block %zu, ", lt_order_block_at(e->checker, s.tick));
    lt_fault_name_thread(&e->at->threads[s.thread], who + strlen(who), sizeof who - strlen(who));
    snprintf(out, size, "which %s %s at %.400s (%s)", who, f->wrote ? "writes" : "reads", line,
             by[near]);
}

void lt_access_explain(lt_emulator *e)
{
    const lt_found f = e->checker->found;
    const char *verb = f.writes ? "writes" : "reads";
    char where[160], other[560];
    e->checker->found.finding = LT_FOUND_NOTHING;
    lt_memory_describe(e, f.p, where, sizeof where);
    switch (f.finding) {
    case LT_FOUND_NOTHING: return;
    case LT_FOUND_MISALIGNED:
        lt_fault_at(e, f.thread, f.pc - 1, "%s is not %zu-byte aligned", where, f.bytes);
        return;
    case LT_FOUND_UNKNOWN:
        lt_fault_at(e, f.thread, f.pc - 1, "reads %s, which nobody has written", where);
        return;
    case LT_FOUND_RACE:
        describe_other(e, &f, other, sizeof other);
        lt_fault_at(e, f.thread, f.pc - 1, "race: %s %s, %s", verb, where, other);
    }
}
