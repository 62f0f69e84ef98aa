/* nvrtc.c: compiling in a child: images, refusals, messages, children that crash, hang or talk
 * nonsense. Skips what needs NVRTC where there is none. */
#include "runtime/cuda/frame.h"
#include "runtime/cuda/nvrtc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char kernel[] =
    "extern \"C\" __global__ void __launch_bounds__(64) twice(float *y, const float *x)\n"
    "{ y[threadIdx.x] = 2.0f * x[threadIdx.x]; }\n";

static char folder[64]; /* of the fake children */
static bool has_nvrtc;

static void need_nvrtc(void)
{
    if (!has_nvrtc) skip();
}

static void clear(lt_nvrtc_job *job)
{
    lt_bytes_clear(&job->image);
    lt_bytes_clear(&job->log);
}

/* Compiles text for arch and must fail with a message that holds both parts. */
static void must_fail(const char *text, const char *arch, const char *part, const char *other)
{
    lt_nvrtc_job job = {.name = "twice", .arch = arch, .text = lt_span_text(text)};
    lt_err err = {""};
    assert_int_equal(lt_nvrtc_compile(&job, NULL, &err), -1);
    assert_true(job.failed);
    assert_int_equal(job.image.len, 0);
    if (!strstr(err.text, part) || !strstr(err.text, other) || strncmp(err.text, "twice", 5))
        fail_msg("'%s' does not begin with twice or hold '%s' and '%s'", err.text, part, other);
    clear(&job);
}

static void each_architecture_gives_an_image_for_it(void **state)
{
    (void)state;
    need_nvrtc();
    static const struct {
        const char *arch;
        unsigned char sm;
    } archs[] = {{"sm_90a", 90},   {"sm_100a", 100}, {"sm_100f", 100}, {"sm_120a", 120},
                 {"sm_120f", 120}, {"sm_121a", 121}, {"sm_121f", 121}};
    lt_nvrtc_job jobs[lt_countof(archs)] = {{0}};
    lt_err err;
    for (size_t i = 0; i < lt_countof(archs); i++)
        jobs[i] =
            (lt_nvrtc_job){.name = "twice", .arch = archs[i].arch, .text = lt_span_text(kernel)};
    assert_int_equal(lt_nvrtc_compile_many(jobs, lt_countof(jobs), NULL, NULL, NULL, &err), 0);
    for (size_t i = 0; i < lt_countof(archs); i++) {
        if (jobs[i].failed) fail_msg("%s", jobs[i].err.text);
        assert_true(jobs[i].image.len > 64);
        assert_memory_equal(jobs[i].image.ptr, "\177ELF", 4);
        assert_int_equal((unsigned char)jobs[i].image.ptr[49], archs[i].sm); /* e_flags */
        assert_true(jobs[i].ms > 0);
        clear(&jobs[i]);
    }
}

static void an_unknown_architecture_is_named_with_those_that_work(void **state)
{
    (void)state;
    need_nvrtc();
    must_fail(kernel, "sm_122", "does not compile for 'sm_122'", "sm_90a, sm_100a, sm_100f, sm_12");
    must_fail(kernel, "sm_121g", "does not compile for 'sm_121g'", "sm_121a, sm_121f");
    must_fail(kernel, "", "does not compile for ''", "sm_90a");
}

static void success_without_code_is_a_failure(void **state)
{
    (void)state;
    need_nvrtc();
    must_fail(kernel, "compute_121a", "made no code", "'compute_121a'");
}

static void a_message_points_at_the_line_of_the_template(void **state)
{
    (void)state;
    need_nvrtc();
    const char *text = "#line 17 \"templates/twice.cut\"\n"
                       "extern \"C\" __global__ void twice(int *y) { y[0] = oops; }\n";
    must_fail(text, "sm_90a", "templates/twice.cut(17): error", "\"oops\" is undefined");
    must_fail("#warning first\nint a = b;\n", "sm_90a", "(2): error", "\"b\" is undefined");
}

static void an_instruction_that_the_architecture_lacks_is_named(void **state)
{
    (void)state;
    need_nvrtc();
    const char *text = "extern \"C\" __global__ void twice(int *y) {\n"
                       "    asm volatile(\"setmaxnreg.inc.sync.aligned.u32 232;\");\n"
                       "}\n";
    must_fail(text, "sm_121", "setmaxnreg", "error");
}

