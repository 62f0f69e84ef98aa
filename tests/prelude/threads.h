/* threads.h: the cases of memory, warps, blocks, asynchronous copies and dependent launches. */
#ifndef LT_TESTS_THREADS_H
#define LT_TESTS_THREADS_H

#include "case.h"

/* ---- memory ---- */

static const char loads_text[] =
    "LT_KERNEL(64) prelude_loads(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    const u32 i = blockIdx.x * 64 + threadIdx.x;\n"
    "    const u32 *from = in + 16 * i;\n"
    "    lt_prefetch_l2(from);\n"
    "    if (threadIdx.x == 0) lt_bulk_prefetch_l2(from, 64 * 64);\n"
    "    const uint4 a = lt_ld128(from), c = lt_ld128_once(from + 4);\n"
    "    const uint4 e = lt_ld128_once_ahead(from + 8), h = lt_ld128_once_line(from + 4);\n"
    "    const float4 b = lt_ld128f(from);\n"
    "    const uint2 f = lt_ld64_once(from + 12);\n"
    "    const uint4 g = lt_ld128_fresh(from + 4);\n"
    "    uint4 r;\n"
    "    r.x = a.x ^ lt_f32_bits(b.y);\n"
    "    r.y = a.y + lt_f32_bits(b.x) + a.z;\n"
    "    r.x += g.w;\n"
    "    r.y += g.z;\n"
    "    r.z = c.x + 3u * h.y + 5u * c.z + 7u * c.w + a.w + lt_f32_bits(b.z) * lt_f32_bits(b.w);\n"
    "    r.w = e.x + 3u * e.y + 5u * e.z + 7u * e.w + 9u * f.x + 11u * f.y;\n"
    "    r.w += 13u * lt_ld32_once(from + 14) + 15u * lt_ld32_fresh(from + 15);\n"
    "    lt_st128(out + 4 * i, r);\n"
    "}\n";

static void expect_loads(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (uint32_t *o = out; o < out + words; o += 4, in += 16) {
        o[0] = (in[0] ^ in[1]) + in[7];
        o[1] = in[1] + in[0] + in[2] + in[6];
        o[2] = in[4] + 3 * in[5] + 5 * in[6] + 7 * in[7] + in[3] + in[2] * in[3];
        o[3] = in[8] + 3 * in[9] + 5 * in[10] + 7 * in[11] + 9 * in[12] + 11 * in[13];
        o[3] += 13 * in[14] + 15 * in[15];
    }
}

/* ---- a warp ---- */

static const char warp_text[] =
    "LT_KERNEL(64) prelude_warp(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    LT_SHARED1(u32, met, 64);\n"
    "    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
    "    const u32 i = blockIdx.x * 64 + threadIdx.x, all = 0xffffffffu, v = in[i];\n"
    "    const float x = (float)(v & 0xffffu) * 0.37f;\n"
    "    u32 *o = out + 15 * i;\n"
    "    o[0] = lt_shfl_u32(all, v, (lane * 7 + 3) % 32);\n"
    "    o[1] = lt_f32_bits(lt_shfl_f32(all, x, 31 - lane));\n"
    "    o[2] = lt_shfl_xor_u32(all, v, 5);\n"
    "    o[3] = lt_f32_bits(lt_shfl_xor_f32(all, x, 16));\n"
    "    o[4] = lt_shfl_down_u32(all, v, 3);\n"
    "    o[5] = lt_f32_bits(lt_shfl_down_f32(all, x, 16));\n"
    "    o[6] = lt_ballot(all, (int)(v & 1u));\n"
    "    o[7] = lt_f32_bits(lt_warp_sum(x));\n"
    "    o[8] = lt_f32_bits(lt_warp_max(x - 9000.0f));\n"
    "    if (lane < 16)\n"
    "        o[9] = lt_shfl_xor_u32(0x0000ffffu, v, 3) + lt_ballot(0x0000ffffu, lane % 3 == 0);\n"
    "    else\n"
    "        o[9] = lt_shfl_xor_u32(0xffff0000u, v, 9) + lt_ballot(0xffff0000u, lane % 5 == 0);\n"
    "    met[threadIdx.x] = v;\n"
    "    __syncwarp();\n"
    "    o[10] = met[warp * 32 + (lane + 1) % 32];\n"
    "    __syncwarp(0xffffffffu);\n"
    "    met[threadIdx.x] = v ^ 1u;\n"
    "    __syncwarp();\n"
    "    o[11] = met[warp * 32 + (lane + 2) % 32];\n"
    "    o[12] = lt_redux_add(v);\n"
    "    o[13] = lt_redux_max(v);\n"
    "    o[14] = lt_redux_min(v);\n"
    "}\n";

