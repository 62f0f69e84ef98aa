/* nvrtc_child.c: the compiling process: finds NVRTC, compiles one text, answers. Reads no setting:
 * what it needs is in the question. */
#define _GNU_SOURCE /* dlinfo */
#include "abi.h"
#include "frame.h"
#include "nvrtc.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SONAME "libnvrtc.so.13"

static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda-13*/lib64"};

/* The architectures that texts are generated for. */
static const char *const archs[] = {"sm_90a",  "sm_100a", "sm_100f", "sm_120a",
                                    "sm_120f", "sm_121a", "sm_121f"};

#define NVRTC_CALLS(X)                                                                             \
    X(Version, (int *major, int *minor))                                                           \
    X(GetNumSupportedArchs, (int *count))                                                          \
    X(GetSupportedArchs, (int *numbers))                                                           \
    X(CreateProgram, (lt_nvrtc_program * program, const char *text, const char *name, int headers, \
                      const char *const *texts, const char *const *names))                         \
    X(DestroyProgram, (lt_nvrtc_program * program))                                                \
    X(CompileProgram, (lt_nvrtc_program program, int count, const char *const *options))           \
    X(GetPTXSize, (lt_nvrtc_program program, size_t * bytes))                                      \
    X(GetPTX, (lt_nvrtc_program program, char *out))                                               \
    X(GetCUBINSize, (lt_nvrtc_program program, size_t * bytes))                                    \
    X(GetCUBIN, (lt_nvrtc_program program, char *out))                                             \
    X(GetProgramLogSize, (lt_nvrtc_program program, size_t * bytes))                               \
    X(GetProgramLog, (lt_nvrtc_program program, char *out))

typedef struct {
    void *handle;
    const char *path;
    int major, minor;
    const char *(*GetErrorString)(int result);
#define MEMBER(name, parameters) int(*name) parameters;
    NVRTC_CALLS(MEMBER)
#undef MEMBER
} nvrtc;

static int find_functions(nvrtc *n, const char *wanted, lt_err *err)
{
    const struct {
        const char *symbol;
        void *place;
    } calls[] = {{"nvrtcGetErrorString", &n->GetErrorString},
#define CALL(name, parameters) {"nvrtc" #name, &n->name},
                 NVRTC_CALLS(CALL)
#undef CALL
    };
    for (size_t i = 0; i < lt_countof(calls); i++) {
        void *function = dlsym(n->handle, calls[i].symbol);
        if (!function)
            return lt_fail(err, "nvrtc: %s has no %s (set LATHE_NVRTC to the file of CUDA 13's)",
                           wanted, calls[i].symbol);
        memcpy(calls[i].place, &function, sizeof function);
    }
    return 0;
}

/* Every place that the toolkit may lie in, in order; the loader's own places first. */
static void *open_anywhere(void)
{
    void *handle = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < lt_countof(folders) && !handle; i++) {
        char pattern[256];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/" SONAME, folders[i]);
        if (glob(pattern, 0, NULL, &found)) continue;
        for (size_t k = 0; k < found.gl_pathc && !handle; k++)
            handle = dlopen(found.gl_pathv[k], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
    }
    return handle;
}

/* setting: LATHE_NVRTC; if it is not empty, no other place counts. */
static int open_library(nvrtc *n, const char *setting, lt_err *err)
{
    n->handle = setting[0] ? dlopen(setting, RTLD_NOW | RTLD_LOCAL) : open_anywhere();
    if (!n->handle && setting[0])
        return lt_fail(err, "nvrtc: LATHE_NVRTC is '%s': %s", setting, dlerror());
    if (!n->handle)
        return lt_fail(err,
                       "nvrtc: found no " SONAME ", neither by the loader nor in %s, %s (install "
                       "CUDA 13's NVRTC, or set LATHE_NVRTC to the file)",
                       folders[0], folders[1]);
    if (find_functions(n, setting[0] ? setting : SONAME, err)) return -1;
    struct link_map *map = NULL;
    n->path = dlinfo(n->handle, RTLD_DI_LINKMAP, &map) || !map ? "" : map->l_name;
    const int result = n->Version(&n->major, &n->minor);
    if (result) return lt_fail(err, "nvrtc: version: %s", n->GetErrorString(result));
    return 0;
}

/* NVRTC opens its second library by name alone, so one that lies beside it, outside the loader's
 * places, is opened for it. If there is none, the compile says what is missing. */
