/* order.c: which accesses of a launch are ordered. Time is counted in ticks, one more at each event
 * that orders something. What happened before the last barrier of the block or the last whole
 * __syncwarp of the warp is known to all of it; what a thread learns at an mbarrier, at a barrier
 * of some threads or in a part of a warp is in a row of its own: up to which tick it knows each
 * other thread. Shuffles order nothing. Blocks are ordered by lt_last_block, lt_last_warp, and
 * those of a cluster by its barrier: up to where each thread arrived at the last one. Who has
 * waited for what a block gives also knows that what it read before its last barrier is read. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>

enum { GATES = 64, ROW = LT_BLOCK_THREADS + 1 /* the last: bulk copies */ };

/* Where threads leave what they know and others learn it. */
typedef struct {
    const void *place; /* an mbarrier */
    uint32_t gathered[ROW], given[ROW];
    uint32_t read[LT_CLUSTER_BLOCKS], told[LT_CLUSTER_BLOCKS]; /* by the blocks that give to it */
} gate;

/* A block from its begin, or from a barrier of its cluster, on. */
typedef struct {
    uint32_t begin, released; /* ticks; released: at lt_last_block, 0: not there */
    size_t shown;             /* by lt_last_warp, of each thread: in `shown`; 0: nothing */
    const uint32_t *counter;
    size_t index;
    uint32_t run; /* of the cluster: one that looks for what others put has several */
    int resident;
} past;

typedef struct {
    uint32_t begin, barrier; /* barrier: its last */
    uint32_t warp[LT_BLOCK_WARPS];
    uint32_t bulk; /* up to where all threads of the block know the bulk copies */
    int threads;
    bool rows;      /* somebody has learned what not all of the block know */
    uint32_t *know; /* LT_BLOCK_THREADS rows */
    uint32_t read[LT_BLOCK_THREADS][LT_CLUSTER_BLOCKS]; /* what threads know of the other blocks */
    gate barriers[LT_BARRIERS], lanes, mbarriers[GATES];
    int mbarrier_count;
    const uint32_t *joined; /* the counter whose last block runs */
    int joined_warp;        /* that knows it; -1: all do */
    uint32_t arrived[LT_BLOCK_THREADS], met[LT_BLOCK_THREADS]; /* at the cluster's barrier; met: at
                                                                  the last that has opened */
} block;

struct lt_order {
    uint32_t now, run;
    past *past;
    size_t past_count, past_room;
    uint32_t *shown; /* ticks: what warps knew at lt_last_warp; the first is of nobody */
    size_t shown_count, shown_room;
    block *at, *blocks[LT_CLUSTER_BLOCKS];
};

int lt_order_open(lt_checker *c)
{
    c->order = calloc(1, sizeof *c->order);
    return c->order ? 0 : -1;
}

int lt_order_settle(lt_emulator *e, int resident)
{
    if (!e->checker) return 0;
    block *b = calloc(1, sizeof *b);
    if (b) b->know = calloc((size_t)LT_BLOCK_THREADS * ROW, sizeof *b->know);
    if (!b || !b->know) {
        free(b);
        return -1;
    }
    e->checker->order->blocks[resident] = b;
    return 0;
}