static float warp_value(uint32_t v)
{
    return (float)(v & 0xffff) * 0.37f;
}

/* The butterfly that meets at distances 16, 8, 4, 2, 1. */
static float butterfly(const uint32_t *in, bool largest)
{
    float x[32], y[32];
    for (int l = 0; l < 32; l++) x[l] = warp_value(in[l]) - (largest ? 9000.0f : 0.0f);
    for (int distance = 16; distance > 0; distance /= 2) {
        for (int l = 0; l < 32; l++) {
            const float other = x[l ^ distance];
            y[l] = !largest ? x[l] + other : other > x[l] ? other : x[l];
        }
        memcpy(x, y, sizeof x);
    }
    return x[0];
}

static void expect_lane(const uint32_t *in, uint32_t *o, int l)
{
    uint32_t odd = 0, third = 0, fifth = 0;
    for (int k = 0; k < 32; k++) {
        odd |= (in[k] & 1) << k;
        if (k < 16 && k % 3 == 0) third |= 1u << k;
        if (k >= 16 && k % 5 == 0) fifth |= 1u << k;
    }
    o[0] = in[(l * 7 + 3) % 32];
    o[1] = case_bits(warp_value(in[31 - l]));
    o[2] = in[l ^ 5];
    o[3] = case_bits(warp_value(in[l ^ 16]));
    o[4] = in[l + 3 < 32 ? l + 3 : l]; /* past the last lane: one's own */
    o[5] = case_bits(warp_value(in[l + 16 < 32 ? l + 16 : l]));
    o[6] = odd;
    o[7] = case_bits(butterfly(in, false));
    o[8] = case_bits(butterfly(in, true));
    o[9] = l < 16 ? in[l ^ 3] + third : in[l ^ 9] + fifth;
    o[10] = in[(l + 1) % 32];
    o[11] = in[(l + 2) % 32] ^ 1;
    o[12] = o[13] = o[14] = in[0];
    for (int k = 1; k < 32; k++) {
        o[12] += in[k];
        o[13] = in[k] > o[13] ? in[k] : o[13];
        o[14] = in[k] < o[14] ? in[k] : o[14];
    }
}

static void expect_warp(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words / 15; i++) expect_lane(in + i / 32 * 32, out + 15 * i, i % 32);
}

/* ---- a block ---- */

static const char block_text[] =
    "enum { ROUNDS = 8 };\n"
    "LT_DEV u32 turned(u32 v, int by) { return v << by | v >> (32 - by); }\n"
    "\n"
    "LT_KERNEL(128, 2) prelude_block(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    LT_SHARED1(u32, one, 128);\n"
    "    LT_SHARED2(u32, two, 4, 33);\n"
    "    LT_DYN_SHARED(u32, dynamic);\n"
    "    const int t = threadIdx.x, warp = t / 32, lane = t % 32;\n"
    "    const u32 i = blockIdx.x * 128 + threadIdx.x;\n"
    "    one[t] = in[i];\n"
    "    two[warp][lane] = turned(in[i], 7);\n"
    "    if (lane == 0) two[warp][32] = (u32)warp;\n"
    "    dynamic[127 - t] = in[i] ^ 0x5a5a5a5au;\n"
    "    __syncthreads();\n"
    "    u32 sum = 0;\n"
    "    LT_UNROLL(4)\n"
    "    for (int k = 0; k < ROUNDS; k++) sum = sum * 31u + one[(t + 16 * k) % 128];\n"
    "    out[3 * i] = sum;\n"
    "    out[3 * i + 1] = two[lane % 4][t % 33];\n"
    "    out[3 * i + 2] = dynamic[t];\n"
    "}\n";

static void expect_block(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words / 3; i++) {
        const uint32_t *mine = in + i / 128 * 128, t = i % 128;
        const uint32_t row = t % 32 % 4, column = t % 33;
        uint32_t sum = 0;
        for (uint32_t k = 0; k < 8; k++) sum = sum * 31 + mine[(t + 16 * k) % 128];
        out[3 * i] = sum;
        const uint32_t there = column < 32 ? mine[32 * row + column] : 0;
        out[3 * i + 1] = column < 32 ? there << 7 | there >> 25 : row;
        out[3 * i + 2] = mine[127 - t] ^ 0x5a5a5a5a;
    }
}

