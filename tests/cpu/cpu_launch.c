/* cpu_launch.c: the CPU device's buffers, the limits of a launch, its blocks, its compiler. */
#include "tests/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HEAD "LT_KERNEL(1024) k(const float *x, float *y) {\n" /* the body begins in line 2 */

enum { N = 128 };

static lt_device *open_device(lt_play play)
{
    lt_device *dev = kernel_open(play);
    assert_non_null(dev);
    return dev;
}

/* One block of HEAD, body, } on N floats. */
static void run_body(lt_device *dev, const char *body, unsigned threads, kernel_result *r)
{
    char text[4000];
    snprintf(text, sizeof text, HEAD "%s\n}", body);
    kernel_floats(dev, text, threads, N, r);
}

/* ---- buffers ---- */

static void reading_in_front_of_a_buffer_is_named_when_played_left(void **state)
{
    (void)state;
    kernel_result r;
    lt_device *dev = open_device((lt_play){0, false, true});
    run_body(dev, "\ny[threadIdx.x] = x[(int)threadIdx.x - 1];", 128, &r);
    assert_string_equal(r.err.text,
                        "k: t.cut:3: block 0, thread 0: reads byte -4 of 'x', which has 512");
    dev->ops->close(dev);
}

static void writing_around_a_buffer_is_found_after_the_launch(void **state)
{
    (void)state;
    kernel_result r;
    lt_device *dev = open_device((lt_play){0, false, false});
    run_body(dev, "y[(int)threadIdx.x - 1] = 1;", 128, &r);
    assert_string_equal(r.err.text,
                        "k: some thread writes in front of 'y' (LATHE_CPU_LEFT=on names the line)");
    assert_int_equal(dev->ops->play(dev, &(lt_play){0, false, true}, &r.err), 0);
    run_body(dev, "y[threadIdx.x + 1] = 1;", 128, &r);
    assert_string_equal(r.err.text,
                        "k: some thread writes behind 'y' (LATHE_CPU_LEFT=off names the line)");
    dev->ops->close(dev);
}

static void a_parameter_that_is_not_out_cannot_be_written(void **state)
{
    (void)state;
    kernel_result r;
    lt_device *dev = open_device((lt_play){0, false, false});
    run_body(dev, "y[threadIdx.x] = 1;\n((float *)x)[threadIdx.x] = 1;", 128, &r);
    assert_string_equal(r.err.text, "k: t.cut:3: block 0, thread 0: writes 'x', which is not "
                                    "declared out");
    run_body(dev, "lt_atomic_add_u32((u32 *)x, 1);", 1, &r);
    assert_string_equal(r.err.text, "k: t.cut:2: block 0, thread 0: writes 'x', which is not "
                                    "declared out");
    dev->ops->close(dev);
}

/* What one launch may write, the next may not, and the host may always. */
static void the_right_to_write_lasts_for_one_launch(void **state)
{
    (void)state;
    lt_device *dev = open_device((lt_play){0, false, false});
    lt_kernel *copy, *back;
    lt_buffer *a, *b;
    lt_err err;
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    const lt_launch l = {.grid = {1, 1, 1}, .block = {4, 1, 1}};
    const char *text = "LT_KERNEL(4) k(const float *x, float *y) { "
                       "y[threadIdx.x] = x[threadIdx.x]; }";
    assert_int_equal(kernel_load(dev, "copy", text, "x y!", 90, &copy, &err), 0);
    assert_int_equal(kernel_load(dev, "back", text, "x y", 90, &back, &err), 0);
    assert_int_equal(dev->ops->alloc(dev, sizeof x, &a, &err), 0);
    assert_int_equal(dev->ops->alloc(dev, sizeof x, &b, &err), 0);
    const lt_arg args[] = {{a, 0}, {b, 0}};
    for (int round = 0; round < 3; round++) {
        assert_int_equal(dev->ops->write(dev, a, 0, (lt_span){x, sizeof x}, &err), 0);
        assert_int_equal(dev->ops->launch(dev, copy, &l, args, &err), 0);
        assert_int_equal(dev->ops->read(dev, b, 0, y, sizeof y, &err), 0);
        assert_memory_equal(x, y, sizeof x);
        assert_int_equal(dev->ops->launch(dev, back, &l, args, &err), -1);
        assert_non_null(strstr(err.text, "writes 'y', which is not declared out"));
        assert_int_equal(dev->ops->fill(dev, b, 0, &err), 0);
    }
    dev->ops->free(dev, a);
    dev->ops->free(dev, b);
    dev->ops->unload(dev, copy);
    dev->ops->unload(dev, back);
    dev->ops->close(dev);
}

