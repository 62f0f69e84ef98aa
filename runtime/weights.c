/* weights.c: many mapped files as one table of tensors; their data piece by piece.
 *
 * Knows nothing of models: which tensors there must be is said in lua/model. */
#include "weights.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Large enough that a disk streams, small beside the 4 GiB of host memory that a load may use. */
#define PIECE ((size_t)8 << 20)
#define RELEASED ((size_t)256 << 10) /* bytes read at once whose pages are given back */

typedef struct {
    lt_tensors *tensors;
    char *path;
} file;

struct lt_weights {
    file *files;
    size_t file_count;
    lt_weight *list; /* sorted by name */
    size_t count;
};

/* ---- files ---- */

int lt_weights_new(lt_weights **out, lt_err *err)
{
    lt_weights *w = calloc(1, sizeof *w);
    if (!w) return lt_fail(err, "weights: out of memory");
    *out = w;
    return 0;
}

static void clear_file(file *f)
{
    lt_tensors_close(f->tensors);
    free(f->path);
    *f = (file){0};
}

void lt_weights_free(lt_weights *w)
{
    if (!w) return;
    for (size_t i = 0; i < w->file_count; i++) clear_file(&w->files[i]);
    free(w->files);
    free(w->list);
    free(w);
}

typedef struct {
    const lt_weight *first; /* that both have */
    size_t count;
} overlap;

/* Merges the sorted tensors of a file with the sorted table into out. */
static overlap merge(const lt_weights *w, const lt_tensors *added, lt_weight *out)
{
    overlap both = {0};
    const size_t n = lt_tensors_count(added);
    size_t i = 0, j = 0;
    while (i < w->count || j < n) {
        const lt_tensor *t = j < n ? lt_tensors_at(added, j) : NULL;
        const int order = !t ? -1 : i == w->count ? 1 : strcmp(w->list[i].tensor->name, t->name);
        if (order == 0 && both.count++ == 0) both.first = &w->list[i];
        *out++ = order < 0 ? w->list[i++] : (lt_weight){t, w->file_count};
        if (order >= 0) j++;
    }
    return both;
}

static int add_list(lt_weights *w, const file *f, lt_err *err)
{
    const size_t count = w->count + lt_tensors_count(f->tensors);
    lt_weight *list = malloc((count + 1) * sizeof *list);
    if (!list) return lt_fail(err, "%s: out of memory for %zu tensors", f->path, count);
    const overlap both = merge(w, f->tensors, list);
    if (both.count) {
        free(list);
        return lt_fail(err, "%s: tensor '%.200s' is in %s too, as are %zu more of its tensors",
                       f->path, both.first->tensor->name, w->files[both.first->file].path,
                       both.count - 1);
    }
    free(w->list);
    w->list = list;
    w->count = count;
    return 0;
}

int lt_weights_add(lt_weights *w, const char *path, lt_err *err)
{
    file f = {.path = strdup(path)};
    file *files = realloc(w->files, (w->file_count + 1) * sizeof *files);
    if (files) w->files = files;
    if (!files || !f.path) {
        lt_fail(err, "%s: out of memory", path);
        goto fail;
    }
    if (lt_tensors_open(&f.tensors, path, err) || add_list(w, &f, err)) goto fail;
    w->files[w->file_count++] = f;
    return 0;
fail:
    clear_file(&f);
    return -1;
}

size_t lt_weights_count(const lt_weights *w)
{
    return w->count;
}

const lt_weight *lt_weights_at(const lt_weights *w, size_t i)
{
    return &w->list[i];
}

static int compare_name(const void *name, const void *weight)
{
    return strcmp(name, ((const lt_weight *)weight)->tensor->name);
}

const lt_weight *lt_weights_find(const lt_weights *w, const char *name)
{
    return w->count ? bsearch(name, w->list, w->count, sizeof *w->list, compare_name) : NULL;
}

/* ---- the folder ---- */

static int is_wanted(const struct dirent *e)
{
    static const char end[] = ".safetensors";
    const size_t n = strlen(e->d_name), tail = sizeof end - 1;
    return n > tail && e->d_name[0] != '.' && !strcmp(e->d_name + n - tail, end) &&
           !strchr(e->d_name, '\n');
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* in no locale's order */
}

