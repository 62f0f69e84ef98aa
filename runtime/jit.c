/* jit.c: from a kernel's text to an image, and to a loaded kernel: lt_jit_load is the whole way,
 * lt_jit_build the same for many at once, without a device.
 * Knows the store by its names and bytes, the compiler as a child process, a device by its table.
 *
 * A text is compiled once: its image stays in the cache under a key that holds all that the image
 * depends on. */
#include "compiler.h"
#include "cuda/cubin.h"
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LT_CACHE_FORMAT 1 /* raised by hand when an entry's key or parts change their meaning */

enum { MOST_AT_ONCE = 256 }; /* builds whose locks are held together: a file each */

/* The cache that this process uses: what is kept in memory and what was said once must outlive a
 * call. Opened again when the settings behind it change, which only tests do. */
static struct {
    lt_store *store;
    char *dir, *nvrtc; /* LATHE_CACHE_DIR and LATHE_NVRTC when it was opened */
    bool no_compiler;  /* asked, and there is none: */
    lt_err why;
    bool said_older; /* that images of another compiler are used */
} session;

/* One text on its way to an image. */
typedef struct {
    const lt_source *src;
    lt_bytes key_text;
    lt_nvrtc_compiler compiler;
    lt_entry entry;
    lt_jit_report report;
    bool found; /* in the cache */
    int lock;   /* -1: not held */
} request;

static void clear_request(request *r)
{
    if (r->lock >= 0) lt_store_unlock(session.store, r->lock);
    lt_bytes_clear(&r->key_text);
    lt_entry_clear(&r->entry);
    *r = (request){.lock = -1};
}

void lt_jit_close(void)
{
    lt_store_close(session.store);
    free(session.dir);
    free(session.nvrtc);
    memset(&session, 0, sizeof session);
}

static int open_session(lt_err *err)
{
    const char *dir = lt_config_text(LT_SET_CACHE_DIR), *nvrtc = lt_config_text(LT_SET_NVRTC);
    if (session.store && !strcmp(session.dir, dir) && !strcmp(session.nvrtc, nvrtc)) return 0;
    lt_jit_close();
    session.dir = strdup(dir);
    session.nvrtc = strdup(nvrtc);
    if (!session.dir || !session.nvrtc) return lt_fail(err, "cache: out of memory");
    return lt_store_open(&session.store, NULL, err);
}

int lt_jit_store(lt_store **out, lt_err *err)
{
    if (open_session(err)) return -1;
    *out = session.store;
    return 0;
}

/* ---- the key ---- */

/* Leaves an empty identity where there is no compiler. */
static void find_compiler(lt_nvrtc_compiler *out)
{
    *out = (lt_nvrtc_compiler){{0}, {0}};
    if (session.no_compiler) return;
    if (!lt_compiler_find(session.store, out, &session.why)) return;
    session.no_compiler = true;
    *out = (lt_nvrtc_compiler){{0}, {0}};
}

static int write_key(const lt_source *src, const char *compiler, lt_bytes *key_text, char key[65],
                     lt_err *err)
{
    char text[65];
    lt_sha256_hex(src->plain, text);
    lt_bytes_clear(key_text);
    if (lt_bytes_print(key_text, err,
                       "format   %d\n"
                       "arch     %s\n"
                       "compiler %s\n"
                       "options  %s\n"
                       "text     %s\n",
                       LT_CACHE_FORMAT, src->arch, *compiler ? compiler : "none",
                       lt_nvrtc_options(), text))
        return -1;
    lt_sha256_hex(lt_bytes_view(key_text), key);
    return 0;
}

int lt_jit_key(const lt_source *src, lt_bytes *key_text, char key[65], lt_err *err)
{
    lt_nvrtc_compiler compiler;
    if (open_session(err)) return -1;
    find_compiler(&compiler);
    return write_key(src, compiler.identity, key_text, key, err);
}

/* compiler: as it was found, or NULL. */
static int open_request(request *r, const lt_source *src, const lt_nvrtc_compiler *compiler,
                        lt_err *err)
{
    *r = (request){.src = src, .lock = -1};
    if (open_session(err)) return -1;
    if (compiler)
        r->compiler = *compiler;
    else
        find_compiler(&r->compiler);
    return write_key(src, r->compiler.identity, &r->key_text, r->report.key, err);
}

/* ---- what is known of an image ---- */

