/* cpu_copy.c: what the threads of a block on the CPU device do together beyond __syncthreads: named
 * barriers, mbarriers, asynchronous copies, the last block, ldmatrix. */
#include "tests/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ORDERS = 5 };

static lt_device *open_device(int order, bool lazy)
{
    lt_device *dev = kernel_open((lt_play){order, lazy, false});
    assert_non_null(dev);
    return dev;
}

static void run(int order, bool lazy, const char *text, unsigned threads, kernel_result *r)
{
    lt_device *dev = open_device(order, lazy);
    kernel_floats(dev, text, threads, 1024, r);
    dev->ops->close(dev);
}

/* Runs it in every order, eager and lazy; y[i] must be scale * x[i] for i < count. */
static void expect_scaled(const char *text, unsigned threads, float scale, int count)
{
    for (int play = 0; play < 2 * ORDERS; play++) {
        kernel_result r;
        run(play / 2, play % 2, text, threads, &r);
        if (r.rc) fail_msg("play %d: %s", play, r.err.text);
        for (int i = 0; i < count; i++)
            if (!(r.y[i] == scale * (float)i))
                fail_msg("play %d: y[%d] is %f", play, i, (double)r.y[i]);
    }
}

/* The message, in every play. */
static void expect_fault(const char *text, unsigned threads, const char *message)
{
    for (int play = 0; play < 2 * ORDERS; play++) {
        kernel_result r;
        run(play / 2, play % 2, text, threads, &r);
        if (!r.rc) fail_msg("play %d: not found", play);
        if (!strstr(r.err.text, message)) fail_msg("play %d: %s", play, r.err.text);
    }
}

/* ---- named barriers ---- */

/* Warp 0 produces, warp 1 consumes: `full` and `empty` are barriers 1 and 2. */
#define PIPE(ARRIVE_FULL)                                                                          \
    "LT_KERNEL(64) k(const float *x, float *y) {\n"                                                \
    " LT_SHARED1(float, s, 32);\n"                                                                 \
    " const int lane = threadIdx.x % 32;\n"                                                        \
    " for (int i = 0; i < 8; i++) {\n"                                                             \
    "  if (threadIdx.x < 32) {\n"                                                                  \
    "   if (i > 0) lt_bar_sync(2, 64);\n"                                                          \
    "   s[lane] = x[i * 32 + lane];\n"                                                             \
    "   " ARRIVE_FULL "\n"                                                                         \
    "  } else {\n"                                                                                 \
    "   lt_bar_sync(1, 64);\n"                                                                     \
    "   y[i * 32 + lane] = 2 * s[lane ^ 1] - 2 * x[i * 32 + (lane ^ 1)] + 3 * s[lane];\n"          \
    "   if (i < 7) lt_bar_arrive(2, 64);\n"                                                        \
    "  }\n }\n}"

static void named_barriers_pass_data_from_producer_to_consumer(void **state)
{
    (void)state;
    expect_scaled(PIPE("lt_bar_arrive(1, 64);"), 64, 3, 256);
}

static void a_forgotten_arrival_is_a_deadlock_that_names_the_barrier(void **state)
{
    (void)state;
    expect_fault(PIPE("if (i != 3) lt_bar_arrive(1, 64);"), 64,
                 "32 in lt_bar_sync at t.cut:10, barrier 1 (32 of 64 threads)");
}

static void misused_named_barriers_are_named(void **state)
{
    (void)state;
    expect_fault("LT_KERNEL(64) k(const float *x, float *y) { lt_bar_sync(16, 64); }", 64,
                 "t.cut:1: block 0, thread ");
    expect_fault("LT_KERNEL(64) k(const float *x, float *y) { lt_bar_sync(16, 64); }", 64,
                 "lt_bar_sync: no barrier has the number 16 (1 to 15)");
    expect_fault("LT_KERNEL(64) k(const float *x, float *y) { lt_bar_sync(1, 40); }", 64,
                 "barrier 1 cannot wait for 40 threads (whole warps of a block of 64)");
    expect_fault("LT_KERNEL(64) k(const float *x, float *y) { lt_bar_sync(1, 96); }", 64,
                 "barrier 1 cannot wait for 96 threads");
    expect_fault("LT_KERNEL(64) k(const float *x, float *y) {\n"
                 " lt_bar_sync(1, threadIdx.x < 32 ? 64 : 96); }",
                 96, "barrier 1 waits for ");
    expect_fault("LT_KERNEL(64) k(const float *x, float *y) {\n"
                 " if (threadIdx.x < 32) { lt_bar_arrive(1, 64);\n lt_bar_arrive(1, 64); } }",
                 64, "t.cut:3: block 0, thread ");
}

