/* jit.c: from text to image through a real cache folder and, where it is installed, the real NVRTC.
 * The device is a fake that remembers what it was given. */
#include "cache/store.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/device.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a device that loads nothing ---- */

typedef struct {
    lt_device base;
    size_t image_bytes; /* of the last load */
    int loads;
} fake_device;

static int fake_load(lt_device *dev, const lt_source *src, lt_span image, lt_kernel **out,
                     lt_err *err)
{
    fake_device *d = (fake_device *)dev;
    lt_kernel *k = calloc(1, sizeof *k);
    if (!k) return lt_fail(err, "out of memory");
    snprintf(k->name, sizeof k->name, "%s", src->name);
    d->image_bytes = image.len;
    d->loads++;
    *out = k;
    return 0;
}

static const lt_device_ops fake_ops = {.load = fake_load};

/* ---- texts ---- */

#define ONE(name, body)                                                                            \
    "extern \"C\" __global__ void __launch_bounds__(32) " name "(float *y)\n{\n    " body "\n}\n"

static const lt_param one_param[] = {{"y", true}};

/* text and plain are the same until a test says otherwise. */
static lt_source source(const char *name, const char *text)
{
    return (lt_source){.name = name,
                       .arch = "sm_90a",
                       .text = lt_span_text(text),
                       .plain = lt_span_text(text),
                       .params = one_param,
                       .param_count = 1,
                       .threads = 32,
                       .model = 90};
}

static lt_source simple(void)
{
    return source("simple__n1__one", ONE("simple__n1__one", "y[threadIdx.x] = 1.0f;"));
}

/* ---- a cache folder for each test ---- */

static char scratch[300], cache[320];

static int make_scratch(void **state)
{
    (void)state;
    lt_err err;
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/lathe-jit-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(scratch)) return -1;
    snprintf(cache, sizeof cache, "%s/cache", scratch);
    for (lt_setting s = 0; s < LT_SETTINGS; s++)
        if (s != LT_SET_NVRTC) unsetenv(lt_config_info(s).env);
    return lt_config_read(&err) || lt_config_set("cache_dir", cache, &err);
}

static int remove_scratch(void **state)
{
    (void)state;
    char command[320];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command);
}

static void need_nvrtc(void)
{
    lt_err err;
    lt_nvrtc_compiler compiler;
    static int have = -1;
    if (have < 0) have = !lt_nvrtc_identity(&compiler, NULL, &err);
    if (!have) skip();
}

/* Entries in the cache folder; the path of the last one in `path`, if that is asked for. */
static int count_entries(char *path)
{
    DIR *dir = opendir(cache);
    int count = 0;
    if (!dir) return 0;
    for (struct dirent *d; (d = readdir(dir));) {
        const char *dot = strrchr(d->d_name, '.');
        if (d->d_name[0] == '.' || !dot || strlen(dot) != 17) continue;
        if (path) snprintf(path, 800, "%s/%s", cache, d->d_name);
        count++;
    }
    closedir(dir);
    return count;
}

/* Loads and forgets. The message of a failure is in *err, else empty. */
static int load(const lt_source *src, lt_jit_report *report, lt_err *err)
{
    fake_device d = {.base = {.ops = &fake_ops}};
    lt_kernel *k = NULL;
    err->text[0] = 0;
    if (lt_jit_load(&d.base, src, &k, report, err)) {
        assert_null(k);
        assert_int_equal(d.loads, 0);
        return -1;
    }
    assert_int_equal(d.loads, 1);
    assert_int_equal(d.image_bytes, report->facts.image_bytes);
    free(k);
    return 0;
}

static void load_from(const lt_source *src, lt_origin origin)
{
    lt_err err;
    lt_jit_report report;
    if (load(src, &report, &err)) fail_msg("%s", err.text);
    assert_int_equal(report.origin, origin);
    assert_int_equal(report.compile_ms > 0, origin == LT_FROM_COMPILER);
    assert_true(report.facts.registers > 0);
}

/* ---- the key ---- */