/* Does the image say of itself what the generator believes? Fills the report's facts. */
static int check_image(request *r, lt_err *err)
{
    lt_cubin cubin;
    if (lt_cubin_read(lt_bytes_view(&r->entry.image), r->src->name, &cubin, err)) return -1;
    if (lt_cubin_compare(&cubin, r->src, err)) return -1;
    r->report.facts = cubin.facts;
    return 0;
}

static int check_spills(const request *r, lt_err *err)
{
    const lt_facts *f = &r->report.facts;
    if (!f->spills) return 0;
    if (lt_config_int(LT_SET_SPILL))
        return lt_fail(
            err,
            "%d registers of %s do not suffice: %d spill instructions, %d bytes of stack "
            "(LATHE_SPILL=warn accepts that)",
            f->registers, r->src->arch, f->spills, f->stack_bytes);
    if (r->report.origin == LT_FROM_COMPILER)
        lt_debug(0, "kernel %s: %d spill instructions, %d bytes of stack", r->src->name, f->spills,
                 f->stack_bytes);
    return 0;
}

static void debug_lines(const char *name, const char *what, const lt_bytes *text)
{
    if (lt_config_int(LT_SET_DEBUG) < 4 || !text->len) return;
    lt_debug(4, "%s of %s:", what, name);
    for (size_t at = 0, n; at < text->len; at += n + 1) {
        n = strcspn(text->ptr + at, "\n");
        lt_debug(4, "  %.*s", (int)n, text->ptr + at);
    }
}

static int dump_file(const request *r, const char *suffix, const lt_bytes *bytes, lt_err *err)
{
    lt_bytes path = {0};
    int failed = lt_bytes_print(&path, err, "%s/%s.%s.%s", lt_config_text(LT_SET_DUMP),
                                r->src->name, r->src->arch, suffix);
    FILE *f = failed ? NULL : fopen(path.ptr, "wb");
    if (f && bytes->len) fwrite(bytes->ptr, 1, bytes->len, f);
    if (!failed && (!f || ferror(f) || fflush(f)))
        failed = lt_fail(err, "LATHE_DUMP: '%s' cannot be written: %s", path.ptr, strerror(errno));
    if (f) fclose(f);
    lt_bytes_clear(&path);
    return failed;
}

int lt_jit_prepare(lt_err *err)
{
    const char *folder = lt_config_text(LT_SET_DUMP);
    struct stat st;
    if (!*folder) return 0;
    if (mkdir(folder, 0777) && errno != EEXIST)
        return lt_fail(err, "LATHE_DUMP: '%s' cannot be made: %s", folder, strerror(errno));
    if (stat(folder, &st) || !S_ISDIR(st.st_mode) || access(folder, W_OK | X_OK))
        return lt_fail(err, "LATHE_DUMP: '%s' is no folder that can be written", folder);
    return 0;
}

/* LATHE_DUMP and LATHE_DEBUG=4: what there is of text, image and log, of a failure too. */
static int show(const request *r, lt_err *err)
{
    debug_lines(r->src->name, "text", &r->entry.text);
    debug_lines(r->src->name, "log", &r->entry.log);
    if (!*lt_config_text(LT_SET_DUMP)) return 0;
    if (lt_jit_prepare(err)) return -1;
    if (dump_file(r, "cu", &r->entry.text, err)) return -1;
    if (r->entry.image.len && dump_file(r, "cubin", &r->entry.image, err)) return -1;
    return dump_file(r, "log", &r->entry.log, err);
}

/* ---- from the cache ---- */

/* An entry whose image is not what the key promises is a miss; that is said. */
static lt_store_result accept_entry(request *r, lt_origin origin, lt_err *err)
{
    lt_err why;
    r->report.origin = origin;
    if (!check_image(r, &why)) return show(r, err) ? LT_STORE_FAILED : LT_STORE_HIT;
    if (r->lock < 0) /* with the lock it is the second look */
        lt_debug(0, "cache: kernel %s: %s (compiling it again)", r->src->name, why.text);
    lt_entry_clear(&r->entry);
    return LT_STORE_MISS;
}

static lt_store_result find_exact(request *r, lt_err *err)
{
    const lt_store_result got =
        lt_store_find(session.store, r->src->name, r->report.key, &r->entry, err);
    return got == LT_STORE_HIT ? accept_entry(r, LT_FROM_CACHE, err) : got;
}

