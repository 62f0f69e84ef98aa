/* record.c: sealed lines in a file: appended under a lock with one write, read past what is torn,
 * replaced as a whole. */
#include "record.h"

#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEAL "\tsum="

enum {
    SEAL_DIGITS = 8,                            /* hex, of the SHA-256 of what is in front */
    SEAL_BYTES = sizeof SEAL - 1 + SEAL_DIGITS, /* without the newline */
    NAME_LIMIT = 100,                           /* of a file, without its suffix */
    FILE_BYTES = NAME_LIMIT + sizeof ".tuned",
};
#define LOCK_SECONDS 10.0 /* an append takes a millisecond, a merge less than one second */
#define POLL_SECONDS 0.002

struct lt_record {
    lt_folder folder;
    lt_err why;   /* there is no folder */
    bool is_lost; /* or there is one that cannot be opened */
    char file[FILE_BYTES];
    char *path; /* owned; for sentences */
    int held;   /* -1: not held */
};

/* ---- open and close ---- */

bool lt_record_is_name(const char *name)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyz0123456789_-.";
    const size_t n = strlen(name);
    return n && n <= NAME_LIMIT && name[0] != '.' && strspn(name, legal) == n;
}

static int check_name(const char *name, lt_err *err)
{
    if (lt_record_is_name(name)) return 0;
    return lt_fail(err, "records: '%s' cannot name a file (small letters, digits, _ - . only)",
                   name);
}

/* Puts in front what is at fault, and what to do; returns -1. */
static int wrap(const lt_record *r, lt_err *err)
{
    return lt_wrap(err, "records '%s' (mend that or set LATHE_CACHE_DIR)", r->path);
}

static void open_folder(lt_record *r, const char *dir)
{
    if (lt_folder_open(&r->folder, dir, lt_folder_io(), &r->why)) {
        r->is_lost = access(dir, F_OK) == 0;
        wrap(r, &r->why);
    } else if (!r->folder.writable)
        lt_fail(&r->why, "records '%s': the folder cannot be written (set LATHE_CACHE_DIR)",
                r->path);
}

/* <cache>/tuned; *out stays empty where no cache has a home. */
static int find_folder(lt_bytes *out, lt_err *err)
{
    const char *cache = lt_config_text(LT_SET_CACHE_DIR);
    if (!*cache) cache = lt_config_default_cache_dir();
    return cache ? lt_bytes_print(out, err, "%s/tuned", cache) : 0;
}

int lt_record_open(lt_record **out, const char *name, lt_err *err)
{
    lt_bytes dir = {0}, path = {0};
    lt_record *r = NULL;
    if (check_name(name, err) || find_folder(&dir, err)) goto fail;
    if (!(r = calloc(1, sizeof *r))) {
        lt_fail(err, "records: out of memory");
        goto fail;
    }
    r->folder = (lt_folder){.io = lt_folder_io(), .fd = -1};
    r->held = -1;
    snprintf(r->file, sizeof r->file, "%s.tuned", name);
    if (lt_bytes_print(&path, err, "%s/%s", dir.ptr ? dir.ptr : "", r->file)) goto fail;
    r->path = path.ptr;
    if (dir.ptr)
        open_folder(r, dir.ptr);
    else
        lt_fail(&r->why, "records: there is no home for them (set LATHE_CACHE_DIR)");
    lt_bytes_clear(&dir);
    *out = r;
    return 0;
fail:
    lt_bytes_clear(&dir);
    lt_record_close(r);
    return -1;
}

void lt_record_close(lt_record *r)
{
    if (!r) return;
    if (r->held >= 0) close(r->held);
    lt_folder_close(&r->folder);
    free(r->path);
    free(r);
}

const char *lt_record_path(const lt_record *r)
{
    return r->path;
}

static int check_folder(const lt_record *r, lt_err *err)
{
    return *r->why.text ? lt_fail(err, "%s", r->why.text) : 0;
}

/* Can the file be opened so, or made? */
static int check_file(const lt_record *r, int flags, lt_err *err)
{
    const int fd = lt_folder_open_file(&r->folder, r->file, flags, err);
    if (fd >= 0) close(fd);
    return fd >= 0 || !*err->text ? 0 : wrap(r, err);
}