void lt_order_close(lt_checker *c)
{
    if (!c->order) return;
    for (int i = 0; i < LT_CLUSTER_BLOCKS; i++) {
        if (c->order->blocks[i]) free(c->order->blocks[i]->know);
        free(c->order->blocks[i]);
    }
    free(c->order->past);
    free(c->order->shown);
    free(c->order);
    c->order = NULL;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* ---- a launch and its blocks ---- */

void lt_order_begin_launch(lt_emulator *e)
{
    if (!e->checker) return;
    lt_order *o = e->checker->order;
    o->now = 0;
    o->past_count = 0;
    o->shown_count = 1;
}

static int add_past(lt_emulator *e, size_t index)
{
    lt_order *o = e->checker->order;
    if (o->past_count == o->past_room) {
        const size_t room = o->past_room ? 2 * o->past_room : 64;
        past *p = realloc(o->past, room * sizeof *p);
        if (!p) return -1;
        o->past = p;
        o->past_room = room;
    }
    const int resident = (int)(e->at - e->residents);
    o->at = o->blocks[resident];
    o->past[o->past_count++] =
        (past){.begin = ++o->now, .index = index, .run = o->run, .resident = resident};
    return 0;
}

static const past *last_past(const lt_order *o)
{
    return &o->past[o->past_count - 1];
}

void lt_order_turn(lt_emulator *e)
{
    if (!e->checker) return;
    lt_order *o = e->checker->order;
    o->at = o->blocks[e->at - e->residents];
}

void lt_order_begin_cluster(lt_emulator *e)
{
    if (e->checker) e->checker->order->run++;
}

int lt_order_begin_block(lt_emulator *e, size_t index)
{
    if (!e->checker) return 0;
    if (add_past(e, index)) return -1;
    block *b = e->checker->order->at;
    b->begin = b->barrier = e->checker->order->now;
    memset(b->warp, 0, sizeof b->warp);
    memset(b->barriers, 0, sizeof b->barriers);
    memset(b->arrived, 0, sizeof b->arrived);
    memset(b->met, 0, sizeof b->met);
    b->threads = e->at->block.threads;
    b->bulk = 0;
    b->rows = false;
    b->mbarrier_count = 0;
    b->joined = NULL;
    return 0;
}

/* ---- what a cluster learns ---- */

void lt_order_cluster_arrive(const lt_thread *t)
{
    if (!t->emu->checker) return;
    lt_order *o = t->emu->checker->order;
    o->at->arrived[t->index] = ++o->now;
}

void lt_order_cluster_open(lt_emulator *e)
{
    if (!e->checker) return;
    for (int i = 0; i < LT_CLUSTER_BLOCKS; i++) {
        block *b = e->checker->order->blocks[i];
        if (b) memcpy(b->met, b->arrived, sizeof b->met);
    }
}

int lt_order_resume(lt_emulator *e)
{
    return e->checker ? add_past(e, e->at->index) : 0;
}

/* ---- what all of them learn ---- */

static uint32_t *row(const block *b, int thread)
{
    return b->know + (size_t)thread * ROW;
}

void lt_order_barrier(lt_emulator *e)
{
    if (!e->checker) return;
    block *b = e->checker->order->at;
    b->barrier = ++e->checker->order->now;
    for (int i = 0; b->rows && i < b->threads; i++)
        b->bulk = larger(b->bulk, row(b, i)[LT_BLOCK_THREADS]);
}

static void release(lt_order *o, const uint32_t *counter, size_t shown)
{
    const past *mine = last_past(o);
    for (past *p = o->past + o->past_count; p-- > o->past && p->run == mine->run;) {
        if (p->index != mine->index) continue;
        p->released = o->now;
        p->shown = shown;
        p->counter = counter;
    }
}

/* After the barrier of lt_last_block: the block has shown what it wrote; the last one sees it all.
 */
void lt_order_last_block(lt_emulator *e, const uint32_t *counter, bool last)
{
    if (!e->checker) return;
    lt_order *o = e->checker->order;
    release(o, counter, 0);
    if (!last) return;
    o->at->joined = counter;
    o->at->joined_warp = -1;
}

/* ---- what some of them learn ---- */

static void begin_rows(block *b)
{
    if (b->rows) return;
    b->rows = true;
    for (int i = 0; i < b->threads; i++) memset(row(b, i), 0, ROW * sizeof(uint32_t));
    memset(b->read, 0, sizeof b->read);
}

/* Up to which tick t knows what thread `other` of its block did. */
static uint32_t knows(const block *b, const lt_thread *t, int other)
{
    uint32_t tick = larger(b->barrier, b->met[other]);
    if (other / 32 == t->index / 32) tick = larger(tick, b->warp[other / 32]);
    return b->rows ? larger(tick, row(b, t->index)[other]) : tick;
}

static uint32_t knows_bulk(const block *b, const lt_thread *t)
{
    return b->rows ? larger(b->bulk, row(b, t->index)[LT_BLOCK_THREADS]) : 0;
}

/* After the lanes of t's warp have met: it shows what it knows of its block; the last one sees what
 * all others showed. -1: no memory. */
int lt_order_last_warp(const lt_thread *t, const uint32_t *counter, bool last)
{
    if (!t->emu->checker) return 0;
    lt_order *o = t->emu->checker->order;
    const block *b = o->at;
    const size_t shown = o->shown_count, count = shown + (size_t)b->threads;
    if (count > o->shown_room) {
        const size_t room = 2 * count;
        uint32_t *to = realloc(o->shown, room * sizeof *to);
        if (!to) return -1;
        o->shown = to;
        o->shown_room = room;
    }
    o->shown_count = count;
    for (int i = 0; i < b->threads; i++) o->shown[shown + (size_t)i] = knows(b, t, i);
    release(o, counter, shown);
    if (!last) return 0;
    o->at->joined = counter;
    o->at->joined_warp = t->index / 32;
    return 0;
}

/* t leaves at the gate what it did and what it knows. */
static void leave(lt_order *o, const lt_thread *t, gate *g)
{
    const block *b = o->at;
    for (int i = 0; i < b->threads; i++) g->gathered[i] = larger(g->gathered[i], knows(b, t, i));
    g->gathered[t->index] = ++o->now;
    g->gathered[LT_BLOCK_THREADS] = larger(g->gathered[LT_BLOCK_THREADS], knows_bulk(b, t));
}

static void learn(const block *b, const lt_thread *t, const uint32_t *from)
{
    uint32_t *to = row(b, t->index);
    for (int i = 0; i < b->threads; i++) to[i] = larger(to[i], from[i]);
    to[LT_BLOCK_THREADS] = larger(to[LT_BLOCK_THREADS], from[LT_BLOCK_THREADS]);
}

void lt_order_syncwarp(lt_thread *t, uint32_t mask)
{
    if (!t->emu->checker) return;
    lt_order *o = t->emu->checker->order;
    block *b = o->at;
    lt_thread *lane0 = t - t->lane;
    if (mask == 0xffffffffu) {
        b->warp[t->index / 32] = ++o->now;
        if (!b->rows) return;
    }
    begin_rows(b);
    memset(&b->lanes, 0, sizeof b->lanes);
    for (uint32_t m = mask; m; m &= m - 1) leave(o, lane0 + __builtin_ctz(m), &b->lanes);
    for (uint32_t m = mask; m; m &= m - 1) learn(b, lane0 + __builtin_ctz(m), b->lanes.gathered);
}

void lt_order_arrive(const lt_thread *t, int barrier)
{
    if (!t->emu->checker) return;
    lt_order *o = t->emu->checker->order;
    begin_rows(o->at);
    leave(o, t, &o->at->barriers[barrier]);
}

/* The threads that wait, from the first on, go on; the barrier begins anew. */
void lt_order_open_some(lt_emulator *e, int barrier, const lt_thread *first)
{
    if (!e->checker) return;
    block *b = e->checker->order->at;
    for (const lt_thread *t = first; t; t = t->next) learn(b, t, b->barriers[barrier].gathered);
    memset(&b->barriers[barrier], 0, sizeof b->barriers[barrier]);
}

/* ---- mbarriers ---- */

/* NULL: the word is the copy of one, and orders nothing. */
static gate *find_mbarrier(block *b, const uint64_t *bar)
{
    for (int i = 0; i < b->mbarrier_count; i++)
        if (b->mbarriers[i].place == bar) return &b->mbarriers[i];
    return NULL;
}

/* Made once in a block. -1: there are too many. */
int lt_order_mbarrier(lt_emulator *e, const uint64_t *bar)
{
    if (!e->checker) return 0;
    block *b = e->checker->order->at;
    if (b->mbarrier_count == GATES) return -1;
    gate *g = &b->mbarriers[b->mbarrier_count++];
    memset(g, 0, sizeof *g);
    g->place = bar;
    begin_rows(b);
    return 0;
}

void lt_order_mbarrier_arrive(const lt_thread *t, const uint64_t *bar)
{
    if (!t->emu->checker) return;
    lt_order *o = t->emu->checker->order;
    gate *g = find_mbarrier(o->at, bar);
    if (g) leave(o, t, g);
}

/* A bulk copy has landed: the tick for its bytes. */
uint32_t lt_order_mbarrier_land(lt_emulator *e, const uint64_t *bar)
{
    lt_order *o = e->checker->order;
    gate *g = find_mbarrier(o->at, bar);
    if (g) g->gathered[LT_BLOCK_THREADS] = o->now + 1;
    return o->now++;
}

/* Block `rank` of the cluster gives to the block that has the mbarrier. */
void lt_order_mbarrier_give(lt_emulator *e, const uint64_t *bar, int rank)
{
    if (!e->checker) return;
    const lt_order *o = e->checker->order;
    gate *g = find_mbarrier(o->at, bar);
    if (g) g->read[rank] = o->blocks[rank]->barrier;
}

void lt_order_mbarrier_end_phase(lt_emulator *e, const uint64_t *bar)
{
    if (!e->checker) return;
    gate *g = find_mbarrier(e->checker->order->at, bar);
    if (!g) return;
    memcpy(g->given, g->gathered, sizeof g->given);
    memcpy(g->told, g->read, sizeof g->told);
}

void lt_order_mbarrier_waited(const lt_thread *t, const uint64_t *bar)
{
    if (!t->emu->checker) return;
    block *b = t->emu->checker->order->at;
    const gate *g = find_mbarrier(b, bar);
    if (!g) return;
    learn(b, t, g->given);
    uint32_t *read = b->read[t->index];
    for (int i = 0; i < LT_CLUSTER_BLOCKS; i++) read[i] = larger(read[i], g->told[i]);
}

/* ---- the answer ---- */

uint32_t lt_order_now(const lt_checker *c)
{
    return c->order->now;
}

uint32_t lt_order_begin(const lt_checker *c, int resident)
{
    return c->order->blocks[resident]->begin;
}

/* What ran at that tick. */
static const past *find_past(const lt_order *o, uint32_t tick)
{
    size_t low = 0, high = o->past_count;
    if (tick >= last_past(o)->begin) return last_past(o);
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (o->past[middle].begin <= tick)
            low = middle;
        else
            high = middle;
    }
    return &o->past[low];
}

