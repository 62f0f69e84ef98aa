/* cpu_pdl.c: programmatic dependent launch on the CPU device is played as its worst case: what
 * stands in front of lt_pdl_wait must not touch what earlier launches may still be writing. */
#include "tests/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { N = 64, BLOCKS = 3 };

typedef struct {
    lt_device *dev;
    lt_kernel *first, *good; /* a -> b; b -> c, waits as it should */
    lt_buffer *a, *b, *c, *d, *w;
    lt_err err;
} chain;

static const char *copy_text = "LT_KERNEL(64) k(const float *x, float *y) {\n"
                               " const int i = blockIdx.x * 64 + threadIdx.x;\n"
                               " y[i] = x[i] + 1;\n}";

/* Loads the weight first, then waits: a barrier hands thread 0's wait to the others. */
static const char *good_text = "LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                               " LT_SHARED1(float, s, 64);\n"
                               " const int i = blockIdx.x * 64 + threadIdx.x;\n"
                               " if (threadIdx.x % 4 == 0) lt_cp_async16(s + threadIdx.x, w + i);\n"
                               " lt_cp_commit();\n"
                               " if (threadIdx.x == 0) lt_pdl_wait();\n"
                               " lt_cp_wait(0);\n"
                               " __syncthreads();\n"
                               " lt_pdl_launch();\n"
                               " y[i] = x[i] * s[threadIdx.x];\n}";

static lt_buffer *buffer(chain *t, float value)
{
    float x[N * BLOCKS];
    lt_buffer *b = NULL;
    for (int i = 0; i < N * BLOCKS; i++) x[i] = value;
    assert_int_equal(t->dev->ops->alloc(t->dev, sizeof x, &b, &t->err), 0);
    assert_int_equal(t->dev->ops->write(t->dev, b, 0, (lt_span){x, sizeof x}, &t->err), 0);
    return b;
}

static float value(chain *t, const lt_buffer *b)
{
    float x = 0;
    assert_int_equal(t->dev->ops->read(t->dev, b, 4 * 100, &x, sizeof x, &t->err), 0);
    return x;
}

static lt_kernel *kernel(chain *t, const char *name, const char *text, const char *params)
{
    lt_kernel *k = NULL;
    if (kernel_load(t->dev, name, text, params, 90, &k, &t->err)) fail_msg("%s", t->err.text);
    return k;
}

static void begin(chain *t, lt_play play)
{
    *t = (chain){0};
    if (lt_cpu_open(&t->dev, &t->err)) fail_msg("%s", t->err.text);
    assert_int_equal(t->dev->ops->play(t->dev, &play, &t->err), 0);
    t->first = kernel(t, "first", copy_text, "x y!");
    t->good = kernel(t, "good", good_text, "w x y!");
    t->a = buffer(t, 1);
    t->b = buffer(t, 0);
    t->c = buffer(t, 0);
    t->d = buffer(t, 0);
    t->w = buffer(t, 3);
}

static void end(chain *t)
{
    t->dev->ops->unload(t->dev, t->first);
    t->dev->ops->unload(t->dev, t->good);
    t->dev->ops->close(t->dev); /* and its buffers */
}

static int launch(chain *t, lt_kernel *k, bool programmatic, lt_buffer *w, lt_buffer *x,
                  lt_buffer *y)
{
    const lt_launch l = {.grid = {BLOCKS, 1, 1}, .block = {N, 1, 1}, .programmatic = programmatic};
    const lt_arg args[] = {{w ? w : x, 0}, {w ? x : y, 0}, {y, 0}};
    return t->dev->ops->launch(t->dev, k, &l, args, &t->err);
}

static const lt_play plays[] = {
    {0, false, false}, {1, true, false}, {2, false, true}, {3, true, true}};