static void a_new_buffer_holds_ff(void **state)
{
    (void)state;
    lt_err err;
    for (int left = 0; left < 2; left++) {
        lt_device *dev = open_device((lt_play){0, false, left != 0});
        for (size_t bytes = 0; bytes < 10000; bytes = bytes * 3 + 1) {
            unsigned char *host = calloc(1, bytes + 1);
            lt_buffer *b;
            assert_non_null(host);
            assert_int_equal(dev->ops->alloc(dev, bytes, &b, &err), 0);
            assert_int_equal(dev->ops->read(dev, b, 0, host, bytes, &err), 0);
            for (size_t i = 0; i < bytes; i++) assert_int_equal(host[i], 0xff);
            assert_int_equal(dev->ops->read(dev, b, 0, host, bytes + 1, &err), -1);
            assert_int_equal(dev->ops->write(dev, b, bytes, (lt_span){host, 1}, &err), -1);
            free(host); /* the buffer is the device's to free now */
        }
        dev->ops->close(dev);
    }
}

/* ---- launches ---- */

static void expect_refusal(lt_device *dev, const kernel_job *job, const char *message)
{
    lt_err err = {""};
    assert_int_equal(kernel_run(dev, "LT_KERNEL(1024) k(float *y) { *y = 1; }", job, &err), -1);
    assert_string_equal(err.text, message);
}

static void a_launch_beyond_a_limit_is_refused_in_a_sentence(void **state)
{
    (void)state;
    float y;
    const unsigned far = 5;
    lt_device *dev = open_device((lt_play){0, false, false});
    kernel_job job = {.params = "y!", .data = {&y}, .bytes = {sizeof y}};
    job.shared = 232449;
    expect_refusal(dev, &job, "k: 232449 bytes of dynamic shared memory, and a block has 232448");
    job.shared = 0;
    job.block = 1025;
    expect_refusal(dev, &job, "k: a block of (1025,1,1) threads cannot be launched (1 to 1024)");
    job.block = 1;
    job.grid = 0xffffffff;
    expect_refusal(dev, &job, "k: a grid of (4294967295,1,1) blocks cannot be launched");
    job.grid = 5;
    job.sample = &far;
    job.samples = 1;
    expect_refusal(dev, &job, "k: block 5 is not one of the grid's 5");
    job.sample = NULL;
    job.model = 80;
    expect_refusal(dev, &job, "k: no tensor-core model 80 (90, 120)");
    dev->ops->close(dev);
}

static void shared_memory_has_the_limits_of_a_gpu(void **state)
{
    (void)state;
    kernel_result r;
    lt_device *dev = open_device((lt_play){0, false, false});
    run_body(dev, "LT_SHARED1(float, s, 12288);\ns[threadIdx.x] = 1; y[threadIdx.x] = 1;", 128, &r);
    assert_int_equal(r.rc, 0);
    run_body(dev, "LT_SHARED1(float, s, 12288);\nLT_SHARED1(float, t, 1);\n*t = *s = 1;", 1, &r);
    assert_string_equal(r.err.text, "k: t.cut:3: block 0, thread 0: shared 't': 49156 bytes of "
                                    "static shared memory, and a GPU has 49152 (make it dynamic)");
    float y = 0;
    kernel_job job = {.params = "y!", .shared = 232448, .data = {&y}, .bytes = {sizeof y}};
    const char *text = "LT_KERNEL(1) k(float *y) { LT_DYN_SHARED(float, d); d[58111] = 3;\n"
                       "*y = d[58111] + d[%d]; }";
    char full[300];
    snprintf(full, sizeof full, text, 58111);
    assert_int_equal(kernel_run(dev, full, &job, &r.err), 0);
    assert_true(y == 6);
    snprintf(full, sizeof full, text, 58112);
    assert_int_equal(kernel_run(dev, full, &job, &r.err), -1);
    assert_string_equal(r.err.text, "k: t.cut:2: block 0, thread 0: reads byte 232448 of shared "
                                    "'dynamic', which has 232448");
    dev->ops->close(dev);
}

