/* cpu.h: the prelude for libtcc (and gcc, clang). Same names and meanings as cuda.h. Everything that a warp or a block
 * does together is a call into the CPU device (runtime/cpu), which learns from it where the thread is. */
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned long size_t;
typedef struct { u16 x; } bf16;
typedef struct { u16 x; } f16;
typedef struct { u8 x; } e4m3;
typedef struct { u32 x, y, z; } uint3;
typedef struct __attribute__((aligned(8))) { int x, y; } int2;
typedef struct __attribute__((aligned(8))) { u32 x, y; } uint2;
typedef struct __attribute__((aligned(8))) { float x, y; } float2;
typedef struct __attribute__((aligned(16))) { int x, y, z, w; } int4;
typedef struct __attribute__((aligned(16))) { u32 x, y, z, w; } uint4;
typedef struct __attribute__((aligned(16))) { float x, y, z, w; } float4;

typedef struct lt_thread { /* ORDER THREAD: the first fields of runtime/cpu/emulator.h's lt_thread */
    uint3 tidx, bidx, bdim, gdim;
    char *dynamic; /* the block's dynamic shared memory */
} lt_thread;

lt_thread *lt_cur; /* the running thread: set at each switch */

#define threadIdx (lt_cur->tidx)
#define blockIdx (lt_cur->bidx)
#define blockDim (lt_cur->bdim)
#define gridDim (lt_cur->gdim)
#define LT_HERE lt_cur, __FILE__, __LINE__

#define LT_KERNEL(...) void
#define LT_DEV static inline
#define LT_CLUSTER(n)
#define LT_UNROLL(n)
#define LT_SHARED1(T, name, n) T *name = (T *)lt_cpu_shared(LT_HERE, #name, sizeof(T) * (n))
#define LT_SHARED2(T, name, n, m) T(*name)[m] = (T(*)[m])lt_cpu_shared(LT_HERE, #name, sizeof(T) * (n) * (m))
#define LT_DYN_SHARED(T, name) T *name = (T *)lt_cur->dynamic

extern float fmaf(float, float, float), sqrtf(float), rintf(float), fabsf(float);
extern void *memmove(void *, const void *, size_t), *memcpy(void *, const void *, size_t), *memset(void *, int, size_t);

/* ---- bits and conversions ---- */

typedef union { float f; u32 u; } lt_word;
#define lt_f32_bits(value) ((lt_word){.f = (value)}.u) /* libtcc inlines no function */
#define lt_bits_f32(bits) ((lt_word){.u = (bits)}.f)
#define lt_bf16_f32(h) lt_bits_f32((u32)(h).x << 16)
#define lt_bf16lo_f32(two) lt_bits_f32((u32)(two) << 16)
#define lt_bf16hi_f32(two) lt_bits_f32((two) & 0xffff0000u)
extern u32 lt_pack_bf16(float, float), lt_pack_f16(float, float), lt_pack_e4m3(float, float), lt_e4m3x2_f16x2(u32);
extern float lt_f16lo_f32(u32), lt_f16hi_f32(u32), lt_ue4m3_f32(u32), lt_e2m1_f32(u32);
extern u32 lt_f32_ue4m3(float), lt_f32_e2m1(float);
LT_DEV bf16 lt_f32_bf16(float x) { bf16 r; r.x = (u16)lt_pack_bf16(x, 0.0f); return r; }
LT_DEV float lt_f16_f32(f16 h) { return lt_f16lo_f32(h.x); }
LT_DEV f16 lt_f32_f16(float x) { f16 r; r.x = (u16)lt_pack_f16(x, 0.0f); return r; }
LT_DEV u32 lt_e4m3x2hi_f16x2(u32 four) { return lt_e4m3x2_f16x2(four >> 16); }
LT_DEV float lt_e4m3_f32(e4m3 v) { return lt_f16lo_f32(lt_e4m3x2_f16x2(v.x)); }
LT_DEV e4m3 lt_f32_e4m3(float x) { e4m3 r; r.x = (u8)lt_pack_e4m3(x, 0.0f); return r; }

/* ---- packed arithmetic, and exact.h ---- */

