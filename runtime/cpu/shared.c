/* shared.c: the shared memory of a block. Each array has a slot of its own and ends at a guard
 * page; the slots stay mapped from launch to launch. */
#include "calls.h"

#include <string.h>
#include <sys/mman.h>

enum {
    MOST_PAGES = (LT_SHARED_BYTES + LT_PAGE - 1) / LT_PAGE,
    STRIDE = (MOST_PAGES + 2) * LT_PAGE /* a guard page on either side */
};

enum { PART = LT_SLOTS * STRIDE }; /* of the arena, a block's */

size_t lt_shared_bytes(void)
{
    return (size_t)LT_CLUSTER_BLOCKS * PART;
}

int lt_shared_open(lt_emulator *e)
{
    void *p = mmap(NULL, lt_shared_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) return -1;
    e->arena = p;
    return 0;
}

void lt_shared_settle(lt_emulator *e, int resident)
{
    char *part = e->arena + (size_t)resident * PART;
    for (int i = 0; i < LT_SLOTS; i++)
        e->residents[resident].slots[i].end = part + (size_t)(i + 1) * STRIDE - LT_PAGE;
}

void lt_shared_close(lt_emulator *e)
{
    if (e->arena) munmap(e->arena, lt_shared_bytes());
    e->arena = NULL;
}

static int map_pages(lt_slot *s, int pages)
{
    char *had = s->end - (size_t)s->pages * LT_PAGE, *has = s->end - (size_t)pages * LT_PAGE;
    int rc = 0;
    if (has < had) rc = mprotect(has, (size_t)(had - has), PROT_READ | PROT_WRITE);
    if (has > had) rc = mprotect(had, (size_t)(has - had), PROT_NONE);
    if (!rc) s->pages = pages;
    return rc;
}

static void poison(lt_slot *s)
{
    memset(s->end - (size_t)s->pages * LT_PAGE, LT_FILL, (size_t)s->pages * LT_PAGE);
}

/* Aligned to 16 bytes, and no more: on the GPU an array's alignment is 128, but no text may count
 * on more than what its accesses need. */
static int occupy(lt_slot *s, const char *name, lt_site site, size_t bytes)
{
    if (map_pages(s, (int)((bytes + LT_PAGE - 1) / LT_PAGE))) return -1;
    s->data = s->end - (bytes + 15) / 16 * 16;
    s->bytes = bytes;
    s->name = name;
    s->site = site;
    return 0;
}

int lt_shared_begin(lt_emulator *e, size_t dynamic)
{
    for (int i = 0; i < LT_SLOTS; i++) e->at->slots[i].name = NULL;
    e->at->slot_count = 1;
    return occupy(&e->at->slots[0], "dynamic", (lt_site){NULL, 0}, dynamic);
}

/* A free slot, first one that has its pages already. */
static lt_slot *choose(lt_emulator *e, size_t bytes)
{
    const int pages = (int)((bytes + LT_PAGE - 1) / LT_PAGE);
    lt_slot *best = NULL;
    for (int i = 1; i < LT_SLOTS; i++) {
        lt_slot *s = &e->at->slots[i];
        if (s->name) continue;
        if (s->pages == pages) return s;
        if (!best || (best->pages && !s->pages)) best = s;
    }
    return best;
}

static void check_size(lt_thread *t, lt_site site, const char *name, size_t bytes)
{
    const lt_emulator *e = t->emu;
    size_t sum = bytes;
    for (int i = 1; i < LT_SLOTS; i++)
        if (e->at->slots[i].name) sum += e->at->slots[i].bytes;
    if (sum > LT_STATIC_SHARED_BYTES)
        lt_fault(t, site,
                 "shared '%s': %zu bytes of static shared memory, and a GPU has %d (make "
                 "it dynamic)",
                 name, sum, LT_STATIC_SHARED_BYTES);
    if (sum + e->at->slots[0].bytes > LT_SHARED_BYTES)
        lt_fault(t, site,
                 "shared '%s': %zu bytes of shared memory, static and dynamic, and a block "
                 "has %d",
                 name, sum + e->at->slots[0].bytes, LT_SHARED_BYTES);
}

/* An array is known by its name and place: the text has one of it however many threads ask. */
char *lt_cpu_shared(lt_thread *t, const char *file, int line, const char *name, size_t bytes)
{
    lt_emulator *e = t->emu;
    const lt_site site = {file, line};
    int seen = 1;
    for (int i = 1; i < LT_SLOTS && seen < e->at->slot_count; i++) {
        const lt_slot *s = &e->at->slots[i];
        if (!s->name) continue;
        seen++;
        if (lt_site_is(s->site, site) && (s->name == name || !strcmp(s->name, name)))
            return s->data;
    }
    check_size(t, site, name, bytes);
    lt_slot *s = choose(e, bytes);
    if (!s) lt_fault(t, site, "shared '%s': more than %d arrays", name, LT_SLOTS - 1);
    if (occupy(s, name, site, bytes))
        lt_fault(t, site, "shared '%s': the system gives no memory for %zu bytes", name, bytes);
    e->at->slot_count++;
    poison(s);
    return s->data;
}

void lt_shared_poison(lt_emulator *e)
{
    for (int i = 0; i < LT_SLOTS; i++)
        if (e->at->slots[i].name) poison(&e->at->slots[i]);
}

void lt_shared_check(lt_emulator *e)
{
    for (int i = 0; i < LT_SLOTS; i++) {
        const lt_slot *s = &e->at->slots[i];
        if (!s->name) continue;
        const bool before = !lt_memory_is_filled(s->end - (size_t)s->pages * LT_PAGE, s->data);
        if (before || !lt_memory_is_filled(s->data + s->bytes, s->end))
            lt_fault_note(e, &e->at->threads[0], s->site,
                          "some thread of the block writes %s shared "
                          "'%s'",
                          before ? "in front of" : "behind", s->name);
    }
}

int lt_shared_resident(const lt_emulator *e, const void *p)
{
    const uintptr_t address = (uintptr_t)p, arena = (uintptr_t)e->arena;
    if (address < arena || address >= arena + lt_shared_bytes()) return -1;
    return (int)((address - arena) / PART);
}

const lt_slot *lt_shared_find(const lt_emulator *e, const void *p)
{
    const int resident = lt_shared_resident(e, p);
    if (resident < 0) return NULL;
    return &e->residents[resident].slots[((uintptr_t)p - (uintptr_t)e->arena) % PART / STRIDE];
}

bool lt_shared_holds(const lt_emulator *e, const void *p, size_t bytes)
{
    const lt_slot *s = lt_shared_find(e, p);
    const char *at = p;
    return s && s->name && at >= s->data && bytes <= s->bytes && at <= s->data + s->bytes - bytes;
}

static bool is_same(const lt_slot *a, const lt_slot *b)
{
    return a->name && b->name && !strcmp(a->name, b->name) && lt_site_is(a->site, b->site);
}

char *lt_shared_other(const lt_emulator *e, const void *p, const lt_resident *other)
{
    const lt_slot *mine = lt_shared_find(e, p);
    for (int i = 0; i < LT_SLOTS; i++)
        if (is_same(mine, &other->slots[i]))
            return other->slots[i].data + ((const char *)p - mine->data);
    return NULL;
}
