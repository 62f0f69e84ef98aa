/* cuda.h: the prelude for NVRTC and nvcc. Same names and meanings as cpu.h. The only place with inline PTX. */
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
struct bf16 { u16 x; };
struct f16 { u16 x; };
struct e4m3 { u8 x; };

#define LT_KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
#define LT_DEV static __device__ __forceinline__ __attribute__((unused)) /* a kernel needs a few of these */
#define LT_PRAGMA(x) _Pragma(#x)
#define LT_UNROLL(n) LT_PRAGMA(unroll (n))
#define LT_SHARED1(T, name, n) __shared__ __align__(128) T name[n]
#define LT_SHARED2(T, name, n, m) __shared__ __align__(128) T name[n][m]
#define LT_DYN_SHARED(T, name) extern __shared__ __align__(128) T name[]

/* ---- bits and conversions: nearest even; the first source of a packing cvt is the high half ---- */

LT_DEV u32 lt_f32_bits(float x) { return __float_as_uint(x); }
LT_DEV float lt_bits_f32(u32 u) { return __uint_as_float(u); }
LT_DEV float lt_bf16_f32(bf16 h) { return __uint_as_float((u32)h.x << 16); }
LT_DEV bf16 lt_f32_bf16(float x) { bf16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.x) : "f"(x)); return r; }
LT_DEV float lt_bf16lo_f32(u32 two) { return __uint_as_float(two << 16); }
LT_DEV float lt_bf16hi_f32(u32 two) { return __uint_as_float(two & 0xffff0000u); }
LT_DEV u32 lt_pack_bf16(float lo, float hi)
{
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
LT_DEV float lt_f16_f32(f16 h) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h.x)); return r; }
LT_DEV f16 lt_f32_f16(float x) { f16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.x) : "f"(x)); return r; }
LT_DEV float lt_f16lo_f32(u32 two) { f16 h; h.x = (u16)two; return lt_f16_f32(h); }
LT_DEV float lt_f16hi_f32(u32 two) { f16 h; h.x = (u16)(two >> 16); return lt_f16_f32(h); }
LT_DEV u32 lt_pack_f16(float lo, float hi)
{
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
LT_DEV u32 lt_e4m3x2_f16x2(u32 two) /* the low 16 bits; exact */
{
    u32 r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((u16)two));
    return r;
}
LT_DEV u32 lt_e4m3x2hi_f16x2(u32 four) /* the high 16 bits; the instruction takes either half of a register */
{
    u32 r;
    asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.rn.f16x2.e4m3x2 %0, hi; }" : "=r"(r) : "r"(four));
    return r;
}
LT_DEV float lt_e4m3_f32(e4m3 v) { return lt_f16lo_f32(lt_e4m3x2_f16x2(v.x)); }
LT_DEV u32 lt_pack_e4m3(float lo, float hi) /* into the low 16 bits; saturates at 448 */
{
    u16 r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
    return r;
}
LT_DEV e4m3 lt_f32_e4m3(float x) { e4m3 r; r.x = (u8)lt_pack_e4m3(x, 0.0f); return r; }
LT_DEV float lt_ue4m3_f32(u32 code) { return lt_f16lo_f32(lt_e4m3x2_f16x2(code & 0x7f)); } /* the sign bit is ignored */
LT_DEV u32 lt_f32_ue4m3(float x) { return x <= 0.0f ? 0u : lt_pack_e4m3(x, 0.0f) & 0x7f; }

/* ---- packed arithmetic: one rounding a half; subnormals are kept ---- */

