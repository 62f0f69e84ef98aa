/* cpu_cluster.c: blocks of a cluster write into each other's shared memory and meet at its barrier;
 * what a GPU would leave to chance is named, on the device that checks too. */
#include "tests/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 256, THREADS = 64 }; /* N floats; the first block of two clusters is 0, or 2 */

typedef struct {
    const char *name, *body; /* of k(const float *x, float *y, u32 *n), from line 2 on */
    const char *message;     /* behind "k: t.cut:"; NULL: it is right, y[i] becomes right(i) */
    float (*right)(int i);
    bool checked; /* only the device that checks finds it */
} kernel_case;

static char text[4000];

static const char *whole(const char *body)
{
    snprintf(text, sizeof text,
             "LT_KERNEL(64) LT_CLUSTER(2) k(const float *x, float *y, u32 *n) {\n%s\n}", body);
    return text;
}

static lt_device *open_device(lt_play play, bool checks)
{
    lt_err err;
    setenv("LATHE_CPU_CHECK", checks ? "on" : "off", 1);
    assert_int_equal(lt_config_read(&err), 0);
    lt_device *dev = kernel_open(play);
    assert_non_null(dev);
    return dev;
}

static int run(lt_device *dev, const kernel_case *c, float *y, lt_err *err)
{
    float x[N];
    uint32_t n[64] = {0};
    for (int i = 0; i < N; i++) x[i] = (float)i;
    const kernel_job job = {.params = "x y! n!",
                            .grid = N / THREADS,
                            .block = THREADS,
                            .cluster = 2,
                            .data = {x, y, n},
                            .bytes = {sizeof x, N * sizeof *y, sizeof n}};
    return kernel_run(dev, whole(c->body), &job, err);
}

#define I "const int i = blockIdx.x * 64 + threadIdx.x, t = threadIdx.x, rank = blockIdx.x % 2;\n"
#define MEET "lt_cluster_arrive();\nlt_cluster_wait();\n"
#define COUNT(bytes)                                                                               \
    "LT_SHARED1(u64, bar, 1);\nif (t == 0) {\n lt_mbar_init(bar, 1);\n"                            \
    " lt_mbar_expect(bar, " bytes ");\n lt_mbar_fence();\n}\n"
#define BEGIN "lt_cluster_begin();\nlt_cluster_wait();\n"
#define FOUR(what) "uint4 v;\nv.x = v.y = v.z = lt_f32_bits(" what "); v.w = t;\n"
#define READ "y[i] = x[i];\n" MEET FOUR("y[i ^ 64]")
#define GIVE(what) "lt_cluster_st32((u32 *)s + t, 1 - rank, lt_f32_bits(" what "));\n"

static float other(int i) /* the same thread's in the other block */
{
    return (float)(i ^ THREADS);
}

static float own(int i)
{
    return (float)i;
}

static float turned(int i) /* what comes back after a turn, one more each time */
{
    return (float)i + 4;
}

static float mirrored(int i)
{
    return (float)((i ^ THREADS) / THREADS * THREADS + THREADS - 1 - i % THREADS);
}

