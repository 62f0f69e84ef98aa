/* store_kit.h: scratch folders, entries and captured stderr for the tests of cache/. */
#ifndef STORE_KIT_H
#define STORE_KIT_H

#include "cache/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct {
    char root[64];   /* removed afterwards */
    char cache[128]; /* root/cache: not made yet */
    int fds;         /* open before the case */
} scratch;

static inline void remove_tree(const char *path)
{
    DIR *dir = unlink(path) ? opendir(path) : NULL;
    if (!dir) return;
    for (const struct dirent *e; (e = readdir(dir));) {
        lt_bytes inner = {0};
        lt_bytes_print(&inner, NULL, "%s/%s", path, e->d_name);
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) remove_tree(inner.ptr);
        lt_bytes_clear(&inner);
    }
    closedir(dir);
    rmdir(path);
}

/* Files in a folder, "." and ".." left out; with `part`, those whose name holds it. */
static inline int count_files(const char *path, const char *part)
{
    int count = 0;
    DIR *dir = opendir(path);
    if (!dir) return 0;
    for (const struct dirent *e; (e = readdir(dir));)
        count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strstr(e->d_name, part);
    closedir(dir);
    return count;
}

static inline int begin_scratch(void **state)
{
    const char *tmp = getenv("TMPDIR");
    scratch *x = calloc(1, sizeof *x);
    if (!x) return -1;
    x->fds = count_files("/proc/self/fd", "");
    snprintf(x->root, sizeof x->root, "%.40s/lt_store_XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(x->root)) return -1;
    snprintf(x->cache, sizeof x->cache, "%s/cache", x->root);
    *state = x;
    return 0;
}

static inline int end_scratch(void **state)
{
    scratch *x = *state;
    const int left = count_files("/proc/self/fd", "") - x->fds;
    lt_store_set_io(NULL);
    remove_tree(x->root);
    free(x);
    if (left) fprintf(stderr, "%d descriptors are left open\n", left);
    return left ? -1 : 0;
}

/* A case with a scratch folder of its own. */
#define in_scratch(test) cmocka_unit_test_setup_teardown(test, begin_scratch, end_scratch)

static inline int begin_capture(void)
{
    FILE *to = tmpfile();
    if (!to) return -1;
    const int old = dup(STDERR_FILENO);
    dup2(fileno(to), STDERR_FILENO);
    fclose(to);
    return old;
}

/* What was said on stderr since. */
static inline void end_capture(int old, char *text, size_t room)
{
    const ssize_t got = pread(STDERR_FILENO, text, room - 1, 0);
    text[got > 0 ? got : 0] = 0;
    dup2(old, STDERR_FILENO);
    close(old);
}

static inline int count_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

/* Entry number `seed`: other numbers give other keys, and all of its bytes follow from it. */
static inline void make_entry(int seed, size_t image_bytes, lt_entry *e, char key[65])
{
    *e = (lt_entry){0};
    lt_bytes_print(&e->key_text, NULL, "format 1\narch sm_90a\ncompiler nvrtc %d\ntext %d\n",
                   seed % 3, seed);
    lt_bytes_print(&e->text, NULL, "__global__ void k%d(void) {}\n", seed);
    lt_bytes_print(&e->log, NULL, "ptxas info: %d registers\n", seed);
    for (size_t i = 0; i < image_bytes; i++) {
        const char byte = (char)(i * 7 + (size_t)seed); /* zeros among them */
        lt_bytes_append(&e->image, &byte, 1, NULL);
    }
    lt_sha256_hex(lt_bytes_view(&e->key_text), key);
}

static inline bool same_bytes(const lt_bytes *a, const lt_bytes *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->ptr, b->ptr, a->len) == 0);
}

static inline bool same_entry(const lt_entry *a, const lt_entry *b)
{
    return same_bytes(&a->key_text, &b->key_text) && same_bytes(&a->text, &b->text) &&
           same_bytes(&a->log, &b->log) && same_bytes(&a->image, &b->image);
}

static inline void path_of(char path[512], const char *dir, const char *name, const char *key)
{
    snprintf(path, 512, "%s/%s.%.16s", dir, name, key);
}

static inline lt_store *open_store(const char *dir)
{
    lt_store *s = NULL;
    lt_err err;
    return lt_store_open(&s, dir, &err) ? NULL : s;
}

/* Publishes entry number seed; whether that went well. */
static inline bool publish(lt_store *s, const char *name, int seed, size_t image_bytes)
{
    lt_entry e;
    char key[65];
    lt_err err;
    make_entry(seed, image_bytes, &e, key);
    const int rc = lt_store_publish(s, name, key, &e, &err);
    lt_entry_clear(&e);
    return rc == 0;
}

/* Is entry number seed found, with each of its bytes? A wrong one counts as failed. */
static inline lt_store_result look(lt_store *s, const char *name, int seed, size_t image_bytes)
{
    lt_entry want, got = {0};
    char key[65];
    lt_err err;
    make_entry(seed, image_bytes, &want, key);
    lt_store_result result = lt_store_find(s, name, key, &got, &err);
    if (result == LT_STORE_HIT && !same_entry(&want, &got)) result = LT_STORE_FAILED;
    lt_entry_clear(&want);
    lt_entry_clear(&got);
    return result;
}

static inline void write_file(const char *path, const void *bytes, size_t len)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    close(fd);
}

static inline size_t read_file(const char *path, char *bytes, size_t room)
{
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    const ssize_t got = read(fd, bytes, room);
    close(fd);
    assert_true(got >= 0);
    return (size_t)got;
}

/* Waits for a child: its exit status, or 128 + the signal that ended it. */
static inline int wait_child(pid_t pid)
{
    int status = 0;
    if (waitpid(pid, &status, 0) != pid) return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
