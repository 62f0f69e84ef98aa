/* shadow.c: the memory that the checker keeps beside buffers and shared arrays: what has been
 * written, and a cell for each byte that a launch may write. Cells are of one launch. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Pages that are zero and cost nothing before they are touched; NULL: no address space. */
static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* ---- buffers ---- */

int lt_shadow_open(lt_emulator *e, lt_shadow *s, size_t bytes)
{
    if (!e->checker || !bytes) return 0;
    s->bytes = bytes;
    s->known = map(bytes);
    return s->known ? 0 : -1;
}

void lt_shadow_close(lt_shadow *s)
{
    if (s->known) munmap(s->known, s->bytes);
    if (s->cells) munmap(s->cells, s->bytes * sizeof *s->cells);
    *s = (lt_shadow){0};
}

void lt_shadow_know(lt_shadow *s, size_t offset, size_t bytes, bool known)
{
    if (!s->known) return;
    memset(s->known + offset, known, bytes);
    s->used = known || bytes < s->bytes;
}

int lt_shadow_begin(lt_shadow *s)
{
    if (!s->known) return 0;
    s->used = true;
    const size_t bytes = s->bytes * sizeof *s->cells;
    if (s->cells) return madvise(s->cells, bytes, MADV_DONTNEED);
    s->cells = map(bytes);
    return s->cells ? 0 : -1;
}

/* ---- the checker ---- */

int lt_checker_open(lt_emulator *e)
{
    e->checker = calloc(1, sizeof *e->checker);
    if (!e->checker) return -1;
    e->checker->shared = map(lt_shared_bytes() * sizeof *e->checker->shared);
    return e->checker->shared ? lt_order_open(e->checker) : -1;
}

void lt_checker_close(lt_emulator *e)
{
    lt_checker *c = e->checker;
    if (!c) return;
    if (c->shared) munmap(c->shared, lt_shared_bytes() * sizeof *c->shared);
    lt_order_close(c);
    free(c);
    e->checker = NULL;
}

int lt_checker_begin(lt_emulator *e)
{
    lt_checker *c = e->checker;
    if (!c) return 0;
    c->found = (lt_found){0};
    lt_order_begin_launch(e);
    return madvise(c->shared, lt_shared_bytes() * sizeof *c->shared, MADV_DONTNEED);
}
