/* copy.c: asynchronous copies. Eager, they land when they are issued; lazy, as late as a correct
 * kernel can bear: cp.async at its wait, a bulk copy when no thread can go on without it. Either
 * way a copy that nobody waits for is a fault. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

static void check_shared(lt_thread *t, lt_site site, const char *what, const void *p, size_t bytes)
{
    char where[160];
    if (lt_shared_holds(t->emu, p, bytes)) return;
    lt_memory_describe(t->emu, p, where, sizeof where);
    lt_fault(t, site, "%s: the %zu bytes at %s do not lie in one shared array", what, bytes, where);
}

/* ---- cp.async: copies and groups of one thread ---- */

static void land(lt_thread *t, const lt_copy *c)
{
    lt_touch_begin(t, c->site);
    memcpy(c->to, c->from, 16);
    lt_touch_end(t);
}

void lt_cpu_cp_async16(lt_thread *t, const char *file, int line, void *to, const void *from)
{
    static const char what[] = "lt_cp_async16";
    const lt_site site = {file, line};
    lt_memory_align(t, site, what, to, 16);
    lt_memory_align(t, site, what, from, 16);
    check_shared(t, site, what, to, 16);
    if (t->copy_count == LT_COPIES)
        lt_fault(t, site, "%s: more than %d copies of a thread are in flight", what, LT_COPIES);
    lt_copy *c = &t->copies[t->copy_count];
    *c = (lt_copy){to, from, site};
    lt_access_copy(t, LT_CALLER, to, from, 16);
    if (!t->emu->lazy) land(t, c);
    t->copy_count++;
}

void lt_cpu_cp_commit(lt_thread *t, const char *file, int line)
{
    if (t->group_count == LT_COPY_GROUPS)
        lt_fault(t, (lt_site){file, line}, "lt_cp_commit: more than %d groups are in flight",
                 LT_COPY_GROUPS);
    t->group_end[t->group_count++] = t->copy_count;
}

/* All but the newest `groups` groups land. */
void lt_cpu_cp_wait(lt_thread *t, const char *file, int line, int groups)
{
    if (groups < 0) lt_fault(t, (lt_site){file, line}, "lt_cp_wait: %d groups", groups);
    const int done = t->group_count - groups;
    if (done <= 0) return;
    const int copies = t->group_end[done - 1];
    if (t->emu->lazy)
        for (int i = 0; i < copies; i++) land(t, &t->copies[i]);
    for (int i = 0; i < copies; i++) lt_access_land(t, t->copies[i].to, 16);
    t->copy_count -= copies;
    t->group_count -= done;
    memmove(t->copies, t->copies + copies, (size_t)t->copy_count * sizeof *t->copies);
    for (int i = 0; i < t->group_count; i++) t->group_end[i] = t->group_end[i + done] - copies;
}

void lt_copy_leave(lt_thread *t)
{
    if (t->copy_count)
        lt_fault(t, t->copies[0].site,
                 "lt_cp_async16: the thread returns and has not waited for it");
}

/* ---- mbarriers: their state is in their 8 bytes of shared memory ---- */

typedef struct {
    uint32_t expected, pending; /* arrivals a phase; still to come */
    int32_t bytes;              /* of copies, still to come in this phase */
    uint32_t parity;            /* of the phase that runs */
    bool unfenced;              /* no fence since the init */
} mbarrier;

enum {
    MAGIC = 0xb42a,                /* the upper 16 bits */
    MOST_ARRIVALS = (1 << 11) - 1, /* bits 0 to 10 and 11 to 21 */
    MOST_BYTES = (1 << 20) - 1     /* as on the GPU; bits 22 to 43, signed; then parity, unfenced */
};

static uint64_t pack(const mbarrier *m)
{
    return (uint64_t)MAGIC << 48 | (uint64_t)m->unfenced << 45 | (uint64_t)m->parity << 44 |
           ((uint64_t)(uint32_t)m->bytes & 0x3fffff) << 22 | (uint64_t)m->pending << 11 |
           m->expected;
}

