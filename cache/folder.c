/* folder.c: one trusted directory: whole files, digests, locks. Everything goes through the opened
 * directory, so that nobody can put another one in its place. */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    PRIVATE_TRIES = 100,      /* names that a writer with the same process id left */
    STALE_SECONDS = 3600,     /* no entry takes that long to write */
    CLOCK_SECONDS = 3600,     /* that a file server's clock may be ahead of ours */
    FILE_LIMIT = 1 << 30,     /* bytes; no entry is that large */
    DIGEST_BYTES = 65,        /* hex and a newline */
    SAY_HOLDER_AFTER = 5,     /* seconds */
    MODE_OTHERS_WRITE = 0022, /* S_IWGRP | S_IWOTH */
};
#define POLL_SECONDS 0.02 /* a compile takes 20 ms and more */

/* ---- the system's calls ---- */

static int system_open(int folder, const char *name, int flags, mode_t mode)
{
    return openat(folder, name, flags, mode);
}

static int system_rename(int folder, const char *from, const char *to)
{
    return renameat(folder, from, folder, to);
}

static double system_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void system_pause(double seconds)
{
    const time_t whole = (time_t)seconds;
    nanosleep(&(struct timespec){whole, (long)((seconds - (double)whole) * 1e9)}, NULL);
}

const lt_store_io lt_folder_system_io = {system_open, mkdir,         read,       write,
                                         fsync,       system_rename, system_now, system_pause};

/* ---- the directory ---- */

/* Could only this user and root have written it? */
static int check_owner(const struct stat *st, const char *mend, lt_err *err)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return lt_fail(err, "it belongs to user %u", (unsigned)st->st_uid);
    if (st->st_mode & MODE_OTHERS_WRITE) return lt_fail(err, "others may write it%s", mend);
    return 0;
}

/* Makes path and its missing parents. 0, or the number of the first error that was not "exists". */
static int make_folders(const lt_store_io *io, char *path)
{
    int first = 0;
    if (!*path) return ENOENT;
    for (char *p = path + 1;; p++) {
        const char c = *p;
        if (c && c != '/') continue;
        *p = 0;
        if (io->mkdir(path, 0700) && errno != EEXIST && !first) first = errno;
        *p = c;
        if (!c) return first;
    }
}

static int open_folder(lt_folder *f)
{
    enum { FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC };
    f->fd = f->io->open(AT_FDCWD, f->path, FLAGS, 0);
    if (f->fd >= 0 || errno != ENOENT) return f->fd < 0 ? -1 : 0;
    const int first = make_folders(f->io, f->path);
    f->fd = f->io->open(AT_FDCWD, f->path, FLAGS, 0);
    if (f->fd >= 0) return 0;
    if (first) errno = first;
    return -1;
}

/* A link belongs to who made it: another user's could lead anywhere. */
static int check_folder(const lt_folder *f, lt_err *err)
{
    struct stat st;
    if (lstat(f->path, &st) == 0 && S_ISLNK(st.st_mode)) {
        st.st_mode = 0; /* a link's own mode says nothing */
        if (check_owner(&st, "", err)) return -1;
    }
    if (fstat(f->fd, &st)) return lt_fail(err, "%s", strerror(errno));
    return check_owner(&st, "; chmod go-w takes that away", err);
}

int lt_folder_open(lt_folder *f, const char *path, const lt_store_io *io, lt_err *err)
{
    *f = (lt_folder){.io = io, .fd = -1, .path = strdup(path)};
    if (!f->path) return lt_fail(err, "out of memory");
    for (size_t n = strlen(f->path); n > 1 && f->path[n - 1] == '/'; n--) f->path[n - 1] = 0;
    if (open_folder(f)) {
        lt_fail(err, "%s", strerror(errno));
        goto fail;
    }
    if (check_folder(f, err)) goto fail;
    f->writable = faccessat(f->fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
    return 0;
fail:
    lt_folder_close(f);
    return -1;
}

void lt_folder_close(lt_folder *f)
{
    if (f->fd >= 0) close(f->fd);
    free(f->path);
    *f = (lt_folder){.io = f->io, .fd = -1};
}

/* ---- whole files ---- */

static int check_file(int fd, lt_err *err)
{
    struct stat st;
    if (fstat(fd, &st)) return lt_fail(err, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode)) return lt_fail(err, "not a regular file");
    if (st.st_size > FILE_LIMIT) return lt_fail(err, "larger than 1 GiB");
    return check_owner(&st, "", err);
}