extern u32 lt_fma_bf16x2(u32, u32, u32), lt_mul_bf16x2(u32, u32), lt_fma_f16x2(u32, u32, u32), lt_mul_f16x2(u32, u32);
extern void lt_nvfp4_codes(u32 *, u32), lt_nvfp4_rows(u32 *, u32, u32);
extern i32 lt_dp4a(u32, u32, i32);
extern u32 lt_byte_perm(u32, u32, u32);
extern int lt_popc(u32), lt_clz(u32), lt_ffs(u32);
extern float lt_exp(float), lt_sigmoid(float), lt_silu(float);

/* ---- memory ---- */

extern void lt_cpu_misaligned(lt_thread *, const char *, int, const void *, int);
LT_DEV const void *lt_cpu_aligned(lt_thread *t, const char *file, int line, const void *p, int bytes)
{
    if ((size_t)p & (size_t)(bytes - 1)) lt_cpu_misaligned(t, file, line, p, bytes);
    return p;
}
#define lt_ld128(p) (*(const uint4 *)lt_cpu_aligned(LT_HERE, p, 16))
#define lt_ld128f(p) (*(const float4 *)lt_cpu_aligned(LT_HERE, p, 16))
#define lt_st128(p, v) (*(uint4 *)lt_cpu_aligned(LT_HERE, p, 16) = (v))
#define lt_ld128_once(p) lt_ld128(p)
#define lt_ld128_once_ahead(p) lt_ld128(p)
#define lt_ld128_once_line(p) lt_ld128(p)
#define lt_ld32_fresh(p) lt_ld32_once(p)
#define lt_ld128_fresh(p) lt_ld128(p)
#define lt_ld64_once(p) (*(const uint2 *)lt_cpu_aligned(LT_HERE, p, 8))
#define lt_ld32_once(p) (*(const u32 *)lt_cpu_aligned(LT_HERE, p, 4))
#define lt_prefetch_l2(p) ((void)(p))

/* ---- a warp ---- */

/* kind: 0 lane, 1 xor, 2 down */
extern u32 lt_cpu_shuffle(lt_thread *, const char *, int, u32 mask, u32 v, int kind, int arg);
extern u32 lt_cpu_ballot(lt_thread *, const char *, int, u32 mask, int predicate);
extern u32 lt_cpu_redux(lt_thread *, const char *, int, u32 v, int kind); /* 0 add, 1 max, 2 min */
extern float lt_cpu_warp_reduce(lt_thread *, const char *, int, float v, int kind); /* 0 sum, 1 max */
extern void lt_cpu_syncwarp(lt_thread *, const char *, int, u32 mask);
extern int lt_cpu_last_warp(lt_thread *, const char *, int, u32 *counter, u32 blocks);
#define lt_shfl_f32(mask, v, lane) lt_bits_f32(lt_cpu_shuffle(LT_HERE, mask, lt_f32_bits(v), 0, lane))
#define lt_shfl_u32(mask, v, lane) lt_cpu_shuffle(LT_HERE, mask, v, 0, lane)
#define lt_shfl_xor_f32(mask, v, bits) lt_bits_f32(lt_cpu_shuffle(LT_HERE, mask, lt_f32_bits(v), 1, bits))
#define lt_shfl_xor_u32(mask, v, bits) lt_cpu_shuffle(LT_HERE, mask, v, 1, bits)
#define lt_shfl_down_f32(mask, v, lanes) lt_bits_f32(lt_cpu_shuffle(LT_HERE, mask, lt_f32_bits(v), 2, lanes))
#define lt_shfl_down_u32(mask, v, lanes) lt_cpu_shuffle(LT_HERE, mask, v, 2, lanes)
#define lt_ballot(mask, predicate) lt_cpu_ballot(LT_HERE, mask, predicate)
#define lt_redux_add(v) lt_cpu_redux(LT_HERE, v, 0)
#define lt_redux_max(v) lt_cpu_redux(LT_HERE, v, 1)
#define lt_redux_min(v) lt_cpu_redux(LT_HERE, v, 2)
#define lt_warp_sum(v) lt_cpu_warp_reduce(LT_HERE, v, 0)
#define lt_warp_max(v) lt_cpu_warp_reduce(LT_HERE, v, 1)
#define __syncwarp(...) lt_cpu_syncwarp(LT_HERE, (0xffffffffu, ##__VA_ARGS__))

/* ---- a block ---- */