static void the_log_is_kept_whole(void **state)
{
    (void)state;
    need_nvrtc();
    lt_nvrtc_job job = {.name = "twice", .arch = "sm_90a"};
    lt_err err;
    job.text = lt_span_text("#warning first\n#warning second\n"
                            "extern \"C\" __global__ void twice() {}\n");
    assert_int_equal(lt_nvrtc_compile(&job, NULL, &err), 0);
    assert_non_null(strstr(job.log.ptr, "first"));
    assert_non_null(strstr(job.log.ptr, "second"));
    job.text = lt_span_text("int a = b;\nint c = d;\n");
    assert_int_equal(lt_nvrtc_compile(&job, NULL, &err), -1);
    assert_null(strstr(job.log.ptr, "first")); /* the earlier log has gone */
    assert_non_null(strstr(job.log.ptr, "\"b\""));
    assert_non_null(strstr(job.log.ptr, "\"d\""));
    clear(&job);
}

static void the_same_text_gives_the_same_bytes(void **state)
{
    (void)state;
    need_nvrtc();
    lt_nvrtc_job a = {.name = "twice", .arch = "sm_121a", .text = lt_span_text(kernel)}, b = a;
    lt_err err;
    b.name = "another";
    assert_int_equal(lt_nvrtc_compile(&a, NULL, &err), 0);
    assert_int_equal(lt_nvrtc_compile(&b, NULL, &err), 0);
    assert_int_equal(a.image.len, b.image.len);
    assert_memory_equal(a.image.ptr, b.image.ptr, a.image.len);
    clear(&a);
    clear(&b);
}

static void the_identity_is_the_same_in_two_processes(void **state)
{
    (void)state;
    need_nvrtc();
    lt_nvrtc_compiler a, b;
    lt_err err;
    int major, minor, len = 0;
    char hex[17];
    assert_int_equal(lt_nvrtc_identity(&a, NULL, &err), 0);
    assert_int_equal(lt_nvrtc_identity(&b, NULL, &err), 0);
    assert_string_equal(a.identity, b.identity);
    assert_string_equal(a.library, b.library);
    assert_int_equal(sscanf(a.identity, "nvrtc %d.%d %16[0-9a-f]%n", &major, &minor, hex, &len), 3);
    assert_int_equal(strlen(hex), 16);
    assert_int_equal(len, strlen(a.identity));
    assert_int_equal(access(a.library, R_OK), 0);
}

typedef struct {
    int count, stop_at;
} progress;

static int count_jobs(void *ctx, lt_nvrtc_job *job)
{
    progress *p = ctx;
    assert_true(job->failed || job->image.len > 0);
    return ++p->count == p->stop_at;
}

static void a_failure_among_many_costs_only_itself(void **state)
{
    (void)state;
    need_nvrtc();
    enum { JOBS = 6 };
    lt_nvrtc_job jobs[JOBS] = {{0}};
    lt_err err;
    progress p = {0};
    for (int i = 0; i < JOBS; i++)
        jobs[i] = (lt_nvrtc_job){.name = "twice",
                                 .arch = i == 2 ? "sm_122" : "sm_90a",
                                 .text = lt_span_text(i == 4 ? "oops" : kernel)};
    const lt_nvrtc_limits four = {.at_once = 4};
    assert_int_equal(lt_nvrtc_compile_many(jobs, JOBS, &four, count_jobs, &p, &err), 0);
    assert_int_equal(p.count, JOBS);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(jobs[i].failed, i == 2 || i == 4);
        clear(&jobs[i]);
    }
}

static void a_batch_can_be_stopped(void **state)
{
    (void)state;
    need_nvrtc();
    enum { JOBS = 8 };
    lt_nvrtc_job jobs[JOBS] = {{0}};
    lt_err err;
    progress p = {.stop_at = 3};
    int images = 0;
    for (int i = 0; i < JOBS; i++)
        jobs[i] = (lt_nvrtc_job){.name = "twice", .arch = "sm_90a", .text = lt_span_text(kernel)};
    const lt_nvrtc_limits two = {.at_once = 2};
    assert_int_equal(lt_nvrtc_compile_many(jobs, JOBS, &two, count_jobs, &p, &err), -1);
    assert_int_equal(p.count, 3);
    for (int i = 0; i < JOBS; i++) {
        images += jobs[i].image.len > 0;
        clear(&jobs[i]);
    }
    assert_int_equal(images, 3);
}