static const kernel_case right_ones[] = {
    {.name = "each gives the other its floats",
     .body = I "LT_SHARED1(float, s, 64);\n" MEET GIVE("x[i]") MEET "y[i] = s[t];",
     .right = other},
    {.name = "in front of the wait there is other work",
     .body = I "LT_SHARED1(float, s, 64); LT_SHARED1(float, own, 64);\nlt_cluster_arrive();\n"
               "own[t] = x[i];\n__syncthreads();\nconst float v = own[63 - t];\n"
               "lt_cluster_wait();\n" GIVE("v") MEET "y[i] = s[t];",
     .right = mirrored},
    {.name = "a value goes to and fro",
     .body =
         I "LT_SHARED1(float, s, 64);\nfloat v = x[i];\n" MEET
           "for (int k = 0; k < 4; k++) {\n" GIVE("v + 1") MEET "v = s[t];\n" MEET "}\ny[i] = v;",
     .right = turned},
    {.name = "its own block is one of the cluster",
     .body = I "LT_SHARED1(float, s, 64);\n" MEET
               "lt_cluster_st32((u32 *)s + t, rank, lt_f32_bits(x[i ^ 64]));\n__syncthreads();\n"
               "y[i] = s[t];",
     .right = other},
    {.name = "sixteen bytes at once",
     .body = I "LT_SHARED1(uint4, s, 64);\nuint4 v;\n"
               "v.x = v.y = v.z = lt_f32_bits(x[i]); v.w = t;\n" MEET
               "lt_cluster_st128(s + 63 - t, 1 - rank, v);\n" MEET
               "y[i] = s[t].w == 63 - t && s[t].x == s[t].z ? lt_bits_f32(s[t].y) : -1;",
     .right = mirrored},
    {.name = "each waits for what the other gives",
     .body = I "LT_SHARED1(uint4, s, 64);\n" COUNT("1024") FOUR("x[i]") BEGIN
     "lt_cluster_give128(s + 63 - t, 1 - rank, v, bar);\nlt_mbar_wait(bar, 0);\n"
     "y[i] = s[t].w == 63 - t && s[t].x == s[t].z ? lt_bits_f32(s[t].y) : -1;",
     .right = mirrored},
    {.name = "one block answers what the other one gives",
     .body = I "LT_SHARED1(uint4, s, 64);\n" COUNT("1024") FOUR("x[i]") BEGIN
     "if (rank == 0) lt_cluster_give128(s + t, 1, v, bar);\nlt_mbar_wait(bar, 0);\n"
     "if (rank == 1) lt_cluster_give128(s + t, 0, v, bar);\ny[i] = lt_bits_f32(s[t].x);",
     .right = other},
    {.name = "what a block has read before it gives may be written",
     .body = I "LT_SHARED1(uint4, s, 64);\n" COUNT("1024") READ
     "__syncthreads();\nlt_cluster_give128(s + t, 1 - rank, v, bar);\nlt_mbar_wait(bar, 0);\n"
     "y[i] = lt_bits_f32(s[t].x);",
     .right = own},
    {.name = "the barrier orders buffers",
     .body = I "y[i ^ 64] = x[i];\n" MEET "const float v = y[i];\n" MEET "y[i] = v;",
     .right = other},
    {.name = "dynamic and other arrays keep their places",
     .body = I "LT_DYN_SHARED(float, d);\nLT_SHARED1(float, a, 3); LT_SHARED2(float, s, 2, 64);\n"
               "if (t < 3) a[t] = 1;\n" MEET
               "lt_cluster_st32((u32 *)s[1] + t, 1 - rank, lt_f32_bits(x[i]));\n" MEET
               "y[i] = s[1][t];",
     .right = other},
};