static void the_key_is_five_lines_and_their_digest(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_bytes text = {0};
    char key[65], hex[65], expected[1000];
    lt_nvrtc_compiler compiler;
    const lt_source s = simple();
    assert_int_equal(lt_jit_key(&s, &text, key, &err), 0);
    assert_int_equal(lt_nvrtc_identity(&compiler, NULL, &err), 0);
    lt_sha256_hex(s.plain, hex);
    snprintf(expected, sizeof expected,
             "format   1\narch     sm_90a\ncompiler %s\noptions  %s\ntext     %s\n",
             compiler.identity, lt_nvrtc_options(), hex);
    assert_string_equal(text.ptr, expected);
    lt_sha256_hex(lt_bytes_view(&text), hex);
    assert_string_equal(key, hex);
    lt_bytes_clear(&text);
}

static void key_of(const lt_source *s, char key[65])
{
    lt_err err;
    lt_bytes text = {0};
    if (lt_jit_key(s, &text, key, &err)) fail_msg("%s", err.text);
    lt_bytes_clear(&text);
}

static void what_changes_the_image_changes_the_key_and_nothing_else_does(void **state)
{
    (void)state;
    char key[65], other[65];
    lt_err err;
    lt_source s = simple();
    key_of(&s, key);
    s.text = lt_span_text("#line 7 \"elsewhere.cut\"\n");
    key_of(&s, other);
    assert_string_equal(key, other);
    s.arch = "sm_121a";
    key_of(&s, other);
    assert_string_not_equal(key, other);
    s = simple();
    s.plain.len--;
    key_of(&s, other);
    assert_string_not_equal(key, other);
    s = simple();
    lt_config_set("dump", scratch, &err); /* adds an option */
    key_of(&s, other);
    assert_string_not_equal(key, other);
    lt_config_set("dump", "", &err);
    lt_config_set("debug", "1", &err);
    key_of(&s, other);
    assert_string_equal(key, other);
}

/* ---- hits and misses ---- */

static void a_text_is_compiled_once(void **state)
{
    (void)state;
    need_nvrtc();
    const lt_source s = simple();
    load_from(&s, LT_FROM_COMPILER);
    assert_int_equal(count_entries(NULL), 1);
    load_from(&s, LT_FROM_CACHE);
    lt_source other = s;
    other.plain = lt_span_text("another text");
    load_from(&other, LT_FROM_COMPILER);
    assert_int_equal(count_entries(NULL), 2);
}

static void a_damaged_entry_is_compiled_again_and_replaced(void **state)
{
    (void)state;
    need_nvrtc();
    const lt_source s = simple();
    char path[800];
    struct stat st;
    load_from(&s, LT_FROM_COMPILER);
    assert_int_equal(count_entries(path), 1);
    assert_int_equal(stat(path, &st), 0);
    const long at[] = {0, 40, st.st_size / 2, st.st_size - 1};
    for (size_t i = 0; i < lt_countof(at); i++) {
        FILE *f = fopen(path, "r+b");
        assert_non_null(f);
        fseek(f, at[i], SEEK_SET);
        const int was = fgetc(f);
        fseek(f, at[i], SEEK_SET);
        fputc(was ^ 1, f);
        fclose(f);
        load_from(&s, LT_FROM_COMPILER);
        load_from(&s, LT_FROM_CACHE);
    }
    assert_int_equal(truncate(path, st.st_size / 3), 0);
    load_from(&s, LT_FROM_COMPILER);
    load_from(&s, LT_FROM_CACHE);
    assert_int_equal(count_entries(NULL), 1);
}

/* An entry that is whole and has the key of s, with the image of `wrong`: compiled again. */
static void check_image_of(const lt_source *s, const lt_source *wrong)
{
    lt_err err;
    lt_store *store = NULL;
    lt_entry e = {0};
    lt_jit_report report;
    char key[65];
    assert_int_equal(load(wrong, &report, &err), 0);
    assert_int_equal(lt_store_open(&store, NULL, &err), 0);
    assert_int_equal(lt_store_find(store, wrong->name, report.key, &e, &err), LT_STORE_HIT);
    lt_bytes_clear(&e.key_text);
    assert_int_equal(lt_jit_key(s, &e.key_text, key, &err), 0);
    assert_int_equal(lt_store_publish(store, s->name, key, &e, &err), 0);
    load_from(s, LT_FROM_COMPILER);
    load_from(s, LT_FROM_CACHE);
    lt_entry_clear(&e);
    lt_store_close(store);
}

