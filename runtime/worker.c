/* worker.c: starts this program again and speaks with it in lines, over a socket that is its stdin
 * and stdout. */
#define _GNU_SOURCE /* sigabbrev_np, SOCK_CLOEXEC */
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MOST_WORDS = 16, MOST_SECONDS = 86400 };
#define END_SECONDS 10.0 /* that a killed process may need to give a device back */

struct lt_worker {
    pid_t pid; /* 0: it was waited for */
    int fd, status;
    lt_bytes said; /* not yet handed out */
};

/* ---- start and end ---- */

/* A group of its own: Ctrl-C of the terminal is the parent's. */
static int spawn(const char *program, const char *const *words, int fd, pid_t *pid, lt_err *err)
{
    char *argv[MOST_WORDS + 2] = {(char *)program};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    for (int i = 0; words[i]; i++) {
        if (i == MOST_WORDS) return lt_fail(err, "worker: more than %d words", MOST_WORDS);
        argv[i + 1] = (char *)words[i];
    }
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed) return lt_fail(err, "worker: %s", strerror(failed));
    failed = posix_spawnattr_init(&attributes);
    if (!failed) {
        failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, fd, 0);
        if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, fd, 1);
        if (!failed) failed = posix_spawn(pid, program, &actions, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return failed ? lt_fail(err, "worker: cannot start %s: %s", program, strerror(failed)) : 0;
}

int lt_worker_start(lt_worker **out, const char *program, const char *const *words, lt_err *err)
{
    int ends[2] = {-1, -1};
    lt_worker *w = calloc(1, sizeof *w);
    if (!w) return lt_fail(err, "worker: out of memory");
    w->fd = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        lt_fail(err, "worker: cannot make a socket: %s", strerror(errno));
        goto fail;
    }
    w->fd = ends[0];
    if (spawn(program ? program : "/proc/self/exe", words, ends[1], &w->pid, err)) goto fail;
    close(ends[1]);
    *out = w;
    return 0;
fail:
    if (ends[1] >= 0) close(ends[1]);
    lt_worker_end(w);
    return -1;
}

/* Has it ended, within `seconds`? */
static bool wait_for_end(lt_worker *w, double seconds)
{
    const double until = lt_now_us() + seconds * 1e6;
    while (w->pid) {
        const pid_t got = waitpid(w->pid, &w->status, WNOHANG);
        if (got == w->pid || (got < 0 && errno == ECHILD)) w->pid = 0;
        if (!w->pid || lt_now_us() >= until) break;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return !w->pid;
}

/* One that the kernel cannot end, because its device does not answer, is left behind. */
void lt_worker_end(lt_worker *w)
{
    if (!w) return;
    if (w->pid) kill(w->pid, SIGKILL);
    if (!wait_for_end(w, END_SECONDS))
        lt_debug(0, "worker: process %ld does not end", (long)w->pid);
    if (w->fd >= 0) close(w->fd);
    lt_bytes_clear(&w->said);
    free(w);
}

/* ---- lines ---- */

int lt_worker_send(lt_worker *w, lt_span line, lt_err *err)
{
    lt_bytes all = {0};
    if (lt_bytes_append(&all, line.ptr, line.len, err) || lt_bytes_append(&all, "\n", 1, err)) {
        lt_bytes_clear(&all);
        return lt_wrap(err, "worker");
    }
    size_t sent = 0;
    while (sent < all.len) {
        const ssize_t n = send(w->fd, all.ptr + sent, all.len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        sent += (size_t)n;
    }
    const bool is_gone = errno == EPIPE || errno == ECONNRESET;
    const bool failed = sent < all.len && !is_gone;
    lt_bytes_clear(&all);
    return failed ? lt_fail(err, "worker: cannot be told: %s", strerror(errno)) : 0;
}

static bool take_line(lt_worker *w, lt_bytes *out, lt_err *err)
{
    const char *end = w->said.len ? memchr(w->said.ptr, '\n', w->said.len) : NULL;
    if (!end) return false;
    const size_t len = (size_t)(end - w->said.ptr);
    if (lt_bytes_append(out, w->said.ptr, len, err)) return false;
    w->said.len -= len + 1;
    memmove(w->said.ptr, end + 1, w->said.len + 1); /* and the zero behind it */
    return true;
}

static lt_worker_result tell_end(lt_worker *w, lt_err *err)
{
    if (!wait_for_end(w, END_SECONDS))
        lt_fail(err, "its process has closed its end and does not end");
    else if (WIFSIGNALED(w->status)) {
        const char *abbreviated = sigabbrev_np(WTERMSIG(w->status)); /* NULL: a real-time one */
        lt_fail(err, "its process was ended by SIG%s (%s)", abbreviated ? abbreviated : "RT",
                strsignal(WTERMSIG(w->status)));
    } else
        lt_fail(err, "its process ended with %d", WEXITSTATUS(w->status));
    return LT_WORKER_GONE;
}

lt_worker_result lt_worker_receive(lt_worker *w, double seconds, lt_bytes *out, lt_err *err)
{
    char block[4096];
    if (seconds > MOST_SECONDS) seconds = MOST_SECONDS;
    const double until = lt_now_us() + seconds * 1e6;
    for (;;) {
        if (take_line(w, out, err)) return LT_WORKER_LINE;
        const double left = until - lt_now_us();
        struct pollfd p = {.fd = w->fd, .events = POLLIN};
        const int ready = poll(&p, 1, left > 0 ? (int)(left * 1e-3) + 1 : 0);
        if (ready < 0 && errno == EINTR) return LT_WORKER_AGAIN;
        if (ready == 0) return LT_WORKER_LATE;
        const ssize_t n = recv(w->fd, block, sizeof block, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0 && errno != ECONNRESET) {
            lt_fail(err, "its process cannot be heard: %s", strerror(errno));
            return LT_WORKER_GONE;
        }
        if (n <= 0) return tell_end(w, err);
        if (lt_bytes_append(&w->said, block, (size_t)n, err)) return LT_WORKER_GONE;
    }
}

/* ---- inside ---- */

void lt_worker_begin(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody waits for the answer of an orphan */
}