static const kernel_case faults[] = {
    {.name = "a wait without an arrival",
     .body = "lt_cluster_wait();",
     .message = "2: block 0, thread 0: lt_cluster_wait without lt_cluster_arrive"},
    {.name = "a second arrival",
     .body = "lt_cluster_arrive();\nlt_cluster_arrive();",
     .message = "3: block 0, thread 0: lt_cluster_arrive: a second time before lt_cluster_wait"},
    {.name = "threads that wait in two places",
     .body = "lt_cluster_arrive();\nif (threadIdx.x < 32)\n lt_cluster_wait();\nelse\n "
             "lt_cluster_wait();",
     .message = "6: block 0, thread 32: divergent lt_cluster_wait: thread 0 waits in "
                "lt_cluster_wait at t.cut:4"},
    {.name = "a block that does not come",
     .body = "lt_cluster_arrive();\nif (blockIdx.x % 2 == 0)\n lt_cluster_wait();",
     .message = "4: block 0, thread 0: lt_cluster_wait waits for block 1 of the cluster, which has "
                "ended"},
    {.name = "a thread that has returned",
     .body = "lt_cluster_arrive();\nif (threadIdx.x == 5) return;\nlt_cluster_wait();",
     .message = "4: block 0, thread 0: lt_cluster_wait waits for thread 5, which has returned"},
    {.name = "a store before the other block has begun",
     .body = I "LT_SHARED1(float, s, 64);\n" GIVE("x[i]"),
     .message = "4: block 0, thread 0: lt_cluster_st32: block 1 of the cluster has not begun "
                "(lt_cluster_wait orders them)"},
    {.name = "a store after the other block has ended",
     .body = I "LT_SHARED1(float, s, 64);\n" MEET "if (rank == 1) {\n" GIVE("x[i]") "}",
     .message = "7: block 1, thread 0: lt_cluster_st32: block 0 of the cluster has ended "
                "(lt_cluster_wait orders them)"},
    {.name = "a block that is not there",
     .body = I "LT_SHARED1(u32, s, 64);\n" MEET "lt_cluster_st32(s + t, 2, 1);",
     .message = "6: block 0, thread 0: lt_cluster_st32: block 2 of a cluster of 2"},
    {.name = "a place that is not shared",
     .body = I "" MEET "lt_cluster_st32(n + t, 1, 1);",
     .message = "5: block 0, thread 0: lt_cluster_st32: 'n' + 0 is not in a shared array of the "
                "block"},
    {.name = "a place behind the array",
     .body = I "LT_SHARED1(u32, s, 60);\n" MEET "lt_cluster_st32(s + t, 1 - rank, 1);",
     .message = "6: block 0, thread 60: lt_cluster_st32: shared 's' + 240 is not in a shared array "
                "of the block"},
    {.name = "half a word",
     .body =
         I "LT_SHARED1(u32, s, 64);\n" MEET "lt_cluster_st32((u32 *)((u8 *)s + 2), 1 - rank, 1);",
     .message = "6: block 0, thread 0: lt_cluster_st32: shared 's' + 2 is not 4-byte aligned"},
    {.name = "half of sixteen bytes",
     .body =
         I "LT_SHARED1(u32, s, 64);\nuint4 v = {0};\n" MEET "lt_cluster_st128(s + 2, 1 - rank, v);",
     .message = "7: block 0, thread 0: lt_cluster_st128: shared 's' + 8 is not 16-byte aligned"},
    {.name = "sixteen bytes of which the array has twelve",
     .body = I "LT_SHARED1(u32, s, 63);\nuint4 v = {0};\n" MEET
               "lt_cluster_st128(s + 60, 1 - rank, v);",
     .message = "7: block 0, thread 0: lt_cluster_st128: shared 's' + 240 is not in a shared array "
                "of the block"},
    {.name = "more than anyone gives",
     .body = I "LT_SHARED1(uint4, s, 64);\n" COUNT("1040") FOUR("x[i]") BEGIN
     "lt_cluster_give128(s + t, 1 - rank, v, bar);\nlt_mbar_wait(bar, 0);\n",
     .message = "15: block 0, thread 0: deadlock: 64 threads never end: 64 in lt_mbar_wait at "
                "t.cut:15 for shared 'bar' + 0, parity 0 (to come: 0 of 1 arrivals, 16 bytes) "
                "(the first is thread 0)"},
    {.name = "an mbarrier that the other block does not have",
     .body = I
     "LT_SHARED1(uint4, s, 64);\nLT_SHARED1(u64, bar, 1);\nif (t == 0) bar[0] = 0;\n" FOUR("x[i]")
         BEGIN "lt_cluster_give128(s + t, 1 - rank, v, bar);\n",
     .message = "10: block 0, thread 0: lt_cluster_give128: shared 'bar' + 0 is no mbarrier "
                "(lt_mbar_init it first, then a barrier of the block)"},
    {.name = "an mbarrier without a fence",
     .body = I "LT_SHARED1(uint4, s, 64);\nLT_SHARED1(u64, bar, 1);\n"
               "if (t == 0) lt_mbar_init(bar, 1);\n" FOUR("x[i]") BEGIN
     "lt_cluster_give128(s + t, 1 - rank, v, bar);\n",
     .message =
         "10: block 0, thread 0: lt_cluster_give128: no lt_mbar_fence after the mbarrier's init"},
    {.name = "an array that the other block does not have yet",
     .body = I "" MEET "LT_SHARED1(u32, s, 64);\nlt_cluster_st32(s + t, 1 - rank, 1);",
     .message =
         "6: block 0, thread 0: lt_cluster_st32: block 1 of the cluster has no shared 's' + 0 "
         "yet (lt_cluster_wait first)"},
    {.name = "a cluster that looks for what others put",
     .body = "if (lt_look_again(0)) return;",
     .message = "2: block 0, thread 0: lt_look_again: the CPU device has none in a cluster"},
    {.name = "a store that the other block does not wait for",
     .checked = true,
     .body = I "LT_SHARED1(float, s, 64);\ns[t] = 0;\n" MEET GIVE("x[i]") "y[i] = s[t];\n" MEET,
     .message =
         "7: block 1, thread 0: race: writes shared 's' + 0, which block 0, thread 0 reads at "
         "t.cut:8 (no lt_cluster_wait orders them)"},
    {.name = "what was given and not waited for",
     .checked = true,
     .body = I "LT_SHARED1(uint4, s, 64);\n" COUNT("1024") FOUR("x[i]") BEGIN
     "lt_cluster_give128(s + t, 1 - rank, v, bar);\n" MEET "y[i] = lt_bits_f32(s[t].x);\n"
     "lt_mbar_wait(bar, 0);",
     .message = "17: block 0, thread 0: race: reads shared 's' + 0, to which the copy of t.cut:14 "
                "is made (wait for its mbarrier first)"},
    {.name = "what the giver reads behind its last barrier",
     .checked = true,
     .body = I "LT_SHARED1(uint4, s, 64);\n" COUNT("1024") READ
     "lt_cluster_give128(s + t, 1 - rank, v, bar);\nlt_mbar_wait(bar, 0);\n"
     "y[i] = lt_bits_f32(s[t].x);",
     .message = "17: block 1, thread 0: race: writes 'y' + 256, which block 0, thread 0 reads "
                "at t.cut:14 (no lt_cluster_wait orders them)"},
    {.name = "what the giver may still read, for nobody has waited",
     .checked = true,
     .body = I "LT_SHARED1(uint4, s, 64);\n" COUNT("1024") READ
     "__syncthreads();\nlt_cluster_give128(s + t, 1 - rank, v, bar);\ny[i] = 0;\n"
     "lt_mbar_wait(bar, 0);",
     .message = "14: block 1, thread 0: race: reads 'y' + 0, which block 0, thread 0 writes at "
                "t.cut:17 (no lt_cluster_wait orders them)"},
    {.name = "a gift that shows nothing else",
     .checked = true,
     .body = I "LT_SHARED1(uint4, s, 64);\n" COUNT("1024") FOUR("x[i]") BEGIN
     "y[i] = x[i];\n__syncthreads();\nlt_cluster_give128(s + t, 1 - rank, v, bar);\n"
     "lt_mbar_wait(bar, 0);\nn[t] = (u32)y[i ^ 64];",
     .message = "18: block 1, thread 0: race: reads 'y' + 0, which block 0, thread 0 writes at "
                "t.cut:14 (no lt_cluster_wait orders them)"},
    {.name = "a place that is read when something is given",
     .checked = true,
     .body = I "LT_SHARED1(uint4, s, 64);\n" COUNT("1024")
         FOUR("x[i]") "s[t] = v;\n" BEGIN
                      "lt_cluster_give128(s + t, 1 - rank, v, bar);\nlt_mbar_wait(bar, 0);",
     .message = "15: block 0, thread 0: race: writes shared 's' + 0, which block 1, thread 0 "
                "writes at t.cut:12 (no lt_cluster_wait orders them)"},
    {.name = "an arrival that shows nothing",
     .checked = true,
     .body = I "y[i] = x[i];\n" BEGIN "if (rank == 1) n[t] = (u32)y[i ^ 64];",
     .message = "6: block 1, thread 0: race: reads 'y' + 0, which block 0, thread 0 writes at "
                "t.cut:3 (no lt_cluster_wait orders them)"},
    {.name = "two blocks that store into one place",
     .checked = true,
     .body = I "LT_SHARED1(float, s, 64);\n" MEET "lt_cluster_st32((u32 *)s + t, 0, 1);\n" MEET,
     .message =
         "6: block 1, thread 0: race: writes shared 's' + 0, which block 0, thread 0 writes at "
         "t.cut:6 (no lt_cluster_wait orders them)"},
    {.name = "a store behind the arrival",
     .checked = true,
     .body = I "LT_SHARED1(float, s, 64);\n" MEET
               "lt_cluster_arrive();\n" GIVE("x[i]") "lt_cluster_wait();\ny[i] = s[t];\n" MEET,
     .message =
         "9: block 0, thread 0: race: reads shared 's' + 0, which block 1, thread 0 writes at "
         "t.cut:7 (no lt_cluster_wait orders them)"},
    {.name = "a buffer that another block of the cluster has just written",
     .checked = true,
     .body = I "y[i] = x[i];\n__syncthreads();\nif (rank == 1) {\n n[t] = (u32)y[i ^ 64];\n}",
     .message =
         "6: block 1, thread 0: race: reads 'y' + 0, which block 0, thread 0 writes at t.cut:3 "
         "(no lt_cluster_wait orders them)"},
    {.name = "a buffer that another cluster has written",
     .checked = true,
     .body = I "y[i] = x[i];\n" MEET "if (blockIdx.x == 2) n[t] = (u32)y[t];",
     .message =
         "6: block 2, thread 0: race: reads 'y' + 0, which block 0, thread 0 writes at t.cut:3 "
         "(only lt_last_block/warp order blocks)"},
    {.name = "a word that nobody stored",
     .checked = true,
     .body = I "LT_SHARED1(float, s, 64);\n" MEET
               "if (t < 63) lt_cluster_st32((u32 *)s + t, 1 - rank, 1);\n" MEET "y[i] = s[t];",
     .message = "9: block 0, thread 63: reads shared 's' + 252, which nobody has written"},
};

