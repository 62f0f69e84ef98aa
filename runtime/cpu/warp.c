/* warp.c: what the lanes of a warp do together. Lanes post, the last to arrive works for all, and
 * each needs one switch. Collectives are told apart by their mask, so that disjoint parts of a warp
 * can be in different ones. */
#include "calls.h"

#include <assert.h>
#include <string.h>

enum { ALL = -1 }; /* the mask of a whole warp, as an int */

typedef enum {
    SHUFFLE,
    BALLOT,
    REDUX_ADD,
    REDUX_MAX,
    REDUX_MIN,
    SUM,
    MAX,
    SYNC,
    LAST,
    LDMATRIX,
    LDMATRIX_TRANS,
    MMA
} kind;

static const char *const names[] = {
    [SHUFFLE] = "shuffle",
    [BALLOT] = "lt_ballot",
    [REDUX_ADD] = "lt_redux_add",
    [REDUX_MAX] = "lt_redux_max",
    [REDUX_MIN] = "lt_redux_min",
    [SUM] = "lt_warp_sum",
    [MAX] = "lt_warp_max",
    [SYNC] = "__syncwarp",
    [LAST] = "lt_last_warp",
    [LDMATRIX] = "lt_ldmatrix_x4",
    [LDMATRIX_TRANS] = "lt_ldmatrix_x4_trans",
    [MMA] = "mma",
};

/* The slot of that mask. One may be taken over only when no lane still has to read from it. */
static lt_collective *find(lt_warp *w, uint32_t mask)
{
    lt_collective *c = NULL;
    for (int i = 0; i < w->count; i++)
        if (w->collectives[i].mask == mask) return &w->collectives[i];
    if (w->count < LT_COLLECTIVES) c = &w->collectives[w->count++];
    for (int i = 0; i < w->count && !c; i++)
        if (!w->collectives[i].arrived && !w->collectives[i].leaving) c = &w->collectives[i];
    assert(c);
    c->mask = mask;
    c->arrived = 0;
    c->leaving = c->parity = 0;
    return c;
}

/* Masks that overlap may be in flight together: some lanes are in the next collective already.
 * Where lanes never meet, the block's deadlock says so. */
static lt_collective *arrive(lt_thread *t, lt_site site, uint32_t mask, kind k)
{
    if (!(mask >> t->lane & 1))
        lt_fault(t, site, "%s: lane %u is not in its own mask %08x", names[k], t->lane, mask);
    lt_collective *c = find(t->warp, mask);
    if (!c->arrived) {
        if (~t->warp->alive & mask)
            lt_fault(t, site, "%s: mask %08x names lanes %08x, which have returned or do not exist",
                     names[k], mask, mask & ~t->warp->alive);
        c->kind = (int)k;
        c->site = site;
    } else if (c->kind != (int)k || !lt_site_is(c->site, site)) {
        lt_fault(t, site, "divergent warp: %s, mask %08x, while others wait in %s at %s:%d",
                 names[k], mask, names[c->kind], c->site.file, c->site.line);
    }
    c->arrived |= 1u << t->lane;
    return c;
}

/* Opens it when this lane is the last, and returns when this lane's turn has come. */
static void wait_for_all(lt_thread *t, lt_collective *c)
{
    if (c->arrived != c->mask) {
        t->state = LT_IN_COLLECTIVE;
        t->what = names[c->kind];
        t->site = c->site;
        t->mask = c->mask;
    } else {
        lt_thread *lane0 = t - t->lane;
        c->arrived = 0;
        c->parity ^= 1;
        for (uint32_t m = c->mask; m; m &= m - 1) {
            lt_block_ready(lane0 + __builtin_ctz(m));
            c->leaving++;
        }
    }
    lt_block_pause(t);
    c->leaving--;
}

void lt_warp_leave(lt_thread *t)
{
    const lt_warp *w = t->warp;
    for (int i = 0; i < w->count; i++) {
        const lt_collective *c = &w->collectives[i];
        if (c->arrived && (c->mask >> t->lane & 1))
            lt_fault(t - t->lane + __builtin_ctz(c->arrived), c->site,
                     "%s: mask %08x names lane %u, which has returned", names[c->kind], c->mask,
                     t->lane);
    }
}