int lt_folder_open_file(const lt_folder *f, const char *file, int flags, lt_err *err)
{
    enum { ALWAYS = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };
    err->text[0] = 0;
    const int fd = f->io->open(f->fd, file, flags | ALWAYS, 0644);
    if (fd < 0 && errno == ELOOP) return lt_fail(err, "a symbolic link");
    if (fd < 0 && errno == ENOENT && !(flags & O_CREAT)) return -1;
    if (fd < 0) return lt_fail(err, "%s", strerror(errno));
    if (check_file(fd, err)) {
        close(fd);
        return -1;
    }
    return fd;
}

static lt_store_result read_all(const lt_store_io *io, int fd, lt_bytes *out, lt_err *err)
{
    char piece[65536];
    for (;;) {
        const ssize_t got = io->read(fd, piece, sizeof piece);
        if (got == 0) return LT_STORE_HIT;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            lt_fail(err, "%s", strerror(errno));
            return LT_STORE_MISS;
        }
        if (lt_bytes_append(out, piece, (size_t)got, err)) return LT_STORE_FAILED;
    }
}

/* Takes magic line and digest off the front of b. */
static int check_seal(lt_bytes *b, const char *magic, lt_err *err)
{
    const size_t line = strlen(magic), head = line + DIGEST_BYTES;
    if (b->len < line) return lt_fail(err, "cut short, %zu bytes long", b->len);
    if (memcmp(b->ptr, magic, line))
        return lt_fail(err, "it does not begin with '%.*s'", (int)line - 1, magic);
    if (b->len < head) return lt_fail(err, "cut short, %zu bytes long", b->len);
    char digest[DIGEST_BYTES];
    lt_sha256_hex((lt_span){b->ptr + head, b->len - head}, digest);
    digest[DIGEST_BYTES - 1] = '\n';
    if (memcmp(b->ptr + line, digest, DIGEST_BYTES)) return lt_fail(err, "its digest is wrong");
    b->len -= head;
    memmove(b->ptr, b->ptr + head, b->len + 1); /* and the zero behind it */
    return 0;
}

lt_store_result lt_folder_take(const lt_folder *f, int fd, lt_bytes *out, lt_err *err)
{
    struct stat st;
    if (fstat(fd, &st)) {
        lt_fail(err, "%s", strerror(errno));
        return LT_STORE_MISS;
    }
    const lt_store_result result = read_all(f->io, fd, out, err);
    if (result != LT_STORE_HIT) lt_bytes_clear(out);
    futimens(fd, (struct timespec[]){st.st_atim, {0, UTIME_OMIT}});
    return result;
}

lt_store_result lt_folder_read(const lt_folder *f, const char *file, const char *magic,
                               lt_bytes *out, lt_err *err)
{
    lt_bytes all = {0};
    err->text[0] = 0;
    if (f->fd < 0) return LT_STORE_MISS;
    const int fd = lt_folder_open_file(f, file, O_RDONLY, err);
    if (fd < 0) return LT_STORE_MISS;
    lt_store_result result = lt_folder_take(f, fd, &all, err);
    close(fd);
    if (result == LT_STORE_HIT && check_seal(&all, magic, err)) result = LT_STORE_MISS;
    if (result == LT_STORE_HIT)
        *out = all;
    else
        lt_bytes_clear(&all);
    return result;
}

