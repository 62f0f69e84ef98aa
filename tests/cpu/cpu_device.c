/* cpu_device.c: the CPU device runs correct kernels and names what is wrong with the others: seeded
 * defects, legal controls, the same bits in every order. */
#include "tests/cpu/kernel.h"

#include <math.h>
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

/* ---- defects ---- */

static float reversed(int i)
{
    return (float)(N - 1 - i);
}

static float one(int i)
{
    (void)i;
    return 1;
}

static float summed(int i)
{
    const int from = (i + 32) & (N - 1);
    return -1.0f + (float)from + (float)(from + 1);
}

static float neighbour(int i)
{
    return (float)(i ^ 1);
}

static float same(int i)
{
    return (float)i;
}

static float before(int i)
{
    return (float)(i - 1);
}

static float half_sums(int i) /* over the 16 lanes of a half */
{
    return i < 16 ? 120 : 120 + 256;
}

typedef struct {
    const char *name, *body;
    unsigned threads;
    const char *message; /* of the first play; NULL: a wrong result in one of the plays is enough */
    float (*right)(int i);
} defect;

static const defect legal[] = {
    {"a block reverses its input",
     "LT_SHARED1(float, s, 128); s[threadIdx.x] = x[threadIdx.x]; __syncthreads();\n"
     "y[threadIdx.x] = s[127 - threadIdx.x];",
     128, NULL, reversed},
    {"two halves of a warp reduce apart",
     "float v = x[threadIdx.x]; const u32 m = threadIdx.x < 16 ? 0xffffu : 0xffff0000u;\n"
     "for (int i = 0; i < 4; i++) v += lt_shfl_xor_f32(m, v, 1 << i);\n"
     "y[threadIdx.x] = v;",
     32, NULL, half_sums},
};

