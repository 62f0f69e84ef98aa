/* cpu_check.c: the device that checks names each of the 26 planted defects, and each of its own
 * kinds, with the template's line, the thread and the byte; the same kernel without the defect
 * passes. */
#include "tests/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 128 };

typedef enum {
    SCHEDULER, /* fibers, barriers and collectives: the device that does not check says the same */
    SIGNAL,    /* a guard page, a trap, the clock: the same, too */
    SHADOW     /* only the device that checks names it */
} mechanism;

typedef struct {
    const char *name;
    mechanism by;
    unsigned threads;
    const char *body, *fixed; /* of k(const float *x, float *y), from line 2 on */
    const char *message;      /* behind "k: t.cut:" */
} defect;

static const defect planted[] = {
    {"divergent barrier", SCHEDULER, 128,
     "if (threadIdx.x < 64)\n __syncthreads();\nelse\n __syncthreads();", "__syncthreads();",
     "5: block 0, thread 64: divergent __syncthreads: thread 0 waits in __syncthreads at t.cut:3"},
    {"barrier after a return", SCHEDULER, 128, "if (threadIdx.x >= 64) return;\n__syncthreads();",
     "__syncthreads();\nif (threadIdx.x >= 64) return;",
     "3: block 0, thread 0: __syncthreads waits for thread 64, which has returned"},
    {"deadlock of barrier and warp", SCHEDULER, 64,
     "if ((threadIdx.x & 31) == 0)\n __syncthreads();\nelse\n __syncwarp(0xffffffffu);\n"
     "__syncthreads();",
     "__syncwarp(0xffffffffu);\n__syncthreads();",
     "3: block 0, thread 0: deadlock: 64 threads never end: 2 in __syncthreads at t.cut:3 "
     "(the first is thread 0); 62 in __syncwarp at t.cut:5, mask ffffffff (the first is thread 1)"},
    {"shuffles in two lines", SCHEDULER, 32,
     "float v = x[threadIdx.x];\nif (threadIdx.x & 1)\n v += lt_shfl_xor_f32(0xffffffffu, v, 1);\n"
     "else\n v -= lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nv += lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     "4: block 0, thread 1: divergent warp: shuffle, mask ffffffff, while others wait in shuffle "
     "at t.cut:6"},
    {"half a warp in a full mask", SCHEDULER, 32,
     "float v = x[threadIdx.x];\nif (threadIdx.x < 16) v += lt_shfl_xor_f32(0xffffffffu, v, 1);\n"
     "y[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nif (threadIdx.x < 16) v += lt_shfl_xor_f32(0xffffu, v, 1);\n"
     "y[threadIdx.x] = v;",
     "3: block 0, thread 0: shuffle: mask ffffffff names lane 16, which has returned"},
    {"a lane outside the mask is read", SCHEDULER, 32,
     "float v = x[threadIdx.x];\nif (threadIdx.x < 16) v += lt_shfl_xor_f32(0xffffu, v, 16);\n"
     "y[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nif (threadIdx.x < 16) v += lt_shfl_xor_f32(0xffffu, v, 8);\n"
     "y[threadIdx.x] = v;",
     "3: block 0, thread 0: shuffle: reads lane 16, which is not in the mask 0000ffff"},
    {"a caller outside its mask", SCHEDULER, 32,
     "float v = x[threadIdx.x];\nv += lt_shfl_xor_f32(0xffffu, v, 1);\ny[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nv += lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     "3: block 0, thread 16: shuffle: lane 16 is not in its own mask 0000ffff"},
    {"returned lanes in the mask", SCHEDULER, 32,
     "float v = x[threadIdx.x];\nif (threadIdx.x < 20) return;\n"
     "v += lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nif (threadIdx.x < 20) return;\n"
     "v += lt_shfl_xor_f32(0xfff00000u, v, 1);\ny[threadIdx.x] = v;",
     "4: block 0, thread 20: shuffle: mask ffffffff names lanes 000fffff, which have returned or "
     "do not exist"},
    {"a full mask in a partial warp", SCHEDULER, 48,
     "float v = x[threadIdx.x];\nv += lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nconst u32 m = threadIdx.x < 32 ? 0xffffffffu : 0xffffu;\n"
     "v += lt_shfl_xor_f32(m, v, 1);\ny[threadIdx.x] = v;",
     "3: block 0, thread 32: shuffle: mask ffffffff names lanes ffff0000, which have returned or "
     "do not exist"},
    {"a read past the end", SIGNAL, 128, "float v;\nv = x[threadIdx.x + 1];\ny[threadIdx.x] = v;",
     "float v;\nv = x[threadIdx.x];\ny[threadIdx.x] = v;",
     "3: block 0, thread 127: reads byte 512 of 'x', which has 512"},
    {"a write past the end", SIGNAL, 128, "\ny[threadIdx.x + 1] = 1;", "\ny[threadIdx.x] = 1;",
     "3: block 0, thread 127: writes byte 512 of 'y', which has 512"},
    {"a read in front of the start", SHADOW, 128, "\ny[threadIdx.x] = x[(int)threadIdx.x - 1];",
     "\ny[threadIdx.x] = x[(int)threadIdx.x];",
     "3: block 0, thread 0: reads byte -4 of 'x', which has 512"},
    {"a shared read past the end", SIGNAL, 128,
     "LT_SHARED1(float, s, 100); if (threadIdx.x < 100) s[threadIdx.x] = 1; __syncthreads();\n"
     "y[threadIdx.x] = s[threadIdx.x];",
     "LT_SHARED1(float, s, 100); if (threadIdx.x < 100) s[threadIdx.x] = 1; __syncthreads();\n"
     "y[threadIdx.x] = s[threadIdx.x % 100];",
     "3: block 0, thread 100: reads byte 400 of shared 's', which has 400"},
    {"a shared write past the end", SIGNAL, 128, "LT_SHARED1(float, s, 100);\ns[threadIdx.x] = 1;",
     "LT_SHARED1(float, s, 128);\ns[threadIdx.x] = 1;",
     "3: block 0, thread 100: writes byte 400 of shared 's', which has 400"},
    {"a shared write in front of the start", SHADOW, 128,
     "LT_SHARED1(float, s, 128);\ns[(int)threadIdx.x - 1] = 1;",
     "LT_SHARED1(float, s, 128);\ns[(int)threadIdx.x] = 1;",
     "3: block 0, thread 0: writes byte -4 of shared 's', which has 512"},
    {"a shared write in the slack", SHADOW, 128,
     "LT_SHARED1(float, s, 101);\nif (threadIdx.x < 102) s[threadIdx.x] = 1;",
     "LT_SHARED1(float, s, 101);\nif (threadIdx.x < 101) s[threadIdx.x] = 1;",
     "3: block 0, thread 101: writes byte 404 of shared 's', which has 404"},
    {"uninitialised shared memory", SHADOW, 128,
     "LT_SHARED1(float, s, 128); if (threadIdx.x < 127) s[threadIdx.x] = 1; __syncthreads();\n"
     "y[threadIdx.x] = s[threadIdx.x];",
     "LT_SHARED1(float, s, 128); if (threadIdx.x < 128) s[threadIdx.x] = 1; __syncthreads();\n"
     "y[threadIdx.x] = s[threadIdx.x];",
     "3: block 0, thread 127: reads shared 's' + 508, which nobody has written"},
    {"a missing barrier", SHADOW, 128,
     "LT_SHARED1(float, s, 128); s[127 - threadIdx.x] = s[threadIdx.x] = x[threadIdx.x];\n"
     "y[threadIdx.x] = s[127 - threadIdx.x];",
     "LT_SHARED1(float, s, 128); s[threadIdx.x] = x[threadIdx.x]; __syncthreads();\n"
     "y[threadIdx.x] = s[127 - threadIdx.x];",
     "2: block 0, thread 64: race: writes shared 's' + 256, which thread 63 touches at t.cut:2 (no "
     "barrier orders them)"},
    {"a missing second barrier", SHADOW, 128,
     "LT_SHARED1(float, s, 128);\nfor (int i = 0; i < 2; i++) {\n"
     " s[threadIdx.x] = x[threadIdx.x] + i;\n __syncthreads();\n"
     " y[threadIdx.x] += s[(threadIdx.x + 32) & 127];\n}",
     "LT_SHARED1(float, s, 128);\nfor (int i = 0; i < 2; i++) {\n"
     " s[threadIdx.x] = x[threadIdx.x] + i;\n __syncthreads();\n"
     " y[threadIdx.x] += s[(threadIdx.x + 32) & 127];\n __syncthreads();\n}",
     "4: block 0, thread 32: race: writes shared 's' + 128, which thread 0 touches at t.cut:6 (no "
     "barrier orders them)"},
    {"implicit synchrony of a warp", SHADOW, 32,
     "LT_SHARED1(float, s, 32); s[threadIdx.x] = x[threadIdx.x]; lt_shfl_u32(0xffffffffu, 0, 0);\n"
     "y[threadIdx.x] = s[threadIdx.x ^ 1];",
     "LT_SHARED1(float, s, 32); s[threadIdx.x] = x[threadIdx.x]; __syncwarp();\n"
     "y[threadIdx.x] = s[threadIdx.x ^ 1];",
     "3: block 0, thread 0: race: reads shared 's' + 4, which thread 1 touches at t.cut:2 (no "
     "barrier orders them)"},
    {"a cp.async that is waited for too late", SHADOW, 128,
     "LT_SHARED1(float, s, 128);\n"
     "if (threadIdx.x < 32) lt_cp_async16(&s[threadIdx.x * 4], x + threadIdx.x * 4);\n"
     "lt_cp_commit();\n__syncthreads();\ny[threadIdx.x] = s[threadIdx.x];\nlt_cp_wait(0);",
     "LT_SHARED1(float, s, 128);\n"
     "if (threadIdx.x < 32) lt_cp_async16(&s[threadIdx.x * 4], x + threadIdx.x * 4);\n"
     "lt_cp_commit();\nlt_cp_wait(0);\n__syncthreads();\ny[threadIdx.x] = s[threadIdx.x];",
     "6: block 0, thread 0: race: reads shared 's' + 0, to which the copy of t.cut:3 is under way "
     "(wait for it first)"},
    {"a misaligned load", SIGNAL, 32, "uint4 v;\nv = lt_ld128((const char *)x + 4);\n*(u32 *)y = v.x;",
     "uint4 v;\nv = lt_ld128((const char *)x + 16);\nif (!threadIdx.x) *(u32 *)y = v.x;",
     "3: block 0, thread 0: 'x' + 4 is not 16-byte aligned"},
    {"a division by zero", SIGNAL, 32,
     "int z = (int)x[threadIdx.x] & 0, q;\nq = 5 / z;\ny[threadIdx.x] = (float)q;",
     "int z = (int)x[threadIdx.x] | 1, q;\nq = 5 / z;\ny[threadIdx.x] = (float)q;",
     "3: block 0, thread 0: divides by zero, or the quotient does not fit"},
    {"an endless loop", SIGNAL, 32, "volatile int z = 1;\nwhile (z) { }",
     "volatile int z = 0;\nwhile (z) { }",
     "3: block 0, thread 0: the launch takes longer than 1 s (LATHE_CPU_SECONDS raises it)"},
    {"a null pointer", SIGNAL, 32, "const float *q = (const float *)(size_t)((int)x[0] & 0);\n"
                                   "y[threadIdx.x] = q[0];",
     "const float *q = x;\ny[threadIdx.x] = q[0];",
     "3: block 0, thread 0: reads through a null pointer (address 0x0)"},
    {"a deep stack", SIGNAL, 32, "volatile char b[100000];\nb[0] = 1;\nb[99999] = 1;\n"
                                 "y[threadIdx.x] = b[0];",
     "volatile char b[10000];\nb[0] = 1;\nb[9999] = 1;\ny[threadIdx.x] = b[0];",
     "3: block 0, thread 0: its local variables need more than 64 KiB"},
};
_Static_assert(lt_countof(planted) == 26, "the kinds of planted defects");

static const defect more[] = {
    {"a word that is not aligned", SHADOW, 32, "\ny[threadIdx.x] = (float)*(u32 *)((char *)x + 2);",
     "\ny[threadIdx.x] = (float)*(u32 *)((char *)x + 4);",
     "3: block 0, thread 0: 'x' + 2 is not 4-byte aligned"},
};

static lt_device *open_device(lt_play play)
{
    lt_device *dev = kernel_open(play);
    assert_non_null(dev);
    return dev;
}

static void set(const char *name, const char *value)
{
    lt_err err;
    assert_int_equal(lt_config_set(name, value, &err), 0);
}

/* One block of the body on N floats; what came of it. */
static void run_body(lt_device *dev, const char *body, unsigned threads, kernel_result *r)
{
    char text[4000];
    snprintf(text, sizeof text, "LT_KERNEL(1024) k(const float *x, float *y) {\n%s\n}", body);
    kernel_floats(dev, text, threads, N, r);
}

static int check_defects(const defect *list, size_t count)
{
    int bad = 0;
    kernel_result r;
    for (size_t i = 0; i < count; i++) {
        char want[400];
        const defect *d = &list[i];
        snprintf(want, sizeof want, "k: t.cut:%s", d->message);
        set("cpu_check", "on");
        lt_device *checks = open_device((lt_play){0, false, false});
        run_body(checks, d->fixed, d->threads, &r);
        if (r.rc && ++bad) print_error("%s: fixed, and yet: %s\n", d->name, r.err.text);
        run_body(checks, d->body, d->threads, &r);
        if ((!r.rc || strcmp(r.err.text, want)) && ++bad)
            print_error("%s: %s\n", d->name, r.rc ? r.err.text : "not found");
        checks->ops->close(checks);
        set("cpu_check", "off");
        lt_device *plain = open_device((lt_play){0, false, false});
        run_body(plain, d->body, d->threads, &r);
        if ((d->by != SHADOW) != (r.rc && !strcmp(r.err.text, want)) && ++bad)
            print_error("%s without the checker: %s\n", d->name, r.rc ? r.err.text : "not found");
        plain->ops->close(plain);
    }
    return bad;
}

static void each_of_the_26_kinds_is_named_by_the_mechanism_that_finds_it(void **state)
{
    (void)state;
    set("cpu_seconds", "1");
    assert_int_equal(check_defects(planted, lt_countof(planted)), 0);
    set("cpu_seconds", "60");
}

static void x(void **state)
{
    (void)state;
    assert_int_equal(check_defects(more, lt_countof(more)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_the_26_kinds_is_named_by_the_mechanism_that_finds_it),
        cmocka_unit_test(x),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