int lt_weights_list(const char *folder, lt_bytes *names, lt_err *err)
{
    struct dirent **list;
    const int count = scandir(folder, &list, is_wanted, by_bytes);
    if (count < 0) return lt_fail(err, "%s: cannot be listed: %s", folder, strerror(errno));
    int failed = 0;
    for (int i = 0; i < count; i++) {
        if (!failed) failed = lt_bytes_print(names, err, "%s\n", list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return failed;
}

/* ---- data ---- */

/* Tells the kernel what will happen to the pages of some bytes; a hint, which may fail. */
static void advise(const uint8_t *begin, size_t bytes, int advice)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), off = (uintptr_t)begin % page;
    if (bytes) (void)madvise((void *)(uintptr_t)(begin - off), bytes + off, advice);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

int lt_weights_each(const lt_tensor *t, size_t offset, size_t bytes, size_t piece_bytes,
                    lt_weights_take *take, void *ctx)
{
    const uint8_t *data = t->data.ptr;
    const size_t end = offset + bytes;
    int ended = 0;
    while (offset < end && !ended) {
        const size_t n = smaller(piece_bytes, end - offset);
        advise(data + offset + n, smaller(piece_bytes, end - offset - n), MADV_WILLNEED);
        ended = take(ctx, offset, (lt_span){data + offset, n});
        if (n >= RELEASED) advise(data + offset, n, MADV_DONTNEED); /* a later look reads again */
        offset += n;
    }
    return ended;
}

typedef struct {
    uint8_t *to;
    size_t from; /* offset of to[0] */
} target;

static int copy_piece(void *ctx, size_t offset, lt_span piece)
{
    const target *c = ctx;
    memcpy(c->to + (offset - c->from), piece.ptr, piece.len);
    return 0;
}

void lt_weights_read(const lt_tensor *t, size_t offset, void *to, size_t bytes)
{
    target c = {to, offset};
    lt_weights_each(t, offset, bytes, PIECE, copy_piece, &c);
}

bool lt_weights_hold(const lt_tensor *t, lt_weight_runs r)
{
    if (r.count == 0) return true;
    if (r.width > r.pitch || r.offset > t->data.len) return false;
    const size_t left = t->data.len - r.offset;
    return r.width <= left && (r.count == 1 || r.count - 1 <= (left - r.width) / r.pitch);
}

/* Advises on the bytes of runs [from, end); where the gaps are small, on these too, in one call. */
static void advise_runs(const uint8_t *first, lt_weight_runs r, size_t from, size_t end, int advice)
{
    if (r.pitch - r.width < 2 * (size_t)sysconf(_SC_PAGESIZE)) { /* may it hold none? */
        if (from < end)
            advise(first + from * r.pitch, (end - from - 1) * r.pitch + r.width, advice);
        return;
    }
    for (size_t i = from; i < end; i++) advise(first + i * r.pitch, r.width, advice);
}

void lt_weights_gather(const lt_tensor *t, lt_weight_runs r, void *to)
{
    const uint8_t *first = (const uint8_t *)t->data.ptr + r.offset;
    const size_t most = r.pitch < PIECE ? PIECE / r.pitch : 1;
    uint8_t *at = to;
    for (size_t from = 0; from < r.count;) {
        const size_t end = from + smaller(most, r.count - from);
        advise_runs(first, r, end, end + smaller(most, r.count - end), MADV_WILLNEED);
        for (size_t i = from; i < end; i++, at += r.width) memcpy(at, first + i * r.pitch, r.width);
        if ((end - from) * r.width >= RELEASED) advise_runs(first, r, from, end, MADV_DONTNEED);
        from = end;
    }
}

static int compare_piece(void *ctx, size_t offset, lt_span piece)
{
    const uint8_t *other = *(const uint8_t *const *)ctx + offset;
    const int differs = memcmp(piece.ptr, other, piece.len) != 0;
    advise(other, piece.len, MADV_DONTNEED);
    return differs;
}

bool lt_weights_equal(const lt_tensor *a, const lt_tensor *b)
{
    if (strcmp(a->dtype, b->dtype) || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i]) return false;
    const uint8_t *other = b->data.ptr;
    return !lt_weights_each(a, 0, a->data.len, PIECE, compare_piece, &other);
}

typedef struct {
    size_t counts[256], first[256];
} census;

static int count_piece(void *ctx, size_t offset, lt_span piece)
{
    census *c = ctx;
    const uint8_t *bytes = piece.ptr;
    for (size_t i = 0; i < piece.len; i++)
        if (c->counts[bytes[i]]++ == 0) c->first[bytes[i]] = offset + i;
    return 0;
}

/* Adds byte value b to a kind of fault. */
static void add_kind(const census *c, int b, size_t *count, size_t *first)
{
    if (c->counts[b] && (*count == 0 || c->first[b] < *first)) *first = c->first[b];
    *count += c->counts[b];
}

void lt_weights_scan(const lt_tensor *t, lt_scale_bytes *out)
{
    census c = {{0}, {0}};
    lt_scale_bytes s = {0};
    lt_weights_each(t, 0, t->data.len, PIECE, count_piece, &c);
    for (int b = 0; b < 256; b++) {
        if ((b & 0x7f) == 0x7f)
            add_kind(&c, b, &s.nan, &s.first_nan);
        else if (b & 0x80)
            add_kind(&c, b, &s.negative, &s.first_negative);
    }
    *out = s;
}
