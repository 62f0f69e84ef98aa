/* family w4a4_moe.swiglu rev 1, shape m1_topk1_experts1_n32_k16, variant m2l0t1s1g4u2j0b0, class mma.nvf4_1 */
// Weights are the 16-row operand of the block-scaled m16n8k64, slots of one expert the columns. Codes and scales come
// out of the layout that other devices multiply as bf16; the mma applies both scales.
enum { M = 1, TOPK = 1, EXPERTS = 1, N = 32, K = 16, MMA = 2, LATE = 0, TILES = 1, SPLIT = 1, GROUPS = 4, UNROLL = 2, JOIN = 0, BLOCK = 0 };
enum {
    SLOTS = M * TOPK,
    SHARE = SLOTS / 1,    // slots that read one row of x
    SCALES = 2,  // of an expert: a tensor each
    UNITS = (K + 127) / 128,      // pairs of chunks: 1 KB of codes and 128 bytes of scales of a tile
    WARPS = SPLIT * GROUPS,       // of a block
    PARTS = 1,
    ALL_TILES = N / 16,           // of an expert
    COLUMNS = JOIN ? M : 1,       // slots that one reading serves
    HALVES = (COLUMNS + 7) / 8,   // mma columns hold eight of them
    TOTALS = HALVES * 4,          // sums of a lane and tile
    COUNT = TILES * TOTALS,       // the same of all tiles
    SMALL = UNROLL * TILES * HALVES <= 2,        // 80 registers, or 96 in a block of 4 warps, are enough
    RESIDENT = SMALL && WARPS < 16 ? 20 / WARPS + (WARPS == 8) : 1  // blocks of a multiprocessor
};
// A unit of a tile as pack_nvfp4_tile16 lays it out: 1 KB of codes of two chunks of 64 k, 128 bytes of their scales.
#define FP4_UNSCALE 0x1p20f  // undoes what lt_nvfp4_rows makes too small

LT_DEV void fp4_load_unit(uint4 *w, u32 *scale, const u8 *codes, const e4m3 *scales, size_t unit, int lane)
{
    w[0] = lt_ld128_once(codes + unit * 1024 + lane * 16);
    w[1] = lt_ld128_once(codes + unit * 1024 + 512 + lane * 16);
    *scale = lt_ld32_once(scales + unit * 128 + lane * 4);
}

// The same of unit `unit` behind a tile's first one; codes and scales are this lane's.
LT_DEV void fp4_load_next(uint4 *w, u32 *scale, const u8 *codes, const e4m3 *scales, int unit)
{
    w[0] = lt_ld128_once(codes + unit * 1024);
    w[1] = lt_ld128_once(codes + unit * 1024 + 512);
    *scale = lt_ld32_once(scales + unit * 128);
}

// The A fragments of a chunk's four steps, code * scale * 2^-20: lane (g, t) has rows g and g + 8, k 16t .. 16t + 15.
LT_DEV void fp4_chunk(u32 (*a)[4], uint4 codes, u32 scale)
{
    const u32 word[4] = {codes.x, codes.y, codes.z, codes.w};
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) lt_nvfp4_rows(a[j], word[j], scale);
}

// x gets a factor of 2^64, so that products with codes * 2^-126 are no subnormals, and sums with scale * 2^106 are 2^44
// times too large.
LT_DEV void fp4_lift(u32 *b, u32 factor)
{
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++) b[i] = lt_mul_bf16x2(b[i], factor);
}
#define FP4_LIFT 0x5f805f80u       // 2^64
#define FP4_LIFT_CODES 0x63006300u // 2^71: of values that fp4_expand made 2^7 times too small
#define FP4_UNLIFT 0x1p-44f
// Units of pack_nvfp4_tile16 as m16n8k64 takes them. The mma's groups of 16 k are 0, 2, 1, 3 of a chunk's: so the two
// halves of the groups of lanes t and t ^ 1 change hands in one shuffle a row.  ORDER FP4
LT_DEV u32 nvf4_codes4(u32 word, int lower)  // four codes of row g or g + 8
{
    const u32 turned = word << 16 | word >> 16;
    u32 two;  // first and third in the low half's bytes, second and fourth in the high one's
    if (lower) {
        two = (word >> 2 & 0x00070007u) | (word >> 8 & 0x00080008u);
        two |= (word & 0x00030003u) << 8 | (word >> 8 & 0x00040004u) << 8 | (word >> 6 & 0x00080008u) << 8;
    } else {
        two = (word >> 6 & 0x00070007u) | (word >> 12 & 0x00080008u);
        two |= (turned >> 12 & 0x00070007u) << 8 | (word >> 2 & 0x00080008u) << 8;
    }
    return (two | two >> 12) & 0xffff;
}