/* ---- where NVRTC is looked for ---- */

static void a_setting_that_is_not_nvrtc_is_named(void **state)
{
    (void)state;
    lt_err err;
    char before[1024];
    snprintf(before, sizeof before, "%s", lt_config_text(LT_SET_NVRTC));
    assert_int_equal(lt_config_set("nvrtc", "/nonexistent/libnvrtc.so.13", &err), 0);
    must_fail(kernel, "sm_90a", "LATHE_NVRTC is '/nonexistent/libnvrtc.so.13'", "No such file");
    assert_int_equal(lt_config_set("nvrtc", "libm.so.6", &err), 0);
    must_fail(kernel, "sm_90a", "libm.so.6 has no nvrtc", "set LATHE_NVRTC");
    assert_int_equal(lt_config_set("nvrtc", before, &err), 0);
}

static void the_options_say_where_lines_come_from_only_when_dumping(void **state)
{
    (void)state;
    lt_err err;
    assert_string_equal(lt_nvrtc_options(),
                        "--minimal -default-device --no-source-include --no-cache -fmad=false "
                        "-diag-suppress=177 -brief-diag=true");
    assert_int_equal(lt_config_set("dump", folder, &err), 0);
    assert_non_null(strstr(lt_nvrtc_options(), "-brief-diag=true -lineinfo"));
    assert_int_equal(lt_config_set("dump", "", &err), 0);
}

/* ---- children that are not what they should be ---- */

