/* store.c: compiled kernels by name and key, in a folder or, where none can be written, in memory.
 * folder.c knows files, entry.c knows their bytes. */
#include "store.h"

#include "entry.h"
#include "folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Both end in the format's number. */
#define ENTRY_MAGIC "lathe entry 1\n"
#define NOTE_MAGIC "lathe note 1\n"

/* A file that no folder took, or, without a body, one that was complained about. */
typedef struct memo {
    struct memo *next;
    char file[LT_FILE_BYTES];
    lt_bytes body;
} memo;

typedef struct held {
    struct held *next;
    int fd;
    char lock[LT_FILE_BYTES];
} held;

struct lt_store {
    lt_folder folder;
    memo *kept; /* newest first */
    memo *bad;
    held *locks;
    bool said; /* that nothing can be written */
};

/* The one state outside a store: only tests change it. */
static const lt_store_io *store_io = &lt_folder_system_io;

void lt_store_set_io(const lt_store_io *io)
{
    store_io = io ? io : &lt_folder_system_io;
}

const lt_store_io *lt_folder_io(void)
{
    return store_io;
}

/* ---- memory ---- */

static memo *find_memo(memo *m, const char *file)
{
    while (m && strcmp(m->file, file)) m = m->next;
    return m;
}

/* A body that is there already is replaced. */
static int put_memo(memo **list, const char *file, lt_span body, lt_err *err)
{
    lt_bytes copy = {0};
    if (lt_bytes_append(&copy, body.ptr, body.len, err)) return -1;
    memo *m = find_memo(*list, file);
    if (!m) {
        m = calloc(1, sizeof *m);
        if (!m) {
            lt_bytes_clear(&copy);
            return lt_fail(err, "out of memory");
        }
        snprintf(m->file, sizeof m->file, "%s", file);
        m->next = *list;
        *list = m;
    }
    lt_bytes_clear(&m->body);
    m->body = copy;
    return 0;
}

/* How many of them were entries. */
static size_t free_memos(memo **list)
{
    size_t count = 0;
    for (memo *m = *list, *next; m; m = next) {
        next = m->next;
        count += lt_entry_is_file(m->file);
        lt_bytes_clear(&m->body);
        free(m);
    }
    *list = NULL;
    return count;
}

/* ---- open and close ---- */

/* Leaves the store without a folder where there is none to use. */
static void open_folder(lt_store *s, const char *dir)
{
    lt_err why;
    if (!dir || !*dir) dir = lt_config_text(LT_SET_CACHE_DIR);
    if (!dir || !*dir) dir = lt_config_default_cache_dir();
    if (!dir || !*dir)
        lt_debug(0, "cache: there is no home for it, what is compiled stays in memory (set "
                    "LATHE_CACHE_DIR)");
    else if (lt_folder_open(&s->folder, dir, store_io, &why))
        lt_debug(0,
                 "cache '%s': not used, what is compiled stays in memory: %s (mend that or set "
                 "LATHE_CACHE_DIR)",
                 dir, why.text);
}

int lt_store_open(lt_store **out, const char *dir, lt_err *err)
{
    lt_store *s = calloc(1, sizeof *s);
    if (!s) return lt_fail(err, "cache: out of memory");
    s->folder = (lt_folder){.io = store_io, .fd = -1};
    open_folder(s, dir);
    *out = s;
    return 0;
}

void lt_store_close(lt_store *s)
{
    if (!s) return;
    while (s->locks) lt_store_unlock(s, s->locks->fd);
    free_memos(&s->kept);
    free_memos(&s->bad);
    lt_folder_close(&s->folder);
    free(s);
}

const char *lt_store_dir(const lt_store *s)
{
    return s->folder.path ? s->folder.path : "";
}

bool lt_store_is_writable(const lt_store *s)
{
    return s->folder.writable;
}

/* ---- find ---- */