static void open_builtins(const nvrtc *n)
{
    char path[1200];
    const char *slash = strrchr(n->path, '/');
    const int folder = slash ? (int)(slash - n->path) : 0;
    snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", folder, n->path, n->major,
             n->minor);
    if (folder) dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static int get(const nvrtc *n, lt_nvrtc_program p, int (*size)(lt_nvrtc_program, size_t *),
               int (*copy)(lt_nvrtc_program, char *), lt_bytes *out, lt_err *err)
{
    size_t bytes = 0;
    int result = size(p, &bytes);
    char *block = result || !bytes ? NULL : malloc(bytes);
    int failed = 0;
    if (block && !(result = copy(p, block)))
        failed = lt_bytes_append(out, block, bytes, err);
    else if (!result && bytes)
        failed = lt_fail(err, "out of memory for %zu bytes", bytes);
    free(block);
    return result ? lt_fail(err, "nvrtc: %s", n->GetErrorString(result)) : failed;
}

/* The comment lines at the head of the PTX name the compiler's build. */
static int identify(const nvrtc *n, lt_nvrtc_program p, lt_bytes *out, lt_err *err)
{
    lt_bytes ptx = {0};
    if (get(n, p, n->GetPTXSize, n->GetPTX, &ptx, err)) return -1;
    size_t len = 0;
    while (len + 1 < ptx.len && ptx.ptr[len] == '/' && ptx.ptr[len + 1] == '/')
        len += strcspn(ptx.ptr + len, "\n") + 1;
    char hex[65];
    lt_sha256_hex((lt_span){ptx.ptr, len < ptx.len ? len : ptx.len}, hex);
    lt_bytes_clear(&ptx);
    return lt_bytes_print(out, err, "nvrtc %d.%d %.16s", n->major, n->minor, hex);
}

/* Which of our architectures does this NVRTC know? */
static int list_archs(const nvrtc *n, lt_bytes *out, lt_err *err)
{
    int count = 0, numbers[64];
    if (n->GetNumSupportedArchs(&count) || count > (int)lt_countof(numbers) ||
        n->GetSupportedArchs(numbers))
        count = 0;
    for (size_t i = 0; i < lt_countof(archs); i++)
        for (int k = 0; k < count; k++)
            if (numbers[k] == atoi(archs[i] + 3) &&
                lt_bytes_print(out, err, "%s%s", out->len ? ", " : "", archs[i]))
                return -1;
    return 0;
}

static int refuse_options(const nvrtc *n, const char *arch, const char *log, lt_err *err)
{
    lt_bytes known = {0};
    if (list_archs(n, &known, err)) return -1;
    const char *list = known.len ? known.ptr : "none of ours";
    if (strstr(log, "--gpu-architecture"))
        lt_fail(err, "nvrtc %d.%d does not compile for '%s' (it does for %s)", n->major, n->minor,
                arch, list);
    else
        lt_fail(err, "nvrtc %d.%d refuses an option: %.*s", n->major, n->minor,
                (int)strcspn(log, "\n"), log);
    lt_bytes_clear(&known);
    return -1;
}

/* The first line of the log that tells an error, else its first line. */
static int summarize(const char *log, const char *otherwise, lt_err *err)
{
    const char *line = log;
    for (const char *p = log; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        const char *hit = strstr(p, "error");
        if (hit && hit < p + strcspn(p, "\n")) {
            line = p;
            break;
        }
    }
    const int len = (int)strcspn(line, "\n");
    return len ? lt_fail(err, "%.*s", len, line) : lt_fail(err, "nvrtc: %s", otherwise);
}

typedef struct {
    lt_bytes image, log, identity;
} answer;

enum { OPTIONS = 32 };

/* options: separated by spaces, which become zeros. Answers how many, the architecture first. */
static int split_options(char *arch, char *options, const char **out)
{
    int count = 0;
    out[count++] = arch;
    for (char *save = NULL, *o = strtok_r(options, " ", &save); o && count < OPTIONS;
         o = strtok_r(NULL, " ", &save))
        out[count++] = o;
    return count;
}

