/* fault.c: preloaded into a program, lets its n-th call of one kind fail. For the tests alone.
 *
 * FAULT_KIND: alloc, open, read, write, rename, sync, map, spawn. FAULT_AT: which call, from 1; 0
 * fails none. FAULT_ON=1: all later ones too, as when memory or the disk is used up.
 * FAULT_IN=child: only in processes that the program starts again (`lathe --word`), parent: only in
 * the others. FAULT_LOG: a file that gets a line `fault KIND N` when it happens and, when the
 * process ends, `count KIND N` of each kind and `left WHAT N` of what it did not give back: blocks
 * of memory, files that it opened, bytes that it mapped, children that it did not wait for. Says
 * nothing on the program's own streams. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum { NONE, ALLOC, OPEN, READ, WRITE, RENAME, SYNC, MAP, SPAWN, KINDS } kind;

static const struct {
    const char *name;
    int error; /* errno of the call that fails */
} kinds[KINDS] = {{"none", 0},   {"alloc", ENOMEM}, {"open", EMFILE},
                  {"read", EIO}, {"write", ENOSPC}, {"rename", ENOSPC},
                  {"sync", EIO}, {"map", ENOMEM},   {"spawn", EAGAIN}};

static bool begun;
static kind chosen;
static long at;
static bool on;
static const char *log_path;
static atomic_long calls[KINDS], blocks, mapped;
static int files;   /* open when the process began */
static bool counts; /* what is left: not where a library of others, NVRTC, ends with the process */

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
extern void __libc_free(void *p);

/* ---- when ---- */

static void note(const char *fmt, ...)
{
    char line[128];
    va_list args;
    if (!log_path) return;
    va_start(args, fmt);
    const int len = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    const long fd = syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0) return;
    syscall(SYS_write, fd, line, len);
    syscall(SYS_close, fd);
}

/* Does this call fail? */
static bool fails(kind k)
{
    if (!begun) return false;
    const long n = atomic_fetch_add(&calls[k], 1) + 1;
    if (k != chosen || !at || n < at || (n > at && !on)) return false;
    if (n == at) note("fault %s %ld\n", kinds[k].name, n);
    errno = kinds[k].error;
    return true;
}

static int count_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

__attribute__((constructor)) static void begin(int argc, char **argv)
{
    static char out[4096];
    const char *name = getenv("FAULT_KIND"), *number = getenv("FAULT_AT");
    const char *where = getenv("FAULT_IN"), *lasting = getenv("FAULT_ON");
    const bool is_child = argc > 1 && !strncmp(argv[1], "--", 2);
    counts = !is_child || strcmp(argv[1], "--nvrtc-child");
    if (where && is_child != !strcmp(where, "child")) return;
    log_path = getenv("FAULT_LOG");
    at = number ? atol(number) : 0;
    on = lasting && !strcmp(lasting, "1");
    for (kind k = ALLOC; name && k < KINDS; k++)
        if (!strcmp(kinds[k].name, name)) chosen = k;
    setvbuf(stdout, out, _IOFBF, sizeof out); /* so that libc allocates none */
    files = count_files();
    begun = true;
}

__attribute__((destructor)) static void end(void)
{
    if (!begun) return;
    begun = false;
    for (kind k = ALLOC; k < KINDS; k++) note("count %s %ld\n", kinds[k].name, (long)calls[k]);
    if (!counts) return;
    note("left blocks %ld\n", (long)blocks);
    note("left files %d\n", count_files() - files);
    note("left mapped %ld\n", (long)mapped);
    note("left children %d\n", waitpid(-1, NULL, WNOHANG) >= 0);
}

/* ---- memory ---- */

static void *count_block(void *p)
{
    if (p) atomic_fetch_add(&blocks, 1);
    return p;
}

void *malloc(size_t bytes)
{
    return fails(ALLOC) ? NULL : count_block(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return fails(ALLOC) ? NULL : count_block(__libc_calloc(count, bytes));
}

void *realloc(void *old, size_t bytes)
{
    if (bytes && fails(ALLOC)) return NULL;
    void *p = __libc_realloc(old, bytes);
    if (!old) count_block(p);
    if (old && !bytes) atomic_fetch_sub(&blocks, 1);
    return p;
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return fails(ALLOC) ? NULL : count_block(__libc_memalign(align, bytes));
}

void free(void *p)
{
    if (p) atomic_fetch_sub(&blocks, 1);
    __libc_free(p);
}

/* ---- what the system does ---- */

/* NAME calls what it hides, unless it fails with `failure`. */
#define HIDE(kind, type, failure, name, params, words)                                             \
    type name params                                                                               \
    {                                                                                              \
        static type(*real) params;                                                                 \
        if (fails(kind)) return failure;                                                           \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name);                                      \
        return real words;                                                                         \
    }

/* The mode of an open that makes a file. */
#define TAKE_MODE(mode, flags)                                                                     \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                       \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode = va_arg(args, mode_t);                                                               \
        va_end(args);                                                                              \
    }

int open(const char *path, int flags, ...)
{
    TAKE_MODE(mode, flags)
    return fails(OPEN) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    TAKE_MODE(mode, flags)
    return fails(OPEN) ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
}

HIDE(OPEN, FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode))
HIDE(OPEN, FILE *, NULL, fopen64, (const char *path, const char *mode), (path, mode))
HIDE(OPEN, DIR *, NULL, opendir, (const char *path), (path))
HIDE(OPEN, DIR *, NULL, fdopendir, (int fd), (fd))
HIDE(OPEN, int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
HIDE(READ, ssize_t, -1, read, (int fd, void *to, size_t bytes), (fd, to, bytes))
HIDE(READ, ssize_t, -1, pread, (int fd, void *to, size_t bytes, off_t from), (fd, to, bytes, from))
HIDE(READ, ssize_t, -1, recv, (int fd, void *to, size_t bytes, int flags), (fd, to, bytes, flags))
HIDE(WRITE, ssize_t, -1, write, (int fd, const void *from, size_t bytes), (fd, from, bytes))
HIDE(WRITE, ssize_t, -1, send, (int fd, const void *from, size_t bytes, int flags),
     (fd, from, bytes, flags))
HIDE(WRITE, int, -1, ftruncate, (int fd, off_t bytes), (fd, bytes))
HIDE(RENAME, int, -1, rename, (const char *from, const char *to), (from, to))
HIDE(RENAME, int, -1, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
HIDE(SYNC, int, -1, fsync, (int fd), (fd))
void *mmap(void *p, size_t bytes, int prot, int flags, int fd, off_t from)
{
    if (fails(MAP)) return MAP_FAILED;
    p = (void *)syscall(SYS_mmap, p, bytes, prot, flags, fd, from);
    if (p != MAP_FAILED) atomic_fetch_add(&mapped, (long)bytes);
    return p;
}

int munmap(void *p, size_t bytes)
{
    const int result = (int)syscall(SYS_munmap, p, bytes);
    if (!result) atomic_fetch_sub(&mapped, (long)bytes);
    return result;
}

HIDE(MAP, int, -1, mprotect, (void *p, size_t bytes, int prot), (p, bytes, prot))
HIDE(SPAWN, pid_t, -1, fork, (void), ())
HIDE(SPAWN, int, -1, pipe, (int ends[2]), (ends))
HIDE(SPAWN, int, -1, socketpair, (int domain, int type, int protocol, int ends[2]),
     (domain, type, protocol, ends))
HIDE(SPAWN, int, EAGAIN, posix_spawn,
     (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]),
     (pid, path, actions, attributes, argv, envp))