uint32_t lt_cpu_shuffle(lt_thread *t, const char *file, int line, uint32_t mask, uint32_t v,
                        int kind_of, int arg)
{
    const lt_site site = {file, line};
    lt_collective *c = arrive(t, site, mask, SHUFFLE);
    const int parity = c->parity;
    c->value[parity][t->lane] = v;
    wait_for_all(t, c);
    const unsigned own = t->lane, a = (unsigned)arg;
    unsigned from = kind_of == 0 ? a & 31 : kind_of == 1 ? own ^ a : own + a;
    if (from > 31) from = own;
    if (!(mask >> from & 1))
        lt_fault(t, site, "shuffle: reads lane %u, which is not in the mask %08x", from, mask);
    return c->value[parity][from];
}

uint32_t lt_cpu_ballot(lt_thread *t, const char *file, int line, uint32_t mask, int predicate)
{
    lt_collective *c = arrive(t, (lt_site){file, line}, mask, BALLOT);
    const int parity = c->parity;
    uint32_t answer = 0;
    c->value[parity][t->lane] = predicate != 0;
    wait_for_all(t, c);
    for (uint32_t m = mask; m; m &= m - 1)
        answer |= c->value[parity][__builtin_ctz(m)] << __builtin_ctz(m);
    return answer;
}

static uint32_t meet(kind k, uint32_t a, uint32_t b)
{
    if (k == REDUX_ADD) return a + b;
    return (k == REDUX_MAX) == (a > b) ? a : b;
}

uint32_t lt_cpu_redux(lt_thread *t, const char *file, int line, uint32_t v, int kind_of)
{
    const kind k = kind_of == 0 ? REDUX_ADD : kind_of == 1 ? REDUX_MAX : REDUX_MIN;
    lt_collective *c = arrive(t, (lt_site){file, line}, (uint32_t)ALL, k);
    const uint32_t *const value = c->value[c->parity];
    c->value[c->parity][t->lane] = v;
    wait_for_all(t, c);
    v = value[0];
    for (int i = 1; i < 32; i++) v = meet(k, v, value[i]);
    return v;
}

/* The butterfly 16, 8, 4, 2, 1 of cuda.h on all lanes at once. */
static void butterfly(uint32_t value[32], kind k)
{
    float a[32], b[32];
    memcpy(a, value, sizeof a);
    for (int o = 16; o; o >>= 1) {
        if (k == SUM)
            for (int i = 0; i < 32; i++) b[i] = a[i] + a[i ^ o];
        else
            for (int i = 0; i < 32; i++) b[i] = a[i ^ o] > a[i] ? a[i ^ o] : a[i];
        memcpy(a, b, sizeof a);
    }
    memcpy(value, a, sizeof a);
}

float lt_cpu_warp_reduce(lt_thread *t, const char *file, int line, float v, int kind_of)
{
    const kind k = kind_of ? MAX : SUM;
    lt_collective *c = arrive(t, (lt_site){file, line}, (uint32_t)ALL, k);
    const int parity = c->parity;
    memcpy(&c->value[parity][t->lane], &v, sizeof v);
    if (c->arrived == c->mask) butterfly(c->value[parity], k);
    wait_for_all(t, c);
    memcpy(&v, &c->value[parity][t->lane], sizeof v);
    return v;
}

void lt_cpu_syncwarp(lt_thread *t, const char *file, int line, uint32_t mask)
{
    lt_collective *c = arrive(t, (lt_site){file, line}, mask, SYNC);
    if (c->arrived == c->mask) lt_order_syncwarp(t, mask);
    wait_for_all(t, c);
}

/* The last lane to come counts. */
int lt_cpu_last_warp(lt_thread *t, const char *file, int line, uint32_t *counter, uint32_t blocks)
{
    const lt_site site = {file, line};
    lt_memory_align(t, site, names[LAST], counter, 4);
    lt_collective *c = arrive(t, site, (uint32_t)ALL, LAST);
    const int parity = c->parity;
    if (c->arrived == c->mask) {
        const bool last = lt_count_block(t, site, names[LAST], counter, blocks);
        for (int i = 0; i < 32; i++) c->value[parity][i] = last;
        lt_order_syncwarp(t, (uint32_t)ALL);
        if (lt_order_last_warp(t, counter, last)) lt_fault(t, site, "%s: no memory", names[LAST]);
    }
    wait_for_all(t, c);
    return (int)c->value[parity][t->lane];
}