static mbarrier unpack(uint64_t word)
{
    const uint32_t bytes = word >> 22 & 0x3fffff;
    return (mbarrier){word & 0x7ff, word >> 11 & 0x7ff,
                      bytes & 0x200000 ? (int32_t)bytes - 0x400000 : (int32_t)bytes, word >> 44 & 1,
                      word >> 45 & 1};
}

static void check_place(lt_thread *t, lt_site site, const char *what, const uint64_t *bar)
{
    char where[160];
    if (!((uintptr_t)bar % 8) && lt_shared_holds(t->emu, bar, 8)) return;
    lt_memory_describe(t->emu, bar, where, sizeof where);
    lt_fault(t, site, "%s: the mbarrier at %s is not 8 aligned bytes of shared memory", what,
             where);
}

static mbarrier load(lt_thread *t, lt_site site, const char *what, const uint64_t *bar)
{
    char where[160];
    check_place(t, site, what, bar);
    if (*bar >> 48 == MAGIC) return unpack(*bar);
    lt_memory_describe(t->emu, bar, where, sizeof where);
    lt_fault(t, site, "%s: %s is no mbarrier (lt_mbar_init it first, then a barrier of the block)",
             what, where);
}

/* The phase ends when nothing is to come: the next begins, and those that wait go on: whoever waits
 * waits for the phase that runs. */
static void store(lt_emulator *e, uint64_t *bar, mbarrier m)
{
    const bool over = !m.pending && !m.bytes;
    if (over) {
        m.parity ^= 1;
        m.pending = m.expected;
    }
    *bar = pack(&m);
    if (!over) return;
    lt_order_mbarrier_end_phase(e, bar);
    for (lt_thread **link = &e->at->block.mbarrier_waiters; *link;) {
        lt_thread *t = *link;
        if (t->mbarrier != bar) {
            link = &t->next;
            continue;
        }
        *link = t->next;
        lt_block_ready(t);
    }
}

void lt_cpu_mbar_init(lt_thread *t, const char *file, int line, uint64_t *bar, uint32_t arrivals)
{
    static const char what[] = "lt_mbar_init";
    const lt_site site = {file, line};
    lt_block *b = &t->emu->at->block;
    check_place(t, site, what, bar);
    if (arrivals < 1 || arrivals > MOST_ARRIVALS)
        lt_fault(t, site, "%s: %u arrivals (1 to %d)", what, arrivals, MOST_ARRIVALS);
    if (*bar >> 48 == MAGIC) {
        char where[160];
        lt_memory_describe(t->emu, bar, where, sizeof where);
        lt_fault(t, site, "%s: %s is an mbarrier already", what, where);
    }
    if (b->unfenced_count == LT_UNFENCED)
        lt_fault(t, site, "%s: more than %d without lt_mbar_fence", what, LT_UNFENCED);
    if (lt_order_mbarrier(t->emu, bar))
        lt_fault(t, site, "%s: more mbarriers in a block than the checker can tell apart", what);
    b->unfenced[b->unfenced_count].thread = t;
    b->unfenced[b->unfenced_count++].mbarrier = bar;
    *bar = pack(&(mbarrier){arrivals, arrivals, 0, 0, true});
}

/* Shows the thread's own inits to the unit that copies. */
void lt_cpu_mbar_fence(lt_thread *t, const char *file, int line)
{
    lt_block *b = &t->emu->at->block;
    int kept = 0;
    (void)file;
    (void)line;
    for (int i = 0; i < b->unfenced_count; i++) {
        if (b->unfenced[i].thread != t) {
            b->unfenced[kept++] = b->unfenced[i];
            continue;
        }
        uint64_t *bar = b->unfenced[i].mbarrier;
        mbarrier m = unpack(*bar);
        if (*bar >> 48 != MAGIC) continue; /* overwritten: whoever uses it is told */
        m.unfenced = false;
        *bar = pack(&m);
    }
    b->unfenced_count = kept;
}