void lt_folder_use(const lt_folder *f, const char *file)
{
    if (f->fd < 0) return;
    const struct timespec times[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
    utimensat(f->fd, file, times, AT_SYMLINK_NOFOLLOW);
}

/* A new file that no reader looks at. Its writer locks it: lt_folder_remove leaves it alone even
 * where the process id means nothing, in another container. */
static int open_private(lt_folder *f, char name[64])
{
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
    int fd = -1;
    for (int i = 0; i < PRIVATE_TRIES; i++) {
        snprintf(name, 64, ".%ld.%u.private", (long)getpid(), f->next++);
        fd = f->io->open(f->fd, name, FLAGS, 0644);
        if (fd >= 0 || errno != EEXIST) break;
    }
    if (fd >= 0) flock(fd, LOCK_EX | LOCK_NB);
    return fd;
}

static int write_all(const lt_store_io *io, int fd, const char *from, size_t bytes)
{
    while (bytes) {
        const ssize_t done = io->write(fd, from, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            if (done == 0) errno = ENOSPC;
            return -1;
        }
        from += done;
        bytes -= (size_t)done;
    }
    return 0;
}

/* An empty directory in the file's place goes away; a full one is the user's. */
static int put_in_place(const lt_folder *f, const char *from, const char *file)
{
    if (f->io->rename(f->fd, from, file) == 0) return 0;
    if (errno != EISDIR || unlinkat(f->fd, file, AT_REMOVEDIR)) return -1;
    return f->io->rename(f->fd, from, file);
}

/* A file of these parts, one behind the other. */
static int write_parts(lt_folder *f, const char *file, const lt_span *parts, int count, lt_err *err)
{
    char private[64];
    const int fd = open_private(f, private);
    if (fd < 0) return lt_fail(err, "%s", strerror(errno));
    for (int i = 0; i < count; i++)
        if (write_all(f->io, fd, parts[i].ptr, parts[i].len)) goto fail;
    if (f->io->sync(fd)) goto fail;
    if (put_in_place(f, private, file)) goto fail;
    close(fd);
    if (f->io->sync(f->fd)) /* the file is there; a power cut now could only lose it whole */
        lt_debug(1, "cache '%s': sync: %s", f->path, strerror(errno));
    return 0;
fail:
    lt_fail(err, "%s", strerror(errno));
    unlinkat(f->fd, private, 0);
    close(fd);
    return -1;
}

int lt_folder_write(lt_folder *f, const char *file, const char *magic, lt_span body, lt_err *err)
{
    char digest[DIGEST_BYTES];
    lt_sha256_hex(body, digest);
    digest[DIGEST_BYTES - 1] = '\n';
    const lt_span parts[] = {lt_span_text(magic), {digest, sizeof digest}, body};
    return write_parts(f, file, parts, (int)lt_countof(parts), err);
}

int lt_folder_replace(lt_folder *f, const char *file, lt_span body, lt_err *err)
{
    return write_parts(f, file, &body, 1, err);
}

/* ---- locks ---- */

bool lt_folder_is_named(const lt_folder *f, int fd, const char *file)
{
    struct stat open, named;
    return fstat(fd, &open) == 0 && fstatat(f->fd, file, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

static void say_holder(int fd, const char *who, double seconds)
{
    char holder[32];
    const ssize_t got = pread(fd, holder, sizeof holder - 1, 0);
    holder[got > 0 ? got : 0] = 0;
    holder[strcspn(holder, "\n")] = 0;
    lt_debug(0, "%s: process %s is compiling it (waits %.0f s at most)", who,
             *holder ? holder : "?", seconds);
}

/* 0 once fd is locked, -1 when it cannot be. */
static int wait_for(const lt_store_io *io, int fd, double start, double seconds, const char *who,
                    bool *said)
{
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return -1;
        const double waited = io->now() - start;
        if (waited >= seconds) return -1;
        if (waited >= SAY_HOLDER_AFTER && !*said) {
            say_holder(fd, who, seconds);
            *said = true;
        }
        io->pause(POLL_SECONDS);
    }
    return 0;
}

/* A holder removes the file before it lets go, so whoever waited for that file starts again with
 * the one that has the name now. */
int lt_folder_lock(const lt_folder *f, const char *lock, double seconds, const char *who)
{
    enum { FLAGS = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };
    const double start = f->io->now();
    bool said = false;
    do {
        const int fd = f->io->open(f->fd, lock, FLAGS, 0600);
        if (fd < 0) return -1;
        if (wait_for(f->io, fd, start, seconds, who, &said)) {
            close(fd);
            return -1;
        }
        if (lt_folder_is_named(f, fd, lock)) {
            if (ftruncate(fd, 0) || dprintf(fd, "%ld\n", (long)getpid()) < 0)
                lt_debug(1, "cache '%s': %s: %s", f->path, lock, strerror(errno));
            return fd;
        }
        close(fd);
    } while (f->io->now() - start < seconds);
    return -1;
}

void lt_folder_unlock(const lt_folder *f, const char *lock, int fd)
{
    if (lt_folder_is_named(f, fd, lock)) unlinkat(f->fd, lock, 0);
    close(fd);
}

/* ---- listing ---- */

int lt_folder_compare_times(const struct timespec *a, const struct timespec *b)
{
    if (a->tv_sec != b->tv_sec) return a->tv_sec < b->tv_sec ? -1 : 1;
    return a->tv_nsec < b->tv_nsec ? -1 : a->tv_nsec > b->tv_nsec;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const lt_listed *)a)->name, ((const lt_listed *)b)->name);
}