/* ---- the last block ---- */

static void exactly_one_block_is_the_last_and_sees_all_results(void **state)
{
    (void)state;
    const char *text = "LT_KERNEL(64) k(u32 *counter, float *part, float *y) {\n"
                       " part[blockIdx.x * 64 + threadIdx.x] = blockIdx.x + 1.0f;\n"
                       " if (lt_last_block(counter, gridDim.x)) {\n"
                       "  float sum = 0;\n"
                       "  for (u32 b = 0; b < gridDim.x; b++) sum += part[b * 64 + threadIdx.x];\n"
                       "  y[threadIdx.x] += sum;\n }\n}";
    for (int order = 0; order < ORDERS; order++) {
        lt_err err;
        uint32_t counter = 0;
        float part[7 * 64], y[64] = {0};
        lt_device *dev = open_device(order, false);
        const kernel_job job = {.params = "counter! part! y!",
                                .grid = 7,
                                .block = 64,
                                .data = {&counter, part, y},
                                .bytes = {sizeof counter, sizeof part, sizeof y}};
        for (int round = 1; round < 3; round++) {
            if (kernel_run(dev, text, &job, &err)) fail_msg("%s", err.text);
            assert_int_equal(counter, 0);
            for (int i = 0; i < 64; i++) assert_true(y[i] == 28.0f * (float)round);
        }
        counter = 9;
        assert_int_equal(kernel_run(dev, text, &job, &err), -1);
        assert_non_null(strstr(err.text, "t.cut:3: block "));
        assert_non_null(strstr(err.text, "lt_last_block: the counter holds 9, with 7 blocks (it "
                                         "must be zero before the launch)"));
        dev->ops->close(dev);
    }
}

/* ---- blocks that wait for each other ---- */

static const char meeting[] =
    "LT_KERNEL(64) k(u64 *slots, u32 *turns, float *y) {\n"
    " const u32 turn = turns[blockIdx.x] + 1;\n"
    " if (threadIdx.x == 0) lt_put(slots + blockIdx.x, lt_f32_bits(blockIdx.x + 1.0f), turn);\n"
    " u64 got = 0;\n"
    " while (lt_look_again(threadIdx.x < gridDim.x &&\n"
    "                      ((got = lt_peek(slots + threadIdx.x)) >> 32) != turn)) ;\n"
    " const float sum = lt_warp_sum(lt_bits_f32((u32)got));\n"
    " __syncthreads();\n"
    " if (threadIdx.x == 0) { y[blockIdx.x] += sum; turns[blockIdx.x] = turn; }\n}";

static void each_block_sees_what_all_put_at_each_launch(void **state)
{
    (void)state;
    for (int order = 0; order < ORDERS; order++) {
        lt_err err;
        uint64_t slots[7] = {0};
        uint32_t turns[7] = {0};
        float y[7] = {0};
        lt_device *dev = open_device(order, false);
        const kernel_job job = {.params = "slots! turns! y!",
                                .grid = 7,
                                .block = 64,
                                .data = {slots, turns, y},
                                .bytes = {sizeof slots, sizeof turns, sizeof y}};
        for (int round = 1; round < 4; round++) {
            if (kernel_run(dev, meeting, &job, &err)) fail_msg("%s", err.text);
            for (int i = 0; i < 7; i++) assert_true(y[i] == 28.0f * (float)round);
        }
        dev->ops->close(dev);
    }
}

