/* nvrtc.c: the compiling processes from outside: starts them, feeds them, waits for their answers,
 * kills those that take too long. Never opens NVRTC itself. */
#define _GNU_SOURCE /* sigabbrev_np, SOCK_CLOEXEC */
#include "nvrtc.h"

#include "../parallel.h"
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define OPTIONS                                                                                    \
    "--minimal -default-device --no-source-include --no-cache -fmad=false -diag-suppress=177 "     \
    "-brief-diag=true"

enum { MOST = 256 }; /* children at once, as LATHE_JOBS */

typedef struct {
    lt_nvrtc_job *job; /* NULL: this place is free */
    pid_t pid;
    int fd; /* our end of a socket whose other end is the child's stdin and stdout */
    lt_bytes question, answer;
    size_t sent;
    double started; /* us */
    bool closed;    /* the child says nothing more */
} child;

typedef struct {
    const char *program;
    double seconds;
    int at_once;
} limits; /* resolved */

const char *lt_nvrtc_options(void)
{
    return lt_config_text(LT_SET_DUMP)[0] ? OPTIONS " -lineinfo" : OPTIONS;
}

static limits resolve(const lt_nvrtc_limits *given)
{
    limits l = {"/proc/self/exe", (double)lt_config_int(LT_SET_COMPILE_SECONDS),
                (int)lt_config_int(LT_SET_JOBS)};
    if (given && given->program) l.program = given->program;
    if (given && given->seconds > 0) l.seconds = given->seconds;
    if (given && given->at_once > 0) l.at_once = given->at_once;
    if (l.at_once < 1) l.at_once = lt_cores();
    if (l.at_once > MOST) l.at_once = MOST;
    return l;
}

/* Starts the program with fd as its stdin and stdout. It has its memory at the same addresses each
 * time, where the system lets it: by them NVRTC decides which loads of a text it joins. */
static int spawn(const char *program, int fd, pid_t *pid, lt_err *err)
{
    char *argv[] = {(char *)program, (char *)LT_NVRTC_CHILD, NULL};
    const int own = personality(0xffffffff);
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);
    if (!failed) {
        failed = posix_spawn_file_actions_adddup2(&actions, fd, 0);
        if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, fd, 1);
        if (own >= 0) personality((unsigned)own | ADDR_NO_RANDOMIZE); /* of this thread */
        if (!failed) failed = posix_spawn(pid, program, &actions, NULL, argv, environ);
        if (own >= 0) personality((unsigned)own);
        posix_spawn_file_actions_destroy(&actions);
    }
    if (failed) return lt_fail(err, "cannot start %s: %s", program, strerror(failed));
    return 0;
}

static void release(child *c)
{
    if (c->fd >= 0) close(c->fd);
    lt_bytes_clear(&c->question);
    lt_bytes_clear(&c->answer);
    *c = (child){.fd = -1};
}

static int start(child *c, lt_nvrtc_job *job, const limits *l, lt_err *err)
{
    int ends[2] = {-1, -1};
    const lt_span ask[LT_FRAME_PARTS] = {
        [LT_ASK_LIBRARY] = lt_span_text(lt_config_text(LT_SET_NVRTC)),
        [LT_ASK_ARCH] = lt_span_text(job->arch),
        [LT_ASK_OPTIONS] = lt_span_text(lt_nvrtc_options()),
        [LT_ASK_NAME] = lt_span_text(job->name),
        [LT_ASK_TEXT] = job->text,
    };
    *c = (child){.job = job, .fd = -1, .started = lt_now_us()};
    if (lt_frame_write(&c->question, ask, err)) goto fail;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        lt_fail(err, "cannot make a socket: %s", strerror(errno));
        goto fail;
    }
    if (spawn(l->program, ends[1], &c->pid, err)) goto fail;
    close(ends[1]);
    c->fd = ends[0];
    return 0;
fail:
    if (ends[0] >= 0) close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
    release(c);
    return -1;
}