static void an_entry_with_another_kernels_image_is_compiled_again(void **state)
{
    (void)state;
    need_nvrtc();
    const lt_source s = simple();
    const lt_source wrong = source("wrong__n1__one", ONE("wrong__n1__one", "y[0] = 2.0f;"));
    lt_source other = s;
    other.arch = "sm_121a";
    check_image_of(&s, &wrong);
    check_image_of(&s, &other);
}

static void without_jit_a_miss_is_an_error_that_names_the_kernel(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    const lt_source s = simple();
    lt_config_set("jit", "off", &err);
    assert_int_equal(load(&s, &report, &err), -1);
    assert_string_equal(err.text,
                        "kernel simple__n1__one: it is not in the cache, and LATHE_JIT=off "
                        "forbids to compile it (run `lathe build` first)");
    lt_config_set("jit", "on", &err);
    load_from(&s, LT_FROM_COMPILER);
    lt_config_set("jit", "off", &err);
    load_from(&s, LT_FROM_CACHE);
}

static void without_a_compiler_the_image_of_another_one_is_used(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    const lt_source s = simple();
    load_from(&s, LT_FROM_COMPILER);
    lt_config_set("nvrtc", "/nowhere/libnvrtc.so", &err);
    load_from(&s, LT_FROM_OLDER_COMPILER);
    lt_source other = s;
    other.plain = lt_span_text("another text");
    assert_int_equal(load(&other, &report, &err), -1);
    assert_non_null(strstr(err.text, "kernel simple__n1__one: it is not in the cache, and there is "
                                     "no compiler: "));
    assert_non_null(strstr(err.text, "/nowhere/libnvrtc.so"));
}

/* Writes a note that says `identity` of the file `library`; `late` seconds are added to its time.
 */
static void write_note(const char *library, int late, const char *identity)
{
    lt_err err;
    lt_store *store = NULL;
    struct stat st;
    char name[32], hex[65], note[1500];
    assert_int_equal(lt_store_open(&store, NULL, &err), 0);
    assert_int_equal(stat(library, &st), 0);
    lt_sha256_hex(lt_span_text(lt_config_text(LT_SET_NVRTC)), hex);
    snprintf(name, sizeof name, "compiler.%.16s", hex);
    snprintf(note, sizeof note, "library %s\nstamp %lld bytes %lld.%09ld\nidentity %s\n", library,
             (long long)st.st_size, (long long)st.st_mtim.tv_sec + late, st.st_mtim.tv_nsec,
             identity);
    assert_int_equal(lt_store_note_write(store, name, lt_span_text(note), &err), 0);
    lt_store_close(store);
}

static void a_library_that_has_changed_is_asked_again(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_nvrtc_compiler compiler;
    char asked[65], noted[65], changed[65];
    const lt_source s = simple();
    assert_int_equal(lt_nvrtc_identity(&compiler, NULL, &err), 0);
    key_of(&s, asked);
    write_note(compiler.library, 0, "nvrtc 0.1 old");
    key_of(&s, noted);
    write_note(compiler.library, 1, "nvrtc 0.1 old");
    key_of(&s, changed);
    assert_string_not_equal(noted, asked);
    assert_string_equal(changed, asked);
}

/* A newer library in front of the one that the note is about. */
static void a_note_about_another_library_is_mended_by_the_first_compile(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    char before[65], after[65];
    const lt_source s = simple();
    write_note("/bin/sh", 0, "nvrtc 0.1 old");
    key_of(&s, before);
    assert_int_equal(load(&s, &report, &err), 0);
    key_of(&s, after);
    assert_string_not_equal(before, after);
    assert_string_equal(report.key, after);
    load_from(&s, LT_FROM_CACHE);
}

/* ---- what must not be used ---- */

static void a_text_that_does_not_compile_leaves_nothing_in_the_cache(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    char path[400];
    struct stat st;
    const lt_source s = source("bad__n1__one", ONE("bad__n1__one", "y[0] = oops;"));
    lt_config_set("dump", scratch, &err);
    assert_int_equal(load(&s, &report, &err), -1);
    assert_non_null(strstr(err.text, "kernel bad__n1__one"));
    assert_non_null(strstr(err.text, "identifier \"oops\" is undefined"));
    assert_int_equal(count_entries(NULL), 0);
    snprintf(path, sizeof path, "%s/bad__n1__one.sm_90a.log", scratch);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size > 20);
}