extern void lt_cpu_syncthreads(lt_thread *, const char *, int);
extern void lt_cpu_bar(lt_thread *, const char *, int, int id, int threads, int waits);
extern u32 lt_cpu_atomic_add_u32(lt_thread *, const char *, int, u32 *p, u32 v);
extern int lt_cpu_last_block(lt_thread *, const char *, int, u32 *counter, u32 blocks);
extern void lt_cpu_put(lt_thread *, const char *, int, u64 *p, u32 value, u32 flag);
extern u64 lt_cpu_peek(lt_thread *, const char *, int, const u64 *p);
extern int lt_cpu_look_again(lt_thread *, const char *, int, int missing);
#define __syncthreads() lt_cpu_syncthreads(LT_HERE)
#define lt_bar_sync(id, threads) lt_cpu_bar(LT_HERE, id, threads, 1)
#define lt_bar_arrive(id, threads) lt_cpu_bar(LT_HERE, id, threads, 0)
#define lt_atomic_add_u32(p, v) lt_cpu_atomic_add_u32(LT_HERE, p, v)
#define lt_last_block(counter, blocks) lt_cpu_last_block(LT_HERE, counter, blocks)
#define lt_last_warp(counter, blocks) lt_cpu_last_warp(LT_HERE, counter, blocks)
#define lt_put(p, value, flag) lt_cpu_put(LT_HERE, p, value, flag)
#define lt_peek(p) lt_cpu_peek(LT_HERE, p)
#define lt_look_again(missing) lt_cpu_look_again(LT_HERE, missing)

/* ---- a cluster ---- */

extern void lt_cpu_cluster_arrive(lt_thread *, const char *, int, int shows);
extern void lt_cpu_cluster_wait(lt_thread *, const char *, int);
extern void *lt_cpu_cluster_place(lt_thread *, const char *, int, const void *p, u32 rank, int bytes);
extern void lt_cpu_cluster_give(lt_thread *, const char *, int, const void *p, u32 rank, const void *v, const u64 *bar);
#define lt_cluster_begin() lt_cpu_cluster_arrive(LT_HERE, 0)
#define lt_cluster_arrive() lt_cpu_cluster_arrive(LT_HERE, 1)
#define lt_cluster_wait() lt_cpu_cluster_wait(LT_HERE)
#define lt_cluster_st32(p, rank, v) (*(u32 *)lt_cpu_cluster_place(LT_HERE, p, rank, 4) = (v))
#define lt_cluster_st128(p, rank, v) (*(uint4 *)lt_cpu_cluster_place(LT_HERE, p, rank, 16) = (v))
#define lt_cluster_give128(p, rank, v, bar) lt_cpu_cluster_give(LT_HERE, p, rank, &(v), bar)

/* ---- asynchronous copies ---- */

extern char *lt_cpu_shared(lt_thread *, const char *, int, const char *name, size_t bytes);
extern void lt_cpu_cp_async16(lt_thread *, const char *, int, void *to, const void *from);
extern void lt_cpu_cp_commit(lt_thread *, const char *, int);
extern void lt_cpu_cp_wait(lt_thread *, const char *, int, int groups);
extern void lt_cpu_mbar_init(lt_thread *, const char *, int, u64 *bar, u32 arrivals);
extern void lt_cpu_mbar_fence(lt_thread *, const char *, int);
extern void lt_cpu_mbar_arrive(lt_thread *, const char *, int, u64 *bar, u32 bytes);
extern void lt_cpu_mbar_wait(lt_thread *, const char *, int, u64 *bar, u32 parity);
extern void lt_cpu_bulk_load(lt_thread *, const char *, int, void *to, const void *from, u32 bytes, u64 *bar);
extern void lt_cpu_bulk_prefetch(lt_thread *, const char *, int, const void *p, u32 bytes);
static const uint4 lt_cpu_zeros;
#define lt_cp_async16(to, from) lt_cpu_cp_async16(LT_HERE, to, from)
#define lt_cp_async16_or_0(to, from, is_there) lt_cp_async16(to, (is_there) ? (const void *)(from) : &lt_cpu_zeros)
#define lt_cp_commit() lt_cpu_cp_commit(LT_HERE)
#define lt_cp_wait(n) lt_cpu_cp_wait(LT_HERE, n)
#define lt_mbar_init(bar, arrivals) lt_cpu_mbar_init(LT_HERE, bar, arrivals)
#define lt_mbar_fence() lt_cpu_mbar_fence(LT_HERE)
#define lt_mbar_arrive(bar) lt_cpu_mbar_arrive(LT_HERE, bar, 0)
#define lt_mbar_expect(bar, bytes) lt_cpu_mbar_arrive(LT_HERE, bar, bytes)
#define lt_mbar_wait(bar, parity) lt_cpu_mbar_wait(LT_HERE, bar, parity)
#define lt_bulk_load(to, from, bytes, bar) lt_cpu_bulk_load(LT_HERE, to, from, bytes, bar)
#define lt_bulk_prefetch_l2(p, bytes) lt_cpu_bulk_prefetch(LT_HERE, p, bytes)