void lt_cpu_mbar_arrive(lt_thread *t, const char *file, int line, uint64_t *bar, uint32_t bytes)
{
    const char *what = bytes ? "lt_mbar_expect" : "lt_mbar_arrive";
    const lt_site site = {file, line};
    mbarrier m = load(t, site, what, bar);
    if (!m.pending)
        lt_fault(t, site, "%s: a %u. arrival, and the mbarrier waits for %u and %d bytes", what,
                 m.expected + 1, m.expected, m.bytes);
    if (bytes > MOST_BYTES || m.bytes + (int32_t)bytes > MOST_BYTES)
        lt_fault(t, site, "%s: %u bytes (a phase counts to %d)", what, bytes, MOST_BYTES);
    lt_order_mbarrier_arrive(t, bar);
    m.pending--;
    m.bytes += (int32_t)bytes;
    store(t->emu, bar, m);
}

/* Copies of that barrier that have landed were waited for. */
static void forget_landed(lt_block *b, const uint64_t *bar)
{
    int kept = 0;
    for (int i = 0; i < b->bulk_count; i++)
        if (b->bulk[i].mbarrier != bar || !b->bulk[i].landed) b->bulk[kept++] = b->bulk[i];
    b->bulk_count = kept;
}

void lt_cpu_mbar_wait(lt_thread *t, const char *file, int line, uint64_t *bar, uint32_t parity)
{
    static const char what[] = "lt_mbar_wait";
    const lt_site site = {file, line};
    lt_block *b = &t->emu->at->block;
    const mbarrier m = load(t, site, what, bar);
    if (parity > 1) lt_fault(t, site, "%s: parity %u (0 or 1)", what, parity);
    if (m.parity == parity) {
        t->state = LT_IN_MBARRIER;
        t->site = site;
        t->what = what;
        t->mask = parity;
        t->mbarrier = bar;
        lt_thread **end = &b->mbarrier_waiters;
        while (*end) end = &(*end)->next;
        t->next = NULL;
        *end = t;
        lt_block_pause(t);
    }
    lt_order_mbarrier_waited(t, bar);
    if (b->bulk_count) forget_landed(b, bar);
}

void lt_copy_describe_wait(const lt_thread *t, char *out, size_t size)
{
    char where[160];
    const mbarrier m = unpack(*t->mbarrier);
    lt_memory_describe(t->emu, t->mbarrier, where, sizeof where);
    snprintf(out, size, " for %s, parity %u (to come: %u of %u arrivals, %d bytes)", where, t->mask,
             m.pending, m.expected, m.bytes);
}

/* ---- bulk copies ---- */

static void land_bulk(lt_emulator *e, lt_bulk *c)
{
    lt_touch_begin(c->thread, c->site);
    memcpy(c->to, c->from, c->bytes);
    lt_touch_end(c->thread);
    c->landed = true;
    lt_access_land_bulk(e, c->to, c->bytes, c->mbarrier);
    mbarrier m = load(c->thread, c->site, "lt_bulk_load", c->mbarrier);
    m.bytes -= (int32_t)c->bytes;
    if (m.bytes < -MOST_BYTES)
        lt_fault(c->thread, c->site, "lt_bulk_load: %d bytes more than the mbarrier expects",
                 -m.bytes);
    store(e, c->mbarrier, m);
}

bool lt_copy_land_bulk(lt_emulator *e)
{
    lt_block *b = &e->at->block;
    if (!b->bulk_pending) return false;
    for (int i = 0; i < b->bulk_count; i++) {
        if (b->bulk[i].landed) continue;
        b->bulk_pending--;
        land_bulk(e, &b->bulk[i]);
        return true;
    }
    return false;
}