/* One line for each damaged file, unless nothing can mend it. */
static void say_bad(lt_store *s, const char *file, const char *why)
{
    if (find_memo(s->bad, file)) return;
    put_memo(&s->bad, file, (lt_span){0}, NULL);
    lt_debug(s->folder.writable ? 0 : 1,
             "cache entry '%s/%s': %s (it is compiled again and replaced)", s->folder.path, file,
             why);
}

/* A file's body, from memory or the folder. MISS: as lt_folder_read. */
static lt_store_result read_body(const lt_store *s, const char *file, const char *magic,
                                 lt_bytes *body, lt_err *err)
{
    const memo *m = find_memo(s->kept, file);
    err->text[0] = 0;
    if (!m) return lt_folder_read(&s->folder, file, magic, body, err);
    return lt_bytes_append(body, m->body.ptr, m->body.len, err) ? LT_STORE_FAILED : LT_STORE_HIT;
}

/* The same for an entry's file, with its parts, which borrow from *body. */
static lt_store_result read_parts(const lt_store *s, const char *file, lt_bytes *body,
                                  lt_span parts[LT_PARTS], char key[65], lt_err *err)
{
    const lt_store_result got = read_body(s, file, ENTRY_MAGIC, body, err);
    if (got != LT_STORE_HIT) return got;
    if (lt_entry_check(lt_bytes_view(body), file, parts, key, err) == 0) return LT_STORE_HIT;
    lt_bytes_clear(body);
    return LT_STORE_MISS;
}

lt_store_result lt_store_find(lt_store *s, const char *name, const char key[65], lt_entry *out,
                              lt_err *err)
{
    char file[LT_FILE_BYTES], found[65];
    lt_bytes body = {0};
    lt_span parts[LT_PARTS];
    lt_err why;
    if (lt_entry_name_file(name, key, file, err)) return LT_STORE_FAILED;
    lt_store_result got = read_parts(s, file, &body, parts, found, &why);
    if (got == LT_STORE_FAILED) lt_fail(err, "cache entry '%s': %s", file, why.text);
    if (got == LT_STORE_MISS && *why.text) say_bad(s, file, why.text);
    if (got == LT_STORE_HIT && strcmp(found, key))
        got = LT_STORE_MISS; /* the file's digits agree */
    if (got == LT_STORE_HIT && lt_entry_copy(parts, out, err)) got = LT_STORE_FAILED;
    if (got == LT_STORE_HIT) lt_folder_use(&s->folder, file);
    lt_bytes_clear(&body);
    return got;
}

lt_store_result lt_store_read(lt_store *s, const char *file, lt_entry *out, lt_err *err)
{
    char key[65];
    lt_bytes body = {0};
    lt_span parts[LT_PARTS];
    if (!lt_entry_is_file(file)) return LT_STORE_MISS;
    lt_store_result got = read_parts(s, file, &body, parts, key, err);
    if (got == LT_STORE_HIT && lt_entry_copy(parts, out, err)) got = LT_STORE_FAILED;
    lt_bytes_clear(&body);
    return got;
}

/* The next line of *rest that does not begin with `except`. */
static bool next_line(lt_span *rest, const char *except, lt_span *line)
{
    const size_t n = strlen(except);
    while (rest->len) {
        const char *at = rest->ptr, *end = memchr(at, '\n', rest->len);
        *line = (lt_span){at, end ? (size_t)(end - at) : rest->len};
        const size_t used = line->len + (end ? 1 : 0);
        *rest = (lt_span){at + used, rest->len - used};
        if (line->len < n || memcmp(at, except, n)) return true;
    }
    return false;
}

static bool agree_but(lt_span a, lt_span b, const char *except)
{
    for (;;) {
        lt_span x, y;
        const bool more = next_line(&a, except, &x);
        if (next_line(&b, except, &y) != more) return false;
        if (!more) return true;
        if (x.len != y.len || memcmp(x.ptr, y.ptr, x.len)) return false;
    }
}