static void looking_for_what_no_block_puts_is_a_deadlock(void **state)
{
    (void)state;
    expect_fault("LT_KERNEL(64) k(const float *x, float *y) {\n"
                 " if (threadIdx.x == 3) while (lt_look_again(lt_peek((u64 *)y) != 7)) ;\n"
                 " __syncthreads();\n}",
                 64, "t.cut:2: block 0, thread 3: deadlock: looks for what no block puts");
    expect_fault("LT_KERNEL(1) k(const float *x, float *y) { lt_put((u64 *)(y + 1), 1, 1); }", 1,
                 "lt_put: 'y' + 4 is not 8-byte aligned");
}

static void atomics_add_up_in_every_order(void **state)
{
    (void)state;
    for (int order = 0; order < ORDERS; order++) {
        lt_err err;
        uint32_t n = 5;
        lt_device *dev = open_device(order, false);
        const kernel_job job = {
            .params = "n!", .grid = 9, .block = 100, .data = {&n}, .bytes = {sizeof n}};
        const char *text = "LT_KERNEL(100) k(u32 *n) { lt_atomic_add_u32(n, 2); }";
        assert_int_equal(kernel_run(dev, text, &job, &err), 0);
        assert_int_equal(n, 5 + 2 * 900);
        dev->ops->close(dev);
    }
}

/* ---- cp.async ---- */

#define STAGES(WAIT)                                                                               \
    "LT_KERNEL(32) k(const float *x, float *y) {\n"                                                \
    " LT_SHARED2(float, s, 3, 128);\n"                                                             \
    " const int lane = threadIdx.x;\n"                                                             \
    " for (int i = 0; i < 2; i++) {\n"                                                             \
    "  lt_cp_async16(&s[i][lane * 4], x + i * 128 + lane * 4); lt_cp_commit();\n }\n"              \
    " for (int i = 0; i < 8; i++) {\n"                                                             \
    "  if (i + 2 < 8) lt_cp_async16(&s[(i + 2) % 3][lane * 4], x + (i + 2) * 128 + lane * 4);\n"   \
    "  lt_cp_commit(); lt_cp_wait(" WAIT ");\n"                                                    \
    "  __syncthreads();\n"                                                                         \
    "  for (int j = 0; j < 4; j++) y[i * 128 + j * 32 + lane] = s[i % 3][j * 32 + lane];\n"        \
    "  __syncthreads();\n }\n"                                                                     \
    " lt_cp_wait(0);\n}"

static void a_pipeline_of_cp_async_gives_the_right_data(void **state)
{
    (void)state;
    expect_scaled(STAGES("2"), 32, 1, 1024);
}

/* One group too few is waited for: right when the copies are eager, wrong when they are lazy. */
static void a_cp_async_wait_that_is_too_short_shows_when_lazy(void **state)
{
    (void)state;
    kernel_result r;
    run(0, false, STAGES("3"), 32, &r);
    assert_int_equal(r.rc, 0);
    assert_true(r.y[100] == 100);
    run(0, true, STAGES("3"), 32, &r);
    assert_int_equal(r.rc, 0);
    assert_false(r.y[100] == 100);
}

static void misused_cp_async_is_named(void **state)
{
    (void)state;
    expect_fault("LT_KERNEL(1) k(const float *x, float *y) { LT_SHARED1(float, s, 8);\n"
                 " lt_cp_async16(s, x + 1); }",
                 1, "t.cut:2: block 0, thread 0: lt_cp_async16: 'x' + 4 is not 16-byte aligned");
    expect_fault("LT_KERNEL(1) k(const float *x, float *y) { LT_SHARED1(float, s, 8);\n"
                 " lt_cp_async16(s + 8, x); }",
                 1, "the 16 bytes at shared 's' + 32 do not lie in one shared array");
    expect_fault("LT_KERNEL(1) k(const float *x, float *y) { LT_SHARED1(float, s, 8);\n"
                 " lt_cp_async16(y, x); lt_cp_commit(); lt_cp_wait(0); }",
                 1, "the 16 bytes at 'y' + 0 do not lie in one shared array");
    expect_fault("LT_KERNEL(1) k(const float *x, float *y) { LT_SHARED1(float, s, 8);\n"
                 " lt_cp_async16(s, x + 1024);\n lt_cp_commit(); lt_cp_wait(0); }",
                 1, "t.cut:2: block 0, thread 0: reads byte 4096 of 'x', which has 4096");
}

