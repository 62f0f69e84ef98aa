/* cpu_check.c: the device that checks names each of the 26 planted defects, and each of its own
 * kinds, with the template's line, the thread and the byte; the same kernel without the defect
 * passes. */
#include "tests/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { N = 128 };

typedef enum {
    SCHEDULER, /* fibers, barriers and collectives: the device that does not check says the same */
    SIGNAL,    /* a guard page, a trap, the clock: the same, too */
    SHADOW     /* the device that checks; the other finds less of it, later, or nothing */
} mechanism;

typedef struct {
    const char *name;
    mechanism by;
    unsigned threads;
    const char *body, *fixed; /* of k(const float *x, float *y, u32 *n), from line 2 on */
    const char *message;      /* behind "k: t.cut:" */
    unsigned grid, shared;    /* as in kernel_job */
} defect;

static const defect planted[] = {
    {"divergent barrier", SCHEDULER, 128,
     "if (threadIdx.x < 64)\n __syncthreads();\nelse\n __syncthreads();", "__syncthreads();",
     .message = "5: block 0, thread 64: divergent __syncthreads: thread 0 waits in __syncthreads "
                "at t.cut:3"},
    {"barrier after a return", SCHEDULER, 128, "if (threadIdx.x >= 64) return;\n__syncthreads();",
     "__syncthreads();\nif (threadIdx.x >= 64) return;",
     .message = "3: block 0, thread 0: __syncthreads waits for thread 64, which has returned"},
    {"deadlock of barrier and warp", SCHEDULER, 64,
     "if ((threadIdx.x & 31) == 0)\n __syncthreads();\nelse\n __syncwarp(0xffffffffu);\n"
     "__syncthreads();",
     "__syncwarp(0xffffffffu);\n__syncthreads();",
     .message =
         "3: block 0, thread 0: deadlock: 64 threads never end: 2 in __syncthreads at t.cut:3 "
         "(the first is thread 0); 62 in __syncwarp at t.cut:5, mask ffffffff (the first is thread "
         "1)"},
    {"shuffles in two lines", SCHEDULER, 32,
     "float v = x[threadIdx.x];\nif (threadIdx.x & 1)\n v += lt_shfl_xor_f32(0xffffffffu, v, 1);\n"
     "else\n v -= lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nv += lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     .message = "4: block 0, thread 1: divergent warp: shuffle, mask ffffffff, while others wait "
                "in shuffle "
                "at t.cut:6"},
    {"half a warp in a full mask", SCHEDULER, 32,
     "float v = x[threadIdx.x];\nif (threadIdx.x < 16) v += lt_shfl_xor_f32(0xffffffffu, v, 1);\n"
     "y[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nif (threadIdx.x < 16) v += lt_shfl_xor_f32(0xffffu, v, 1);\n"
     "y[threadIdx.x] = v;",
     .message = "3: block 0, thread 0: shuffle: mask ffffffff names lane 16, which has returned"},
    {"a lane outside the mask is read", SCHEDULER, 32,
     "float v = x[threadIdx.x];\nif (threadIdx.x < 16) v += lt_shfl_xor_f32(0xffffu, v, 16);\n"
     "y[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nif (threadIdx.x < 16) v += lt_shfl_xor_f32(0xffffu, v, 8);\n"
     "y[threadIdx.x] = v;",
     .message = "3: block 0, thread 0: shuffle: reads lane 16, which is not in the mask 0000ffff"},
    {"a caller outside its mask", SCHEDULER, 32,
     "float v = x[threadIdx.x];\nv += lt_shfl_xor_f32(0xffffu, v, 1);\ny[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nv += lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     .message = "3: block 0, thread 16: shuffle: lane 16 is not in its own mask 0000ffff"},
    {"returned lanes in the mask", SCHEDULER, 32,
     "float v = x[threadIdx.x];\nif (threadIdx.x < 20) return;\n"
     "v += lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nif (threadIdx.x < 20) return;\n"
     "v += lt_shfl_xor_f32(0xfff00000u, v, 1);\ny[threadIdx.x] = v;",
     .message = "4: block 0, thread 20: shuffle: mask ffffffff names lanes 000fffff, which have "
                "returned or "
                "do not exist"},
    {"a full mask in a partial warp", SCHEDULER, 48,
     "float v = x[threadIdx.x];\nv += lt_shfl_xor_f32(0xffffffffu, v, 1);\ny[threadIdx.x] = v;",
     "float v = x[threadIdx.x];\nconst u32 m = threadIdx.x < 32 ? 0xffffffffu : 0xffffu;\n"
     "v += lt_shfl_xor_f32(m, v, 1);\ny[threadIdx.x] = v;",
     .message = "3: block 0, thread 32: shuffle: mask ffffffff names lanes ffff0000, which have "
                "returned or "
                "do not exist"},
    {"a read past the end", SIGNAL, 128, "float v;\nv = x[threadIdx.x + 1];\ny[threadIdx.x] = v;",
     "float v;\nv = x[threadIdx.x];\ny[threadIdx.x] = v;",
     .message = "3: block 0, thread 127: reads byte 512 of 'x', which has 512"},
    {"a write past the end", SIGNAL, 128, "\ny[threadIdx.x + 1] = 1;", "\ny[threadIdx.x] = 1;",
     .message = "3: block 0, thread 127: writes byte 512 of 'y', which has 512"},
    {"a read in front of the start", SHADOW, 128, "\ny[threadIdx.x] = x[(int)threadIdx.x - 1];",
     "\ny[threadIdx.x] = x[(int)threadIdx.x];",
     .message = "3: block 0, thread 0: reads byte -4 of 'x', which has 512"},
    {"a shared read past the end", SIGNAL, 128,
     "LT_SHARED1(float, s, 100); if (threadIdx.x < 100) s[threadIdx.x] = 1; __syncthreads();\n"
     "y[threadIdx.x] = s[threadIdx.x];",
     "LT_SHARED1(float, s, 100); if (threadIdx.x < 100) s[threadIdx.x] = 1; __syncthreads();\n"
     "y[threadIdx.x] = s[threadIdx.x % 100];",
     .message = "3: block 0, thread 100: reads byte 400 of shared 's', which has 400"},
    {"a shared write past the end", SIGNAL, 128, "LT_SHARED1(float, s, 100);\ns[threadIdx.x] = 1;",
     "LT_SHARED1(float, s, 128);\ns[threadIdx.x] = 1;",
     .message = "3: block 0, thread 100: writes byte 400 of shared 's', which has 400"},
    {"a shared write in front of the start", SHADOW, 128,
     "LT_SHARED1(float, s, 128);\ns[(int)threadIdx.x - 1] = 1;",
     "LT_SHARED1(float, s, 128);\ns[(int)threadIdx.x] = 1;",
     .message = "3: block 0, thread 0: writes byte -4 of shared 's', which has 512"},
    {"a shared write in the slack", SHADOW, 128,
     "LT_SHARED1(float, s, 101);\nif (threadIdx.x < 102) s[threadIdx.x] = 1;",
     "LT_SHARED1(float, s, 101);\nif (threadIdx.x < 101) s[threadIdx.x] = 1;",
     .message = "3: block 0, thread 101: writes byte 404 of shared 's', which has 404"},
    {"uninitialised shared memory", SHADOW, 128,
     "LT_SHARED1(float, s, 128); if (threadIdx.x < 127) s[threadIdx.x] = 1; __syncthreads();\n"
     "y[threadIdx.x] = s[threadIdx.x];",
     "LT_SHARED1(float, s, 128); if (threadIdx.x < 128) s[threadIdx.x] = 1; __syncthreads();\n"
     "y[threadIdx.x] = s[threadIdx.x];",
     .message = "3: block 0, thread 127: reads shared 's' + 508, which nobody has written"},
    {"a missing barrier", SHADOW, 128,
     "LT_SHARED1(float, s, 128); s[127 - threadIdx.x] = s[threadIdx.x] = x[threadIdx.x];\n"
     "y[threadIdx.x] = s[127 - threadIdx.x];",
     "LT_SHARED1(float, s, 128); s[threadIdx.x] = x[threadIdx.x]; __syncthreads();\n"
     "y[threadIdx.x] = s[127 - threadIdx.x];",
     .message = "2: block 0, thread 64: race: writes shared 's' + 256, which thread 63 writes at "
                "t.cut:2 (no barrier orders them)"},
    {"a missing second barrier", SHADOW, 128,
     "LT_SHARED1(float, s, 128);\nfor (int i = 0; i < 2; i++) {\n"
     " s[threadIdx.x] = x[threadIdx.x] + i;\n __syncthreads();\n"
     " y[threadIdx.x] += s[(threadIdx.x + 32) & 127];\n}",
     "LT_SHARED1(float, s, 128);\nfor (int i = 0; i < 2; i++) {\n"
     " s[threadIdx.x] = x[threadIdx.x] + i;\n __syncthreads();\n"
     " y[threadIdx.x] += s[(threadIdx.x + 32) & 127];\n __syncthreads();\n}",
     .message = "4: block 0, thread 32: race: writes shared 's' + 128, which thread 0 reads at "
                "t.cut:6 (no barrier orders them)"},
    {"implicit synchrony of a warp", SHADOW, 32,
     "LT_SHARED1(float, s, 32); s[threadIdx.x] = x[threadIdx.x]; lt_shfl_u32(0xffffffffu, 0, 0);\n"
     "y[threadIdx.x] = s[threadIdx.x ^ 1];",
     "LT_SHARED1(float, s, 32); s[threadIdx.x] = x[threadIdx.x]; __syncwarp();\n"
     "y[threadIdx.x] = s[threadIdx.x ^ 1];",
     .message = "3: block 0, thread 0: race: reads shared 's' + 4, which thread 1 writes at "
                "t.cut:2 (no barrier orders them)"},
    {"a cp.async that is waited for too late", SHADOW, 128,
     "LT_SHARED1(float, s, 128);\n"
     "if (threadIdx.x < 32) lt_cp_async16(&s[threadIdx.x * 4], x + threadIdx.x * 4);\n"
     "lt_cp_commit();\n__syncthreads();\ny[threadIdx.x] = s[threadIdx.x];\nlt_cp_wait(0);",
     "LT_SHARED1(float, s, 128);\n"
     "if (threadIdx.x < 32) lt_cp_async16(&s[threadIdx.x * 4], x + threadIdx.x * 4);\n"
     "lt_cp_commit();\nlt_cp_wait(0);\n__syncthreads();\ny[threadIdx.x] = s[threadIdx.x];",
     .message = "6: block 0, thread 0: race: reads shared 's' + 0, to which the copy of t.cut:3 is "
                "under way "
                "(wait for it first)"},
    {"a misaligned load", SIGNAL, 32,
     "uint4 v;\nv = lt_ld128((const char *)x + 4);\n*(u32 *)y = v.x;",
     "uint4 v;\nv = lt_ld128((const char *)x + 16);\nif (!threadIdx.x) *(u32 *)y = v.x;",
     .message = "3: block 0, thread 0: 'x' + 4 is not 16-byte aligned"},
    {"a division by zero", SIGNAL, 32,
     "int z = (int)x[threadIdx.x] & 0, q;\nq = 5 / z;\ny[threadIdx.x] = (float)q;",
     "int z = (int)x[threadIdx.x] | 1, q;\nq = 5 / z;\ny[threadIdx.x] = (float)q;",
     .message = "3: block 0, thread 0: divides by zero, or the quotient does not fit"},
    {"an endless loop", SIGNAL, 32, "volatile int z = 1;\nwhile (z) { }",
     "volatile int z = 0;\nwhile (z) { }",
     .message =
         "3: block 0, thread 0: the launch takes longer than 1 s (LATHE_CPU_SECONDS raises it)"},
    {"a null pointer", SIGNAL, 32,
     "const float *q = (const float *)(size_t)((int)x[0] & 0);\n"
     "y[threadIdx.x] = q[0];",
     "const float *q = x;\ny[threadIdx.x] = q[0];",
     .message = "3: block 0, thread 0: reads through a null pointer (address 0x0)"},
    {"a deep stack", SIGNAL, 32,
     "volatile char b[100000];\nb[0] = 1;\nb[99999] = 1;\n"
     "y[threadIdx.x] = b[0];",
     "volatile char b[10000];\nb[0] = 1;\nb[9999] = 1;\ny[threadIdx.x] = b[0];",
     .message = "3: block 0, thread 0: its local variables need more than 64 KiB"},
};
_Static_assert(lt_countof(planted) == 26, "the kinds of planted defects");

#define HALVES "const u32 m = threadIdx.x < 16 ? 0xffffu : 0xffff0000u;\n"
/* Warp 0 fills, warp 1 reads behind READY. */
#define NAMED(READY)                                                                               \
    "LT_SHARED1(float, s, 32);\n"                                                                  \
    "if (threadIdx.x < 32) {\n s[threadIdx.x] = 1;\n lt_bar_arrive(1, 64);\n} else {\n" READY      \
    "y[threadIdx.x] = s[threadIdx.x - 32];\n}"
/* Thread 0 fills two stages twice with bulk copies, warp 1 reads them. */
#define RING(EMPTY, FULL)                                                                          \
    "LT_SHARED2(float, s, 2, 4); LT_SHARED1(u64, full, 2); LT_SHARED1(u64, empty, 2);\n"           \
    "if (threadIdx.x == 0) for (int i = 0; i < 2; i++) {\n"                                        \
    " lt_mbar_init(full + i, 1); lt_mbar_init(empty + i, 32);\n}\n"                                \
    "if (threadIdx.x == 0) lt_mbar_fence();\n__syncthreads();\n"                                   \
    "for (int i = 0; i < 4; i++) {\n const int stage = i % 2; const u32 parity = i / 2 % 2;\n"     \
    " if (threadIdx.x == 0) {\n" EMPTY "  lt_mbar_expect(full + stage, 16);\n  "                   \
    "lt_bulk_load(s[stage], x + i * 4, 16, full + stage);\n"                                       \
    " } else if (threadIdx.x >= 32) {\n" FULL                                                      \
    "  if (threadIdx.x < 36) y[i * 4 + threadIdx.x - 32] = s[stage][threadIdx.x - 32];\n"          \
    "  lt_mbar_arrive(empty + stage);\n }\n}\n"
#define WAIT_EMPTY "lt_mbar_wait(empty + stage, parity ^ 1);\n"
#define WAIT_FULL "lt_mbar_wait(full + stage, parity);\n"
#define COPY "if (threadIdx.x == 0) lt_cp_async16(s, x);\nlt_cp_commit();\n"
#define ONE_WAITS                                                                                  \
    "LT_SHARED1(float, s, 4); LT_SHARED1(u64, bar, 1);\nif (threadIdx.x == 0) {\n"                 \
    " lt_mbar_init(bar, 1); lt_mbar_fence(); lt_mbar_expect(bar, 16);\n"                           \
    " lt_bulk_load(s, x, 16, bar);\n lt_mbar_wait(bar, 0);\n}\n"
#define READ "y[threadIdx.x] = s[0];"
#define ROWS(READY)                                                                                \
    "LT_SHARED1(float, s, 128); u32 d[4];\nlt_st128(s + threadIdx.x * 4, lt_ld128(x));\n"          \
    "__syncwarp();\nlt_st128(s + (threadIdx.x + 31) % 32 * 4, lt_ld128(x));\n" READY               \
    "lt_ldmatrix_x4(d, s + threadIdx.x * 4);\ny[threadIdx.x] = (float)d[0];"

/* Of k(const float *x, float *y, u32 *n), n all zero. */
static const defect more[] = {
    {"a word that is not aligned", SHADOW, 32, "\ny[threadIdx.x] = (float)*(u32 *)((char *)x + 2);",
     "\ny[threadIdx.x] = (float)*(u32 *)((char *)x + 4);",
     .message = "3: block 0, thread 0: 'x' + 2 is not 4-byte aligned"},
    {"a struct past the end", SIGNAL, 1,
     "typedef struct { float v[8]; } eight;\neight e;\ne = *(const eight *)(x + 124);\n"
     "y[0] = e.v[(int)x[1]];",
     "typedef struct { float v[8]; } eight;\neight e;\ne = *(const eight *)(x + 120);\n"
     "y[0] = e.v[(int)x[1]];",
     .message = "4: block 0, thread 0: reads byte 512 of 'x', which has 512"},
    {"a neighbour's result without a barrier", SHADOW, 64,
     "y[threadIdx.x] = 1;\ny[threadIdx.x + 64] = y[threadIdx.x ^ 32];",
     "y[threadIdx.x] = 1;\n__syncthreads();\ny[threadIdx.x + 64] = y[threadIdx.x ^ 32];",
     .message = "2: block 0, thread 32: race: writes 'y' + 128, which thread 0 reads at t.cut:3 "
                "(no barrier orders them)"},
    {"two blocks write one place", SHADOW, 32, "y[threadIdx.x] = 1;",
     "y[blockIdx.x * 32 + threadIdx.x] = 1;",
     .message = "2: block 1, thread 0: race: writes 'y' + 0, which block 0, thread 0 writes at "
                "t.cut:2 (only lt_last_block/warp order blocks)",
     .grid = 2},
    {"a block reads what another writes", SHADOW, 1,
     "y[blockIdx.x] = 1;\ny[blockIdx.x + 2] = y[0];",
     "y[blockIdx.x] = 1;\ny[blockIdx.x + 2] = x[0];",
     .message = "3: block 1, thread 0: race: reads 'y' + 0, which block 0, thread 0 writes at "
                "t.cut:2 (only lt_last_block/warp order blocks)",
     .grid = 2},
    {"a block writes what another has read", SHADOW, 1,
     "if (blockIdx.x) y[0] = 1;\nelse y[1] = y[0];", "if (blockIdx.x) y[2] = 1;\nelse y[1] = y[0];",
     .message = "2: block 1, thread 0: race: writes 'y' + 0, which block 0, thread 0 reads at "
                "t.cut:3 (only lt_last_block/warp order blocks)",
     .grid = 2},
    {"two blocks read, one of them writes", SHADOW, 1,
     "const float v = y[0];\ny[blockIdx.x + 1] = v;\nif (blockIdx.x) y[0] = v + 1;",
     "const float v = y[0];\ny[blockIdx.x + 1] = v;\nif (blockIdx.x) y[3] = v + 1;",
     .message = "4: block 1, thread 0: race: writes 'y' + 0, which block 0, thread 0 reads at "
                "t.cut:2 (only lt_last_block/warp order blocks)",
     .grid = 2},
    {"each block is the last of a counter of its own", SHADOW, 1,
     "y[blockIdx.x] = 1;\nif (!lt_last_block(n + blockIdx.x, 1)) return;\ny[3] = y[0];",
     "y[blockIdx.x] = 1;\nif (!lt_last_block(n, 2)) return;\ny[3] = y[0];",
     .message = "4: block 1, thread 0: race: reads 'y' + 0, which block 0, thread 0 writes at "
                "t.cut:2 (only lt_last_block/warp order blocks)",
     .grid = 2},
    {"a block writes after lt_last_block", SHADOW, 1,
     "const int last = lt_last_block(n, 2);\ny[blockIdx.x] = 1;\nif (last) y[3] = y[0];",
     "y[blockIdx.x] = 1;\nconst int last = lt_last_block(n, 2);\nif (last) y[3] = y[0];",
     .message = "4: block 1, thread 0: race: reads 'y' + 0, which block 0, thread 0 writes at "
                "t.cut:3 (only lt_last_block/warp order blocks)",
     .grid = 2},
    {"a warp counts what it does not know to be done", SHADOW, 64,
     "y[blockIdx.x * 64 + threadIdx.x] = 1;\n"
     "if (threadIdx.x < 32 && lt_last_warp(n, 2)) y[threadIdx.x] = y[32 + threadIdx.x];",
     "y[blockIdx.x * 64 + threadIdx.x] = 1;\n__syncthreads();\n"
     "if (threadIdx.x < 32 && lt_last_warp(n, 2)) y[threadIdx.x] = y[32 + threadIdx.x];",
     .message = "3: block 1, thread 0: race: reads 'y' + 128, which block 0, thread 32 writes at "
                "t.cut:2 (only lt_last_block/warp order blocks)",
     .grid = 2},
    {"another warp than the one that has counted", SHADOW, 64,
     "if (threadIdx.x == 0) y[blockIdx.x] = 1;\n__syncthreads();\n"
     "const int last = threadIdx.x < 32 && lt_last_warp(n, 2);\n__syncthreads();\n"
     "if (threadIdx.x == 32 && blockIdx.x == 1) y[3] = y[0];",
     "if (threadIdx.x == 0) y[blockIdx.x] = 1;\n__syncthreads();\n"
     "const int last = threadIdx.x < 32 && lt_last_warp(n, 2);\n__syncthreads();\n"
     "if (threadIdx.x == 31 && last) y[3] = y[0];",
     .message = "6: block 1, thread 32: race: reads 'y' + 0, which block 0, thread 0 writes at "
                "t.cut:2 (only lt_last_block/warp order blocks)",
     .grid = 2},
    {"a block writes before it looks again", SHADOW, 1,
     "u64 *p = (u64 *)n;\nlt_put(p + blockIdx.x, 1, 1);\ny[blockIdx.x] = 1;\n"
     "while (lt_look_again(lt_peek(p + 1 - blockIdx.x) == 0)) ;",
     "u64 *p = (u64 *)n;\nlt_put(p + blockIdx.x, 1, 1);\n"
     "while (lt_look_again(lt_peek(p + 1 - blockIdx.x) == 0)) ;\ny[blockIdx.x] = 1;",
     .message = "4: block 0, thread 0: race: writes 'y' + 0, which block 0, thread 0 writes at "
                "t.cut:4 (only lt_last_block/warp order blocks)",
     .grid = 2},
    {"a counter is read while others count", SHADOW, 64,
     "lt_atomic_add_u32(n, 1);\ny[threadIdx.x] = (float)n[0];",
     "lt_atomic_add_u32(n, 1);\n__syncthreads();\ny[threadIdx.x] = (float)n[0];",
     .message = "2: block 0, thread 1: race: writes 'n' + 0, which thread 0 reads at t.cut:3 (no "
                "barrier orders them)"},
    {"half a warp is synchronised", SHADOW, 32,
     HALVES "LT_SHARED1(float, s, 32);\ns[threadIdx.x] = 1;\n__syncwarp(m);\n"
            "y[threadIdx.x] = s[threadIdx.x ^ 16];",
     HALVES "LT_SHARED1(float, s, 32);\ns[threadIdx.x] = 1;\n__syncwarp(m);\n"
            "y[threadIdx.x] = s[threadIdx.x ^ 8];",
     .message = "6: block 0, thread 0: race: reads shared 's' + 64, which thread 16 writes at "
                "t.cut:4 (no barrier orders them)"},
    {"two warps read, one of them writes", SHADOW, 64,
     "LT_SHARED1(float, s, 1);\nif (!threadIdx.x) s[0] = 1;\n__syncthreads();\n"
     "y[threadIdx.x] = s[0];\n__syncwarp();\nif (!threadIdx.x) s[0] = 2;",
     "LT_SHARED1(float, s, 1);\nif (!threadIdx.x) s[0] = 1;\n__syncthreads();\n"
     "if (threadIdx.x < 32) y[threadIdx.x] = s[0];\n__syncwarp();\nif (!threadIdx.x) s[0] = 2;",
     .message = "7: block 0, thread 0: race: writes shared 's' + 0, which thread 63 reads at "
                "t.cut:5 (no barrier orders them)"},
    {"a named barrier that is not waited for", SHADOW, 64, NAMED(""),
     NAMED("lt_bar_sync(1, 64);\n"),
     .message = "7: block 0, thread 32: race: reads shared 's' + 0, which thread 0 writes at "
                "t.cut:4 (no barrier orders them)"},
    {"ldmatrix of rows that other lanes write", SHADOW, 32, ROWS(""), ROWS("__syncwarp();\n"),
     .message = "5: block 0, thread 1: race: writes shared 's' + 0, which thread 0 reads at "
                "t.cut:6 (no barrier orders them)"},
    {"two copies to one place", SHADOW, 1,
     "LT_SHARED1(float, s, 4);\n" COPY COPY "lt_cp_wait(0);\ny[0] = s[0];",
     "LT_SHARED1(float, s, 4);\n" COPY "lt_cp_wait(0);\n" COPY "lt_cp_wait(0);\ny[0] = s[0];",
     .message = "5: block 0, thread 0: race: writes shared 's' + 0, to which the copy of t.cut:3 "
                "is under way (wait for it first)"},
    {"a copy of what another thread writes", SHADOW, 64,
     "LT_SHARED1(float, s, 4);\nif (threadIdx.x == 63) y[0] = 1;\n"
     "if (threadIdx.x == 0) lt_cp_async16(s, y);\nlt_cp_commit();\nlt_cp_wait(0);",
     "LT_SHARED1(float, s, 4);\nif (threadIdx.x == 63) y[4] = 1;\n"
     "if (threadIdx.x == 0) lt_cp_async16(s, y);\nlt_cp_commit();\nlt_cp_wait(0);",
     .message = "3: block 0, thread 63: race: writes 'y' + 0, which thread 0 reads at t.cut:4 (no "
                "barrier orders them)"},
    {"shared memory that only the block before wrote", SHADOW, 1,
     "LT_SHARED1(float, s, 1);\nif (blockIdx.x == 0) s[0] = 1;\ny[blockIdx.x] = s[0];",
     "LT_SHARED1(float, s, 1);\ns[0] = 1;\ny[blockIdx.x] = s[0];",
     .message = "4: block 1, thread 0: reads shared 's' + 0, which nobody has written", .grid = 2},
    {"a copy to where others read", SHADOW, 64,
     "LT_SHARED1(float, s, 4);\n" COPY
     "lt_cp_wait(0);\n__syncthreads();\ny[threadIdx.x] = s[0];\n" COPY "lt_cp_wait(0);",
     "LT_SHARED1(float, s, 4);\n" COPY "lt_cp_wait(0);\n__syncthreads();\ny[threadIdx.x] = s[0];\n"
     "__syncthreads();\n" COPY "lt_cp_wait(0);",
     .message = "7: block 0, thread 1: race: reads shared 's' + 0, which thread 0 writes at "
                "t.cut:8 (no barrier orders them)"},
    {"a bulk copy that the reader does not wait for", SHADOW, 64, RING(WAIT_EMPTY, ""),
     RING(WAIT_EMPTY, WAIT_FULL),
     .message = "15: block 0, thread 32: race: reads shared 's' + 0, to which the copy of t.cut:13 "
                "is made (wait for its mbarrier first)"},
    {"a bulk copy to where others read", SHADOW, 64, RING("", WAIT_FULL),
     RING(WAIT_EMPTY, WAIT_FULL),
     .message = "12: block 0, thread 0: race: writes shared 's' + 0, to which the copy of t.cut:12 "
                "is made (wait for its mbarrier first)"},
    {"a bulk copy that one thread waits for", SHADOW, 64, ONE_WAITS READ,
     ONE_WAITS "__syncthreads();\n" READ,
     .message = "8: block 0, thread 1: race: reads shared 's' + 0, to which the copy of t.cut:5 is "
                "made (wait for its mbarrier first)"},
    {"dynamic shared memory past the end", SIGNAL, 65,
     "LT_DYN_SHARED(float, d);\nd[threadIdx.x] = 1;",
     "LT_DYN_SHARED(float, d);\nif (threadIdx.x < 64) d[threadIdx.x] = 1;",
     .message = "3: block 0, thread 64: writes byte 256 of shared 'dynamic', which has 256",
     .shared = 256},
    {"a read a MiB past the end", SIGNAL, 32, "\ny[threadIdx.x] = x[threadIdx.x + 262240];",
     "\ny[threadIdx.x] = x[threadIdx.x];",
     .message = "3: block 0, thread 0: reads byte 1048960 of 'x', which has 512"},
    {"a write a MiB in front of the start", SIGNAL, 32, "\ny[(int)threadIdx.x - 262144] = 1;",
     "\ny[threadIdx.x] = 1;",
     .message = "3: block 0, thread 0: writes byte -1048576 of 'y', which has 512"},
};

/* Runs the body on x[i] = i, y[i] = -1 and n[i] = 0; 0, or -1 and the message. */
static int run_body(lt_device *dev, const char *body, const defect *d, lt_err *err)
{
    char text[4000];
    float x[N], y[N];
    uint32_t n[N] = {0};
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = -1;
    }
    const kernel_job job = {.params = "x y! n!",
                            .grid = d->grid,
                            .block = d->threads,
                            .shared = d->shared,
                            .data = {x, y, n},
                            .bytes = {sizeof x, sizeof y, sizeof n}};
    snprintf(text, sizeof text, "LT_KERNEL(1024) k(const float *x, float *y, u32 *n) {\n%s\n}",
             body);
    err->text[0] = 0;
    return kernel_run(dev, text, &job, err);
}