static const lt_play plays[] = {
    {0, false, false}, {1, true, false}, {2, true, false}, {5, false, false}};

static void right_kernels_are_right_in_every_play(void **state)
{
    (void)state;
    for (size_t p = 0; p < 2 * lt_countof(plays); p++) {
        lt_device *dev = open_device(plays[p / 2], p % 2);
        for (size_t c = 0; c < lt_countof(right_ones); c++) {
            float y[N];
            lt_err err = {""};
            for (int i = 0; i < N; i++) y[i] = -1;
            if (run(dev, right_ones + c, y, &err))
                fail_msg("%s, play %zu: %s", right_ones[c].name, p, err.text);
            for (int i = 0; i < N; i++)
                if (y[i] != right_ones[c].right(i))
                    fail_msg("%s, play %zu: y[%d] is %g", right_ones[c].name, p, i, (double)y[i]);
        }
        lt_device_close(dev);
    }
}

static void faults_are_named(void **state)
{
    (void)state;
    for (int checks = 0; checks < 2; checks++) {
        lt_device *dev = open_device(plays[0], checks);
        for (size_t c = 0; c < lt_countof(faults); c++) {
            float y[N] = {0};
            char want[400];
            lt_err err = {""};
            snprintf(want, sizeof want, "k: t.cut:%s", faults[c].message);
            const int rc = run(dev, faults + c, y, &err);
            if (faults[c].checked && !checks) continue; /* it may be right by chance */
            if (!rc || strcmp(err.text, want))
                fail_msg("%s%s:\n%s\nwanted:\n%s", faults[c].name, checks ? ", checked" : "",
                         rc ? err.text : "it passed", want);
        }
        lt_device_close(dev);
    }
}