/* Without a compiler: the newest entry that another one made of the same text. */
static lt_store_result find_older(request *r, lt_err *err)
{
    const lt_store_result got = lt_store_find_nearest(session.store, r->src->name, r->key_text.ptr,
                                                      "compiler", &r->entry, err);
    if (got != LT_STORE_HIT) return got;
    const char *line = strstr(r->entry.key_text.ptr, "compiler ");
    lt_debug(session.said_older ? 2 : 0,
             "kernel %s: no compiler here, so an image of another one is used (%.*s)%s",
             r->src->name, line ? (int)strcspn(line, "\n") : 0, line ? line : "",
             session.said_older ? "" : "; further ones are not told");
    session.said_older = true;
    lt_sha256_hex(lt_bytes_view(&r->entry.key_text), r->report.key);
    return accept_entry(r, LT_FROM_OLDER_COMPILER, err);
}

static lt_store_result find(request *r, lt_err *err)
{
    lt_store_result got = find_exact(r, err);
    if (got == LT_STORE_MISS && session.no_compiler) got = find_older(r, err);
    lt_debug(2, "kernel %s: %s", r->src->name,
             got == LT_STORE_HIT ? "in the cache" : "not in the cache");
    return got;
}

/* ---- from the compiler ---- */

/* Is a miss to be compiled? */
static int check_may_compile(lt_err *err)
{
    if (!lt_config_int(LT_SET_JIT))
        return lt_fail(err, "it is not in the cache, and LATHE_JIT=off forbids to compile it (run "
                            "`lathe build` first)");
    if (session.no_compiler)
        return lt_fail(err, "it is not in the cache, and there is no compiler: %.800s",
                       session.why.text);
    return 0;
}

static lt_nvrtc_job job_of(const lt_source *src)
{
    return (lt_nvrtc_job){.name = src->name, .arch = src->arch, .text = src->text};
}

/* The note may be about another library than the one that compiled: then so is the key. */
static int renew_key(request *r, const lt_nvrtc_job *job, lt_err *err)
{
    if (!strcmp(job->library, r->compiler.library)) return 0;
    if (lt_compiler_ask(session.store, &r->compiler, err)) return -1;
    return write_key(r->src, r->compiler.identity, &r->key_text, r->report.key, err);
}

static int fill_entry(request *r, lt_nvrtc_job *job, lt_err *err)
{
    const lt_span key_text = lt_bytes_view(&r->key_text), text = r->src->plain;
    r->entry.image = job->image;
    r->entry.log = job->log;
    job->image = job->log = (lt_bytes){0};
    if (lt_bytes_append(&r->entry.key_text, key_text.ptr, key_text.len, err)) return -1;
    return lt_bytes_append(&r->entry.text, text.ptr, text.len, err);
}

/* Takes what the compiler gave, verifies it, publishes it. The job is empty afterwards. */
static int take_job(request *r, lt_nvrtc_job *job, lt_err *err)
{
    lt_err why = job->err;
    const bool failed = job->failed;
    r->report.origin = LT_FROM_COMPILER;
    r->report.compile_ms = job->ms;
    if (!failed && renew_key(r, job, err)) goto fail;
    if (fill_entry(r, job, err) || show(r, err)) goto fail;
    if (failed)
        return lt_fail(err,
                       "%.900s (LATHE_DUMP=folder keeps the text, LATHE_DEBUG=4 shows the log)",
                       why.text);
    if (check_image(r, err)) return -1;
    return lt_store_publish(session.store, r->src->name, r->report.key, &r->entry, err);
fail:
    lt_bytes_clear(&job->image);
    lt_bytes_clear(&job->log);
    return -1;
}

static int compile(request *r, lt_err *err)
{
    lt_nvrtc_job job = job_of(r->src);
    lt_err failure; /* the job has it, too */
    lt_nvrtc_compile(&job, NULL, &failure);
    return take_job(r, &job, err);
}

/* The image of an open request, out of the cache or new in it. */
static int obtain_image(request *r, lt_err *err)
{
    const double patience = (double)lt_config_int(LT_SET_COMPILE_SECONDS);
    lt_store_result got = find(r, err);
    if (got == LT_STORE_MISS) {
        if (check_may_compile(err)) return -1;
        if (lt_store_lock(session.store, r->src->name, r->report.key, patience, &r->lock, err))
            return -1;
        got = find(r, err); /* another process may have compiled it meanwhile */
    }
    if (got == LT_STORE_FAILED) return -1;
    if (got == LT_STORE_MISS && compile(r, err)) return -1; /* verifies and publishes */
    return check_spills(r, err);
}