static void a_chain_that_waits_as_it_should_runs_in_every_play(void **state)
{
    (void)state;
    for (size_t p = 0; p < lt_countof(plays); p++) {
        chain t;
        begin(&t, plays[p]);
        for (int round = 0; round < 3; round++) {
            assert_int_equal(launch(&t, t.first, false, NULL, t.a, t.b), 0);
            if (launch(&t, t.good, true, t.w, t.b, t.c)) fail_msg("%s", t.err.text);
            if (launch(&t, t.good, true, t.w, t.c, t.d)) fail_msg("%s", t.err.text);
            assert_true(value(&t, t.c) == 6 && value(&t, t.d) == 18);
        }
        end(&t);
    }
}

/* text is a kernel like `good`; the message of its launch behind `first` in every play */
static void expect_fault(const char *text, const char *message)
{
    for (size_t p = 0; p < lt_countof(plays); p++) {
        chain t;
        begin(&t, plays[p]);
        lt_kernel *bad = kernel(&t, "bad", text, "w x y!");
        assert_int_equal(launch(&t, t.first, false, NULL, t.a, t.b), 0);
        assert_int_equal(launch(&t, bad, true, t.w, t.b, t.c), -1);
        if (!strstr(t.err.text, message)) fail_msg("%s", t.err.text);
        assert_int_equal(launch(&t, t.good, false, t.w, t.b, t.c), 0);
        assert_true(value(&t, t.c) == 6);
        t.dev->ops->unload(t.dev, bad);
        end(&t);
    }
}

static void reading_too_early_is_named(void **state)
{
    (void)state;
    static const char message[] =
        "reads 'x' before lt_pdl_wait, which the launch in front of it (first) writes";
    expect_fault("LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                 " const int i = blockIdx.x * 64 + threadIdx.x;\n"
                 " const float v =\n  x[i];\n"
                 " lt_pdl_wait();\n"
                 " y[i] = v * w[i];\n}",
                 message);
    expect_fault("LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                 " LT_SHARED1(float, s, 64);\n"
                 " if (threadIdx.x % 4 == 0) lt_cp_async16(s + threadIdx.x, x + threadIdx.x);\n"
                 " lt_cp_commit(); lt_pdl_wait(); lt_cp_wait(0); __syncthreads();\n"
                 " y[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x] * w[0];\n}",
                 message);
    expect_fault("LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                 " LT_SHARED1(float, s, 64); LT_SHARED1(u64, bar, 1);\n"
                 " if (threadIdx.x == 0) {\n"
                 "  lt_mbar_init(bar, 1); lt_mbar_fence(); lt_mbar_expect(bar, 256);\n"
                 "  lt_bulk_load(s, x, 256, bar);\n }\n"
                 " lt_pdl_wait(); __syncthreads(); lt_mbar_wait(bar, 0);\n"
                 " y[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x] * w[0];\n}",
                 message);
}

static void the_line_of_an_early_read_is_named(void **state)
{
    (void)state;
    chain t;
    begin(&t, plays[0]);
    lt_kernel *bad = kernel(&t, "bad",
                            "LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                            " float v;\n v = x[blockIdx.x * 64 + threadIdx.x];\n"
                            " lt_pdl_wait();\n y[blockIdx.x * 64 + threadIdx.x] = v * w[0];\n}",
                            "w x y!");
    assert_int_equal(launch(&t, t.first, false, NULL, t.a, t.b), 0);
    assert_int_equal(launch(&t, bad, true, t.w, t.b, t.c), -1);
    assert_string_equal(t.err.text, "bad: t.cut:3: block 0, thread 0: reads 'x' before "
                                    "lt_pdl_wait, which the launch in front of it (first) writes");
    t.dev->ops->unload(t.dev, bad);
    end(&t);
}

static void writing_too_early_is_named(void **state)
{
    (void)state;
    expect_fault("LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                 " const int i = blockIdx.x * 64 + threadIdx.x;\n"
                 " y[i] = 0;\n"
                 " lt_pdl_wait();\n"
                 " y[i] = x[i] * w[i];\n}",
                 "writes 'y' before lt_pdl_wait");
}