static void an_image_that_the_generator_did_not_mean_is_refused(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    const lt_param two[] = {{"y", true}, {"x", false}};
    lt_source s = simple();
    s.params = two;
    s.param_count = 2;
    assert_int_equal(load(&s, &report, &err), -1);
    s = simple();
    s.threads = 64;
    assert_int_equal(load(&s, &report, &err), -1);
    assert_int_equal(count_entries(NULL), 0);
}

/* 80 values that all stay alive, where 64 registers are allowed */
static const char spilling[] =
    "extern \"C\" __global__ void __launch_bounds__(1024) spill__n1__one(float *y)\n{\n"
    "    float a[80];\n"
    "    for (int i = 0; i < 80; i++) a[i] = y[i * 1024 + threadIdx.x];\n"
    "    __syncthreads();\n"
    "    for (int i = 0; i < 80; i++) y[i * 1024 + threadIdx.x] = a[79 - i] * a[(i * 7) % 80];\n"
    "}\n";

static void a_spill_is_an_error_where_that_is_asked_for(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    lt_source s = source("spill__n1__one", spilling);
    s.threads = 1024;
    assert_int_equal(load(&s, &report, &err), 0);
    assert_true(report.facts.spills > 0);
    lt_config_set("spill", "error", &err);
    assert_int_equal(load(&s, &report, &err), -1);
    assert_non_null(
        strstr(err.text, "kernel spill__n1__one: 64 registers of sm_90a do not suffice"));
    const lt_source fine = simple();
    load_from(&fine, LT_FROM_COMPILER);
}

/* ---- the CPU device ---- */

static void a_device_that_compiles_gets_the_text_and_no_image(void **state)
{
    (void)state;
    lt_err err;
    lt_jit_report report;
    lt_kernel *k = NULL;
    const lt_source s = simple();
    fake_device d = {.base = {.ops = &fake_ops, .compiles = true}, .image_bytes = 1};
    char path[400];
    struct stat st;
    lt_config_set("jit", "off", &err);
    lt_config_set("dump", scratch, &err);
    assert_int_equal(lt_jit_load(&d.base, &s, &k, &report, &err), 0);
    assert_int_equal(d.image_bytes, 0);
    snprintf(path, sizeof path, "%s/%s.%s.cu", scratch, s.name, s.arch);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, s.plain.len);
    assert_string_equal(report.key, "");
    assert_int_equal(count_entries(NULL), 0);
    free(k);
}

/* ---- many ---- */

enum { KERNELS = 4 };
static const char *const names[KERNELS] = {"many0__n1__one", "many1__n1__one", "many2__n1__one",
                                           "many3__n1__one"};
static const char *const texts[KERNELS] = {
    ONE("many0__n1__one", "y[0] = 0;"), ONE("many1__n1__one", "y[1] = 1;"),
    ONE("many2__n1__one", "y[2] = 2;"), ONE("many3__n1__one", "y[3] = 3;")};

static int note_progress(void *ctx, size_t done, size_t count)
{
    size_t *seen = ctx;
    assert_int_equal(done, seen[0] + 1);
    assert_int_equal(count, 6);
    seen[0] = done;
    return done == seen[1];
}

static void make_builds(lt_build b[6])
{
    memset(b, 0, 6 * sizeof *b);
    for (size_t i = 0; i < KERNELS; i++) b[i].source = source(names[i], texts[i]);
    b[4].source = source("bad__n1__one", ONE("bad__n1__one", "y[0] = oops;"));
    b[5].source = b[0].source; /* once more */
}