static int compile(const nvrtc *n, lt_nvrtc_program p, const char *arch, char *options, answer *a,
                   lt_err *err)
{
    char target[64];
    const char *list[OPTIONS];
    snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
    const int result = n->CompileProgram(p, split_options(target, options, list), list);
    if (get(n, p, n->GetProgramLogSize, n->GetProgramLog, &a->log, err)) return -1;
    if (a->log.len && !a->log.ptr[a->log.len - 1]) a->log.len--; /* NVRTC counts the zero */
    const char *log = a->log.len ? a->log.ptr : "";
    if (result == LT_NVRTC_INVALID_OPTION) return refuse_options(n, arch, log, err);
    if (result) return summarize(log, n->GetErrorString(result), err);
    if (get(n, p, n->GetCUBINSize, n->GetCUBIN, &a->image, err)) return -1;
    if (!a->image.len)
        return lt_fail(err, "nvrtc made no code for '%s' (name an sm_ architecture)", arch);
    return identify(n, p, &a->identity, err);
}

/* ask: five texts that end with a zero. */
static int answer_question(nvrtc *n, char *const ask[LT_FRAME_PARTS], answer *a, lt_err *err)
{
    char file[300];
    lt_nvrtc_program p = NULL;
    if (open_library(n, ask[LT_ASK_LIBRARY], err)) return -1;
    open_builtins(n);
    snprintf(file, sizeof file, "%s.cu", ask[LT_ASK_NAME]);
    int result = n->CreateProgram(&p, ask[LT_ASK_TEXT], file, 0, NULL, NULL);
    if (result) return lt_fail(err, "nvrtc: %s", n->GetErrorString(result));
    const int failed = compile(n, p, ask[LT_ASK_ARCH], ask[LT_ASK_OPTIONS], a, err);
    n->DestroyProgram(&p);
    return failed;
}

static int read_all(int fd, lt_bytes *out, lt_err *err)
{
    char block[65536];
    for (;;) {
        const ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return lt_fail(err, "nvrtc child: cannot read the question");
        if (n == 0) return 0;
        if (lt_bytes_append(out, block, (size_t)n, err)) return -1;
    }
}

static int write_all(int fd, lt_span data)
{
    while (data.len) {
        const ssize_t n = write(fd, data.ptr, data.len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        data = (lt_span){(const char *)data.ptr + n, data.len - (size_t)n};
    }
    return 0;
}

/* Reads the question from fd; each part becomes a text of its own. */
static int read_question(int fd, char *ask[LT_FRAME_PARTS], lt_err *err)
{
    lt_bytes data = {0};
    lt_span parts[LT_FRAME_PARTS];
    int failed = read_all(fd, &data, err);
    if (!failed && !lt_frame_read(lt_bytes_view(&data), parts))
        failed = lt_fail(err, "nvrtc child: the question is cut off");
    for (int i = 0; i < LT_FRAME_PARTS && !failed; i++)
        if (!(ask[i] = strndup(parts[i].ptr, parts[i].len)))
            failed = lt_fail(err, "nvrtc child: out of memory");
    lt_bytes_clear(&data);
    return failed;
}

int lt_nvrtc_child(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody waits for the answer of an orphan */
    const int out = dup(1);
    if (out < 0 || dup2(2, 1) < 0) return 1; /* what a library prints must not be in the answer */
    nvrtc n = {0};
    answer a = {0};
    lt_err err = {""};
    lt_bytes frame = {0};
    char *ask[LT_FRAME_PARTS] = {NULL};
    const int failed = read_question(0, ask, &err) || answer_question(&n, ask, &a, &err);
    if (failed) lt_bytes_clear(&a.image);
    const lt_span parts[LT_FRAME_PARTS] = {
        [LT_ANSWER_ERROR] = lt_span_text(failed ? err.text : ""),
        [LT_ANSWER_IMAGE] = lt_bytes_view(&a.image),
        [LT_ANSWER_LOG] = lt_bytes_view(&a.log),
        [LT_ANSWER_IDENTITY] = lt_bytes_view(&a.identity),
        [LT_ANSWER_LIBRARY] = lt_span_text(n.path ? n.path : ""),
    };
    const int lost = lt_frame_write(&frame, parts, &err) || write_all(out, lt_bytes_view(&frame));
    lt_bytes_clear(&frame);
    lt_bytes_clear(&a.image);
    lt_bytes_clear(&a.log);
    lt_bytes_clear(&a.identity);
    for (int i = 0; i < LT_FRAME_PARTS; i++) free(ask[i]);
    return lost ? 1 : 0;
}