LT_DEV u32 nvf4_codes8(u32 first, u32 second, int lower)
{
    return nvf4_codes4(first, lower) | nvf4_codes4(second, lower) << 16;
}

LT_DEV void nvf4_chunk(u32 *a, uint4 codes, int t)
{
    LT_UNROLL(2)
    for (int r = 0; r < 2; r++) {
        const u32 lo = nvf4_codes8(codes.x, codes.y, r), hi = nvf4_codes8(codes.z, codes.w, r);
        const u32 got = lt_shfl_xor_u32(0xffffffffu, t % 2 ? lo : hi, 1);
        a[r] = t % 2 ? got : lo;
        a[r + 2] = t % 2 ? hi : got;
    }
}

// Scales as E4M3 again: exponent + 9 and mantissa bits, of which a subnormal's are cut; 249 is NaN.
LT_DEV u32 nvf4_scale(u32 byte)
{
    if (byte >= 24) return byte > 142 ? 0x7f : byte - 16;
    return (8 | (byte & 7)) >> (3 - (byte >> 3));
}

// The scales of a unit's two chunks: of row g in lanes 4g, of row g + 8 in lanes 4g + 1.
LT_DEV void nvf4_scales(u32 *sa, u32 word, int lane)
{
    const u32 own = nvf4_scale(word & 255) | nvf4_scale(word >> 8 & 255) << 8 | nvf4_scale(word >> 16 & 255) << 16 |
                    nvf4_scale(word >> 24) << 24;
    const u32 one = lt_shfl_u32(0xffffffffu, own, lane & 28), two = lt_shfl_u32(0xffffffffu, own, (lane & 28) + 2);
    const u32 three = lt_shfl_u32(0xffffffffu, own, (lane & 28) + 1), four = lt_shfl_u32(0xffffffffu, own, lane | 3);
    LT_UNROLL(2)
    for (int c = 0; c < 2; c++) {
        const u32 i = 2 * c + lane % 2, select = i | (i + 4) << 4;
        sa[c] = lt_byte_perm(one, two, select) & 0xffff;
        sa[c] |= lt_byte_perm(three, four, select) << 16;
    }
}

// Column n's codes and scales of a chunk of row-major x, whose groups end at `end`: zero from there on.
LT_DEV void nvf4_column(u32 *b, u32 *sb, const u8 *x, const e4m3 *xs, size_t at, size_t end, int t)
{
    *sb = 0;
    LT_UNROLL(2)
    for (int h = 0; h < 2; h++) {
        const size_t mine = at + (t / 2 * 2 + h) * 16;
        b[h] = mine < end ? *(const u32 *)(x + mine / 2 + t % 2 * 4) : 0;
    }
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++)
        if (at + i * 16 < end) *sb |= (u32)xs[at / 16 + i].x << (i % 2 * 2 + i / 2) * 8;
}
LT_DEV int fp4_sum_row(int j, int t) { return j / 4 * 8 + 2 * t + j % 2; }
LT_DEV int fp4_sum_channel(int j) { return j / 2 % 2; }  // 0: row g of the tile, 1: row g + 8
// The tiles of a block have gate (row g) and up (row g + 8) of eight channels each; two tiles' SwiGLU is a group of 16
// codes and their scale. Warps put sums into shared memory, 16 lanes finish a column of a group: with the bits of sums
// that meet in share 0, of y in bf16, and of w4a4_swiglu_quant.
// Groups of 16 values of a slot as codes and their scale, q, qs, qgs: with the bits of w4a4_swiglu_quant.
// SwiGLU of sums, rounded, with the bits that it has where these come in bf16.
// SwiGLU with clamps, of one value and of two, without the branches of a division: others wait for each of them.
// x / y of a normal positive y, whose inverse is normal too, as a division rounds it but where y has a mantissa of ones
// alone; without the branch that a division has. -0 stays -0.
// 1 / x of a normal positive x to the last place or so: a guess within 5.1 %, whose error is taken to the 4th power and
// then squared. No branch, unlike the division, so that four of them overlap.
LT_DEV float reciprocal(float x)
{
    float y = lt_bits_f32(0x7ef311c3u - lt_f32_bits(x));
    const float e = fmaf(-x, y, 1.0f);
    y = fmaf(fmaf(y, e, y), e * e, fmaf(y, e, y));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}