static void many_are_built_together_and_each_has_its_own_result(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_build b[6];
    size_t seen[2] = {0, 0};
    make_builds(b);
    load_from(&b[1].source, LT_FROM_COMPILER);
    if (lt_jit_build(NULL, b, 6, note_progress, seen, &err)) fail_msg("%s", err.text);
    assert_int_equal(seen[0], 6);
    for (size_t i = 0; i < 6; i++) assert_int_equal(b[i].failed, i == 4);
    assert_non_null(strstr(b[4].err.text, "kernel bad__n1__one for sm_90a: "));
    assert_int_equal(b[1].report.origin, LT_FROM_CACHE);
    assert_int_equal(b[2].report.origin, LT_FROM_COMPILER);
    assert_true(b[2].report.facts.registers > 0);
    assert_string_equal(b[0].report.key, b[5].report.key);
    assert_int_equal(strlen(b[0].report.code), 16); /* tune takes the same code for one kernel */
    assert_string_equal(b[0].report.code, b[5].report.code);
    assert_string_not_equal(b[0].report.code, b[1].report.code);
    assert_true(b[0].report.origin != b[5].report.origin); /* one of the twins compiled */
    assert_int_equal(count_entries(NULL), KERNELS);
    for (size_t i = 0; i < KERNELS; i++) load_from(&b[i].source, LT_FROM_CACHE);
}

static void building_stops_when_its_caller_says_so(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_build b[6];
    size_t seen[2] = {0, 2};
    make_builds(b);
    assert_int_equal(lt_jit_build(NULL, b, 6, note_progress, seen, &err), -1);
    assert_string_equal(err.text, "building was stopped after 2 of 6");
    int failed = 0;
    for (size_t i = 0; i < 6; i++) failed += b[i].failed;
    assert_in_range(failed, 4, 5);
    assert_in_range(count_entries(NULL), 1, 2);
}

enum { WORKERS = 16, WORKER_FAILED = 100 };

/* Loads all kernels; the exit status is how many of them it compiled itself. */
static void run_worker(void)
{
    lt_err err;
    lt_jit_report report;
    int compiled = 0;
    for (size_t i = 0; i < KERNELS; i++) {
        fake_device d = {.base = {.ops = &fake_ops}};
        lt_kernel *k = NULL;
        const lt_source s = source(names[i], texts[i]);
        if (lt_jit_load(&d.base, &s, &k, &report, &err)) {
            fprintf(stderr, "%s\n", err.text);
            _exit(WORKER_FAILED);
        }
        compiled += report.origin == LT_FROM_COMPILER;
        free(k);
    }
    _exit(compiled);
}

static void sixteen_processes_together_on_an_empty_cache_compile_each_kernel_once(void **state)
{
    (void)state;
    need_nvrtc();
    pid_t pids[WORKERS];
    int compiled = 0;
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) run_worker();
        assert_true(pids[i] > 0);
    }
    usleep(30000);
    kill(pids[0], SIGKILL); /* most likely the one that holds the first lock */
    for (int i = 0; i < WORKERS; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        if (i == 0 && WIFSIGNALED(status)) continue;
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) != WORKER_FAILED);
        compiled += WEXITSTATUS(status);
    }
    assert_in_range(compiled, 1, KERNELS);
    assert_int_equal(count_entries(NULL), KERNELS);
    for (size_t i = 0; i < KERNELS; i++) {
        const lt_source s = source(names[i], texts[i]);
        load_from(&s, LT_FROM_CACHE);
    }
}

#define with_cache(f) cmocka_unit_test_setup_teardown(f, make_scratch, remove_scratch)

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], LT_NVRTC_CHILD)) return lt_nvrtc_child();
    const struct CMUnitTest tests[] = {
        with_cache(the_key_is_five_lines_and_their_digest),
        with_cache(what_changes_the_image_changes_the_key_and_nothing_else_does),
        with_cache(a_text_is_compiled_once),
        with_cache(a_damaged_entry_is_compiled_again_and_replaced),
        with_cache(an_entry_with_another_kernels_image_is_compiled_again),
        with_cache(without_jit_a_miss_is_an_error_that_names_the_kernel),
        with_cache(without_a_compiler_the_image_of_another_one_is_used),
        with_cache(a_library_that_has_changed_is_asked_again),
        with_cache(a_note_about_another_library_is_mended_by_the_first_compile),
        with_cache(a_text_that_does_not_compile_leaves_nothing_in_the_cache),
        with_cache(an_image_that_the_generator_did_not_mean_is_refused),
        with_cache(a_spill_is_an_error_where_that_is_asked_for),
        with_cache(a_device_that_compiles_gets_the_text_and_no_image),
        with_cache(many_are_built_together_and_each_has_its_own_result),
        with_cache(building_stops_when_its_caller_says_so),
        with_cache(sixteen_processes_together_on_an_empty_cache_compile_each_kernel_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