LT_DEV u32 lt_fma_bf16x2(u32 a, u32 b, u32 c)
{
    u32 r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
LT_DEV u32 lt_mul_bf16x2(u32 a, u32 b)
{
    u32 r;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
LT_DEV u32 lt_fma_f16x2(u32 a, u32 b, u32 c)
{
    u32 r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
LT_DEV u32 lt_mul_f16x2(u32 a, u32 b)
{
    u32 r;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
/* A nibble selects a byte: 0-3 of a, 4-7 of b; +8: that byte's sign, eight times. */
LT_DEV u32 lt_byte_perm(u32 a, u32 b, u32 select)
{
    u32 r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(select));
    return r;
}
/* NVFP4 as pack_nvfp4_tile16 lays it out: a word is the A of one m16n8k16, four codes of row g and four of row g + 8.
 * Each 16-bit half keeps a code for each of the four registers, sign and magnitude bits at
 *   register 0: 15, 8-6    1: 11, 4-2    2: 5, 14-12 of the other half    3: 9, 10 1 0
 * so that one shift or rotation, for register 3 two, and a mask put them on a bf16's sign, lowest exponent and highest
 * mantissa bits.  ORDER FP4 */
LT_DEV void lt_nvfp4_codes(u32 *a, u32 word) /* codes * 2^-126, exact (subnormals included) */
{
    a[0] = word & 0x81c081c0u;
    a[1] = word << 4 & 0x81c081c0u;
    a[2] = (word << 10 | word >> 22) & 0x81c081c0u;
    a[3] = (word << 6 & 0x80c080c0u) | (word >> 2 & 0x01000100u);
}
/* codes * scale * 2^-20, exact; the low byte of scales is row g's, the next row g + 8's: exponent + 9, mantissa bits */
LT_DEV void lt_nvfp4_rows(u32 *a, u32 word, u32 scales)
{
    const u32 both = lt_byte_perm(scales, 0, 0x4140) * 16 + 0x70007000u;
    u32 upper, lower; /* by moves, of which the assembler makes the multiplications' choice of an operand's half */
    asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %2; mov.b32 %0, {lo, lo}; mov.b32 %1, {hi, hi}; }"
        : "=r"(upper), "=r"(lower) : "r"(both));
    lt_nvfp4_codes(a, word);
    a[0] = lt_mul_bf16x2(a[0], upper);
    a[1] = lt_mul_bf16x2(a[1], lower);
    a[2] = lt_mul_bf16x2(a[2], upper);
    a[3] = lt_mul_bf16x2(a[3], lower);
}
LT_DEV i32 lt_dp4a(u32 a, u32 b, i32 c) /* four signed bytes each */
{
    i32 r;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

LT_DEV int lt_popc(u32 v) { return __popc(v); }
LT_DEV int lt_clz(u32 v) { return __clz((int)v); } /* zeros in front; of 0: 32 */
LT_DEV int lt_ffs(u32 v) { return __ffs((int)v); } /* the lowest one counts from 1; of 0: 0 */

/* ---- memory: 16 bytes need 16-byte alignment, 8 need 8; `once`: read once by a launch, written by none. They are not
 * ld.global.nc: the assembler moves those behind the wait of lt_pdl_wait, where nothing is early any more. ---- */

LT_DEV uint4 lt_ld128(const void *p) { return *(const uint4 *)p; }
LT_DEV float4 lt_ld128f(const void *p) { return *(const float4 *)p; }
LT_DEV void lt_st128(void *p, uint4 v) { *(uint4 *)p = v; }
LT_DEV uint4 lt_ld128_once(const void *p)
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
LT_DEV uint4 lt_ld128_once_line(const void *p) /* and asks L2 for the 128 bytes around it */
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
LT_DEV uint4 lt_ld128_once_ahead(const void *p) /* and asks L2 for the 256 bytes around it */
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
LT_DEV uint2 lt_ld64_once(const void *p)
{
    uint2 v;
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
LT_DEV u32 lt_ld32_once(const void *p)
{
    u32 v;
    asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
LT_DEV u32 lt_ld32_fresh(const void *p) /* from L2: what other blocks of this launch wrote */
{
    u32 v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
LT_DEV uint4 lt_ld128_fresh(const void *p)
{
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
    return v;
}
LT_DEV void lt_prefetch_l2(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

/* ---- a warp: every lane of the mask calls; sums and maxima meet in the butterfly 16, 8, 4, 2, 1 ---- */

LT_DEV float lt_shfl_f32(u32 mask, float v, int lane) { return __shfl_sync(mask, v, lane); }
LT_DEV u32 lt_shfl_u32(u32 mask, u32 v, int lane) { return __shfl_sync(mask, v, lane); }
LT_DEV float lt_shfl_xor_f32(u32 mask, float v, int bits) { return __shfl_xor_sync(mask, v, bits); }
LT_DEV u32 lt_shfl_xor_u32(u32 mask, u32 v, int bits) { return __shfl_xor_sync(mask, v, bits); }
LT_DEV float lt_shfl_down_f32(u32 mask, float v, int lanes) { return __shfl_down_sync(mask, v, lanes); }
LT_DEV u32 lt_shfl_down_u32(u32 mask, u32 v, int lanes) { return __shfl_down_sync(mask, v, lanes); }
LT_DEV u32 lt_ballot(u32 mask, int predicate) { return __ballot_sync(mask, predicate); }
LT_DEV u32 lt_redux_add(u32 v) { return __reduce_add_sync(0xffffffffu, v); } /* one instruction, no butterfly */
LT_DEV u32 lt_redux_max(u32 v) { return __reduce_max_sync(0xffffffffu, v); }
LT_DEV u32 lt_redux_min(u32 v) { return __reduce_min_sync(0xffffffffu, v); }
LT_DEV float lt_warp_sum(float v)
{
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}
LT_DEV float lt_warp_max(float v)
{
    for (int o = 16; o > 0; o >>= 1) {
        const float other = __shfl_xor_sync(0xffffffffu, v, o);
        v = other > v ? other : v;
    }
    return v;
}

/* ---- a block ---- */

LT_DEV void lt_bar_sync(int id, int threads) /* id 1..15 */
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
LT_DEV void lt_bar_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
LT_DEV u32 lt_atomic_add_u32(u32 *p, u32 v) { return atomicAdd(p, v); }
/* Every thread of the block calls, once its results are in memory. Non-zero in the block that comes last of `blocks`;
 * the counter, zero before the launch, is zero again after it. */
LT_DEV int lt_last_block(u32 *counter, u32 blocks)
{
    __syncthreads();
    int last = 0;
    if (threadIdx.x == 0) {
        u32 before;
        asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
        last = before == blocks - 1;
        if (last) *counter = 0;
    }
    return __syncthreads_or(last);
}
/* The same of one warp of each block, for what it knows to be done: the others need not wait for the counter. */
LT_DEV int lt_last_warp(u32 *counter, u32 blocks)
{
    u32 before = 0;
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
        if (before == blocks - 1) *counter = 0;
    }
    __syncwarp();
    return lt_shfl_u32(0xffffffffu, before, 0) == blocks - 1;
}

/* ---- blocks that wait for others of their launch: at most 64 of 512 threads do, so that the others find room ---- */

/* A value and its flag in one word: who sees the flag has the value. Nothing else becomes visible. */
LT_DEV void lt_put(u64 *p, u32 value, u32 flag)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"((u64)flag << 32 | value) : "memory");
}
LT_DEV u64 lt_peek(const u64 *p) /* the flag is the high half */
{
    u64 v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
/* Ends the round of a loop that looks for what other blocks put: is something missing? Before that a block writes
 * nothing but what it puts: the CPU device begins it again. */
LT_DEV int lt_look_again(int missing) { return missing; }

/* ---- asynchronous copies ---- */

LT_DEV u32 lt_shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
LT_DEV void lt_cp_async16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(lt_shared_address(to)), "l"(from) : "memory");
}
/* 16 zeros where `from` is not there: nothing is read. */
LT_DEV void lt_cp_async16_or_0(void *to, const void *from, int is_there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(lt_shared_address(to)), "l"(from),
                 "r"(is_there ? 16 : 0)
                 : "memory");
}
#define lt_cp_commit() asm volatile("cp.async.commit_group;" ::: "memory")
/* Afterwards all but the newest n groups have landed. */
#define lt_cp_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

LT_DEV void lt_mbar_init(u64 *bar, u32 arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(lt_shared_address(bar)), "r"(arrivals) : "memory");
}
/* After the inits, before the block's barrier that shows them to the others. */
LT_DEV void lt_mbar_fence(void) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
LT_DEV void lt_mbar_arrive(u64 *bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(lt_shared_address(bar)) : "memory");
}
LT_DEV void lt_mbar_expect(u64 *bar, u32 bytes) /* arrives, and the phase waits for that many bytes more */
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(lt_shared_address(bar)), "r"(bytes) : "memory");
}
LT_DEV void lt_mbar_wait(u64 *bar, u32 parity) /* until the phase of that parity is over; phases count 0, 1, 0, .. */
{
    u32 done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(lt_shared_address(bar)), "r"(parity) : "memory");
    } while (!done);
}
LT_DEV void lt_bulk_load(void *to, const void *from, u32 bytes, u64 *bar) /* 16-byte aligned, whole 16 bytes */
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(lt_shared_address(to)), "l"(from), "r"(bytes), "r"(lt_shared_address(bar)) : "memory");
}
LT_DEV void lt_bulk_prefetch_l2(const void *p, u32 bytes) /* 16-byte aligned, whole 16 bytes */
{
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes) : "memory");
}