LT_DEV float divided(float x, float y)
{
    const float by = reciprocal(y), quotient = x * by;
    return fmaf(fmaf(y, quotient, -x), -by, quotient);
}

// lt_silu; what is below the least x that lt_exp tells apart counts as that one, -2.6e-37.
LT_DEV float silu(float x)
{
    x = x < -88.72283f ? -88.72283f : x;
    return divided(x, 0x1p-32f + lt_exp(-x) * 0x1p-32f) * 0x1p-32f;  // so the inverse of what divides is normal
}

LT_DEV float activated(float gate, float up)  // NaN stays NaN
{
    gate = gate > 10.0f ? 10.0f : gate;
    up = up > 10.0f ? 10.0f : up;
    return silu(gate) * (up < -10.0f ? -10.0f : up);
}

LT_DEV u32 two_activated(u32 gate, u32 up)
{
    return lt_pack_bf16(activated(lt_bf16lo_f32(gate), lt_bf16lo_f32(up)),
                        activated(lt_bf16hi_f32(gate), lt_bf16hi_f32(up)));
}
LT_DEV float rounded(float x) { return lt_bf16lo_f32(lt_pack_bf16(x, 0.0f)); }

LT_DEV bf16 activated_sums(float gate, float up) { return lt_f32_bf16(activated(rounded(gate), rounded(up))); }
// Values to E2M1 codes and an E4M3 scale of 16, by lanes that share them. A NaN counts towards no maximum.
LT_DEV float larger(float a, float b) { return a > b ? a : b; }  // a NaN in a is dropped

LT_DEV float nvfp4_amax(u32 two, float amax)
{
    return larger(fabsf(lt_bf16hi_f32(two)), larger(fabsf(lt_bf16lo_f32(two)), amax));
}

LT_DEV e4m3 nvfp4_scale(float amax, float over_gs) { return lt_f32_e4m3(amax * (1.0f / 6.0f) * over_gs); }

LT_DEV float nvfp4_inverse(e4m3 scale, float gs)
{
    const float s = lt_e4m3_f32(scale);
    return s > 0.0f ? 1.0f / (s * gs) : 0.0f;
}

LT_DEV u32 nvfp4_codes(u32 two, float inverse)  // a byte
{
    return lt_f32_e2m1(lt_bf16lo_f32(two) * inverse) | lt_f32_e2m1(lt_bf16hi_f32(two) * inverse) << 4;
}

// Two lanes have a group: eight values each. The scale, in both; their codes.
LT_DEV e4m3 nvfp4_pair(u32 *codes, const u32 *word, float gs, float over_gs)
{
    float amax = 0.0f;
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) amax = nvfp4_amax(word[i], amax);
    amax = larger(lt_shfl_xor_f32(0xffffffffu, amax, 1), amax);
    const e4m3 scale = nvfp4_scale(amax, over_gs);
    const float inverse = nvfp4_inverse(scale, gs);
    *codes = 0;
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) *codes |= nvfp4_codes(word[i], inverse) << i * 8;
    return scale;
}

typedef struct { u8 *q; e4m3 *qs; float *qgs; float scale, over; } moe_results;  // over: 1 / scale

// 16 lanes have a group, a value each: the group's scale in all of them.
LT_DEV e4m3 swiglu_scale(float h, float over, int lane)
{
    const u32 bits = lt_f32_bits(larger(fabsf(h), 0.0f));  // in the order of the numbers
    const u32 lower = lt_redux_max(lane < 16 ? bits : 0), upper = lt_redux_max(lane < 16 ? 0 : bits);
    return nvfp4_scale(lt_bits_f32(lane < 16 ? lower : upper), over);
}

// Value number c of group `group` of a slot, by lane c of 16; where the slot is below 0 nothing is written.
LT_DEV void swiglu_put(moe_results to, float gate, float up, int group, int slot, int lane)
{
    const int c = lane % 16;
    const float h = lt_bf16_f32(activated_sums(gate, up));
    const e4m3 of_group = swiglu_scale(h, to.over, lane);
    const u32 code = lt_f32_e2m1(h * nvfp4_inverse(of_group, to.scale));
    const u32 next = lt_shfl_xor_u32(0xffffffffu, code, 1);
    if (slot < 0 || group >= N / 32) return;
    if (c % 2 == 0) to.q[(size_t)slot * (N / 4) + group * 8 + c / 2] = (u8)(code | next << 4);
    if (c == 0) to.qs[(size_t)slot * (N / 32) + group] = of_group;
    if (c == 0 && group == 0) to.qgs[slot] = to.scale;
}