static void sampled_blocks_run_and_no_others(void **state)
{
    (void)state;
    lt_err err;
    const unsigned sample[] = {0, 99, 41, 7};
    for (int order = 0; order < 5; order++) {
        float y[100] = {0};
        lt_device *dev = open_device((lt_play){order, false, false});
        kernel_job job = {.params = "y!",
                          .grid = 100,
                          .block = 32,
                          .sample = sample,
                          .samples = 4,
                          .data = {y},
                          .bytes = {sizeof y}};
        const char *text = "LT_KERNEL(32) k(float *y) { if (threadIdx.x == 0) y[blockIdx.x] += "
                           "1.0f + blockIdx.x; }";
        assert_int_equal(kernel_run(dev, text, &job, &err), 0);
        for (int i = 0; i < 100; i++)
            assert_true(y[i] == (i == 0 || i == 99 || i == 41 || i == 7 ? 1.0f + (float)i : 0.0f));
        dev->ops->close(dev);
    }
}

static void a_grid_of_three_dimensions_runs_every_block_once(void **state)
{
    (void)state;
    lt_err err;
    for (int order = 0; order < 6; order++) {
        float y[2 * 3 * 5 * 8] = {0};
        lt_device *dev = open_device((lt_play){order, false, false});
        lt_kernel *k;
        lt_buffer *b;
        const lt_launch l = {.grid = {2, 3, 5}, .block = {2, 2, 2}};
        const char *text =
            "LT_KERNEL(8) k(float *y) { const int b = blockIdx.x + gridDim.x * (blockIdx.y + "
            "gridDim.y * blockIdx.z), t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * "
            "threadIdx.z); y[b * 8 + t] += b * 8 + t + 1; }";
        assert_int_equal(kernel_load(dev, "k", text, "y!", 90, &k, &err), 0);
        assert_int_equal(dev->ops->alloc(dev, sizeof y, &b, &err), 0);
        assert_int_equal(dev->ops->fill(dev, b, 0, &err), 0);
        assert_int_equal(dev->ops->launch(dev, k, &l, &(lt_arg){b, 0}, &err), 0);
        assert_int_equal(dev->ops->read(dev, b, 0, y, sizeof y, &err), 0);
        for (int i = 0; i < 240; i++) assert_true(y[i] == (float)(i + 1));
        dev->ops->unload(dev, k);
        dev->ops->close(dev);
    }
}

static void a_sequence_is_timed(void **state)
{
    (void)state;
    lt_err err;
    lt_timing timing;
    lt_device *dev = open_device((lt_play){0, false, false});
    lt_step step[2] = {{.launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}}}};
    assert_int_equal(kernel_load(dev, "k", "LT_KERNEL(1) k(float *y) { *y = 1; }", "y!", 90,
                                 &step[0].kernel, &err),
                     0);
    assert_int_equal(dev->ops->alloc(dev, 4, &step[0].args[0].buffer, &err), 0);
    step[1] = step[0];
    assert_int_equal(dev->ops->time(dev, step, 2, false, &timing, &err), 0);
    assert_true(timing.us > 0 && timing.us < 1e5 && timing.nodes == 2 && timing.replays >= 5);
    assert_int_equal(dev->ops->time(dev, step, 2, true, &timing, &err), 0);
    assert_true(timing.us > 0 && timing.us < 1e5 && timing.nodes == 2 && timing.replays == 2);
    step[1].args[0].buffer = NULL;
    assert_int_equal(dev->ops->time(dev, step, 2, false, &timing, &err), -1);
    assert_string_equal(err.text, "k: 'y' is no buffer of this device");
    dev->ops->unload(dev, step[0].kernel);
    dev->ops->close(dev);
}