/* ---- tensor cores: a whole warp calls; d may be c ---- */

LT_DEV void lt_ldmatrix_x4(u32 *d, const void *row) /* lane l gives the address of row l % 8 of matrix l / 8 */
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(lt_shared_address(row)) : "memory");
}
LT_DEV void lt_ldmatrix_x4_trans(u32 *d, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(lt_shared_address(row)) : "memory");
}
#define LT_MMA(name, instruction, T, constraint)                                                                       \
    LT_DEV void name(T *d, const u32 *a, const u32 *b, const T *c)                                                     \
    {                                                                                                                  \
        asm volatile(instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                \
                     : "=" constraint(d[0]), "=" constraint(d[1]), "=" constraint(d[2]), "=" constraint(d[3])          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), constraint(c[0]),             \
                       constraint(c[1]), constraint(c[2]), constraint(c[3]));                                          \
    }
LT_MMA(lt_mma_m16n8k16_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
LT_MMA(lt_mma_m16n8k16_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", float, "f")
LT_MMA(lt_mma_m16n8k32_e4m3, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "f")
LT_MMA(lt_mma_m16n8k32_s8, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", i32, "r")
/* d += the products of `steps` steps along K, four words of a and two of b each */
LT_DEV void lt_mma_m16n8k16_bf16_run(float *d, const u32 *a, const u32 *b, int steps)
{
    LT_UNROLL(8)
    for (int i = 0; i < steps; i++) lt_mma_m16n8k16_bf16(d, a + 4 * i, b + 2 * i, d);
}
LT_DEV void lt_mma_m16n8k16_f16_run(float *d, const u32 *a, const u32 *b, int steps)
{
    LT_UNROLL(8)
    for (int i = 0; i < steps; i++) lt_mma_m16n8k16_f16(d, a + 4 * i, b + 2 * i, d);
}
#if __CUDA_ARCH__ >= 1200
/* NVFP4: sa, sb hold four ue4m3 scales of 16 along K; row m's in lane 4 (m % 8) + m / 8, column n's in lane 4 n */
LT_DEV void lt_mma_m16n8k64_nvf4(float *d, const u32 *a, const u32 *b, const float *c, u32 sa, u32 sb)
{
    asm volatile("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13}, %14, {0, 0}, %15, {0, 0};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]),
                   "f"(c[3]), "r"(sa), "r"(sb));
}
#endif

/* ---- programmatic dependent launch ---- */

/* Before the first read of what an earlier kernel of the step wrote, and before any global write. */
LT_DEV void lt_pdl_wait(void) { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/* The next kernel may start. After the wait: what it reads early must not be in the works any more. */
LT_DEV void lt_pdl_launch(void) { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
/* In front of the wait, for a short kernel: the next one starts under the one in front of this one too. */
LT_DEV void lt_pdl_launch_ahead(void) { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