/* Takes the file's entry if it is one of this name and its key text agrees. */
static lt_store_result take_if_near(lt_store *s, const char *file, const char *name,
                                    const char *key_text, const char *except, lt_entry *out,
                                    lt_err *err)
{
    char key[65];
    lt_bytes body = {0};
    lt_span parts[LT_PARTS];
    const size_t n = strlen(name);
    if (!lt_entry_is_file(file) || strlen(file) != n + 1 + LT_ENTRY_DIGITS || memcmp(file, name, n))
        return LT_STORE_MISS;
    lt_store_result got = read_parts(s, file, &body, parts, key, err);
    if (got == LT_STORE_HIT && !agree_but(parts[LT_PART_KEY], lt_span_text(key_text), except))
        got = LT_STORE_MISS;
    if (got == LT_STORE_HIT && lt_entry_copy(parts, out, err)) got = LT_STORE_FAILED;
    if (got == LT_STORE_HIT) lt_folder_use(&s->folder, file);
    lt_bytes_clear(&body);
    return got;
}

static int newest_first(const void *a, const void *b)
{
    const lt_listed *x = a, *y = b;
    const int order = lt_folder_compare_times(&y->written, &x->written);
    return order ? order : strcmp(x->name, y->name);
}

lt_store_result lt_store_find_nearest(lt_store *s, const char *name, const char *key_text,
                                      const char *except, lt_entry *out, lt_err *err)
{
    lt_store_result got = LT_STORE_MISS;
    lt_listing l;
    for (const memo *m = s->kept; m && got == LT_STORE_MISS; m = m->next)
        got = take_if_near(s, m->file, name, key_text, except, out, err);
    if (got != LT_STORE_MISS) return got;
    if (lt_folder_list(&s->folder, name, &l, err)) return LT_STORE_FAILED;
    if (l.count) qsort(l.at, l.count, sizeof *l.at, newest_first);
    for (size_t i = 0; i < l.count && got == LT_STORE_MISS; i++)
        got = take_if_near(s, l.at[i].name, name, key_text, except, out, err);
    free(l.at);
    return got;
}

/* ---- locks ---- */

int lt_store_lock(lt_store *s, const char *name, const char key[65], double seconds, int *lock,
                  lt_err *err)
{
    char file[LT_FILE_BYTES];
    if (lt_entry_name_file(name, key, file, err)) return -1;
    *lock = -1;
    if (!s->folder.writable) return 0;
    held *h = calloc(1, sizeof *h);
    if (!h) return lt_fail(err, "cache: out of memory");
    snprintf(h->lock, sizeof h->lock, "%.*s.lock", LT_FILE_BYTES - 6, file);
    h->fd = lt_folder_lock(&s->folder, h->lock, seconds, name);
    if (h->fd < 0) {
        free(h);
        return 0;
    }
    h->next = s->locks;
    s->locks = h;
    *lock = h->fd;
    return 0;
}

void lt_store_unlock(lt_store *s, int lock)
{
    for (held **at = &s->locks; *at; at = &(*at)->next) {
        held *h = *at;
        if (h->fd != lock) continue;
        *at = h->next;
        lt_folder_unlock(&s->folder, h->lock, h->fd);
        free(h);
        return;
    }
}

/* ---- publish ---- */

/* Reads the folder's file and says whether it is a whole entry; MISS: as lt_folder_read. */
static lt_store_result verify_file(const lt_store *s, const char *file, lt_err *err)
{
    lt_bytes body = {0};
    lt_span parts[LT_PARTS];
    char key[65];
    lt_store_result got = lt_folder_read(&s->folder, file, ENTRY_MAGIC, &body, err);
    if (got == LT_STORE_HIT && lt_entry_check(lt_bytes_view(&body), file, parts, key, err))
        got = LT_STORE_MISS;
    lt_bytes_clear(&body);
    return got;
}