/* The message of a defect on a device that checks, or does not. */
static void find(const defect *d, const char *body, const char *checks, lt_play play, lt_err *err)
{
    lt_device *dev = kernel_open_checked(checks, play);
    assert_non_null(dev);
    run_body(dev, body, d, err);
    dev->ops->close(dev);
}

static int check_defect(const defect *d)
{
    static const lt_play forward = {0, false, false}, late = {3, true, false};
    char want[400];
    lt_err err;
    int bad = 0;
    snprintf(want, sizeof want, "k: t.cut:%s", d->message);
    find(d, d->body, "on", forward, &err);
    if (strcmp(err.text, want) && ++bad) print_error("%s: '%s'\n", d->name, err.text);
    find(d, d->body, "off", forward, &err);
    if ((d->by != SHADOW) != !strcmp(err.text, want) && ++bad)
        print_error("%s without the checker: '%s'\n", d->name, err.text);
    find(d, d->fixed, "on", forward, &err);
    if (*err.text && ++bad) print_error("%s: fixed, and yet '%s'\n", d->name, err.text);
    find(d, d->fixed, "on", late, &err);
    if (*err.text && ++bad) print_error("%s: fixed and late, and yet '%s'\n", d->name, err.text);
    return bad;
}

static void check_defects(const defect *list, size_t count)
{
    int bad = 0;
    for (size_t i = 0; i < count; i++) bad += check_defect(&list[i]);
    assert_int_equal(bad, 0);
}

static void each_of_the_26_kinds_is_named_by_the_mechanism_that_finds_it(void **state)
{
    (void)state;
    lt_err err;
    assert_int_equal(lt_config_set("cpu_seconds", "1", &err), 0);
    check_defects(planted, lt_countof(planted));
    assert_int_equal(lt_config_set("cpu_seconds", "60", &err), 0);
}

static void races_of_all_kinds_are_named_and_what_orders_accesses_is_known(void **state)
{
    (void)state;
    check_defects(more, lt_countof(more));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_the_26_kinds_is_named_by_the_mechanism_that_finds_it),
        cmocka_unit_test(races_of_all_kinds_are_named_and_what_orders_accesses_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