/* ---- mbarriers and bulk copies ---- */

/* Thread 32 fills a ring of 3 stages with bulk copies of 128 bytes; warp 0 consumes. */
#define RING(FENCE, INIT, BYTES, WAIT)                                                             \
    "LT_KERNEL(64) k(const float *x, float *y) {\n"                                                \
    " LT_SHARED2(float, s, 3, 32); LT_SHARED1(u64, full, 3); LT_SHARED1(u64, empty, 3);\n"         \
    " if (threadIdx.x == 0) {\n"                                                                   \
    "  for (int i = 0; i < 3; i++) { " INIT " lt_mbar_init(empty + i, 32); }\n"                    \
    "  " FENCE "\n }\n"                                                                            \
    " __syncthreads();\n"                                                                          \
    " for (int i = 0; i < 32; i++) {\n"                                                            \
    "  const int stage = i % 3, parity = i / 3 % 2;\n"                                             \
    "  if (threadIdx.x == 32) {\n"                                                                 \
    "   lt_mbar_wait(empty + stage, parity ^ 1);\n"                                                \
    "   lt_mbar_expect(full + stage, " BYTES ");\n"                                                \
    "   lt_bulk_load(s[stage], x + i * 32, 128, full + stage);\n"                                  \
    "  } else if (threadIdx.x < 32) {\n"                                                           \
    "   " WAIT "\n"                                                                                \
    "   y[i * 32 + threadIdx.x] = s[stage][threadIdx.x];\n"                                        \
    "   lt_mbar_arrive(empty + stage);\n"                                                          \
    "  }\n }\n}"
#define INIT_FULL "lt_mbar_init(full + i, 1);"
#define WAIT_FULL "lt_mbar_wait(full + stage, parity);"

static void a_ring_of_bulk_copies_gives_the_right_data(void **state)
{
    (void)state;
    expect_scaled(RING("lt_mbar_fence();", INIT_FULL, "128", WAIT_FULL), 64, 1, 1024);
}

static void a_consumer_that_does_not_wait_is_found(void **state)
{
    (void)state;
    for (int play = 0; play < 2 * ORDERS; play++) {
        kernel_result r;
        run(play / 2, play % 2, RING("lt_mbar_fence();", INIT_FULL, "128", ""), 64, &r);
        bool right = !r.rc;
        for (int i = 0; i < 1024 && right; i++) right = r.y[i] == (float)i;
        assert_false(right);
    }
    /* Eager, the data are there: that nobody has waited is the fault. */
    const char *text = "LT_KERNEL(1) k(const float *x, float *y) {\n"
                       " LT_SHARED1(float, s, 4); LT_SHARED1(u64, bar, 1);\n"
                       " lt_mbar_init(bar, 1); lt_mbar_fence(); lt_mbar_expect(bar, 16);\n"
                       " lt_bulk_load(s, x, 16, bar);\n y[0] = s[0];\n}";
    expect_fault(text, 1,
                 "k: t.cut:4: block 0, thread 0: lt_bulk_load: the block ends and nobody "
                 "has waited for its mbarrier");
}

static void an_mbarrier_that_is_not_initialised_is_named(void **state)
{
    (void)state;
    expect_fault(RING("lt_mbar_fence();", "", "128", WAIT_FULL), 64,
                 "is no mbarrier (lt_mbar_init it first, then a barrier of the block)");
    expect_fault("LT_KERNEL(1) k(const float *x, float *y) { LT_SHARED1(u64, bar, 2);\n"
                 " lt_mbar_init(bar, 1);\n lt_mbar_wait(bar + 1, 0); }",
                 1, "t.cut:3: block 0, thread 0: lt_mbar_wait: shared 'bar' + 8 is no mbarrier");
}