int lt_record_check(const lt_record *r, lt_err *err)
{
    return check_folder(r, err) ? -1 : check_file(r, O_RDWR, err);
}

/* ---- locks: on the file itself, so that they die with their holder ---- */

static int lock(const lt_record *r, int fd, int how, lt_err *err)
{
    const lt_store_io *io = r->folder.io;
    const double start = io->now();
    while (flock(fd, how | LOCK_NB)) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return lt_fail(err, "%s: %s", r->path, strerror(errno));
        if (io->now() - start >= LOCK_SECONDS)
            return lt_fail(err, "%s: another process has held it for %g s (end that one)", r->path,
                           LOCK_SECONDS);
        io->pause(POLL_SECONDS);
    }
    return 0;
}

/* The file, opened and locked; one that was replaced meanwhile is opened again. *fd stays -1 where
 * there is none and flags do not make one. */
static int open_locked(const lt_record *r, int flags, int how, int *fd, lt_err *err)
{
    *fd = -1;
    for (;;) {
        const int got = lt_folder_open_file(&r->folder, r->file, flags, err);
        if (got < 0) return *err->text ? wrap(r, err) : 0;
        if (lock(r, got, how, err)) {
            close(got);
            return -1;
        }
        if (lt_folder_is_named(&r->folder, got, r->file)) {
            *fd = got;
            return 0;
        }
        close(got);
    }
}

int lt_record_hold(lt_record *r, lt_err *err)
{
    if (r->held >= 0) return 0;
    if (check_folder(r, err)) return -1;
    return open_locked(r, O_RDWR | O_CREAT | O_APPEND, LOCK_EX, &r->held, err);
}

/* ---- seals ---- */

static void make_seal(lt_span line, char seal[SEAL_BYTES + 1])
{
    char digest[65];
    lt_sha256_hex(line, digest);
    snprintf(seal, SEAL_BYTES + 1, SEAL "%.*s", SEAL_DIGITS, digest);
}

static int add_sealed(lt_bytes *out, lt_span line, lt_err *err)
{
    char seal[SEAL_BYTES + 1];
    if (!line.len || memchr(line.ptr, '\n', line.len) || memchr(line.ptr, '\r', line.len) ||
        memchr(line.ptr, 0, line.len))
        return lt_fail(err, "records: a record is one line of text");
    make_seal(line, seal);
    if (lt_bytes_append(out, line.ptr, line.len, err)) return -1;
    return lt_bytes_print(out, err, "%s\n", seal);
}

/* Takes the seal off; false where there is none that agrees. */
static bool is_whole(lt_span *line)
{
    char seal[SEAL_BYTES + 1];
    if (line->len <= SEAL_BYTES) return false;
    const lt_span body = {line->ptr, line->len - SEAL_BYTES};
    make_seal(body, seal);
    if (memcmp((const char *)line->ptr + body.len, seal, SEAL_BYTES)) return false;
    *line = body;
    return true;
}

/* The next line of *rest, without its end, be it "\n", "\r\n" or nothing. */
static lt_span next_line(lt_span *rest)
{
    const char *at = rest->ptr, *end = memchr(at, '\n', rest->len);
    lt_span line = {at, end ? (size_t)(end - at) : rest->len};
    const size_t used = line.len + (end ? 1 : 0);
    *rest = (lt_span){at + used, rest->len - used};
    if (line.len && at[line.len - 1] == '\r') line.len--;
    return line;
}

int lt_record_unseal(lt_span text, lt_bytes *lines, size_t *bad, lt_err *err)
{
    *bad = 0;
    while (text.len) {
        lt_span line = next_line(&text);
        if (!line.len) continue;
        if (!is_whole(&line)) {
            ++*bad;
            continue;
        }
        if (lt_bytes_append(lines, line.ptr, line.len, err) || lt_bytes_append(lines, "\n", 1, err))
            return -1;
    }
    return 0;
}

/* ---- read ---- */