static const char bars_text[] = "LT_KERNEL(128) prelude_bars(u32 *out, const u32 *in, u32 *work)\n"
                                "{\n"
                                "    LT_SHARED1(u32, box, 64);\n"
                                "    const int t = threadIdx.x;\n"
                                "    const u32 i = blockIdx.x * 64 + threadIdx.x % 64;\n"
                                "    if (t < 64) { /* two warps fill the box in two steps */\n"
                                "        box[63 - t] = in[i];\n"
                                "        lt_bar_sync(2, 64);\n"
                                "        const u32 was = box[t];\n"
                                "        lt_bar_sync(2, 64);\n"
                                "        box[(t + 1) % 64] = was * 3u + 1u;\n"
                                "        lt_bar_arrive(1, 128);\n"
                                "    } else { /* and two empty it */\n"
                                "        lt_bar_sync(1, 128);\n"
                                "        out[i] = box[t - 64];\n"
                                "    }\n"
                                "}\n";

static void expect_bars(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words; i++)
        out[i / 64 * 64 + (i + 1) % 64] = in[i / 64 * 64 + 63 - i % 64] * 3 + 1;
}

/* The last block adds up what all have left, in the order of the blocks; what it leaves in work
 * lets the next launch do the same. */
static const char last_text[] =
    "LT_KERNEL(64) prelude_last(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    LT_SHARED1(u32, part, 64);\n"
    "    part[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];\n"
    "    const u32 ticket = lt_atomic_add_u32(work + 1, 1u);\n"
    "    lt_atomic_add_u32(work + 2, ticket);\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) {\n"
    "        u32 sum = 0;\n"
    "        for (u32 k = 0; k < 64; k++) sum += part[k] * (k + 1);\n"
    "        work[4 + blockIdx.x] = sum;\n"
    "    }\n"
    "    if (!lt_last_block(work, gridDim.x)) return;\n"
    "    if (threadIdx.x != 0) return;\n"
    "    u32 sum = 0;\n"
    "    for (u32 b = 0; b < gridDim.x; b++) sum = sum * 33u + lt_ld32_fresh(work + 4 + b);\n"
    "    out[0] = sum;\n"
    "    out[1] = lt_ld32_fresh(work + 1);\n"
    "    out[2] = lt_ld32_fresh(work + 2);\n"
    "    out[3] = lt_ld32_fresh(work);\n"
    "    out[4] = ++work[3];\n"
    "    work[1] = 0;\n"
    "    work[2] = 0;\n"
    "}\n";

enum { LAST_BLOCKS = 37, RESIDENT_BLOCKS = 300 };

static void expect_last(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)words;
    (void)model;
    uint32_t sum = 0;
    for (int b = 0; b < LAST_BLOCKS; b++) {
        uint32_t part = 0;
        for (uint32_t k = 0; k < 64; k++) part += *in++ * (k + 1);
        sum = sum * 33 + part;
    }
    out[0] = sum;
    out[1] = 64 * LAST_BLOCKS;
    out[2] = 64 * LAST_BLOCKS * (64 * LAST_BLOCKS - 1) / 2; /* of the tickets, in any order */
    out[3] = 0;
    out[4] = 3; /* launches */
}

/* One warp of the last block adds up what all threads have left. */
static const char last_warp_text[] =
    "LT_KERNEL(64) prelude_last_warp(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    work[1 + 64 * blockIdx.x + threadIdx.x] = in[64 * blockIdx.x + threadIdx.x] + 1;\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x < 32 || !lt_last_warp(work, gridDim.x)) return;\n"
    "    for (u32 k = threadIdx.x - 32; k < 64; k += 32) {\n"
    "        u32 sum = 0;\n"
    "        for (u32 b = 0; b < gridDim.x; b++) sum += lt_ld32_fresh(work + 1 + 64 * b + k);\n"
    "        out[k] = sum;\n"
    "    }\n"
    "    __syncwarp();\n"
    "    if (threadIdx.x == 63) out[64] = lt_ld32_fresh(work);\n"
    "}\n";

static void expect_last_warp(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    memset(out, 0, words * sizeof *out);
    for (int i = 0; i < 64 * LAST_BLOCKS; i++) out[i % 64] += in[i] + 1;
}