static void a_wrong_byte_count_is_a_deadlock_that_says_what_is_missing(void **state)
{
    (void)state;
    expect_fault(RING("lt_mbar_fence();", INIT_FULL, "144", WAIT_FULL), 64,
                 "32 in lt_mbar_wait at t.cut:15 for shared 'full' + 0, parity 0 (to come: 0 of 1 "
                 "arrivals, 16 bytes)");
    expect_fault(RING("lt_mbar_fence();", INIT_FULL, "112", WAIT_FULL), 64,
                 "for shared 'full' + 0, parity 0 (to come: 0 of 1 arrivals, -16 bytes)");
}

static void a_missing_fence_after_the_init_is_named(void **state)
{
    (void)state;
    expect_fault(RING("", INIT_FULL, "128", WAIT_FULL), 64,
                 "t.cut:13: block 0, thread 32: lt_bulk_load: no lt_mbar_fence after the "
                 "mbarrier's init");
}

static void misused_mbarriers_and_bulk_copies_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"lt_bulk_load(s, x + 1, 16, bar);", "lt_bulk_load: 'x' + 4 is not 16-byte aligned"},
        {"lt_bulk_load(s + 1, x, 16, bar);", "lt_bulk_load: shared 's' + 4 is not 16-byte aligned"},
        {"lt_bulk_load(s, x, 24, bar);", "lt_bulk_load: 24 bytes are not a multiple of 16"},
        {"lt_bulk_load(s, x, 48, bar);", "the 48 bytes at shared 's' + 0 do not lie in one shared"},
        {"lt_bulk_load(s, x + 1020, 32, bar);", "the 32 bytes at 'x' + 4080 do not lie in one buf"},
        {"lt_mbar_wait(bar, 2);", "lt_mbar_wait: parity 2 (0 or 1)"},
        {"lt_mbar_init(bar, 1);", "lt_mbar_init: shared 'bar' + 0 is an mbarrier already"},
        {"lt_mbar_init(bar + 1, 0);", "lt_mbar_init: 0 arrivals (1 to 2047)"},
        {"lt_mbar_init((u64 *)x, 1);", "the mbarrier at 'x' + 0 is not 8 aligned bytes of shared"},
        {"lt_mbar_expect(bar, 1048576);", "lt_mbar_expect: 1048576 bytes (a phase counts to 1048"},
        {"lt_mbar_expect(bar, 16); lt_mbar_arrive(bar);", "lt_mbar_arrive: a 2. arrival, and the"},
        {"lt_bulk_prefetch_l2(x + 2, 16);", "lt_bulk_prefetch_l2: 'x' + 8 is not 16-byte aligned"},
        {"lt_bulk_prefetch_l2(x, 8);", "lt_bulk_prefetch_l2: 8 bytes are not a multiple of 16"},
    };
    for (size_t i = 0; i < lt_countof(cases); i++) {
        char text[500];
        snprintf(text, sizeof text,
                 "LT_KERNEL(1) k(const float *x, float *y) {\n"
                 " LT_SHARED1(float, s, 8); LT_SHARED1(u64, bar, 2);\n"
                 " lt_mbar_init(bar, 1); lt_mbar_fence();\n %s\n}",
                 cases[i].line);
        expect_fault(text, 1, "k: t.cut:4: block 0, thread 0: ");
        expect_fault(text, 1, cases[i].message);
    }
}

/* ---- ldmatrix ---- */

static void run_ldmatrix(int order, const char *name, const uint16_t tile[32][8],
                         uint32_t out[32][4])
{
    char text[600];
    lt_err err;
    lt_device *dev = open_device(order, false);
    const kernel_job job = {
        .params = "tile d!", .block = 32, .data = {(void *)tile, out}, .bytes = {32 * 16, 32 * 16}};
    snprintf(text, sizeof text,
             "LT_KERNEL(32) k(const u16 *tile, u32 *d) {\n"
             " LT_SHARED2(u16, s, 32, 8); u32 r[4];\n"
             " for (int i = 0; i < 8; i++) s[i * 4 + threadIdx.x / 8][threadIdx.x %% 8] = "
             "tile[i * 32 + threadIdx.x];\n"
             " __syncwarp();\n %s(r, s[31 - threadIdx.x]);\n"
             " for (int m = 0; m < 4; m++) d[threadIdx.x * 4 + m] = r[m];\n}",
             name);
    if (kernel_run(dev, text, &job, &err)) fail_msg("%s", err.text);
    dev->ops->close(dev);
}

