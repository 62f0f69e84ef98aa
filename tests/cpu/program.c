/* program.c: the launches of a step as one graph of the CUDA device, over a driver in memory: what
 * a replay needs, what is refused, and what happens when any call of the driver fails. */
#include "cuda_fake.h"
#include "runtime/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 3 };

static const lt_cuda_fake_image image = {
    .kernel = "twice__n64__w1", .params = 2, .threads = 64, .sm = 90, .exact = true};

static const lt_param params[] = {{"y", true}, {"x", false}};

static const lt_source source = {.name = "twice__n64__w1",
                                 .arch = "sm_90a",
                                 .params = params,
                                 .param_count = 2,
                                 .threads = 64,
                                 .model = 90};

typedef struct {
    lt_device *dev;
    lt_kernel *kernel;
    lt_buffer *buf;
    lt_program *program;
} bench;

static int load(lt_device *dev, lt_kernel **out, lt_err *err)
{
    lt_bytes bytes = {0};
    lt_cuda_fake_make(&bytes, &image);
    const int failed = dev->ops->load(dev, &source, lt_bytes_view(&bytes), out, err);
    lt_bytes_clear(&bytes);
    return failed;
}

/* A device, its kernel and a program of that kernel alone, made from steps that are gone. */
static int open_bench(bench *b, lt_err *err)
{
    *b = (bench){0};
    if (lt_cuda_open(&b->dev, 0, err) || lt_device_alloc(b->dev, 4096, &b->buf, err) ||
        load(b->dev, &b->kernel, err))
        return -1;
    lt_step *steps = malloc(STEPS * sizeof *steps);
    assert_non_null(steps);
    for (int i = 0; i < STEPS; i++)
        steps[i] = (lt_step){.kernel = b->kernel,
                             .launch = {.grid = {1, 1, 1}, .block = {64, 1, 1}},
                             .args = {{b->buf, 0}, {b->buf, (size_t)(256 * (i + 1))}}};
    const int failed = lt_program_new(&b->program, b->dev, steps, STEPS, err);
    memset(steps, 0xa5, STEPS * sizeof *steps);
    free(steps);
    return failed;
}

static void close_bench(bench *b)
{
    lt_program_free(b->program);
    lt_kernel_unload(b->dev, b->kernel);
    lt_device_free(b->dev, b->buf);
    lt_device_close(b->dev);
    assert_int_equal(lt_cuda_fake_alive(), 0);
}

static void a_hundred_replays_need_nothing_of_what_the_program_was_made_from(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    bench b;
    lt_err err = {""};
    if (open_bench(&b, &err)) fail_msg("%s", err.text);
    assert_int_equal(fake->captures, 1);
    assert_int_equal(fake->last.params[1] - fake->last.params[0], 256 * STEPS);
    for (int i = 0; i < 100; i++)
        if (lt_program_run(b.program, &err)) fail_msg("%s", err.text);
    assert_int_equal(lt_device_sync(b.dev, &err), 0);
    assert_int_equal(fake->captures, 1);
    assert_int_equal(fake->launches, 100 * STEPS);
    assert_int_equal(lt_program_run_step(b.program, 0, &err), 0);
    assert_int_equal(fake->last.params[1] - fake->last.params[0], 256);
    close_bench(&b);
}

static void a_fault_in_a_replay_names_its_launches(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    bench b;
    lt_err err = {""};
    if (open_bench(&b, &err)) fail_msg("%s", err.text);
    fake->fault_at = STEPS + 2;
    assert_int_equal(lt_program_run(b.program, &err), 0);
    if (!lt_program_run(b.program, &err)) assert_int_equal(lt_device_sync(b.dev, &err), -1);
    assert_non_null(strstr(err.text, "twice__n64__w1"));
    assert_int_equal(lt_program_run(b.program, &err), -1); /* and nothing runs any more */
    close_bench(&b);
}

static void a_step_that_cannot_be_meant_is_refused_with_its_number(void **state)
{
    (void)state;
    lt_cuda_fake_use();
    bench b;
    lt_err err = {""};
    if (open_bench(&b, &err)) fail_msg("%s", err.text);
    lt_step steps[2] = {{.kernel = b.kernel,
                         .launch = {.grid = {1, 1, 1}, .block = {64, 1, 1}},
                         .args = {{b.buf, 0}, {b.buf, 0}}}};
    steps[1] = steps[0];
    steps[1].args[1].buffer = NULL;
    lt_program *none = NULL;
    assert_int_equal(lt_program_new(&none, b.dev, steps, 2, &err), -1);
    assert_string_equal(err.text,
                        "program: step 1: kernel twice__n64__w1: argument x has no buffer");
    assert_int_equal(lt_program_new(&none, b.dev, steps, 0, &err), -1);
    assert_null(none);
    close_bench(&b);
}

static void failing_the_nth_call_leaks_nothing(void **state)
{
    (void)state;
    int failures = 0;
    for (int n = 1;; n++) {
        lt_cuda_fake *fake = lt_cuda_fake_use();
        fake->fail_at = n;
        fake->fail_with = LT_CU_OUT_OF_MEMORY;
        bench b;
        lt_err err = {""};
        const bool failed =
            open_bench(&b, &err) || lt_program_run(b.program, &err) || lt_device_sync(b.dev, &err);
        if (failed) assert_non_null(strstr(err.text, fake->failed));
        failures += failed;
        const bool reached = fake->failed != NULL;
        close_bench(&b);
        if (!reached) break;
    }
    assert_true(failures > 20);
}

static int stop_using_the_fake(void **state)
{
    (void)state;
    lt_cuda_api_use(NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_replays_need_nothing_of_what_the_program_was_made_from),
        cmocka_unit_test(a_fault_in_a_replay_names_its_launches),
        cmocka_unit_test(a_step_that_cannot_be_meant_is_refused_with_its_number),
        cmocka_unit_test(failing_the_nth_call_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, stop_using_the_fake);
}
