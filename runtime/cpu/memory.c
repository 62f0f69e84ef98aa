/* memory.c: buffers. Each has pages of its own between two guards; its data end at the second (or,
 * played left, begin at the first), the rest of the pages is filled and looked at after a
 * launch. The pages can be written only by the host and by a launch that declares it. */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* What an index that is wrong by some rows does not jump over; it costs address space alone. */
enum { GUARD = 1 << 20 };

static size_t inner_bytes(const lt_cpu_buffer *b)
{
    return b->map_bytes - (size_t)2 * GUARD;
}

static int protect(lt_cpu_buffer *b, int protection, lt_err *err)
{
    if (b->protection == protection) return 0;
    if (mprotect(b->map + GUARD, inner_bytes(b), protection))
        return lt_fail(err, "cpu: the system refuses to protect a buffer of %zu bytes",
                       b->base.bytes);
    b->protection = protection;
    return 0;
}

static void release(lt_cpu_buffer *b)
{
    if (b->map) munmap(b->map, b->map_bytes);
    lt_shadow_close(&b->shadow);
    free(b);
}

static int map_pages(lt_cpu_buffer *b, size_t bytes, bool left, lt_err *err)
{
    if (bytes > SIZE_MAX / 2) return lt_fail(err, "cpu: no memory for %zu bytes", bytes);
    const size_t inner = bytes ? (bytes + LT_PAGE - 1) / LT_PAGE * LT_PAGE : LT_PAGE;
    void *p = mmap(NULL, inner + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return lt_fail(err, "cpu: no memory for %zu bytes", bytes);
    b->map = p;
    b->map_bytes = inner + 2 * GUARD;
    b->data = b->map + GUARD + (left ? 0 : inner - (bytes + 15) / 16 * 16);
    b->base.bytes = bytes;
    b->protection = PROT_NONE;
    return 0;
}

static int open_shadow(lt_emulator *e, lt_cpu_buffer *b, lt_err *err)
{
    if (!lt_shadow_open(e, &b->shadow, b->base.bytes)) return 0;
    return lt_fail(err, "cpu: no memory to check %zu bytes", b->base.bytes);
}

int lt_memory_alloc(lt_emulator *e, size_t bytes, lt_cpu_buffer **out, lt_err *err)
{
    lt_cpu_buffer *b = calloc(1, sizeof *b);
    if (!b) return lt_fail(err, "cpu: out of memory");
    if (map_pages(b, bytes, e->play.left, err) || open_shadow(e, b, err) ||
        lt_memory_unlock(e, b, err)) {
        release(b);
        return -1;
    }
    memset(b->map + GUARD, LT_FILL, inner_bytes(b));
    b->owner = e;
    b->next = e->buffers;
    b->link = &e->buffers;
    if (b->next) b->next->link = &b->next;
    e->buffers = b;
    *out = b;
    return 0;
}

void lt_memory_free(lt_emulator *e, lt_cpu_buffer *b)
{
    if (!b) return;
    for (lt_cpu_buffer **link = &e->writable; *link; link = &(*link)->next_writable)
        if (*link == b) {
            *link = b->next_writable;
            break;
        }
    *b->link = b->next;
    if (b->next) b->next->link = b->link;
    release(b);
}

/* ---- who may write ---- */

int lt_memory_unlock(lt_emulator *e, lt_cpu_buffer *b, lt_err *err)
{
    if (b->protection == (PROT_READ | PROT_WRITE)) return 0;
    if (protect(b, PROT_READ | PROT_WRITE, err)) return -1;
    b->next_writable = e->writable;
    e->writable = b;
    return 0;
}

static lt_cpu_buffer *argument(const lt_emulator *e, int i)
{
    return (lt_cpu_buffer *)e->args[i].buffer;
}

/* Takes the right to write from all buffers that are not the launch's to write. */
static int lock_others(lt_emulator *e, lt_err *err)
{
    for (lt_cpu_buffer **link = &e->writable; *link;) {
        lt_cpu_buffer *b = *link;
        if (b->out_of == e->launches) {
            link = &b->next_writable;
            continue;
        }
        if (protect(b, PROT_READ, err)) return -1;
        *link = b->next_writable;
    }
    return 0;
}

int lt_memory_begin(lt_emulator *e, lt_err *err)
{
    const lt_kernel *k = &e->kernel->base;
    for (int i = 0; i < k->param_count; i++)
        if (k->params[i].out) argument(e, i)->out_of = e->launches;
    if (lock_others(e, err)) return -1;
    for (int i = 0; i < k->param_count; i++) {
        if (!k->params[i].out) continue;
        if (lt_memory_unlock(e, argument(e, i), err)) return -1;
        if (lt_shadow_begin(&argument(e, i)->shadow))
            return lt_fail(err, "cpu: no memory to check '%s'", k->params[i].name);
    }
    return 0;
}

/* What a launch in flight may write is out of reach: reading it is too early. */
int lt_memory_hide(lt_emulator *e, lt_err *err)
{
    if (lock_others(e, err)) return -1;
    for (int i = 0; i < e->kernel->base.param_count; i++) {
        lt_cpu_buffer *b = argument(e, i);
        if (b->flight > e->landed && protect(b, PROT_NONE, err)) return -1;
    }
    return 0;
}

int lt_memory_show(lt_emulator *e, lt_err *err)
{
    for (int i = 0; i < e->kernel->base.param_count; i++)
        if (protect(argument(e, i), PROT_READ, err)) return -1;
    return 0;
}

bool lt_memory_is_filled(const char *p, const char *end)
{
    return p == end || ((uint8_t)*p == LT_FILL && !memcmp(p, p + 1, (size_t)(end - p) - 1));
}

void lt_memory_end(lt_emulator *e)
{
    const lt_kernel *k = &e->kernel->base;
    for (int i = 0; i < k->param_count; i++) {
        lt_cpu_buffer *b = argument(e, i);
        if (!k->params[i].out) continue;
        char *first = b->map + GUARD, *last = first + inner_bytes(b);
        const bool before = !lt_memory_is_filled(first, b->data);
        if (!before && lt_memory_is_filled(b->data + b->base.bytes, last)) continue;
        memset(first, LT_FILL, (size_t)(b->data - first));
        memset(b->data + b->base.bytes, LT_FILL, (size_t)(last - b->data) - b->base.bytes);
        lt_fault_note(e, NULL, (lt_site){NULL, 0},
                      "some thread writes %s '%s' (LATHE_CPU_LEFT=%s names the line)",
                      before ? "in front of" : "behind", k->params[i].name, before ? "on" : "off");
    }
}

/* ---- what is at an address ---- */

static bool holds(const lt_cpu_buffer *b, const void *p)
{
    const uintptr_t map = (uintptr_t)b->map, address = (uintptr_t)p;
    return address >= map && address < map + b->map_bytes;
}

const lt_cpu_buffer *lt_memory_find(const lt_emulator *e, const void *p)
{
    for (int i = 0; e->kernel && i < e->kernel->base.param_count; i++)
        if (holds(argument(e, i), p)) return argument(e, i);
    for (const lt_cpu_buffer *b = e->buffers; b; b = b->next)
        if (holds(b, p)) return b;
    return NULL;
}

/* Of the parameters that point into b, the nearest in front of p. */
int lt_memory_argument(const lt_emulator *e, const lt_cpu_buffer *b, const void *p)
{
    int best = -1;
    for (int i = 0; i < e->kernel->base.param_count; i++) {
        if (argument(e, i) != b) continue;
        const char *start = e->pointers[i];
        if (best < 0 || (start <= (const char *)p && start > (const char *)e->pointers[best]))
            best = i;
    }
    return best;
}

void lt_memory_describe(const lt_emulator *e, const void *p, char *out, size_t size)
{
    const lt_slot *s = lt_shared_find(e, p);
    if (s && s->name) {
        snprintf(out, size, "shared '%s' + %td", s->name, (const char *)p - s->data);
        return;
    }
    const lt_cpu_buffer *b = lt_memory_find(e, p);
    const int i = b ? lt_memory_argument(e, b, p) : -1;
    if (i >= 0)
        snprintf(out, size, "'%s' + %td", e->kernel->base.params[i].name,
                 (const char *)p - (const char *)e->pointers[i]);
    else
        snprintf(out, size, "address %p", p);
}

void lt_memory_align(lt_thread *t, lt_site site, const char *what, const void *p, int bytes)
{
    char where[160];
    if (!((uintptr_t)p % (unsigned)bytes)) return;
    lt_memory_describe(t->emu, p, where, sizeof where);
    lt_fault(t, site, "%s: %s is not %d-byte aligned", what, where, bytes);
}

void lt_cpu_misaligned(lt_thread *t, const char *file, int line, const void *p, int bytes)
{
    char where[160];
    lt_memory_describe(t->emu, p, where, sizeof where);
    lt_fault(t, (lt_site){file, line}, "%s is not %d-byte aligned", where, bytes);
}