/* Sends what the child takes. One that has gone takes nothing: its answer, or its end, tells. */
static void feed(child *c)
{
    while (c->sent < c->question.len) {
        const ssize_t n = send(c->fd, c->question.ptr + c->sent, c->question.len - c->sent,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        c->sent = n < 0 ? c->question.len : c->sent + (size_t)n;
    }
    shutdown(c->fd, SHUT_WR);
}

static int drain(child *c, lt_err *err)
{
    char block[65536];
    for (;;) {
        const ssize_t n = recv(c->fd, block, sizeof block, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
        if (n <= 0) {
            c->closed = true;
            return 0;
        }
        if (lt_bytes_append(&c->answer, block, (size_t)n, err)) return -1;
    }
}

/* What the answer, or its absence, means for the job. */
static int judge(const child *c, int status, lt_span parts[LT_FRAME_PARTS], lt_err *err)
{
    lt_nvrtc_job *job = c->job;
    if (!lt_frame_read(lt_bytes_view(&c->answer), parts)) {
        if (WIFSIGNALED(status)) {
            const char *name = sigabbrev_np(WTERMSIG(status)); /* NULL for a real-time signal */
            return lt_fail(err, "the compiler crashed: SIG%s (%s)", name ? name : "RT",
                           strsignal(WTERMSIG(status)));
        }
        return lt_fail(err, "the compiler's process ended without an answer, exit status %d",
                       WEXITSTATUS(status));
    }
    const lt_span *image = &parts[LT_ANSWER_IMAGE], *log = &parts[LT_ANSWER_LOG];
    if (lt_bytes_append(&job->log, log->ptr, log->len, err)) return -1;
    const lt_span *text = &parts[LT_ANSWER_ERROR];
    if (text->len) return lt_fail(err, "%.*s", (int)text->len, (const char *)text->ptr);
    if (!image->len) return lt_fail(err, "the compiler gave no image");
    return lt_bytes_append(&job->image, image->ptr, image->len, err);
}

/* Ends the job and frees its place. trouble: what went wrong on our side, or NULL. */
static void finish(child *c, const char *trouble, int status, lt_nvrtc_compiler *compiler)
{
    lt_nvrtc_job *job = c->job;
    lt_span parts[LT_FRAME_PARTS];
    job->ms = (lt_now_us() - c->started) * 1e-3;
    if (trouble)
        job->failed = lt_fail(&job->err, "%s", trouble);
    else
        job->failed = judge(c, status, parts, &job->err);
    if (job->failed) {
        if (job->name[0]) lt_wrap(&job->err, "%s for %s", job->name, job->arch);
        lt_bytes_clear(&job->image);
    } else {
        snprintf(job->library, sizeof job->library, "%.*s", (int)parts[LT_ANSWER_LIBRARY].len,
                 (const char *)parts[LT_ANSWER_LIBRARY].ptr);
    }
    if (!job->failed && compiler) {
        snprintf(compiler->identity, sizeof compiler->identity, "%.*s",
                 (int)parts[LT_ANSWER_IDENTITY].len, (const char *)parts[LT_ANSWER_IDENTITY].ptr);
        snprintf(compiler->library, sizeof compiler->library, "%s", job->library);
    }
    lt_debug(2, "%s for %s: compiled in %.1f ms%s", job->name, job->arch, job->ms,
             job->failed ? ", failed" : "");
    release(c);
}

static void end_process(child *c, int *status)
{
    kill(c->pid, SIGKILL);
    while (waitpid(c->pid, status, 0) < 0 && errno == EINTR) {
    }
}

/* Looks after one child. True once its job has ended. */
static bool advance(child *c, const limits *l, lt_nvrtc_compiler *compiler)
{
    int status = 0;
    lt_err err;
    lt_span parts[LT_FRAME_PARTS];
    feed(c);
    if (!c->closed && drain(c, &err)) {
        end_process(c, &status);
        finish(c, err.text, status, compiler);
        return true;
    }
    if (lt_frame_read(lt_bytes_view(&c->answer), parts)) {
        end_process(c, &status); /* whatever it does now, it has answered */
        finish(c, NULL, status, compiler);
        return true;
    }
    if (c->closed && waitpid(c->pid, &status, WNOHANG) == c->pid) {
        finish(c, NULL, status, compiler);
        return true;
    }
    if (lt_now_us() - c->started < l->seconds * 1e6) return false;
    end_process(c, &status);
    lt_fail(&err, "the compiler took more than %g s and was ended (LATHE_COMPILE_SECONDS)",
            l->seconds);
    finish(c, err.text, status, compiler);
    return true;
}

/* Waits until a child moves or its time is over. */
static void wait_for_any(const child *children, const limits *l)
{
    struct pollfd fds[MOST];
    nfds_t count = 0;
    double wait = 1e9; /* us */
    for (int i = 0; i < l->at_once; i++) {
        const child *c = &children[i];
        if (!c->job) continue;
        const double left = c->started + l->seconds * 1e6 - lt_now_us();
        if (left < wait) wait = left;
        if (c->closed && wait > 1e3) wait = 1e3; /* it is about to end: nothing to poll for */
        const bool more = c->sent < c->question.len;
        fds[count++] = (struct pollfd){.fd = c->closed ? -1 : c->fd,
                                       .events = (short)(POLLIN | (more ? POLLOUT : 0))};
    }
    poll(fds, count, wait > 0 ? (int)(wait * 1e-3) + 1 : 0);
}

typedef struct {
    lt_nvrtc_job *jobs;
    size_t count, next, done;
    lt_nvrtc_compiler *compiler; /* or NULL */
    int (*each)(void *ctx, lt_nvrtc_job *job);
    void *ctx;
} batch;

/* One more job has ended. Non-zero: stop. */
static int count_done(batch *b, lt_nvrtc_job *job)
{
    b->done++;
    return b->each && b->each(b->ctx, job);
}

/* Starts jobs until one of them runs in c or none is left. Non-zero: stop. */
static int start_next(batch *b, child *c, const limits *l)
{
    while (!c->job && b->next < b->count) {
        lt_nvrtc_job *job = &b->jobs[b->next++];
        lt_err err;
        if (!start(c, job, l, &err)) return 0;
        job->failed = lt_fail(&job->err, "%s for %s: %s", job->name, job->arch, err.text);
        if (count_done(b, job)) return 1;
    }
    return 0;
}

static int run_batch(batch *b, const limits *l)
{
    child children[MOST];
    int stopped = 0;
    for (int i = 0; i < MOST; i++) children[i] = (child){.fd = -1};
    while (b->done < b->count && !stopped) {
        for (int i = 0; i < l->at_once && !stopped; i++) {
            lt_nvrtc_job *job = children[i].job;
            if (job && advance(&children[i], l, b->compiler)) stopped = count_done(b, job);
            if (!stopped) stopped = start_next(b, &children[i], l);
        }
        if (b->done < b->count && !stopped) wait_for_any(children, l);
    }
    for (int i = 0; i < MOST; i++) {
        int status;
        if (!children[i].job) continue;
        end_process(&children[i], &status);
        finish(&children[i], "stopped", status, NULL);
    }
    return stopped;
}

static void reset(lt_nvrtc_job *job)
{
    lt_bytes_clear(&job->image);
    lt_bytes_clear(&job->log);
    job->library[0] = 0;
    job->ms = 0;
    job->failed = false;
    job->err.text[0] = 0;
}

int lt_nvrtc_compile_many(lt_nvrtc_job *jobs, size_t count, const lt_nvrtc_limits *given,
                          int (*each)(void *ctx, lt_nvrtc_job *job), void *ctx, lt_err *err)
{
    const limits l = resolve(given);
    for (size_t i = 0; i < count; i++) reset(&jobs[i]);
    batch b = {.jobs = jobs, .count = count, .each = each, .ctx = ctx};
    return run_batch(&b, &l) ? lt_fail(err, "compiling was stopped") : 0;
}

int lt_nvrtc_compile(lt_nvrtc_job *job, const lt_nvrtc_limits *given, lt_err *err)
{
    lt_nvrtc_compile_many(job, 1, given, NULL, NULL, err);
    return job->failed ? lt_fail(err, "%s", job->err.text) : 0;
}

/* An empty text for one architecture: what the PTX says of the compiler differs between them. */
int lt_nvrtc_identity(lt_nvrtc_compiler *out, const lt_nvrtc_limits *given, lt_err *err)
{
    const limits l = resolve(given);
    lt_nvrtc_job job = {.name = "", .arch = "sm_90a", .text = lt_span_text("")};
    lt_nvrtc_compiler compiler = {"", ""};
    batch b = {.jobs = &job, .count = 1, .compiler = &compiler};
    run_batch(&b, &l);
    lt_bytes_clear(&job.image);
    lt_bytes_clear(&job.log);
    if (job.failed) return lt_fail(err, "%s", job.err.text);
    *out = compiler;
    return 0;
}