/* Compiles text with a shell script in the place of the child. */
static void run_script(const char *script, lt_span text, double seconds, lt_err *err)
{
    char path[128];
    snprintf(path, sizeof path, "%s/child", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", script);
    fclose(f);
    assert_int_equal(chmod(path, 0700), 0);
    lt_nvrtc_job job = {.name = "twice", .arch = "sm_90a", .text = text};
    const lt_nvrtc_limits limits = {.program = path, .seconds = seconds};
    assert_int_equal(lt_nvrtc_compile(&job, &limits, err), -1);
    assert_int_equal(job.image.len, 0);
    clear(&job);
    unlink(path);
}

static void a_compiler_that_does_not_end_is_killed(void **state)
{
    (void)state;
    lt_err err = {""};
    const double before = lt_now_us();
    run_script("exec sleep 100", lt_span_text(kernel), 0.2, &err);
    assert_true(lt_now_us() - before < 5e6);
    assert_string_equal(err.text, "twice for sm_90a: the compiler took more than 0.2 s and was "
                                  "ended (LATHE_COMPILE_SECONDS)");
    run_script("exec 1>&- 0<&-; exec sleep 100", lt_span_text(kernel), 0.2, &err);
    assert_non_null(strstr(err.text, "took more than 0.2 s"));
}

static void a_crash_is_told_with_its_signal_and_the_kernel(void **state)
{
    (void)state;
    lt_err err = {""};
    run_script("kill -SEGV $$", lt_span_text(kernel), 0, &err);
    assert_string_equal(err.text,
                        "twice for sm_90a: the compiler crashed: SIGSEGV (Segmentation fault)");
    run_script("cat >/dev/null; kill -ABRT $$", lt_span_text(kernel), 0, &err);
    assert_string_equal(err.text, "twice for sm_90a: the compiler crashed: SIGABRT (Aborted)");
}

static void a_child_that_says_nothing_or_nonsense_has_not_answered(void **state)
{
    (void)state;
    lt_err err = {""};
    const char *wanted = "twice for sm_90a: the compiler's process ended without an answer, exit "
                         "status 3";
    run_script("exit 3", lt_span_text(kernel), 0, &err);
    assert_string_equal(err.text, wanted);
    run_script("echo usage: lathe COMMAND; exit 3", lt_span_text(kernel), 0, &err);
    assert_string_equal(err.text, wanted);
    run_script("printf 'lathe:1\\n'; head -c 40 /dev/zero | tr '\\0' '\\377'; exit 3",
               lt_span_text(kernel), 0, &err);
    assert_string_equal(err.text, wanted);
}

static void a_text_that_nobody_reads_blocks_nobody(void **state)
{
    (void)state;
    lt_err err = {""};
    const size_t len = 4 << 20;
    char *text = calloc(1, len);
    assert_non_null(text);
    run_script("exec sleep 100", (lt_span){text, len}, 0.2, &err);
    assert_non_null(strstr(err.text, "took more than 0.2 s"));
    run_script("exit 3", (lt_span){text, len}, 0, &err);
    assert_non_null(strstr(err.text, "exit status 3"));
    free(text);
}

static void a_child_that_cannot_be_started_is_named(void **state)
{
    (void)state;
    lt_nvrtc_job job = {.name = "twice", .arch = "sm_90a", .text = lt_span_text(kernel)};
    const lt_nvrtc_limits limits = {.program = "/nonexistent/lathe"};
    lt_err err = {""};
    assert_int_equal(lt_nvrtc_compile(&job, &limits, &err), -1);
    assert_string_equal(err.text, "twice for sm_90a: cannot start /nonexistent/lathe: No such file "
                                  "or directory");
}

static void a_frame_is_read_only_when_it_is_whole(void **state)
{
    (void)state;
    lt_bytes frame = {0};
    lt_err err;
    lt_span back[LT_FRAME_PARTS];
    const lt_span parts[LT_FRAME_PARTS] = {lt_span_text("a"), lt_span_text(""),
                                           lt_span_text("three"), lt_span_text("\n"),
                                           lt_span_text("the last")};
    assert_int_equal(lt_frame_write(&frame, parts, &err), 0);
    for (size_t len = 0; len < frame.len; len++)
        assert_false(lt_frame_read((lt_span){frame.ptr, len}, back));
    assert_true(lt_frame_read(lt_bytes_view(&frame), back));
    for (int i = 0; i < LT_FRAME_PARTS; i++) {
        assert_int_equal(back[i].len, parts[i].len);
        assert_memory_equal(back[i].ptr, parts[i].ptr, parts[i].len);
    }
    frame.ptr[0] ^= 1;
    assert_false(lt_frame_read(lt_bytes_view(&frame), back));
    lt_bytes_clear(&frame);
}

static int set_up(void **state)
{
    (void)state;
    lt_err err = {""};
    lt_nvrtc_compiler compiler;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/lathe-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder) || lt_config_read(&err)) return -1;
    has_nvrtc = lt_nvrtc_identity(&compiler, NULL, &err) == 0;
    if (!has_nvrtc) print_message("%s\n", err.text);
    return has_nvrtc || strstr(err.text, "nvrtc: ") ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], LT_NVRTC_CHILD)) return lt_nvrtc_child();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_architecture_gives_an_image_for_it),
        cmocka_unit_test(an_unknown_architecture_is_named_with_those_that_work),
        cmocka_unit_test(success_without_code_is_a_failure),
        cmocka_unit_test(a_message_points_at_the_line_of_the_template),
        cmocka_unit_test(an_instruction_that_the_architecture_lacks_is_named),
        cmocka_unit_test(the_log_is_kept_whole),
        cmocka_unit_test(the_same_text_gives_the_same_bytes),
        cmocka_unit_test(the_identity_is_the_same_in_two_processes),
        cmocka_unit_test(a_failure_among_many_costs_only_itself),
        cmocka_unit_test(a_batch_can_be_stopped),
        cmocka_unit_test(a_setting_that_is_not_nvrtc_is_named),
        cmocka_unit_test(the_options_say_where_lines_come_from_only_when_dumping),
        cmocka_unit_test(a_compiler_that_does_not_end_is_killed),
        cmocka_unit_test(a_crash_is_told_with_its_signal_and_the_kernel),
        cmocka_unit_test(a_child_that_says_nothing_or_nonsense_has_not_answered),
        cmocka_unit_test(a_text_that_nobody_reads_blocks_nobody),
        cmocka_unit_test(a_child_that_cannot_be_started_is_named),
        cmocka_unit_test(a_frame_is_read_only_when_it_is_whole),
    };
    return cmocka_run_group_tests_name("nvrtc", tests, set_up, tear_down);
}