/* Lane l's row is row 31 - l of the tile: row r of matrix m is row 31 - 8 m - r. */
static void ldmatrix_agrees_with_plain_c(void **state)
{
    (void)state;
    uint16_t tile[32][8];
    for (int i = 0; i < 32 * 8; i++) tile[i / 8][i % 8] = (uint16_t)(i * 40503 + 77);
    for (int order = 0; order < ORDERS; order++) {
        uint32_t plain[32][4], trans[32][4];
        run_ldmatrix(order, "lt_ldmatrix_x4", (const uint16_t(*)[8])tile, plain);
        run_ldmatrix(order, "lt_ldmatrix_x4_trans", (const uint16_t(*)[8])tile, trans);
        for (int lane = 0; lane < 32; lane++)
            for (int m = 0; m < 4; m++) {
                const int major = lane / 4, minor = lane % 4 * 2, last = 31 - 8 * m;
                assert_int_equal(plain[lane][m], tile[last - major][minor] |
                                                     (uint32_t)tile[last - major][minor + 1] << 16);
                assert_int_equal(trans[lane][m], tile[last - minor][major] |
                                                     (uint32_t)tile[last - minor - 1][major] << 16);
            }
    }
}

static void misused_tensor_core_instructions_are_named(void **state)
{
    (void)state;
    expect_fault("LT_KERNEL(32) k(const float *x, float *y) { LT_SHARED1(float, s, 256); u32 r[4];"
                 "\n lt_ldmatrix_x4(r, s + threadIdx.x * 2); }",
                 32, "t.cut:2: block 0, thread ");
    expect_fault("LT_KERNEL(32) k(const float *x, float *y) { u32 r[4];\n"
                 " lt_ldmatrix_x4(r, x + threadIdx.x * 4); }",
                 32, "is not 16 aligned bytes of shared memory");
    expect_fault("LT_KERNEL(32) k(const float *x, float *y) { u32 a[4], b[2]; float c[4];\n"
                 " lt_mma_m16n8k64_nvf4(c, a, b, c, 0, 0); }",
                 32,
                 "lt_mma_m16n8k64_nvf4: needs an arch with block-scaled mma (sm_120a, sm_121a)");
    expect_fault("LT_KERNEL(32) k(const float *x, float *y) { u32 a[4] = {0}, b[2] = {0};\n"
                 " float c[4] = {0}; if (threadIdx.x % 2)\n"
                 " lt_mma_m16n8k16_bf16(c, a, b, c); else\n lt_mma_m16n8k16_bf16(c, a, b, c); }",
                 32, "divergent warp: mma, mask ffffffff, while others wait in mma at t.cut:");
    expect_fault("LT_KERNEL(32) k(const float *x, float *y) { u32 a[8] = {0}, b[4] = {0};\n"
                 " float d[4] = {0}; lt_mma_m16n8k16_bf16_run(d, a, b, 1 + threadIdx.x % 2); }",
                 32, "steps here, while other lanes ask for");
}

/* One row of ones against the unit matrix, to see that fragments reach the arithmetic. */
static void an_mma_is_a_collective_of_the_warp(void **state)
{
    (void)state;
    const char *text =
        "LT_KERNEL(32) k(const float *x, float *y) {\n"
        " const int g = threadIdx.x / 4, q = threadIdx.x % 4;\n"
        " u32 a[4], b[2]; float d[4];\n"
        " for (int i = 0; i < 4; i++) a[i] = lt_pack_bf16(x[g + i % 2 * 8], 0.0f);\n"
        " for (int i = 0; i < 4; i++) d[i] = x[i];\n"
        " if (q != 0) for (int i = 0; i < 4; i++) a[i] = 0;\n"
        " if (q == 0) { a[2] = a[3] = 0; }\n"
        " b[0] = q == 0 ? lt_pack_bf16(1.0f, 0.0f) : 0; b[1] = 0;\n"
        " lt_mma_m16n8k16_bf16(d, a, b, d);\n"
        " for (int i = 0; i < 4; i++) y[(g + i / 2 * 8) * 8 + q * 2 + i % 2] = d[i];\n}";
    for (int order = 0; order < ORDERS; order++) {
        kernel_result r;
        run(order, false, text, 32, &r);
        if (r.rc) fail_msg("%s", r.err.text);
        for (int m = 0; m < 16; m++)
            for (int n = 0; n < 8; n++)
                assert_true(r.y[m * 8 + n] == (float)(m + n % 2 + m / 8 * 2));
    }
}