static const defect defects[] = {
    {"divergent barrier", "if (threadIdx.x < 64)\n __syncthreads();\nelse\n __syncthreads();", 128,
     "k: t.cut:5: block 0, thread 64: divergent __syncthreads: thread 0 waits in __syncthreads at "
     "t.cut:3",
     NULL},
    {"barrier after a return", "if (threadIdx.x >= 64) return;\n__syncthreads();", 128,
     "k: t.cut:3: block 0, thread 0: __syncthreads waits for thread 64, which has returned", NULL},
    {"deadlock of barrier and warp",
     "if ((threadIdx.x & 31) == 0)\n __syncthreads();\nelse\n __syncwarp(0xffffffffu);\n"
     "__syncthreads();",
     64,
     "k: t.cut:3: block 0, thread 0: deadlock: 64 threads never end: 2 in __syncthreads at t.cut:3 "
     "(the first is thread 0); 62 in __syncwarp at t.cut:5, mask ffffffff (the first is thread 1)",
     NULL},
    {"shuffles in two lines",
     "float v = x[threadIdx.x];\nif (threadIdx.x & 1)\n v += lt_shfl_xor_f32(0xffffffffu, v, 1);\n"
     "else\n v -= lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     32,
     "k: t.cut:4: block 0, thread 1: divergent warp: shuffle, mask ffffffff, while others wait in "
     "shuffle at t.cut:6",
     NULL},
    {"half a warp in a full mask",
     "float v = x[threadIdx.x];\nif (threadIdx.x < 16) v += lt_shfl_xor_f32(0xffffffffu, v, 1);\n"
     "y[threadIdx.x] = v;",
     32, "k: t.cut:3: block 0, thread 0: shuffle: mask ffffffff names lane 16, which has returned",
     NULL},
    {"a lane outside the mask is read",
     "float v = x[threadIdx.x];\nif (threadIdx.x < 16) v += lt_shfl_xor_f32(0xffffu, v, 16);\n"
     "y[threadIdx.x] = v;",
     32, "k: t.cut:3: block 0, thread 0: shuffle: reads lane 16, which is not in the mask 0000ffff",
     NULL},
    {"a caller outside its mask",
     "float v = x[threadIdx.x];\nv += lt_shfl_xor_f32(0xffffu, v, 1);\ny[threadIdx.x] = v;", 32,
     "k: t.cut:3: block 0, thread 16: shuffle: lane 16 is not in its own mask 0000ffff", NULL},
    {"returned lanes in the mask",
     "float v = x[threadIdx.x];\nif (threadIdx.x < 20) return;\n"
     "v += lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     32,
     "k: t.cut:4: block 0, thread 20: shuffle: mask ffffffff names lanes 000fffff, which have "
     "returned or do not exist",
     NULL},
    {"a full mask in a partial warp",
     "float v = x[threadIdx.x];\nv += lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;", 48,
     "k: t.cut:3: block 0, thread 32: shuffle: mask ffffffff names lanes ffff0000, which have "
     "returned or do not exist",
     NULL},
    {"a read past the end", "y[threadIdx.x] =\n x[threadIdx.x + 1];", 128,
     "k: t.cut:3: block 0, thread 127: reads byte 512 of 'x', which has 512", NULL},
    {"a read of a vector past the end", "float4 v;\nv = lt_ld128f(x + 128);\ny[0] = v.x;", 32,
     "k: t.cut:3: block 0, thread 0: reads byte 512 of 'x', which has 512", NULL},
    {"a write past the end", "\ny[threadIdx.x + 1] = x[threadIdx.x];", 128,
     "k: t.cut:3: block 0, thread 127: writes byte 512 of 'y', which has 512", NULL},
    {"a read in front of the start", "y[threadIdx.x] = x[(int)threadIdx.x - 1];", 128, NULL,
     before},
    {"a shared read past the end",
     "LT_SHARED1(float, s, 100); s[threadIdx.x % 100] = 1; __syncthreads();\n"
     "y[threadIdx.x] = s[threadIdx.x];",
     128, "k: t.cut:3: block 0, thread 100: reads byte 400 of shared 's', which has 400", NULL},
    {"a shared write past the end", "LT_SHARED1(float, s, 100);\ns[threadIdx.x] = 1;", 128,
     "k: t.cut:3: block 0, thread 100: writes byte 400 of shared 's', which has 400", NULL},
    {"a shared write in front of the start",
     "LT_SHARED1(float, s, 128); s[(int)threadIdx.x - 1] = 1;", 128,
     "k: t.cut:2: block 0, thread 0: some thread of the block writes in front of shared 's'", NULL},
    {"a shared write in the slack",
     "LT_SHARED1(float, s, 101); if (threadIdx.x < 102) "
     "s[threadIdx.x] = 1;",
     128, "k: t.cut:2: block 0, thread 0: some thread of the block writes behind shared 's'", NULL},
    {"uninitialised shared memory",
     "LT_SHARED1(float, s, 128); if (threadIdx.x < 127) s[threadIdx.x] = 1; __syncthreads();\n"
     "y[threadIdx.x] = s[threadIdx.x];",
     128, NULL, one},
    {"a missing barrier",
     "LT_SHARED1(float, s, 128); s[threadIdx.x] = x[threadIdx.x];\n"
     "y[threadIdx.x] = s[127 - threadIdx.x];",
     128, NULL, reversed},
    {"a missing second barrier",
     "LT_SHARED1(float, s, 128);\nfor (int i = 0; i < 2; i++) {\n"
     " s[threadIdx.x] = x[threadIdx.x] + i;\n __syncthreads();\n"
     " y[threadIdx.x] += s[(threadIdx.x + 32) & 127];\n}",
     128, NULL, summed},
    {"implicit synchrony of a warp",
     "LT_SHARED1(float, s, 32); s[threadIdx.x] = x[threadIdx.x];\n"
     "y[threadIdx.x] = s[threadIdx.x ^ 1];",
     32, NULL, neighbour},
    {"a cp.async that nobody waits for",
     "LT_SHARED1(float, s, 128);\n"
     "if (threadIdx.x < 32) lt_cp_async16(&s[threadIdx.x * 4], x + threadIdx.x * 4);\n"
     "lt_cp_commit();\n__syncthreads();\ny[threadIdx.x] = s[threadIdx.x];",
     128,
     "k: t.cut:3: block 0, thread 0: lt_cp_async16: the thread returns and has not waited for "
     "it",
     NULL},
    {"a cp.async that is waited for too late",
     "LT_SHARED1(float, s, 128);\n"
     "if (threadIdx.x < 32) lt_cp_async16(&s[threadIdx.x * 4], x + threadIdx.x * 4);\n"
     "lt_cp_commit();\n__syncthreads();\ny[threadIdx.x] = s[threadIdx.x];\nlt_cp_wait(0);",
     128, NULL, same},
    {"a misaligned load", "const uint4 v =\n lt_ld128((const char *)x + 4);\n*(u32 *)y = v.x;", 32,
     "k: t.cut:3: block 0, thread 0: 'x' + 4 is not 16-byte aligned", NULL},
    {"a division by zero", "const int z = (int)x[threadIdx.x] & 0;\ny[0] = (float)(5 / z);", 32,
     "k: t.cut:3: block 0, thread 0: divides by zero, or the quotient does not fit", NULL},
    {"an endless loop", "volatile int z = 1;\nwhile (z) { }", 32,
     "k: t.cut:3: block 0, thread 0: the launch takes longer than 1 s (LATHE_CPU_SECONDS raises "
     "it)",
     NULL},
    {"a null pointer", "const float *q = 0;\ny[0] = q[threadIdx.x];", 32,
     "k: t.cut:3: block 0, thread 0: reads through a null pointer (address 0x0)", NULL},
    {"a deep stack", "volatile char b[100000];\nb[0] = 1;\nb[99999] = 1;\ny[0] = b[0];", 32,
     "k: t.cut:3: block 0, thread 0: its local variables need more than 64 KiB", NULL},
};