/* More blocks than may be there at a time, of an odd number of warps. */
static const char resident_text[] =
    "LT_KERNEL(96, 2) prelude_resident(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    lt_resident_at_most(96, 2);\n"
    "    const u32 i = 96 * blockIdx.x + threadIdx.x;\n"
    "    out[i] = in[i] + 1;\n"
    "    (void)work;\n"
    "}\n";

static void expect_resident(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words; i++) out[i] = in[i] + 1;
}

/* Each block waits for what all of them put, at each launch anew. */
static const char put_text[] =
    "LT_KERNEL(64) prelude_put(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    u64 *slots = (u64 *)work;\n"
    "    u32 *turns = work + 2 * 64;\n"
    "    const u32 turn = lt_ld32_fresh(turns + blockIdx.x) + 1, t = threadIdx.x;\n"
    "    if (t == 0) lt_put(slots + blockIdx.x, in[blockIdx.x] + turn, turn);\n"
    "    u64 got = 0;\n"
    "    int missing;\n"
    "    do {\n"
    "        if (t < gridDim.x) got = lt_peek(slots + t);\n"
    "        missing = t < gridDim.x && (u32)(got >> 32) != turn;\n"
    "    } while (lt_look_again(missing));\n"
    "    out[64 * blockIdx.x + t] = (u32)got;\n"
    "    __syncthreads();\n"
    "    if (t == 0) turns[blockIdx.x] = turn;\n"
    "}\n";

enum { PUT_BLOCKS = 37, PUT_LAUNCHES = 3 };

static void expect_put(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words; i++) out[i] = i % 64 < PUT_BLOCKS ? in[i % 64] + PUT_LAUNCHES : 0;
}

/* ---- asynchronous copies ---- */

/* Each block gives its words to the next one of its cluster: one by one, four at once, and four
 * that an mbarrier counts. */
static const char cluster_text[] =
    "LT_KERNEL(64) LT_CLUSTER(4) prelude_cluster(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    LT_SHARED1(u32, got, 64);\n"
    "    LT_SHARED1(uint4, fours, 16);\n"
    "    LT_SHARED1(uint4, given, 16);\n"
    "    LT_SHARED1(u64, bar, 1);\n"
    "    const u32 i = blockIdx.x * 64 + threadIdx.x, rank = blockIdx.x % 4;\n"
    "    if (threadIdx.x == 0) {\n"
    "        lt_mbar_init(bar, 1);\n"
    "        lt_mbar_expect(bar, 16 * 16);\n"
    "        lt_mbar_fence();\n"
    "    }\n"
    "    lt_cluster_begin();\n"
    "    const u32 v = in[i];\n"
    "    const uint4 four = lt_ld128(in + i / 16 * 16 + i % 4 * 4);\n"
    "    lt_cluster_wait();\n"
    "    lt_cluster_st32(got + (threadIdx.x + 5) % 64, (rank + 1) % 4, v);\n"
    "    if (i % 16 < 4) lt_cluster_st128(fours + threadIdx.x / 16 * 4 + i % 4, (rank + 1) % 4, "
    "four);\n"
    "    if (i % 16 < 4) lt_cluster_give128(given + threadIdx.x / 16 * 4 + i % 4, (rank + 2) % 4, "
    "four, bar);\n"
    "    lt_cluster_arrive();\n"
    "    lt_cluster_wait();\n"
    "    lt_mbar_wait(bar, 0);\n"
    "    out[3 * i] = got[threadIdx.x];\n"
    "    out[3 * i + 1] = ((const u32 *)fours)[threadIdx.x];\n"
    "    out[3 * i + 2] = ((const u32 *)given)[threadIdx.x];\n"
    "}\n";

static void expect_cluster(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words / 3; i++) {
        const size_t rank = i / 64 % 4, first = i / 64 - rank, from = first + (rank + 3) % 4;
        out[3 * i] = in[from * 64 + (i + 59) % 64];
        out[3 * i + 1] = in[from * 64 + i % 64];
        out[3 * i + 2] = in[(first + (rank + 2) % 4) * 64 + i % 64];
    }
}