/* ---- the compiler ---- */

static void a_text_that_does_not_compile_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *body, *message;
    } cases[] = {
        {"float v = 1 2;", "t.cut:2: ';' expected"},
        {"y[0] =\n oops;", "t.cut:3: 'oops' undeclared"},
        {"y[0] = oops(1);", "t.cut:2: implicit declaration of function 'oops'"},
        {"float *p = 5;", "t.cut:2: assignment makes pointer from integer without a cast"},
        {"float *p = x; y[0] = *p;", "t.cut:2: assignment discards qualifiers"},
        {"again: y[0] = 1;\ngoto again;", "t.cut:2: goto and labels are not in the common subset"},
        {"if (y[0] > 0) goto done;\ny[0] = 2;\ndone: y[0] = 1;",
         "t.cut:2: goto and labels are not in the common subset"},
        {"switch ((int)y[0]) { default:\ncase 1: last: y[0] = 2; }",
         "t.cut:3: goto and labels are not in the common subset"},
        {"y[0] = 1;\nif (y[0]) last: y[0] = 2;",
         "t.cut:3: goto and labels are not in the common subset"},
        {"extern float missing(float); y[0] = missing(1);", "undefined symbol 'missing'"},
    };
    kernel_result r;
    lt_device *dev = open_device((lt_play){0, false, false});
    for (size_t i = 0; i < lt_countof(cases); i++) {
        run_body(dev, cases[i].body, 1, &r);
        assert_int_equal(r.rc, -1);
        if (!strstr(r.err.text, cases[i].message)) fail_msg("%s", r.err.text);
        run_body(dev, "y[0] = 7;", 1, &r); /* in a child first */
        assert_int_equal(r.rc, 0);
        assert_true(r.y[0] == 7);
    }
    dev->ops->close(dev);
}

static void colons_that_are_no_labels_are_allowed(void **state)
{
    (void)state;
    kernel_result r;
    lt_device *dev = open_device((lt_play){0, false, false});
    run_body(dev,
             "struct { u32 a : 3, b : 5; } bits; bits.a = 5; bits.b = 1; // goto: a comment\n"
             "const int n = (int)x[2], big = n > 1 ? (int)n : 4; /* label: */\n"
             "switch (n) { case 1: case 2: y[0] = (float)(big ? n : big); break;\n"
             "default: y[0] = 1e+3f; }\n"
             "y[1] = _Generic(n, float: 1.0f, int: 2.0f, default: 3.0f) + bits.a + bits.b;\n"
             "y[2] = n == 2 ? x[3] : n == 3 ? x[4] : x[5];",
             1, &r);
    if (r.rc) fail_msg("%s", r.err.text);
    assert_true(r.y[0] == 2 && r.y[1] == 8 && r.y[2] == 3);
    dev->ops->close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_in_front_of_a_buffer_is_named_when_played_left),
        cmocka_unit_test(writing_around_a_buffer_is_found_after_the_launch),
        cmocka_unit_test(a_parameter_that_is_not_out_cannot_be_written),
        cmocka_unit_test(the_right_to_write_lasts_for_one_launch),
        cmocka_unit_test(a_new_buffer_holds_ff),
        cmocka_unit_test(a_launch_beyond_a_limit_is_refused_in_a_sentence),
        cmocka_unit_test(shared_memory_has_the_limits_of_a_gpu),
        cmocka_unit_test(sampled_blocks_run_and_no_others),
        cmocka_unit_test(a_grid_of_three_dimensions_runs_every_block_once),
        cmocka_unit_test(a_sequence_is_timed),
        cmocka_unit_test(a_text_that_does_not_compile_is_refused_with_its_line),
        cmocka_unit_test(colons_that_are_no_labels_are_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