/* Pairs, then quads, then halves: lanes are in the next mask while others are in the last. */
static void a_warp_can_use_many_masks(void **state)
{
    (void)state;
    expect_scaled("LT_KERNEL(32) k(const float *x, float *y) {\n"
                  " float v = 0;\n"
                  " for (int width = 2; width < 32; width *= 2) {\n"
                  "  const u32 first = threadIdx.x / width * width;\n"
                  "  const u32 mask = ((1u << width) - 1) << first;\n"
                  "  for (int i = 0; i < 3; i++) {\n"
                  "   const u32 odd = lt_ballot(mask, threadIdx.x % 2);\n"
                  "   v += (odd == (mask & 0xaaaaaaaau)) + lt_shfl_u32(mask, first, first);\n"
                  "   v -= lt_shfl_u32(mask, first, first + width - 1);\n  }\n }\n"
                  " y[threadIdx.x] = v * x[threadIdx.x];\n}",
                  32, 12, 32);
    expect_scaled("LT_KERNEL(32) k(const float *x, float *y) {\n"
                  " float v = 0; u32 seen = 0;\n"
                  " for (int i = 0; i < 31; i++) {\n"
                  "  const u32 low = (2u << i) - 1, mask = threadIdx.x <= i ? low : ~low;\n"
                  "  seen |= lt_ballot(mask, 1);\n"
                  "  v += lt_shfl_f32(mask, 1.0f, threadIdx.x <= i ? 0 : 31);\n }\n"
                  " y[threadIdx.x] = v * x[threadIdx.x] + (seen == 0);\n}",
                  32, 31, 32);
    expect_fault("LT_KERNEL(32) k(const float *x, float *y) {\n"
                 " if (threadIdx.x < 16) __syncwarp(0x1ffffu);\n"
                 " else __syncwarp(0xffff8000u); }",
                 32, "16 in __syncwarp at t.cut:2, mask 0001ffff");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_barriers_pass_data_from_producer_to_consumer),
        cmocka_unit_test(a_forgotten_arrival_is_a_deadlock_that_names_the_barrier),
        cmocka_unit_test(misused_named_barriers_are_named),
        cmocka_unit_test(exactly_one_block_is_the_last_and_sees_all_results),
        cmocka_unit_test(each_block_sees_what_all_put_at_each_launch),
        cmocka_unit_test(looking_for_what_no_block_puts_is_a_deadlock),
        cmocka_unit_test(atomics_add_up_in_every_order),
        cmocka_unit_test(a_pipeline_of_cp_async_gives_the_right_data),
        cmocka_unit_test(a_cp_async_wait_that_is_too_short_shows_when_lazy),
        cmocka_unit_test(misused_cp_async_is_named),
        cmocka_unit_test(a_ring_of_bulk_copies_gives_the_right_data),
        cmocka_unit_test(a_consumer_that_does_not_wait_is_found),
        cmocka_unit_test(an_mbarrier_that_is_not_initialised_is_named),
        cmocka_unit_test(a_wrong_byte_count_is_a_deadlock_that_says_what_is_missing),
        cmocka_unit_test(a_missing_fence_after_the_init_is_named),
        cmocka_unit_test(misused_mbarriers_and_bulk_copies_are_named),
        cmocka_unit_test(ldmatrix_agrees_with_plain_c),
        cmocka_unit_test(misused_tensor_core_instructions_are_named),
        cmocka_unit_test(an_mma_is_a_collective_of_the_warp),
        cmocka_unit_test(a_warp_can_use_many_masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
