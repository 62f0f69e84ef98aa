/* order.c: which accesses of a launch are ordered. Time is counted in ticks, one more at each event
 * that orders something. What happened before the last barrier of the block or the last whole
 * __syncwarp of the warp is known to all of it; what a thread learns at an mbarrier, at a barrier
 * of some threads or in a part of a warp is in a row of its own: up to which tick it knows each
 * other thread. Shuffles order nothing. Blocks are ordered by lt_last_block alone. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>

enum { GATES = 64, ROW = LT_BLOCK_THREADS + 1 /* the last: bulk copies */ };

/* Where threads leave what they know and others learn it. */
typedef struct {
    const void *place; /* an mbarrier */
    uint32_t gathered[ROW], given[ROW];
} gate;

/* A block of the launch that has begun. */
typedef struct {
    uint32_t begin, released; /* ticks; released: at lt_last_block, 0: not there */
    const uint32_t *counter;
    size_t index;
} past;

struct lt_order {
    uint32_t now, block, barrier; /* block: its begin; barrier: its last */
    uint32_t warp[LT_BLOCK_WARPS];
    uint32_t bulk; /* up to where all threads of the block know the bulk copies */
    int threads;
    bool rows;      /* somebody has learned what not all of the block know */
    uint32_t *know; /* LT_BLOCK_THREADS rows */
    gate barriers[LT_BARRIERS], lanes, mbarriers[GATES];
    int mbarrier_count;
    past *past;
    size_t past_count, past_room;
    const uint32_t *joined; /* the counter whose last block runs */
};

int lt_order_open(lt_checker *c)
{
    c->order = calloc(1, sizeof *c->order);
    if (!c->order) return -1;
    c->order->know = calloc((size_t)LT_BLOCK_THREADS * ROW, sizeof *c->order->know);
    return c->order->know ? 0 : -1;
}

void lt_order_close(lt_checker *c)
{
    if (!c->order) return;
    free(c->order->know);
    free(c->order->past);
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
}

int lt_order_begin_block(lt_emulator *e, size_t index)
{
    if (!e->checker) return 0;
    lt_order *o = e->checker->order;
    if (o->past_count == o->past_room) {
        const size_t room = o->past_room ? 2 * o->past_room : 64;
        past *p = realloc(o->past, room * sizeof *p);
        if (!p) return -1;
        o->past = p;
        o->past_room = room;
    }
    o->block = o->barrier = ++o->now;
    o->past[o->past_count++] = (past){.begin = o->block, .index = index};
    memset(o->warp, 0, sizeof o->warp);
    memset(o->barriers, 0, sizeof o->barriers);
    o->threads = e->block.threads;
    o->bulk = 0;
    o->rows = false;
    o->mbarrier_count = 0;
    o->joined = NULL;
    return 0;
}

/* ---- what all of them learn ---- */

static uint32_t *row(const lt_order *o, int thread)
{
    return o->know + (size_t)thread * ROW;
}

void lt_order_barrier(lt_emulator *e)
{
    if (!e->checker) return;
    lt_order *o = e->checker->order;
    o->barrier = ++o->now;
    for (int i = 0; o->rows && i < o->threads; i++)
        o->bulk = larger(o->bulk, row(o, i)[LT_BLOCK_THREADS]);
}

/* After the barrier of lt_last_block: the block has shown what it wrote; the last one sees it all.
 */
void lt_order_last_block(lt_emulator *e, const uint32_t *counter, bool last)
{
    if (!e->checker) return;
    lt_order *o = e->checker->order;
    o->past[o->past_count - 1].released = o->now;
    o->past[o->past_count - 1].counter = counter;
    if (last) o->joined = counter;
}

/* ---- what some of them learn ---- */

static void begin_rows(lt_order *o)
{
    if (o->rows) return;
    o->rows = true;
    for (int i = 0; i < o->threads; i++) memset(row(o, i), 0, ROW * sizeof(uint32_t));
}

/* Up to which tick t knows what thread `other` did. */
static uint32_t knows(const lt_order *o, const lt_thread *t, int other)
{
    uint32_t tick = o->barrier;
    if (other / 32 == t->index / 32) tick = larger(tick, o->warp[other / 32]);
    return o->rows ? larger(tick, row(o, t->index)[other]) : tick;
}

static uint32_t knows_bulk(const lt_order *o, const lt_thread *t)
{
    return o->rows ? larger(o->bulk, row(o, t->index)[LT_BLOCK_THREADS]) : 0;
}

/* t leaves at the gate what it did and what it knows. */
static void leave(lt_order *o, const lt_thread *t, gate *g)
{
    for (int i = 0; i < o->threads; i++) g->gathered[i] = larger(g->gathered[i], knows(o, t, i));
    g->gathered[t->index] = ++o->now;
    g->gathered[LT_BLOCK_THREADS] = larger(g->gathered[LT_BLOCK_THREADS], knows_bulk(o, t));
}