static const lt_play plays[] = {{0, false, false}, {1, true, false}, {2, false, true},
                                {3, true, true},   {4, true, false}, {0, true, true}};

static bool is_right(const kernel_result *r, float (*right)(int), unsigned threads)
{
    for (unsigned i = 0; i < threads; i++)
        if (!(r->y[i] == right((int)i))) return false;
    return true;
}

/* A read from the slack of a buffer that is played left. */
static bool has_nan(const kernel_result *r, unsigned threads)
{
    for (unsigned i = 0; i < threads; i++)
        if (isnan(r->y[i])) return true;
    return false;
}

static void legal_kernels_give_the_right_result_in_every_play(void **state)
{
    (void)state;
    for (size_t d = 0; d < lt_countof(legal); d++)
        for (size_t p = 0; p < lt_countof(plays); p++) {
            kernel_result r;
            lt_device *dev = open_device(plays[p]);
            run_body(dev, legal[d].body, legal[d].threads, &r);
            if (r.rc) fail_msg("%s: %s", legal[d].name, r.err.text);
            if (!is_right(&r, legal[d].right, legal[d].threads)) fail_msg("%s", legal[d].name);
            dev->ops->close(dev);
        }
}

static void every_defect_is_named_or_gives_a_wrong_result(void **state)
{
    (void)state;
    lt_err err;
    assert_int_equal(lt_config_set("cpu_seconds", "1", &err), 0);
    for (size_t d = 0; d < lt_countof(defects); d++) {
        const defect *x = &defects[d];
        bool caught = false;
        const bool once = strstr(x->name, "endless") != NULL; /* a second each */
        for (size_t p = 0; p < (once ? 1 : lt_countof(plays)); p++) {
            kernel_result r;
            lt_device *dev = open_device(plays[p]);
            run_body(dev, x->body, x->threads, &r);
            dev->ops->close(dev);
            if (x->message && !r.rc && !(plays[p].left && has_nan(&r, x->threads)))
                fail_msg("%s: not found in play %zu", x->name, p);
            if (x->message && p == 0) assert_string_equal(r.err.text, x->message);
            if (x->message && !plays[p].left && !strstr(r.err.text, "t.cut:"))
                fail_msg("%s: no line in '%s'", x->name, r.err.text);
            if (!x->message && (r.rc || !is_right(&r, x->right, x->threads))) caught = true;
        }
        if (!x->message && !caught) fail_msg("%s: not found", x->name);
    }
    assert_int_equal(lt_config_set("cpu_seconds", "60", &err), 0);
}