/* In the other order the block that is written into has not begun, or has ended, too. */
static void the_last_block_first_finds_them_too(void **state)
{
    (void)state;
    lt_device *dev = open_device(plays[1], false);
    for (size_t c = 0; c < lt_countof(faults); c++) {
        float y[N] = {0};
        lt_err err = {""};
        if (strncmp(faults[c].name, "a store before", 14) != 0) continue;
        assert_int_not_equal(run(dev, faults + c, y, &err), 0);
        assert_non_null(strstr(err.text, "block 0 of the cluster has not begun"));
    }
    lt_device_close(dev);
}

static void sampled_blocks_bring_their_cluster(void **state)
{
    (void)state;
    static const unsigned sample[] = {1};
    float x[N], y[N];
    lt_err err = {""};
    lt_device *dev = open_device(plays[0], false);
    for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = -1;
    const kernel_job job = {.params = "x y!",
                            .grid = N / THREADS,
                            .block = THREADS,
                            .cluster = 2,
                            .sample = sample,
                            .samples = 1,
                            .data = {x, y},
                            .bytes = {sizeof x, sizeof y}};
    const char *body = "LT_KERNEL(64) LT_CLUSTER(2) k(const float *x, float *y) {\n" I
                       "LT_SHARED1(float, s, 64);\n" MEET GIVE("x[i]") MEET "y[i] = s[t];\n}";
    if (kernel_run(dev, body, &job, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < N; i++) assert_true(y[i] == (i < N / 2 ? other(i) : -1));
    lt_device_close(dev);
}

/* A launch in front of which another one is: the barrier may be met on both sides of its wait. */
static void a_programmatic_launch_may_meet_before_its_wait(void **state)
{
    (void)state;
    for (int checks = 0; checks < 2; checks++) {
        float x[N], y[N];
        lt_err err = {""};
        lt_device *dev = open_device(plays[0], checks);
        for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = -1;
        const kernel_job job = {.params = "x y!",
                                .grid = N / THREADS,
                                .block = THREADS,
                                .cluster = 2,
                                .programmatic = true,
                                .data = {x, y},
                                .bytes = {sizeof x, sizeof y}};
        const char *body = "LT_KERNEL(64) LT_CLUSTER(2) k(const float *x, float *y) {\n" I
                           "LT_SHARED1(float, s, 64);\n" MEET "lt_cluster_arrive();\n"
                           "lt_pdl_wait();\nlt_pdl_launch();\nlt_cluster_wait();\n" GIVE("x[i]")
                               MEET "y[i] = s[t];\n}";
        if (kernel_run(dev, body, &job, &err)) fail_msg("%s", err.text);
        for (int i = 0; i < N; i++) assert_true(y[i] == other(i));
        lt_device_close(dev);
    }
}

static void sizes_that_no_cluster_has_are_refused(void **state)
{
    (void)state;
    lt_device *dev = open_device(plays[0], false);
    lt_kernel *k = NULL;
    lt_err err = {""};
    kernel_job job = {.params = "x y! n!", .cluster = 17};
    assert_int_not_equal(kernel_load_job(dev, "k", whole(""), &job, &k, &err), 0);
    assert_string_equal(err.text, "k: clusters of 17 blocks (at most 16)");
    job.cluster = 2;
    assert_int_equal(kernel_load_job(dev, "k", whole(""), &job, &k, &err), 0);
    lt_buffer *b = NULL;
    assert_int_equal(lt_device_alloc(dev, 4096, &b, &err), 0);
    const lt_arg args[] = {{b, 0}, {b, 0}, {b, 0}};
    const lt_launch l = {.grid = {3, 1, 1}, .block = {1024, 1, 1}};
    assert_int_not_equal(lt_device_launch(dev, k, &l, args, &err), 0);
    assert_non_null(strstr(err.text, "a grid of 3 blocks in x, in clusters of 2"));
    lt_device_free(dev, b);
    dev->ops->unload(dev, k);
    lt_device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_are_right_in_every_play),
        cmocka_unit_test(faults_are_named),
        cmocka_unit_test(the_last_block_first_finds_them_too),
        cmocka_unit_test(sampled_blocks_bring_their_cluster),
        cmocka_unit_test(a_programmatic_launch_may_meet_before_its_wait),
        cmocka_unit_test(sizes_that_no_cluster_has_are_refused),
    };
    return cmocka_run_group_tests_name("cpu_cluster", tests, NULL, NULL);
}