/* ---- one kernel ---- */

/* Puts the kernel in front of a sentence, unless it begins with it. */
static int blame_kernel(const char *name, lt_err *err)
{
    const lt_err inner = *err;
    if (!strncmp(inner.text, name, strlen(name))) return lt_fail(err, "kernel %s", inner.text);
    return lt_wrap(err, "kernel %s", name);
}

/* The CPU device takes the text. */
static int load_text(lt_device *dev, const lt_source *src, lt_kernel **out, lt_jit_report *report,
                     lt_err *err)
{
    request r = {.src = src, .lock = -1, .report.origin = LT_FROM_COMPILER};
    const double start = lt_now_us();
    if (lt_bytes_append(&r.entry.text, src->plain.ptr, src->plain.len, err) || show(&r, err) ||
        dev->ops->load(dev, src, (lt_span){0}, out, err))
        goto fail;
    r.report.compile_ms = (lt_now_us() - start) * 1e-3;
    lt_debug(2, "kernel %s: compiled for the CPU device in %.1f ms", src->name,
             r.report.compile_ms);
    *report = r.report;
    clear_request(&r);
    return 0;
fail:
    clear_request(&r);
    return blame_kernel(src->name, err);
}

int lt_jit_load(lt_device *dev, const lt_source *src, lt_kernel **out, lt_jit_report *report,
                lt_err *err)
{
    if (dev->compiles) return load_text(dev, src, out, report, err);
    request r;
    if (open_request(&r, src, NULL, err)) goto fail; /* its key */
    if (obtain_image(&r, err)) goto fail;
    if (lt_cubin_digest(lt_bytes_view(&r.entry.image), &r.report.facts, r.report.code, err))
        goto fail;
    if (dev->ops->load(dev, src, lt_bytes_view(&r.entry.image), out, err)) goto fail;
    *report = r.report;
    clear_request(&r);
    return 0;
fail:
    clear_request(&r);
    return blame_kernel(src->name, err);
}

/* ---- many ---- */

typedef struct {
    lt_device *dev; /* NULL: into the cache alone */
    lt_build *builds;
    request *requests;  /* build -> its request; src is NULL once it is settled */
    lt_nvrtc_job *jobs; /* of those that this process compiles */
    size_t *owners;     /* job -> build */
    size_t count, queued;
    lt_nvrtc_compiler compiler; /* found for the first of them; empty before */
    size_t *done, all;          /* of all rounds */
    int (*progress)(void *ctx, size_t done, size_t count);
    void *ctx;
} build_round;

/* A build has its image, or none and the reason. Non-zero: stop. */
static int settle(build_round *t, size_t i, int failed, const lt_err *err)
{
    lt_build *b = &t->builds[i];
    request *r = &t->requests[i];
    b->report = r->report;
    b->err = failed ? *err : (lt_err){{0}};
    if (!failed && !t->dev)
        failed = lt_cubin_digest(lt_bytes_view(&r->entry.image), &r->report.facts, b->report.code,
                                 &b->err);
    if (!failed && t->dev)
        failed = t->dev->ops->load(t->dev, &b->source, lt_bytes_view(&r->entry.image), &b->kernel,
                                   &b->err);
    b->failed = failed != 0;
    if (failed) blame_kernel(b->source.name, &b->err);
    clear_request(r);
    ++*t->done;
    return t->progress ? t->progress(t->ctx, *t->done, t->all) : 0;
}

/* Looks into the cache and queues what this process is to compile. What is found, and what another
 * one is compiling, stays open. Non-zero: stop. */
static int begin_build(build_round *t, size_t i)
{
    request *r = &t->requests[i];
    lt_err err;
    if (open_request(r, &t->builds[i].source, t->compiler.identity[0] ? &t->compiler : NULL, &err))
        return settle(t, i, -1, &err);
    t->compiler = r->compiler;
    lt_store_result got = find(r, &err);
    if (got == LT_STORE_MISS) {
        if (check_may_compile(&err) ||
            lt_store_lock(session.store, r->src->name, r->report.key, 0, &r->lock, &err))
            return settle(t, i, -1, &err);
        got = find(r, &err);
    }
    if (got == LT_STORE_FAILED) return settle(t, i, -1, &err);
    r->found = got == LT_STORE_HIT;
    if (r->found) return 0;
    if (r->lock < 0 && lt_store_is_writable(session.store)) return 0;
    t->owners[t->queued] = i;
    t->jobs[t->queued++] = job_of(r->src);
    return 0;
}

