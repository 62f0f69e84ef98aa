/* jit_many.c: many texts built together, in one process and in sixteen on one empty cache. */
#include "jit_kit.h"

#include <signal.h>
#include <sys/wait.h>

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

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], LT_NVRTC_CHILD)) return lt_nvrtc_child();
    const struct CMUnitTest tests[] = {
        with_cache(many_are_built_together_and_each_has_its_own_result),
        with_cache(building_stops_when_its_caller_says_so),
        with_cache(sixteen_processes_together_on_an_empty_cache_compile_each_kernel_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