static int take(const lt_record *r, int fd, lt_bytes *lines, size_t *bad, lt_err *err)
{
    lt_bytes all = {0};
    lt_err why;
    if (lseek(fd, 0, SEEK_SET) < 0) return lt_fail(err, "%s: %s", r->path, strerror(errno));
    if (lt_folder_take(&r->folder, fd, &all, &why) != LT_STORE_HIT)
        return lt_fail(err, "%s: %s", r->path, why.text);
    const int failed = lt_record_unseal(lt_bytes_view(&all), lines, bad, err);
    lt_bytes_clear(&all);
    return failed;
}

/* Is there a folder, and no file in it that is not to be read? What is there in vain is said. */
static bool is_usable(const lt_record *r)
{
    lt_err why = r->why;
    const bool is_lost = r->folder.fd < 0 ? r->is_lost : check_file(r, O_RDONLY, &why);
    if (is_lost) lt_debug(0, "%s: none of them is used", why.text);
    return r->folder.fd >= 0 && !is_lost;
}

int lt_record_read(lt_record *r, lt_bytes *lines, size_t *bad, lt_err *err)
{
    int fd = r->held;
    *bad = 0;
    if (fd >= 0) return take(r, fd, lines, bad, err);
    if (!is_usable(r)) return 0;
    if (open_locked(r, O_RDONLY, LOCK_SH, &fd, err)) return -1;
    if (fd < 0) return 0;
    const int failed = take(r, fd, lines, bad, err);
    close(fd);
    return failed;
}

/* ---- write ---- */

/* One write of all, behind what is there; a torn last line gets its end first. What a full disk cut
 * off is taken away again. */
static int append_to(const lt_record *r, int fd, lt_span sealed, lt_err *err)
{
    struct stat st;
    char last = '\n';
    lt_bytes all = {0};
    if (fstat(fd, &st)) return lt_fail(err, "%s", strerror(errno));
    if (st.st_size && pread(fd, &last, 1, st.st_size - 1) != 1)
        return lt_fail(err, "%s", strerror(errno));
    if (last != '\n' && lt_bytes_append(&all, "\n", 1, err)) goto fail;
    if (lt_bytes_append(&all, sealed.ptr, sealed.len, err)) goto fail;
    ssize_t done;
    do {
        done = r->folder.io->write(fd, all.ptr, all.len);
    } while (done < 0 && errno == EINTR);
    if (done != (ssize_t)all.len) {
        lt_fail(err, "%s", strerror(done < 0 ? errno : ENOSPC));
        goto undo;
    }
    if (r->folder.io->sync(fd)) {
        lt_fail(err, "%s", strerror(errno));
        goto undo;
    }
    lt_bytes_clear(&all);
    return 0;
undo:
    if (ftruncate(fd, st.st_size)) lt_debug(1, "%s: %s", r->path, strerror(errno));
fail:
    lt_bytes_clear(&all);
    return -1;
}

int lt_record_append(lt_record *r, lt_span line, lt_err *err)
{
    int fd = r->held;
    lt_bytes sealed = {0};
    if (check_folder(r, err)) return -1;
    if (add_sealed(&sealed, line, err)) goto fail;
    if (fd < 0 && open_locked(r, O_RDWR | O_CREAT | O_APPEND, LOCK_EX, &fd, err)) goto fail;
    const int failed = append_to(r, fd, lt_bytes_view(&sealed), err);
    if (fd != r->held) close(fd);
    lt_bytes_clear(&sealed);
    return failed ? lt_wrap(err, "%s", r->path) : 0;
fail:
    lt_bytes_clear(&sealed);
    return -1;
}

int lt_record_replace(lt_record *r, lt_span lines, lt_err *err)
{
    lt_bytes sealed = {0};
    if (r->held < 0) return lt_fail(err, "%s: it is replaced without being held", r->path);
    while (lines.len)
        if (add_sealed(&sealed, next_line(&lines), err)) goto fail;
    if (lt_folder_replace(&r->folder, r->file, lt_bytes_view(&sealed), err)) {
        lt_wrap(err, "%s", r->path);
        goto fail;
    }
    lt_bytes_clear(&sealed);
    close(r->held); /* of the file that was */
    r->held = -1;
    return 0;
fail:
    lt_bytes_clear(&sealed);
    return -1;
}
