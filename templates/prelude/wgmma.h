/* wgmma.h: of the prelude for NVRTC what products that four warps make together have besides cuda.h, inline PTX too.
 * cpu.h has the same names. The first of the four is a multiple of four; all of them call each of these together.
 *
 * lt_wgmma_f16_n8, _n32: d = (add: +=) a times b, of 16 steps along K and 8 or 32 columns. A warp has 16 rows of its
 * own in a, and in d eight columns after the other, both as m16n8k16 has them. b is in shared memory at 16 bytes'
 * alignment: of eight columns after the other 256 bytes, steps 0 .. 7 of each and then 8 .. 15; lt_wgmma_b says where,
 * 1 more is 16 bytes more. lt_wgmma_begin comes in front of the first, lt_wgmma_end behind the last; only then are d's
 * n words there, and until then neither a nor d changes. Who writes b calls lt_wgmma_show before a barrier. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
LT_DEV u64 lt_wgmma_b(const void *p)
{
    return (u64)(lt_shared_address(p) >> 4 & 0x3fff) | (u64)(128 >> 4) << 16 | (u64)(256 >> 4) << 32;
}
LT_DEV void lt_wgmma_show(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
LT_DEV void lt_wgmma_begin(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
LT_DEV void lt_wgmma_end(float *d, int n)
{
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    LT_UNROLL(32)
    for (int i = 0; i < n; i++) asm volatile("" : "+f"(d[i])::"memory"); /* nothing reads it in front of the wait */
}
#define LT_WGMMA_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LT_WGMMA(name, shape, words, a0, a1, a2, a3, b0, add0, ...)                                                    \
    LT_DEV void name(float *d, const u32 *a, u64 b, int add)                                                           \
    {                                                                                                                  \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " add0 ", 0; wgmma.mma_async.sync.aligned." shape                 \
                     ".f32.f16.f16 {" words "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b0 ", p, 1, 1, 0; }"               \
                     : __VA_ARGS__                                                                                     \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                                  \
    }
LT_WGMMA(lt_wgmma_f16_n8, "m64n8k16", "%0, %1, %2, %3", "%4", "%5", "%6", "%7", "%8", "%9", LT_WGMMA_4(d, 0))
LT_WGMMA(lt_wgmma_f16_n32, "m64n32k16",
         "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15", "%16", "%17", "%18", "%19", "%20",
         "%21", LT_WGMMA_4(d, 0), LT_WGMMA_4(d, 4), LT_WGMMA_4(d, 8), LT_WGMMA_4(d, 12))
#else /* warp by warp */
LT_DEV u64 lt_wgmma_b(const void *p) { return (u64)p >> 4; }
LT_DEV void lt_wgmma_show(void) {}
LT_DEV void lt_wgmma_begin(void) {}
LT_DEV void lt_wgmma_end(float *d, int n) {}
#define LT_WGMMA(name, columns)                                                                                        \
    LT_DEV void name(float *d, const u32 *a, u64 b, int add)                                                           \
    {                                                                                                                  \
        const u32 *p = (const u32 *)(b << 4) + threadIdx.x % 32;                                                       \
        LT_UNROLL(columns / 8)                                                                                         \
        for (int i = 0; i < columns / 8; i++) {                                                                        \
            const float zero[4] = {0};                                                                                 \
            const u32 two[2] = {p[i * 64], p[i * 64 + 32]};                                                            \
            lt_mma_m16n8k16_f16(d + 4 * i, a, two, add ? d + 4 * i : zero);                                            \
        }                                                                                                              \
    }
LT_WGMMA(lt_wgmma_f16_n8, 8)
LT_WGMMA(lt_wgmma_f16_n32, 32)
#endif