enum {
    PAIRS = GROUPS * TILES / 2,      // of tiles of a block
    ROOM = TILES * 2 * COLUMNS * 8   // sums of a warp: tile, half, column, row
};

typedef struct { float gate, up; } moe_factors;  // of an expert's sums

LT_DEV int swiglu_at(int tile, int half, int column, int g)
{
    return ((tile % TILES * 2 + half) * COLUMNS + column) * 8 + g;
}

LT_DEV void swiglu_keep(float *room, float (*total)[TOTALS], int columns, int g, int t)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        LT_UNROLL(TOTALS)
        for (int j = 0; j < TOTALS; j++) {
            const int m = fp4_sum_row(j, t);
            if (m < columns) room[swiglu_at(i, fp4_sum_channel(j), m, g)] = total[i][j];
        }
    }
}

// Of a tile of the block: its shares of K in ascending order.
LT_DEV float swiglu_sum(float (*room)[ROOM], int tile, int half, int column, int g)
{
    const int warp = tile / TILES * SPLIT, at = swiglu_at(tile, half, column, g);
    float sum = room[warp][at];
    LT_UNROLL(SPLIT)
    for (int p = 1; p < SPLIT; p++) sum += room[warp + p][at];
    return sum;
}

// A column of the block's tiles 2 * pair and 2 * pair + 1. of_gate, of_up: factors of the sums; slot: the column's.
LT_DEV void swiglu_finish(moe_results to, float (*room)[ROOM], int pair, int column, int slot, float of_gate,
                          float of_up, float unscale, int lane)
{
    const int c = lane % 16, tile = pair * 2 + c / 8, group = blockIdx.x * PAIRS + pair;
    const float gate = swiglu_sum(room, tile, 0, column, c % 8) * unscale * of_gate;
    const float up = swiglu_sum(room, tile, 1, column, c % 8) * unscale * of_up;
    swiglu_put(to, gate, up, group, slot, lane);
}
// With join: how many slots chose an expert, found by the block of the first of them; list[i] is the i-th, for the
// block once it has met at a barrier. 0 where an earlier slot chose it or it is none. The same in every warp.
LT_DEV int moe_slots(i32 *list, const i32 *ids, int slot, int warp, int lane)
{
    i32 id[(SLOTS + 31) / 32];
    int count = 0, earlier = 0;
    LT_UNROLL(8)
    for (int i = 0; i < (SLOTS + 31) / 32; i++) id[i] = i * 32 + lane < SLOTS ? ids[i * 32 + lane] : -1;
    const i32 expert = ids[slot];
    if (expert < 0 || expert >= EXPERTS) return 0;
    LT_UNROLL(8)
    for (int i = 0; i < (SLOTS + 31) / 32; i++) {
        const u32 all = lt_ballot(0xffffffffu, id[i] == expert);
        const u32 mine = all & ((1u << lane) - 1);
        if (warp == 0 && id[i] == expert) list[count + lt_popc(mine)] = i * 32 + lane;
        if (i < slot / 32) earlier |= all != 0;
        if (i == slot / 32) earlier |= (all & ((1u << slot % 32) - 1)) != 0;
        count += lt_popc(all);
    }
    return earlier ? 0 : count;
}

LT_DEV void load_weights(uint4 (*w)[2], u32 *scale, const u8 *codes, const e4m3 *scales, int expert, int tile0,
                         int unit, int lane)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        const int tile = tile0 + i < ALL_TILES ? tile0 + i : ALL_TILES - 1;
        fp4_load_unit(w[i], &scale[i], codes, scales, ((size_t)expert * ALL_TILES + tile) * UNITS + unit, lane);
    }
}

LT_DEV void add_unit(float (*sum)[TOTALS], uint4 (*w)[2], u32 *scale, u32 (*b)[2][2], u32 (*sb)[2], int lane)
{
    LT_UNROLL(TILES)
    for (int i = 0; i < TILES; i++) {
        u32 sa[2];
        nvf4_scales(sa, scale[i], lane);
        LT_UNROLL(2)
        for (int c = 0; c < 2; c++) {
            u32 a[4];
            nvf4_chunk(a, w[i][c], lane % 4);
            LT_UNROLL(HALVES)
            for (int h = 0; h < HALVES; h++) {
                float *const own = sum[i] + 4 * h;
                lt_mma_m16n8k64_nvf4(own, a, b[h][c], own, sa[c], sb[h][c]);
            }
        }
    }
}