/* The later of the two times; one that has not come yet is a wrong clock's and says nothing. */
static struct timespec last_use(const struct stat *st)
{
    const struct timespec *const times[] = {&st->st_mtim, &st->st_atim};
    struct timespec now, last = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < 2; i++)
        if (times[i]->tv_sec <= now.tv_sec + CLOCK_SECONDS &&
            lt_folder_compare_times(times[i], &last) > 0)
            last = *times[i];
    return last;
}

static int add_listed(lt_listing *l, const char *name, const struct stat *st, lt_err *err)
{
    if (l->count == l->room) {
        const size_t room = l->room ? 2 * l->room : 64;
        lt_listed *at = realloc(l->at, room * sizeof *at);
        if (!at) return lt_fail(err, "out of memory");
        l->at = at;
        l->room = room;
    }
    lt_listed *f = &l->at[l->count++];
    *f = (lt_listed){.bytes = (size_t)st->st_size, .written = st->st_mtim, .used = last_use(st)};
    snprintf(f->name, sizeof f->name, "%s", name);
    return 0;
}

int lt_folder_list(const lt_folder *f, const char *begin, lt_listing *out, lt_err *err)
{
    lt_listing l = {0};
    int failed = 0;
    *out = l;
    if (f->fd < 0) return 0;
    const int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        lt_fail(err, "cache '%s': %s", f->path, strerror(errno));
        if (fd >= 0) close(fd);
        return -1;
    }
    for (const struct dirent *e; !failed && (e = readdir(dir));) {
        struct stat st;
        if (strncmp(e->d_name, begin, strlen(begin))) continue;
        if (fstatat(f->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            failed = add_listed(&l, e->d_name, &st, err);
    }
    closedir(dir);
    if (failed) {
        free(l.at);
        return lt_wrap(err, "cache '%s'", f->path);
    }
    if (l.count) qsort(l.at, l.count, sizeof *l.at, compare_names);
    *out = l;
    return 0;
}

/* ---- removal ---- */

bool lt_folder_remove(const lt_folder *f, const char *file, const char *lock)
{
    const int fd = openat(f->fd, lock, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool gone = false;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) goto end;
    if (fd >= 0 && file == lock && !lt_folder_is_named(f, fd, file)) goto end;
    gone = unlinkat(f->fd, file, 0) == 0 ||
           (errno == EISDIR && unlinkat(f->fd, file, AT_REMOVEDIR) == 0);
    if (fd >= 0 && file != lock && lt_folder_is_named(f, fd, lock)) unlinkat(f->fd, lock, 0);
end:
    if (fd >= 0) close(fd);
    return gone;
}

bool lt_folder_is_stale(const char *file, double age_seconds)
{
    long pid;
    unsigned number;
    if (sscanf(file, ".%ld.%u.private", &pid, &number) != 2) return false;
    if (age_seconds > STALE_SECONDS) return true;
    return pid > 0 && pid <= INT32_MAX && kill((pid_t)pid, 0) && errno == ESRCH;
}