static void a_fault_in_a_library_of_templates_is_named_with_its_file(void **state)
{
    (void)state;
    lt_err err;
    float y[4] = {0};
    lt_device *dev = open_device((lt_play){0, false, false});
    const kernel_job job = {.params = "y!", .block = 4, .data = {y}, .bytes = {sizeof y}};
    const char *text = "// the kernel\n"
                       "#line 7 \"lib/at.cut\"\n"
                       "LT_DEV float at(const float *p)\n{\n    return p[1000];\n}\n"
                       "LT_DEV void meet(void) { __syncthreads(); }\n"
                       "#line 3 \"t.cut\"\n"
                       "LT_KERNEL(4) k(float *y)\n{\n"
                       " if (y[0] == 0) y[threadIdx.x] = at(y);\n"
                       " else if (threadIdx.x) meet();\n}";
    assert_int_equal(kernel_run(dev, text, &job, &err), -1);
    assert_string_equal(err.text, "k: lib/at.cut:9: block 0, thread 0: reads byte 4000 of 'y', "
                                  "which has 16");
    y[0] = 1;
    assert_int_equal(kernel_run(dev, text, &job, &err), -1);
    assert_string_equal(err.text, "k: lib/at.cut:11: block 0, thread 1: __syncthreads waits for "
                                  "thread 0, which has returned");
    dev->ops->close(dev);
}

/* ---- bits ---- */

static void three_orders_give_the_same_bits(void **state)
{
    (void)state;
    kernel_result first, r;
    const char *body = "LT_SHARED1(float, part, 4);\n"
                       "const float v = lt_exp(x[threadIdx.x] * 0.1f) / (1.0f + x[threadIdx.x]);\n"
                       "const float s = lt_warp_sum(v);\n"
                       "if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;\n"
                       "__syncthreads();\n"
                       "float all = 0;\n"
                       "for (int i = 0; i < 4; i++) all += part[i];\n"
                       "y[threadIdx.x] = v / all + lt_warp_max(v * 3.0f);";
    for (int order = 0; order < 5; order++) {
        lt_device *dev = open_device((lt_play){order, order == 1, false});
        run_body(dev, body, 128, order ? &r : &first);
        assert_int_equal(order ? r.rc : first.rc, 0);
        if (order) assert_memory_equal(r.y, first.y, sizeof r.y);
        dev->ops->close(dev);
    }
}

static void a_block_does_not_see_the_shared_memory_of_the_one_before(void **state)
{
    (void)state;
    lt_err err;
    float y[3 * 32];
    lt_device *dev = open_device((lt_play){0, false, false});
    const kernel_job job = {
        .params = "y!", .grid = 3, .block = 32, .shared = 128, .data = {y}, .bytes = {sizeof y}};
    const char *text = "LT_KERNEL(32) k(float *y) {\n"
                       " LT_SHARED1(float, s, 32); LT_DYN_SHARED(float, d);\n"
                       " y[blockIdx.x * 32 + threadIdx.x] = threadIdx.x % 2 ? s[threadIdx.x] : "
                       "d[threadIdx.x];\n"
                       " s[threadIdx.x] = d[threadIdx.x] = 1;\n}";
    assert_int_equal(kernel_run(dev, text, &job, &err), 0);
    for (int i = 0; i < 3 * 32; i++) assert_true(isnan(y[i]));
    dev->ops->close(dev);
}

static void a_device_goes_on_after_a_fault(void **state)
{
    (void)state;
    kernel_result r;
    lt_device *dev = open_device((lt_play){0, false, false});
    for (int i = 0; i < 20; i++) {
        run_body(dev, "__syncthreads(); if (threadIdx.x == 77) y[1000] = 1; __syncthreads();", 128,
                 &r);
        assert_int_equal(r.rc, -1);
        run_body(dev, legal[0].body, 128, &r);
        assert_int_equal(r.rc, 0);
        assert_true(is_right(&r, reversed, 128));
    }
    dev->ops->close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal_kernels_give_the_right_result_in_every_play),
        cmocka_unit_test(every_defect_is_named_or_gives_a_wrong_result),
        cmocka_unit_test(a_fault_in_a_library_of_templates_is_named_with_its_file),
        cmocka_unit_test(three_orders_give_the_same_bits),
        cmocka_unit_test(a_block_does_not_see_the_shared_memory_of_the_one_before),
        cmocka_unit_test(a_device_goes_on_after_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