static void a_block_that_never_waits_is_named(void **state)
{
    (void)state;
    expect_fault("LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                 " if (blockIdx.x != 1) lt_pdl_wait();\n"
                 " if (blockIdx.x != 1) y[blockIdx.x * 64 + threadIdx.x] = x[0] * w[0];\n}",
                 "block 1, thread 0: no thread of the block calls lt_pdl_wait, and the launch is "
                 "programmatic");
    expect_fault("LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                 " if (threadIdx.x % 32 == 0) __syncthreads(); else __syncwarp();\n"
                 " lt_pdl_wait();\n}",
                 "deadlock: 64 threads never end");
}

static void letting_the_next_begin_before_the_wait_is_named(void **state)
{
    (void)state;
    expect_fault("LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                 " lt_pdl_launch();\n lt_pdl_wait();\n"
                 " y[blockIdx.x * 64 + threadIdx.x] = x[0] * w[0];\n}",
                 "lt_pdl_launch before lt_pdl_wait");
}

/* The third launch of a chain begins when the second is past its wait for the first. */
static void what_the_launch_before_the_last_wrote_may_be_read_early(void **state)
{
    (void)state;
    chain t;
    begin(&t, plays[0]);
    lt_kernel *early = kernel(&t, "early",
                              "LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                              " const float v = w[threadIdx.x];\n lt_pdl_wait();\n"
                              " y[blockIdx.x * 64 + threadIdx.x] = v + x[0];\n}",
                              "w x y!");
    assert_int_equal(launch(&t, t.first, false, NULL, t.a, t.b), 0);
    assert_int_equal(launch(&t, t.good, true, t.w, t.a, t.c), 0);
    if (launch(&t, early, true, t.b, t.c, t.d)) fail_msg("%s", t.err.text);
    assert_int_equal(launch(&t, early, true, t.d, t.c, t.a), -1);
    assert_string_equal(t.err.text, "early: t.cut:2: block 0, thread 0: reads 'w' before "
                                    "lt_pdl_wait, which the launch in front of it (early) writes");
    /* after a sync nothing is in flight */
    assert_int_equal(launch(&t, t.first, false, NULL, t.a, t.b), 0);
    assert_int_equal(launch(&t, early, true, t.b, t.c, t.d), -1);
    assert_int_equal(t.dev->ops->sync(t.dev, &t.err), 0);
    if (launch(&t, early, true, t.b, t.c, t.d)) fail_msg("%s", t.err.text);
    t.dev->ops->unload(t.dev, early);
    end(&t);
}

/* The third launch of a chain may begin when the second has not waited for the first yet. */
static void what_is_in_front_of_a_launch_that_hurries_is_in_flight(void **state)
{
    (void)state;
    for (size_t p = 0; p < lt_countof(plays); p++) {
        chain t;
        begin(&t, plays[p]);
        lt_kernel *hurry = kernel(&t, "hurry",
                                  "LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                                  " lt_pdl_launch_ahead();\n lt_pdl_wait();\n"
                                  " y[blockIdx.x * 64 + threadIdx.x] = w[0] * x[0];\n}",
                                  "w x y!");
        assert_int_equal(launch(&t, t.first, false, NULL, t.a, t.b), 0);
        if (launch(&t, hurry, true, t.w, t.b, t.c)) fail_msg("%s", t.err.text);
        assert_int_equal(launch(&t, t.good, true, t.b, t.w, t.d), -1);
        assert_non_null(strstr(t.err.text, "in front of it (first) writes"));
        assert_int_equal(launch(&t, t.first, false, NULL, t.a, t.b), 0);
        if (launch(&t, hurry, true, t.w, t.b, t.c)) fail_msg("%s", t.err.text);
        if (launch(&t, t.good, true, t.w, t.c, t.d)) fail_msg("%s", t.err.text);
        if (launch(&t, t.good, true, t.b, t.d, t.c)) fail_msg("%s", t.err.text);
        assert_true(value(&t, t.d) == 18 && value(&t, t.c) == 36);
        t.dev->ops->unload(t.dev, hurry);
        end(&t);
    }
}

