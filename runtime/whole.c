/* whole.c: a file that appears whole or not at all. */
#include "whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PRIVATE_TRIES = 100 }; /* names that writers with the same process id left */

static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static int fail(const lt_whole *w, const char *what, lt_err *err)
{
    return lt_fail(err, "%s: cannot be %s: %s", w->path, what, strerror(errno));
}

void lt_whole_clear(lt_whole *w)
{
    if (w->path && w->fd >= 0) {
        close(w->fd);
        if (w->private) unlink(w->private);
    }
    free(w->path);
    free(w->private);
    *w = (lt_whole){0};
}

static int open_special(lt_whole *w, lt_err *err)
{
    w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
    return w->fd < 0 ? fail(w, "made", err) : 0;
}

/* A new file under a private name, which no other process writes. One with the same process id, in
 * another container or long ago, may have left some. */
static int open_private(lt_whole *w, lt_err *err)
{
    for (int i = 0; i < PRIVATE_TRIES; i++) {
        lt_bytes name = {0};
        free(w->private);
        w->private = NULL;
        if (lt_bytes_print(&name, err, "%s.%ld.%d.part", w->path, (long)getpid(), i)) return -1;
        w->private = name.ptr;
        w->fd = open(w->private, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0) return 0;
        if (errno != EEXIST) break;
    }
    return fail(w, "made", err);
}

int lt_whole_open(lt_whole *w, const char *path, lt_err *err)
{
    *w = (lt_whole){.fd = -1};
    if (!*path) return lt_fail(err, "'' names no file");
    w->path = strdup(path);
    if (!w->path) return lt_fail(err, "%s: out of memory", path);
    if (!(is_special(path) ? open_special(w, err) : open_private(w, err))) return 0;
    lt_whole_clear(w);
    return -1;
}

int lt_whole_write(lt_whole *w, lt_span data, lt_err *err)
{
    const char *at = data.ptr;
    for (size_t left = data.len; left;) {
        const ssize_t n = write(w->fd, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return fail(w, "written", err);
        at += n;
        left -= (size_t)n;
    }
    return 0;
}

int lt_whole_keep(lt_whole *w, lt_err *err)
{
    int failed = 0;
    if (w->private && fsync(w->fd)) failed = fail(w, "written", err);
    if (!failed && w->private && rename(w->private, w->path)) failed = fail(w, "made", err);
    if (!failed) {
        free(w->private);
        w->private = NULL;
    }
    lt_whole_clear(w);
    return failed;
}