/* Inside one buffer, to the byte: the guard page leaves room for 15. */
static void check_source(lt_thread *t, lt_site site, const char *what, const char *from,
                         uint32_t bytes)
{
    char where[160];
    const lt_cpu_buffer *b = lt_memory_find(t->emu, from);
    if (b && from >= b->data && bytes <= b->base.bytes && from <= b->data + (b->base.bytes - bytes))
        return;
    lt_memory_describe(t->emu, from, where, sizeof where);
    lt_fault(t, site, "%s: the %u bytes at %s do not lie in one buffer", what, bytes, where);
}

static void check_bulk(lt_thread *t, lt_site site, const char *what, const void *from,
                       uint32_t bytes)
{
    lt_memory_align(t, site, what, from, 16);
    if (!bytes || bytes % 16)
        lt_fault(t, site, "%s: %u bytes are not a multiple of 16", what, bytes);
}

void lt_cpu_bulk_load(lt_thread *t, const char *file, int line, void *to, const void *from,
                      uint32_t bytes, uint64_t *bar)
{
    static const char what[] = "lt_bulk_load";
    const lt_site site = {file, line};
    lt_block *b = &t->emu->at->block;
    check_bulk(t, site, what, from, bytes);
    lt_memory_align(t, site, what, to, 16);
    check_shared(t, site, what, to, bytes);
    check_source(t, site, what, from, bytes);
    if (load(t, site, what, bar).unfenced)
        lt_fault(t, site, "%s: no lt_mbar_fence after the mbarrier's init", what);
    if (b->bulk_count == LT_BULK_COPIES)
        lt_fault(t, site, "%s: more than %d copies of a block are in flight", what, LT_BULK_COPIES);
    lt_bulk *c = &b->bulk[b->bulk_count++];
    *c = (lt_bulk){to, from, bytes, bar, t, site, false};
    lt_access_copy(t, LT_CALLER, to, from, bytes);
    if (t->emu->lazy)
        b->bulk_pending++;
    else
        land_bulk(t->emu, c);
}

void lt_cpu_bulk_prefetch(lt_thread *t, const char *file, int line, const void *p, uint32_t bytes)
{
    check_bulk(t, (lt_site){file, line}, "lt_bulk_prefetch_l2", p, bytes);
}

/* ---- what a block gives to another one of its cluster, whose mbarrier counts it ---- */

void lt_cpu_cluster_give(lt_thread *t, const char *file, int line, const void *p, uint32_t rank,
                         const void *v, const uint64_t *bar)
{
    static const char what[] = "lt_cluster_give128";
    const lt_site site = {file, line};
    lt_emulator *e = t->emu;
    lt_resident *const own = e->at;
    void *to = lt_cluster_place(t, site, what, p, rank, 16);
    uint64_t *counts = lt_cluster_place(t, site, what, bar, rank, 8);
    mbarrier m = load(t, site, what, counts);
    if (m.unfenced) lt_fault(t, site, "%s: no lt_mbar_fence after the mbarrier's init", what);
    m.bytes -= 16;
    if (m.bytes < -MOST_BYTES)
        lt_fault(t, site, "%s: %d bytes more than the mbarrier expects", what, -m.bytes);
    lt_access_copy(t, LT_CALLER, to, v, 16);
    memcpy(to, v, 16);
    lt_cluster_turn(e, &e->residents[rank]);
    lt_access_land_bulk(e, to, 16, counts);
    lt_order_mbarrier_give(e, counts, (int)(own - e->residents));
    store(e, counts, m);
    lt_cluster_turn(e, own);
}

void lt_copy_end(lt_emulator *e)
{
    const lt_block *b = &e->at->block;
    if (b->bulk_count)
        lt_fault_note(e, b->bulk[0].thread, b->bulk[0].site,
                      "lt_bulk_load: the block ends and nobody has waited for its mbarrier");
}