/* ---- tensor cores ---- */

extern void lt_cpu_ldmatrix_x4(lt_thread *, const char *, int, u32 *d, const void *row, int trans);
extern void lt_cpu_mma(lt_thread *, const char *, int, int kind, void *d, const u32 *a, const u32 *b, const void *c,
                       u32 sa, u32 sb); /* 0 bf16, 1 f16, 2 e4m3, 3 s8, 4 nvf4 */
extern void lt_cpu_mma_run(lt_thread *, const char *, int, int kind, float *d, const u32 *a, const u32 *b, int steps);
#define lt_ldmatrix_x4(d, row) lt_cpu_ldmatrix_x4(LT_HERE, d, row, 0)
#define lt_ldmatrix_x4_trans(d, row) lt_cpu_ldmatrix_x4(LT_HERE, d, row, 1)
#define lt_mma_m16n8k16_bf16(d, a, b, c) lt_cpu_mma(LT_HERE, 0, d, a, b, c, 0, 0)
#define lt_mma_m16n8k16_f16(d, a, b, c) lt_cpu_mma(LT_HERE, 1, d, a, b, c, 0, 0)
#define lt_mma_m16n8k32_e4m3(d, a, b, c) lt_cpu_mma(LT_HERE, 2, d, a, b, c, 0, 0)
#define lt_mma_m16n8k32_s8(d, a, b, c) lt_cpu_mma(LT_HERE, 3, d, a, b, c, 0, 0)
#define lt_mma_m16n8k64_nvf4(d, a, b, c, sa, sb) lt_cpu_mma(LT_HERE, 4, d, a, b, c, sa, sb)
#define lt_mma_m16n8k16_bf16_run(d, a, b, steps) lt_cpu_mma_run(LT_HERE, 0, d, a, b, steps)
#define lt_mma_m16n8k16_f16_run(d, a, b, steps) lt_cpu_mma_run(LT_HERE, 1, d, a, b, steps)

/* ---- tensor cores of four warps (wgmma.h): each warp does its own ---- */

LT_DEV void lt_cpu_wgmma(lt_thread *t, const char *file, int line, float *d, const u32 *a, u64 b, int add, int columns)
{
    const u32 *p = (const u32 *)(size_t)(b << 4) + t->tidx.x % 32;
    const float zero[4] = {0};
    for (int i = 0; i < columns / 8; i++) {
        const u32 two[2] = {p[i * 64], p[i * 64 + 32]};
        lt_cpu_mma(t, file, line, 1, d + 4 * i, a, two, add ? d + 4 * i : zero, 0, 0);
    }
}
#define lt_wgmma_b(p) ((u64)(size_t)(p) >> 4)
#define lt_wgmma_show() ((void)0)
#define lt_wgmma_begin() ((void)0)
#define lt_wgmma_end(d, n) ((void)0)
#define lt_wgmma_f16_n8(d, a, b, add) lt_cpu_wgmma(LT_HERE, d, a, b, add, 8)
#define lt_wgmma_f16_n32(d, a, b, add) lt_cpu_wgmma(LT_HERE, d, a, b, add, 32)

/* ---- programmatic dependent launch ---- */

extern void lt_cpu_pdl_wait(lt_thread *, const char *, int);
extern void lt_cpu_pdl_launch(lt_thread *, const char *, int);
extern void lt_cpu_pdl_launch_ahead(lt_thread *, const char *, int);
#define lt_pdl_wait() lt_cpu_pdl_wait(LT_HERE)
#define lt_pdl_launch() lt_cpu_pdl_launch(LT_HERE)
#define lt_pdl_launch_ahead() lt_cpu_pdl_launch_ahead(LT_HERE)