/* Has another writer put a whole file there that serves as well? */
static bool is_there(const lt_store *s, const char *file, const char *magic, lt_span body)
{
    lt_bytes there = {0};
    lt_err why;
    if (lt_entry_is_file(file)) return verify_file(s, file, &why) == LT_STORE_HIT;
    const bool same = lt_folder_read(&s->folder, file, magic, &there, &why) == LT_STORE_HIT &&
                      there.len == body.len && memcmp(there.ptr, body.ptr, body.len) == 0;
    lt_bytes_clear(&there);
    return same;
}

/* Into the folder, else into memory; the first time that it is memory is said. */
static int put(lt_store *s, const char *file, const char *magic, lt_span body, lt_err *err)
{
    lt_err why;
    if (s->folder.fd >= 0) {
        if (!s->folder.writable)
            lt_fail(&why, "it cannot be written");
        else if (lt_folder_write(&s->folder, file, magic, body, &why) == 0)
            return 0;
        else if (is_there(s, file, magic, body))
            return 0;
        if (!s->said)
            lt_debug(0, "cache '%s': %s: %s (what is compiled stays in memory)", s->folder.path,
                     file, why.text);
        s->said = true;
    }
    return put_memo(&s->kept, file, body, err);
}

int lt_store_publish(lt_store *s, const char *name, const char key[65], const lt_entry *entry,
                     lt_err *err)
{
    char file[LT_FILE_BYTES], own[65];
    lt_bytes body = {0};
    if (lt_entry_name_file(name, key, file, err)) return -1;
    lt_sha256_hex(lt_bytes_view(&entry->key_text), own);
    if (strcmp(own, key))
        return lt_fail(err, "cache entry '%s': its key text has key %s", file, own);
    if (lt_entry_encode(name, entry, &body, err)) goto fail;
    if (put(s, file, ENTRY_MAGIC, lt_bytes_view(&body), err)) goto fail;
    lt_bytes_clear(&body);
    return 0;
fail:
    lt_bytes_clear(&body);
    return lt_wrap(err, "cache entry '%s'", file);
}

lt_store_result lt_store_note_read(lt_store *s, const char *name, lt_bytes *out, lt_err *err)
{
    char file[LT_FILE_BYTES];
    lt_bytes body = {0};
    lt_err why;
    if (lt_entry_name_note(name, file, err)) return LT_STORE_FAILED;
    const lt_store_result got = read_body(s, file, NOTE_MAGIC, &body, &why);
    if (got == LT_STORE_FAILED) lt_fail(err, "cache note '%s': %s", file, why.text);
    if (got == LT_STORE_MISS && *why.text) say_bad(s, file, why.text);
    if (got == LT_STORE_HIT) *out = body;
    return got;
}

int lt_store_note_write(lt_store *s, const char *name, lt_span text, lt_err *err)
{
    char file[LT_FILE_BYTES];
    if (lt_entry_name_note(name, file, err)) return -1;
    if (put(s, file, NOTE_MAGIC, text, err)) return lt_wrap(err, "cache note '%s'", file);
    return 0;
}

/* ---- the whole cache ---- */

static bool ends_with(const char *file, const char *suffix)
{
    const size_t n = strlen(file), m = strlen(suffix);
    return n > m && strcmp(file + n - m, suffix) == 0;
}

static double seconds_since(const struct timespec *then)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const double age =
        (double)(now.tv_sec - then->tv_sec) + (double)(now.tv_nsec - then->tv_nsec) * 1e-9;
    return age > 0 ? age : 0;
}

int lt_store_walk(lt_store *s, bool verify, int (*each)(void *ctx, const lt_store_item *item),
                  void *ctx, lt_err *err)
{
    lt_listing l;
    if (lt_folder_list(&s->folder, "", &l, err)) return -1;
    for (size_t i = 0; i < l.count; i++) {
        const lt_listed *f = &l.at[i];
        lt_store_item item = {.bytes = f->bytes, .age_seconds = seconds_since(&f->used)};
        lt_err why = {{0}};
        if (!lt_entry_is_file(f->name)) continue;
        if (verify) item.whole = verify_file(s, f->name, &why) == LT_STORE_HIT;
        if (verify && !item.whole && !*why.text) continue; /* removed since the listing */
        snprintf(item.name, sizeof item.name, "%s", f->name);
        snprintf(item.why, sizeof item.why, "%.127s", why.text);
        if (each(ctx, &item)) break;
    }
    free(l.at);
    return 0;
}