/* ---- tensor cores ---- */

static const uint16_t *element(const lt_warp *w, unsigned matrix, unsigned row)
{
    return (const uint16_t *)w->rows[matrix * 8 + row];
}

/* Register m of lane l: the elements 2 (l % 4) and one more of row l / 4 of matrix m, or of its
 * transpose. */
static void spread(lt_warp *w, bool trans)
{
    for (unsigned lane = 0; lane < 32; lane++) {
        const unsigned row = lane / 4, column = lane % 4 * 2;
        uint32_t d[4];
        for (unsigned m = 0; m < 4; m++) {
            const uint32_t lo = trans ? element(w, m, column)[row] : element(w, m, row)[column];
            const uint32_t hi =
                trans ? element(w, m, column + 1)[row] : element(w, m, row)[column + 1];
            d[m] = hi << 16 | lo;
        }
        memcpy(w->to[lane], d, sizeof d);
    }
}

void lt_cpu_ldmatrix_x4(lt_thread *t, const char *file, int line, uint32_t *d, const void *row,
                        int trans)
{
    const lt_site site = {file, line};
    const kind k = trans ? LDMATRIX_TRANS : LDMATRIX;
    lt_warp *w = t->warp;
    if ((uintptr_t)row % 16 || !lt_shared_holds(t->emu, row, 16)) {
        char where[160];
        lt_memory_describe(t->emu, row, where, sizeof where);
        lt_fault(t, site, "%s: the row at %s is not 16 aligned bytes of shared memory", names[k],
                 where);
    }
    lt_access_read(t, LT_CALLER, row, 16);
    lt_collective *c = arrive(t, site, (uint32_t)ALL, k);
    memcpy(w->rows[t->lane], row, 16);
    w->to[t->lane] = d;
    if (c->arrived == c->mask) spread(w, trans);
    wait_for_all(t, c);
}

/* The last lane to come multiplies, `steps` steps along K: four registers of a and two of b each.
 */
static void multiply(lt_thread *t, lt_collective *all, int kind_of, int steps)
{
    lt_fragments *f = &t->warp->fragments;
    if (all->arrived == all->mask) {
        lt_touch_begin(t, all->site);
        for (int i = 0; i < steps; i++) {
            lt_tensor_core(kind_of, t->emu->kernel->model, f);
            for (int l = 0; l < 32; l++) f->a[l] += 4, f->b[l] += 2, f->c[l] = f->d[l];
        }
        lt_touch_end(t);
    }
    wait_for_all(t, all);
}

void lt_cpu_mma(lt_thread *t, const char *file, int line, int kind_of, void *d, const uint32_t *a,
                const uint32_t *b, const void *c, uint32_t sa, uint32_t sb)
{
    const lt_site site = {file, line};
    lt_fragments *f = &t->warp->fragments;
    if (kind_of == LT_MMA_NVF4 && t->emu->kernel->model != 120)
        lt_fault(t, site,
                 "lt_mma_m16n8k64_nvf4: needs an arch with block-scaled mma (sm_120a, "
                 "sm_121a), and this text is for another");
    lt_collective *all = arrive(t, site, (uint32_t)ALL, MMA);
    f->a[t->lane] = a;
    f->b[t->lane] = b;
    f->c[t->lane] = c;
    f->d[t->lane] = d;
    f->sa[t->lane] = sa;
    f->sb[t->lane] = sb;
    multiply(t, all, kind_of, 1);
}

void lt_cpu_mma_run(lt_thread *t, const char *file, int line, int kind_of, float *d,
                    const uint32_t *a, const uint32_t *b, int steps)
{
    const lt_site site = {file, line};
    lt_fragments *f = &t->warp->fragments;
    lt_collective *all = arrive(t, site, (uint32_t)ALL, MMA);
    if (all->arrived == 1u << t->lane) t->warp->steps = steps;
    if (t->warp->steps != steps)
        lt_fault(t, site, "mma: %d steps here, while other lanes ask for %d", steps,
                 t->warp->steps);
    f->a[t->lane] = a;
    f->b[t->lane] = b;
    f->c[t->lane] = f->d[t->lane] = d;
    multiply(t, all, kind_of, steps);
}