static const char cp_async_text[] =
    "LT_KERNEL(64) prelude_cp_async(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    LT_SHARED2(u32, stage, 2, 256);\n"
    "    const int t = threadIdx.x;\n"
    "    const u32 i = blockIdx.x * 64 + threadIdx.x;\n"
    "    const u32 *from = in + 512 * blockIdx.x;\n"
    "    lt_cp_async16(&stage[0][4 * t], from + 4 * t);\n"
    "    lt_cp_commit();\n"
    "    lt_cp_async16_or_0(&stage[1][4 * t], from + 256 + 4 * t, t % 3);\n"
    "    lt_cp_commit();\n"
    "    lt_cp_wait(1);\n"
    "    __syncthreads();\n"
    "    out[2 * i] = stage[0][(4 * t + 37) % 256];\n"
    "    lt_cp_wait(0);\n"
    "    __syncthreads();\n"
    "    out[2 * i + 1] = stage[1][255 - t];\n"
    "}\n";

static void expect_cp_async(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words / 2; i++) {
        const uint32_t *from = in + i / 64 * 512;
        out[2 * i] = from[(4 * (i % 64) + 37) % 256];
        out[2 * i + 1] = (255 - i % 64) / 4 % 3 ? from[256 + 255 - i % 64] : 0;
    }
}

/* Six kilobytes through a ring of two: `full` counts bytes, `empty` readers. */
static const char ring_text[] =
    "LT_KERNEL(128) prelude_ring(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    LT_SHARED2(u32, ring, 2, 256);\n"
    "    LT_SHARED1(u64, full, 2);\n"
    "    LT_SHARED1(u64, empty, 2);\n"
    "    const int t = threadIdx.x;\n"
    "    const u32 *from = in + 6 * 256 * blockIdx.x;\n"
    "    if (t == 0) {\n"
    "        for (int s = 0; s < 2; s++) {\n"
    "            lt_mbar_init(&full[s], 1);\n"
    "            lt_mbar_init(&empty[s], 128);\n"
    "        }\n"
    "        lt_mbar_fence();\n"
    "    }\n"
    "    __syncthreads();\n"
    "    u32 sum = 0;\n"
    "    for (int c = 0; c < 6; c++) {\n"
    "        const int s = c % 2;\n"
    "        const u32 turn = (u32)c / 2;\n"
    "        if (t == 0) {\n"
    "            if (turn > 0) lt_mbar_wait(&empty[s], (turn - 1) % 2);\n"
    "            lt_mbar_expect(&full[s], 1024);\n"
    "            lt_bulk_load(ring[s], from + 256 * c, 512, &full[s]);\n"
    "            lt_bulk_load(ring[s] + 128, from + 256 * c + 128, 512, &full[s]);\n"
    "        }\n"
    "        lt_mbar_wait(&full[s], turn % 2);\n"
    "        sum = sum * 17u + ring[s][t] + 3u * ring[s][255 - t];\n"
    "        lt_mbar_arrive(&empty[s]);\n"
    "    }\n"
    "    out[128 * blockIdx.x + threadIdx.x] = sum;\n"
    "}\n";

static void expect_ring(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words; i++) {
        const uint32_t *from = in + i / 128 * 6 * 256;
        out[i] = 0;
        for (int c = 0; c < 6; c++, from += 256)
            out[i] = out[i] * 17 + from[i % 128] + 3 * from[255 - i % 128];
    }
}

/* ---- dependent launches ---- */

static const char first_text[] =
    "LT_KERNEL(64) prelude_first(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    const u32 i = blockIdx.x * 64 + threadIdx.x;\n"
    "    lt_pdl_launch_ahead();\n"
    "    u32 v = in[i];\n"
    "    lt_pdl_wait();\n"
    "    for (int k = 0; k < 1000; k++) v = v * 1664525u + 1013904223u;\n"
    "    work[i] = v;\n"
    "}\n";

static const char second_text[] =
    "LT_KERNEL(64) prelude_second(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    const u32 i = blockIdx.x * 64 + threadIdx.x;\n"
    "    const u32 mine = lt_ld32_once(in + i); /* before the wait: no kernel writes it */\n"
    "    lt_pdl_wait();\n"
    "    lt_pdl_launch();\n"
    "    out[i] = mine ^ work[64 * gridDim.x - 1 - i];\n"
    "}\n";

static void expect_second(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words; i++) {
        uint32_t v = in[words - 1 - i];
        for (int k = 0; k < 1000; k++) v = v * 1664525u + 1013904223u;
        out[i] = in[i] ^ v;
    }
}

#endif