typedef struct {
    size_t entries, bytes; /* bytes: of all files */
} tally;

static void remove_file(const lt_store *s, const lt_listed *f, const char *lock, tally *removed)
{
    if (!lt_folder_remove(&s->folder, f->name, lock)) return;
    removed->entries += lt_entry_is_file(f->name);
    removed->bytes += f->bytes;
}

static void remove_entry(const lt_store *s, const lt_listed *f, tally *removed)
{
    char lock[LT_FILE_BYTES];
    snprintf(lock, sizeof lock, "%.*s.lock", LT_FILE_BYTES - 6, f->name);
    remove_file(s, f, lock, removed);
}

/* Private files and locks that nobody holds. */
static void sweep_leftovers(const lt_store *s, const lt_listing *l, tally *removed)
{
    tally locks = {0}; /* they are empty and no news */
    for (size_t i = 0; i < l->count; i++) {
        const lt_listed *f = &l->at[i];
        if (lt_folder_is_stale(f->name, seconds_since(&f->used)))
            remove_file(s, f, f->name, removed);
        else if (ends_with(f->name, ".lock"))
            remove_file(s, f, f->name, &locks);
    }
}

/* Damaged entries go; what stays moves to the front of l. */
static void sweep_damaged(const lt_store *s, lt_listing *l, tally *removed)
{
    size_t whole = 0;
    for (size_t i = 0; i < l->count; i++) {
        const lt_listed *f = &l->at[i];
        lt_err why;
        if (!lt_entry_is_file(f->name)) continue;
        if (verify_file(s, f->name, &why) == LT_STORE_MISS)
            remove_entry(s, f, removed);
        else
            l->at[whole++] = *f;
    }
    l->count = whole;
}

static int oldest_first(const void *a, const void *b)
{
    const lt_listed *x = a, *y = b;
    const int order = lt_folder_compare_times(&x->used, &y->used);
    return order ? order : strcmp(x->name, y->name);
}

static void sweep_oldest(const lt_store *s, lt_listing *l, size_t limit_bytes, tally *removed)
{
    size_t total = 0;
    for (size_t i = 0; i < l->count; i++) total += l->at[i].bytes;
    if (l->count) qsort(l->at, l->count, sizeof *l->at, oldest_first);
    for (size_t i = 0; i < l->count && total > limit_bytes; i++) {
        const size_t before = removed->bytes;
        remove_entry(s, &l->at[i], removed);
        total -= removed->bytes - before;
    }
}

int lt_store_gc(lt_store *s, size_t limit_bytes, size_t *removed, size_t *removed_bytes,
                lt_err *err)
{
    tally sum = {0};
    lt_listing l;
    if (s->folder.fd >= 0 && !s->folder.writable)
        return lt_fail(err, "cache '%s': it cannot be written, nothing is removed", s->folder.path);
    if (lt_folder_list(&s->folder, "", &l, err)) return -1;
    sweep_leftovers(s, &l, &sum);
    sweep_damaged(s, &l, &sum);
    sweep_oldest(s, &l, limit_bytes, &sum);
    free(l.at);
    *removed = sum.entries;
    *removed_bytes = sum.bytes;
    return 0;
}

int lt_store_clear(lt_store *s, size_t *removed, lt_err *err)
{
    tally sum = {0};
    lt_listing l;
    if (lt_store_gc(s, 0, &sum.entries, &sum.bytes, err)) return -1;
    if (lt_folder_list(&s->folder, "", &l, err)) return -1;
    for (size_t i = 0; i < l.count; i++)
        if (ends_with(l.at[i].name, ".note")) remove_file(s, &l.at[i], l.at[i].name, &sum);
    free(l.at);
    *removed = sum.entries + free_memos(&s->kept);
    return 0;
}