/* The pass ahead is thrown away: an mbarrier may be made and a copy begun in front of the wait. */
static void what_runs_ahead_leaves_no_trace(void **state)
{
    (void)state;
    for (size_t p = 0; p < lt_countof(plays); p++) {
        chain t;
        begin(&t, plays[p]);
        lt_kernel *bulk = kernel(&t, "bulk",
                                 "LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                                 " LT_SHARED1(float, s, 64); LT_SHARED1(u64, bar, 1);\n"
                                 " if (threadIdx.x == 0) {\n"
                                 "  lt_mbar_init(bar, 1); lt_mbar_fence();\n"
                                 "  lt_mbar_expect(bar, 256); lt_bulk_load(s, w, 256, bar);\n }\n"
                                 " __syncthreads();\n lt_pdl_wait();\n lt_mbar_wait(bar, 0);\n"
                                 " const int i = blockIdx.x * 64 + threadIdx.x;\n"
                                 " y[i] = s[threadIdx.x] * x[i];\n}",
                                 "w x y!");
        assert_int_equal(launch(&t, t.first, false, NULL, t.a, t.b), 0);
        if (launch(&t, bulk, true, t.w, t.b, t.c)) fail_msg("%s", t.err.text);
        assert_true(value(&t, t.c) == 6);
        t.dev->ops->unload(t.dev, bulk);
        end(&t);
    }
}

/* first and then k as a sequence, replayed twice; the sequence's last answer */
static int replay_twice(chain *t, lt_kernel *k)
{
    const lt_launch l = {.grid = {BLOCKS, 1, 1}, .block = {N, 1, 1}};
    lt_step steps[] = {{t->first, l, {{t->a, 0}, {t->b, 0}}},
                       {k, l, {{t->w, 0}, {t->b, 0}, {t->c, 0}}}};
    steps[1].launch.programmatic = true;
    lt_graph *g = NULL;
    assert_int_equal(t->dev->ops->record(t->dev, steps, 2, &g, &t->err), 0);
    const int once = t->dev->ops->replay(t->dev, g, &t->err);
    const int again = t->dev->ops->replay(t->dev, g, &t->err);
    t->dev->ops->forget(t->dev, g);
    assert_int_equal(once, again);
    return again;
}

/* Only a sequence that has been right is played without the pass ahead. */
static void each_replay_of_a_sequence_that_reads_too_early_is_named(void **state)
{
    (void)state;
    for (size_t p = 0; p < lt_countof(plays); p++) {
        chain t;
        begin(&t, plays[p]);
        lt_kernel *bad = kernel(&t, "bad",
                                "LT_KERNEL(64) k(const float *w, const float *x, float *y) {\n"
                                " const int i = blockIdx.x * 64 + threadIdx.x;\n"
                                " const float v = x[i];\n lt_pdl_wait();\n y[i] = v * w[i];\n}",
                                "w x y!");
        assert_int_equal(replay_twice(&t, bad), -1);
        if (!strstr(t.err.text, "reads 'x' before lt_pdl_wait")) fail_msg("%s", t.err.text);
        if (replay_twice(&t, t.good)) fail_msg("%s", t.err.text);
        assert_true(value(&t, t.c) == 6);
        t.dev->ops->unload(t.dev, bad);
        end(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_that_waits_as_it_should_runs_in_every_play),
        cmocka_unit_test(reading_too_early_is_named),
        cmocka_unit_test(the_line_of_an_early_read_is_named),
        cmocka_unit_test(writing_too_early_is_named),
        cmocka_unit_test(a_block_that_never_waits_is_named),
        cmocka_unit_test(what_the_launch_before_the_last_wrote_may_be_read_early),
        cmocka_unit_test(letting_the_next_begin_before_the_wait_is_named),
        cmocka_unit_test(what_is_in_front_of_a_launch_that_hurries_is_in_flight),
        cmocka_unit_test(what_runs_ahead_leaves_no_trace),
        cmocka_unit_test(each_replay_of_a_sequence_that_reads_too_early_is_named),
    };
    lt_err err;
    const int failed = cmocka_run_group_tests_name("the device as it is", tests, NULL, NULL);
    if (lt_config_set("cpu_check", "on", &err)) return 1;
    return failed + cmocka_run_group_tests_name("the device that checks", tests, NULL, NULL);
}