LT_KERNEL(32 * WARPS, RESIDENT)
w4a4_moe_swiglu__m1_topk1_experts1_n32_k16__m2l0t1s1g4u2j0b0(u8 *q, e4m3 *qs, float *qgs, const u8 *x, const e4m3 *xs, const float *gs, const i32 *ids, const u8 *w, const e4m3 *ws, const float *sw, const float *input_scale)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile0 = (blockIdx.x * GROUPS + warp / SPLIT) * TILES, share = warp % SPLIT;
    const int first = UNITS * share / SPLIT, end = UNITS * (share + 1) / SPLIT;

    lt_pdl_wait();
    lt_pdl_launch();
    const int expert = ids[blockIdx.y];
    const moe_results to = {q, qs, qgs, *input_scale, 1.0f / *input_scale};
    LT_SHARED2(float, room, WARPS, ROOM);
    if (!JOIN && (expert < 0 || expert >= EXPERTS)) return;
    LT_SHARED1(i32, joined, SLOTS);
    const i32 own = blockIdx.y, *const list = JOIN ? joined : &own;
    const int live = JOIN ? moe_slots(joined, ids, blockIdx.y, warp, lane) : 1;
    if (live == 0) return;
    for (int from = 0; from < live; from += COLUMNS) {  // once, but where a row chose the expert twice
        const i32 *slots = list + from;
        const int columns = live - from < COLUMNS ? live - from : COLUMNS;
        float sum[TILES][TOTALS] = {0};
        uint4 weights[UNROLL][TILES][2];
        u32 scale[UNROLL][TILES];
        LT_UNROLL(UNROLL)
        for (int u = 0; u < UNROLL; u++)
            if (first + u < end) load_weights(weights[u], scale[u], w, ws, expert, tile0, first + u, lane);
        if (JOIN) __syncthreads();  // the list is there, and nobody reads the last columns' sums
        for (int unit = first; unit < end; unit += UNROLL) {
            LT_UNROLL(UNROLL)
            for (int u = 0; u < UNROLL; u++) {
                if (unit + u < end) {
                    u32 b[HALVES][2][2], sb[HALVES][2];
                    LT_UNROLL(2 * HALVES)
                    for (int i = 0; i < 2 * HALVES; i++) {
                        const int m = i / 2 * 8 + g, k = (unit + u) * 128 + i % 2 * 64;
                        const size_t row = m < columns ? (size_t)(slots[m] / SHARE) * K : 0;
                        nvf4_column(b[i / 2][i % 2], &sb[i / 2][i % 2], x, xs, row + k, m < columns ? row + K : 0, t);
                    }
                    add_unit(sum, weights[u], scale[u], b, sb, lane);
                }
                if (unit + u + UNROLL < end)
                    load_weights(weights[u], scale[u], w, ws, expert, tile0, unit + u + UNROLL, lane);
            }
        }
        LT_UNROLL(TILES)
        for (int i = 0; i < TILES; i++) {
            LT_UNROLL(TOTALS)
            for (int j = 0; j < TOTALS; j++) {
                const int m = fp4_sum_row(j, t);
                if (m < columns) room[warp][swiglu_at(i, fp4_sum_channel(j), m, g)] = sum[i][j];
            }
        }
        __syncthreads();
        LT_UNROLL(1)
        for (int item = warp * 2; item < PAIRS * columns; item += WARPS * 2) {
            const int mine = item + lane / 16, is_one = mine < PAIRS * columns, m = is_one ? mine / PAIRS : 0;
            const float of_x = gs[slots[m] / SHARE];
            swiglu_finish(to, room, mine % PAIRS, m, is_one ? slots[m] : -1, of_x * sw[expert * SCALES],
                          of_x * sw[expert * SCALES + 1], 1.0f, lane);
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a4_moe_swiglu__m1_topk1_experts1_n32_k16__m2l0t1s1g4u2j0b0(*(u8 **)a[0], *(e4m3 **)a[1], *(float **)a[2], *(const u8 **)a[3], *(const e4m3 **)a[4], *(const float **)a[5], *(const i32 **)a[6], *(const u8 **)a[7], *(const e4m3 **)a[8], *(const float **)a[9], *(const float **)a[10]); }
#endif