static void learn(const lt_order *o, const lt_thread *t, const uint32_t *from)
{
    uint32_t *to = row(o, t->index);
    for (int i = 0; i < o->threads; i++) to[i] = larger(to[i], from[i]);
    to[LT_BLOCK_THREADS] = larger(to[LT_BLOCK_THREADS], from[LT_BLOCK_THREADS]);
}

void lt_order_syncwarp(lt_thread *t, uint32_t mask)
{
    if (!t->emu->checker) return;
    lt_order *o = t->emu->checker->order;
    lt_thread *lane0 = t - t->lane;
    if (mask == 0xffffffffu) {
        o->warp[t->index / 32] = ++o->now;
        if (!o->rows) return;
    }
    begin_rows(o);
    memset(&o->lanes, 0, sizeof o->lanes);
    for (uint32_t m = mask; m; m &= m - 1) leave(o, lane0 + __builtin_ctz(m), &o->lanes);
    for (uint32_t m = mask; m; m &= m - 1) learn(o, lane0 + __builtin_ctz(m), o->lanes.gathered);
}

void lt_order_arrive(const lt_thread *t, int barrier)
{
    if (!t->emu->checker) return;
    lt_order *o = t->emu->checker->order;
    begin_rows(o);
    leave(o, t, &o->barriers[barrier]);
}

/* The threads that wait, from the first on, go on; the barrier begins anew. */
void lt_order_open_some(lt_emulator *e, int barrier, const lt_thread *first)
{
    if (!e->checker) return;
    lt_order *o = e->checker->order;
    for (const lt_thread *t = first; t; t = t->next) learn(o, t, o->barriers[barrier].gathered);
    memset(&o->barriers[barrier], 0, sizeof o->barriers[barrier]);
}

/* ---- mbarriers ---- */

/* NULL: the word is the copy of one, and orders nothing. */
static gate *find_mbarrier(lt_order *o, const uint64_t *bar)
{
    for (int i = 0; i < o->mbarrier_count; i++)
        if (o->mbarriers[i].place == bar) return &o->mbarriers[i];
    return NULL;
}

/* Made once in a block. -1: there are too many. */
int lt_order_mbarrier(lt_emulator *e, const uint64_t *bar)
{
    if (!e->checker) return 0;
    lt_order *o = e->checker->order;
    if (o->mbarrier_count == GATES) return -1;
    gate *g = &o->mbarriers[o->mbarrier_count++];
    memset(g, 0, sizeof *g);
    g->place = bar;
    begin_rows(o);
    return 0;
}

void lt_order_mbarrier_arrive(const lt_thread *t, const uint64_t *bar)
{
    if (!t->emu->checker) return;
    lt_order *o = t->emu->checker->order;
    gate *g = find_mbarrier(o, bar);
    if (g) leave(o, t, g);
}

/* A bulk copy has landed: the tick for its bytes. */
uint32_t lt_order_mbarrier_land(lt_emulator *e, const uint64_t *bar)
{
    lt_order *o = e->checker->order;
    gate *g = find_mbarrier(o, bar);
    if (g) g->gathered[LT_BLOCK_THREADS] = o->now + 1;
    return o->now++;
}

void lt_order_mbarrier_end_phase(lt_emulator *e, const uint64_t *bar)
{
    if (!e->checker) return;
    gate *g = find_mbarrier(e->checker->order, bar);
    if (g) memcpy(g->given, g->gathered, sizeof g->given);
}

void lt_order_mbarrier_waited(const lt_thread *t, const uint64_t *bar)
{
    if (!t->emu->checker) return;
    lt_order *o = t->emu->checker->order;
    const gate *g = find_mbarrier(o, bar);
    if (g) learn(o, t, g->given);
}

/* ---- the answer ---- */

uint32_t lt_order_now(const lt_checker *c)
{
    return c->order->now;
}

uint32_t lt_order_block(const lt_checker *c)
{
    return c->order->block;
}

/* The block that ran at that tick. */
static const past *find_past(const lt_order *o, uint32_t tick)
{
    size_t low = 0, high = o->past_count;
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

/* What the block did when it ran before, and looked for what was not there yet: now it does it
 * again. */
bool lt_order_repeats(const lt_thread *t, lt_stamp s)
{
    const lt_order *o = t->emu->checker->order;
    return s.tick < o->block && find_past(o, s.tick)->index == o->past[o->past_count - 1].index;
}

bool lt_order_knows(const lt_thread *t, lt_stamp s)
{
    const lt_order *o = t->emu->checker->order;
    if (s.tick < o->block) {
        const past *p = find_past(o, s.tick);
        return o->joined && p->counter == o->joined && s.tick < p->released;
    }
    if (s.kind == LT_STAMP_FLIES) return false;
    if (s.kind == LT_STAMP_BULK) return s.tick < knows_bulk(o, t);
    return (int)s.thread == t->index || s.tick < knows(o, t, (int)s.thread);
}