/* A compiler has ended. */
static int end_build(void *ctx, lt_nvrtc_job *job)
{
    build_round *t = ctx;
    lt_err err;
    const size_t i = t->owners[job - t->jobs];
    request *r = &t->requests[i];
    const int failed = take_job(r, job, &err) || check_spills(r, &err);
    return settle(t, i, failed, &err);
}

static int run_round(build_round *t, lt_err *err)
{
    int stopped = 0;
    for (size_t i = 0; i < t->count; i++) t->requests[i] = (request){.lock = -1};
    for (size_t i = 0; i < t->count && !stopped; i++) stopped = begin_build(t, i);
    for (size_t i = 0; i < t->count && !stopped; i++) { /* a device may not be open before */
        lt_err why;
        request *r = &t->requests[i];
        if (r->src && r->found) stopped = settle(t, i, check_spills(r, &why), &why);
    }
    if (!stopped) stopped = lt_nvrtc_compile_many(t->jobs, t->queued, NULL, end_build, t, err);
    for (size_t i = 0; i < t->count && !stopped; i++) { /* what others were compiling */
        lt_err why;
        request *r = &t->requests[i];
        if (r->src) stopped = settle(t, i, obtain_image(r, &why), &why);
    }
    for (size_t i = 0; i < t->queued; i++) {
        lt_bytes_clear(&t->jobs[i].image);
        lt_bytes_clear(&t->jobs[i].log);
    }
    for (size_t i = 0; i < t->count; i++) clear_request(&t->requests[i]);
    return stopped ? lt_fail(err, "building was stopped after %zu of %zu", *t->done, t->all) : 0;
}

/* All rounds of a GPU's kernels. */
static int build_images(lt_device *dev, lt_build *builds, size_t count,
                        int (*progress)(void *ctx, size_t done, size_t count), void *ctx,
                        lt_err *err)
{
    size_t done = 0;
    int failed = 0;
    request *requests = calloc(MOST_AT_ONCE, sizeof *requests);
    lt_nvrtc_job *jobs = calloc(MOST_AT_ONCE, sizeof *jobs);
    size_t *owners = calloc(MOST_AT_ONCE, sizeof *owners);
    if (!requests || !jobs || !owners) failed = lt_fail(err, "building: out of memory");
    for (size_t from = 0; from < count && !failed; from += MOST_AT_ONCE) {
        const size_t left = count - from;
        build_round t = {.dev = dev,
                         .builds = builds + from,
                         .requests = requests,
                         .jobs = jobs,
                         .owners = owners,
                         .count = left < MOST_AT_ONCE ? left : MOST_AT_ONCE,
                         .done = &done,
                         .all = count,
                         .progress = progress,
                         .ctx = ctx};
        failed = run_round(&t, err);
    }
    free(requests);
    free(jobs);
    free(owners);
    return failed;
}

/* The CPU device takes one text after the other. */
static int build_texts(lt_device *dev, lt_build *builds, size_t count,
                       int (*progress)(void *ctx, size_t done, size_t count), void *ctx,
                       lt_err *err)
{
    int stopped = 0;
    for (size_t i = 0; i < count && !stopped; i++) {
        lt_build *b = &builds[i];
        b->err = (lt_err){{0}};
        b->failed = load_text(dev, &b->source, &b->kernel, &b->report, &b->err) != 0;
        stopped = progress ? progress(ctx, i + 1, count) : 0;
    }
    return stopped ? lt_fail(err, "building was stopped") : 0;
}

int lt_jit_build(lt_device *dev, lt_build *builds, size_t count,
                 int (*progress)(void *ctx, size_t done, size_t count), void *ctx, lt_err *err)
{
    for (size_t i = 0; i < count; i++) {
        builds[i].failed = true;
        builds[i].kernel = NULL;
        lt_fail(&builds[i].err, "kernel %s: building was stopped", builds[i].source.name);
    }
    const int failed = dev && dev->compiles ? build_texts(dev, builds, count, progress, ctx, err)
                                            : build_images(dev, builds, count, progress, ctx, err);
    for (size_t i = 0; i < count && failed; i++) {
        if (builds[i].kernel) lt_kernel_unload(dev, builds[i].kernel);
        builds[i].kernel = NULL;
    }
    return failed;
}