size_t lt_order_block_at(const lt_checker *c, uint32_t tick)
{
    return find_past(c->order, tick)->index;
}

lt_nearness lt_order_nearness(const lt_checker *c, uint32_t tick)
{
    const past *p = find_past(c->order, tick);
    if (p->run != c->order->run) return LT_OTHER_CLUSTER;
    return p->resident == last_past(c->order)->resident ? LT_OWN_BLOCK : LT_OWN_CLUSTER;
}

/* What the block did when it ran before, and looked for what was not there yet: now it does it
 * again. */
bool lt_order_repeats(const lt_thread *t, lt_stamp s)
{
    const lt_order *o = t->emu->checker->order;
    const past *p = find_past(o, s.tick);
    return p->run != o->run && p->index == last_past(o)->index;
}

bool lt_order_knows(const lt_thread *t, lt_stamp s)
{
    const lt_order *o = t->emu->checker->order;
    const block *b = o->at;
    const past *p = find_past(o, s.tick);
    if (p->run != o->run) {
        if (!b->joined || p->counter != b->joined) return false;
        if (b->joined_warp >= 0 && b->joined_warp != t->index / 32) return false;
        return s.tick < (p->shown ? o->shown[p->shown + s.thread] : p->released);
    }
    if (s.kind == LT_STAMP_FLIES) return false;
    if (s.kind == LT_STAMP_BULK) return s.tick < knows_bulk(b, t);
    if (p->resident != last_past(o)->resident)
        return s.tick < o->blocks[p->resident]->met[s.thread];
    return (int)s.thread == t->index || s.tick < knows(b, t, (int)s.thread);
}

bool lt_order_knows_read(const lt_thread *t, lt_stamp s)
{
    const lt_order *o = t->emu->checker->order;
    const past *p = find_past(o, s.tick);
    if (lt_order_knows(t, s)) return true;
    return p->run == o->run && s.kind == LT_STAMP_PLAIN && o->at->rows &&
           s.tick < o->at->read[t->index][p->resident];
}
