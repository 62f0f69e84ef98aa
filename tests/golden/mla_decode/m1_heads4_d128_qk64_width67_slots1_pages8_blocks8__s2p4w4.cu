/* family mla_decode rev 1, shape m1_heads4_d128_qk64_width67_slots1_pages8_blocks8, variant s2p4w4, class mma.f16_4 */
// A block has 8 heads, a part of the ids in tiles of 16 and a slice of y's columns. Its latents lie in shared memory
// as they are; E4M3 is exact in f16. For z they are the 16-row operand with a token a row, lane (g, t) taking bytes
// 16 t .. of each 64; for y with a column a row, lane (g, t) taking bytes 4 g .. of tokens t, t + 4, t + 8, t + 12,
// which a byte shuffle pairs. Queries are brought to f16 by a power of two a head; a p is the sum of two f16.
enum { M = 1, HEADS = 4, D = 128, QK = 64, WIDTH = 67, SLOTS = 1, PAGES = 8, BLOCKS = 8, SLICES = 2, PARTS = 4, WARPS = 4 };
enum {
    TILE = 16,                                // tokens
    GROUP = 8,                                // heads
    TILES = (WIDTH + TILE - 1) / TILE,
    MOST = (TILES + PARTS - 1) / PARTS,       // tiles of a block: blockIdx.x, + PARTS, ..
    TOKENS = MOST * TILE,
    ROW = (D + 127) / 128 * 128,              // bytes of a latent in shared memory
    CHUNKS = D / 64,
    COLUMNS = D / SLICES,
    PASSES = (TOKENS + 32 * WARPS - 1) / (32 * WARPS),
    LINE = TOKENS + 4,                        // floats of a head's z: lanes that write meet every bank once
    AHEAD = 8,                                // copies of a thread that are sent together
    AT_ONCE = PARTS <= 8 ? 4 : 2              // outputs of a thread whose parts meet together
};
#define ALL 0xffffffffu
// Paged caches: a page is 64 tokens of one sequence; block_table[slot][page] is the block of the cache that holds it.
enum { PAGE = 64 };

// Below 0: no such sequence, page or block. Without a branch around the load, so that several can be on their way.
LT_DEV int page_block(const i32 *block_table, int slot, int page)
{
    const int is_there = slot >= 0 && slot < SLOTS && page >= 0 && page < PAGES;
    const int block = block_table[is_there ? (size_t)slot * PAGES + page : 0];
    return is_there && block < BLOCKS ? block : -1;
}
// Numbers up to `largest` as f16: f16_scale(e) is the power of two that brings them to 2^14 .. 2^15, where f16 keeps 11
// bits of all that matter, and f16_undo(e) takes them back. Infinity and NaN stay what they are.
LT_DEV int f16_exponent(float largest)
{
    const int e = lt_f32_bits(largest) >> 23;
    return e < 15 ? 15 : e > 254 ? 254 : e;
}

LT_DEV float f16_scale(int e) { return lt_bits_f32((u32)(268 - e) << 23); }
LT_DEV float f16_undo(int e) { return lt_bits_f32((u32)(e - 14) << 23); }

// Where 16 bytes of a token lie: eight lanes of z's loads and 32 of y's each meet every bank once.
LT_DEV u8 *place(u8 *latents, int token, int sixteenth)
{
    return latents + token * ROW + (sixteenth ^ (token << 2 & 4) ^ (token & 2)) * 16;
}

LT_DEV void load_ids(int *id, const i32 *ids)
{
    LT_UNROLL(PASSES)
    for (int k = 0; k < PASSES; k++) {
        const int i = k * 32 * WARPS + threadIdx.x, at = (i / TILE * PARTS + blockIdx.x) * TILE + i % TILE;
        id[k] = i < TOKENS && at < WIDTH ? ids[at] : -1;
    }
}

// Rows of the cache that the block's ids name; ~ a row of the same tile for what is skipped; which tiles have any.
LT_DEV void find_rows(int *rows, int *lives, const int *id, const i32 *block_table, int slot, int position)
{
    const int lane = threadIdx.x % 32;
    int block[PASSES];
    LT_UNROLL(PASSES)
    for (int k = 0; k < PASSES; k++)
        block[k] = page_block(block_table, slot, id[k] < 0 || id[k] > position ? -1 : id[k] / PAGE);
    LT_UNROLL(PASSES)
    for (int k = 0; k < PASSES; k++) {
        const int i = k * 32 * WARPS + threadIdx.x, row = block[k] < 0 ? 0 : block[k] * PAGE + id[k] % PAGE;
        const u32 some = lt_ballot(ALL, block[k] >= 0) >> (lane & 16) & 0xffff;
        int one = 0;  // of the tile's tokens, the first that is not skipped
        LT_UNROLL(4)
        for (int o = 8; o > 0; o >>= 1) one += (some >> one & ((1u << o) - 1)) == 0 ? o : 0;
        const int other = (int)lt_shfl_u32(ALL, (u32)row, (lane & 16) | (one & 15));
        if (i < TOKENS) rows[i] = block[k] < 0 ? ~other : row;
        if (i < TOKENS && i % TILE == 0) lives[i / TILE] = some != 0;
    }
}

// Up to the last tile that has any.
LT_DEV void load_latents(u8 *latents, const int *rows, const int *lives, const e4m3 *cache)
{
    int tiles = 0;
    for (int i = threadIdx.x % 32; i < MOST; i += 32)
        if (lives[i]) tiles = i + 1;
    const int end = (int)lt_warp_max((float)tiles) * TILE * (D / 16);
    LT_UNROLL(1)
    for (int i0 = threadIdx.x; i0 < end; i0 += 32 * WARPS * AHEAD) {
        int row[AHEAD];
        LT_UNROLL(AHEAD)
        for (int k = 0; k < AHEAD; k++) {
            const int i = i0 + k * 32 * WARPS;
            row[k] = rows[(i < end ? i : i0) / (D / 16)];
        }
        LT_UNROLL(AHEAD)
        for (int k = 0; k < AHEAD; k++) {
            const int i = i0 + k * 32 * WARPS, from = row[k] < 0 ? ~row[k] : row[k];
            if (i < end)
                lt_cp_async16(place(latents, i / (D / 16), i % (D / 16)), cache + (size_t)from * D + i % (D / 16) * 16);
        }
    }
    lt_cp_commit();
}

// A head's query as f16 times a power of two, lane's 16 columns in two halves: lane (g, t) of z's products finds them
// in lane order. Returns what undoes the power. A warp calls.
LT_DEV float load_query(uint4 (*to)[2][32], const bf16 *q, int head)
{
    const int lane = threadIdx.x % 32, is_there = lane < D / 16;
    u32 two[8];
    float largest = 0.0f;
    LT_UNROLL(2)
    for (int half = 0; half < 2; half++) {
        uint4 v;
        v.x = v.y = v.z = v.w = 0;
        if (is_there && head < HEADS) v = lt_ld128(q + (size_t)head * D + lane * 16 + half * 8);
        two[half * 4] = v.x;
        two[half * 4 + 1] = v.y;
        two[half * 4 + 2] = v.z;
        two[half * 4 + 3] = v.w;
    }
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        const float lo = fabsf(lt_bf16lo_f32(two[i])), hi = fabsf(lt_bf16hi_f32(two[i]));
        largest = lo > largest ? lo : largest;
        largest = hi > largest ? hi : largest;
    }
    const int e = f16_exponent(lt_warp_max(largest));
    const float scale = f16_scale(e);
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++) two[i] = lt_pack_f16(lt_bf16lo_f32(two[i]) * scale, lt_bf16hi_f32(two[i]) * scale);
    LT_UNROLL(2)
    for (int half = 0; half < 2; half++) {
        uint4 v;
        v.x = two[half * 4];
        v.y = two[half * 4 + 1];
        v.z = two[half * 4 + 2];
        v.w = two[half * 4 + 3];
        if (is_there) to[lane / 4][half][head % GROUP * 4 + lane % 4] = v;
    }
    return f16_undo(e);
}

// z[head][token] of one tile, times the power of two.
LT_DEV void dot_tile(float (*z)[LINE], u8 *latents, uint4 (*query)[2][32], int tile, int g, int t)
{
    float dot[4][4] = {0};
    LT_UNROLL(2)
    for (int j = 0; j < CHUNKS; j++) {
        const uint4 first = lt_ld128(place(latents, tile * TILE + g, j * 4 + t));
        const uint4 second = lt_ld128(place(latents, tile * TILE + g + 8, j * 4 + t));
        const uint4 head = query[j][0][g * 4 + t], tail = query[j][1][g * 4 + t];
        const u32 upper[4] = {first.x, first.y, first.z, first.w};
        const u32 lower[4] = {second.x, second.y, second.z, second.w};
        const u32 b[8] = {head.x, head.y, head.z, head.w, tail.x, tail.y, tail.z, tail.w};
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            u32 a[4];
            a[0] = lt_e4m3x2_f16x2(upper[i]);
            a[1] = lt_e4m3x2_f16x2(lower[i]);
            a[2] = lt_e4m3x2_f16x2(upper[i] >> 16);
            a[3] = lt_e4m3x2_f16x2(lower[i] >> 16);
            lt_mma_m16n8k16_f16(dot[i], a, b + 2 * i, dot[i]);
        }
    }
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++)
        z[2 * t + i % 2][tile * TILE + g + i / 2 * 8] = (dot[0][i] + dot[1][i]) + (dot[2][i] + dot[3][i]);
}

// exp(z - largest) of a head's tokens as two f16, in the order of y's fragments; a warp calls.
LT_DEV void softmax(f16 (*p)[TOKENS * GROUP], float *sums, const float *z, const int *rows, int head, float unit)
{
    const int lane = threadIdx.x % 32;
    float largest = -0x1.fffffep127f, sum = 0.0f;
    LT_UNROLL(2)
    for (int i = lane; i < TOKENS; i += 32) {
        const float v = rows[i] >= 0 ? z[i] * unit : largest;
        largest = v > largest ? v : largest;
    }
    largest = lt_warp_max(largest);
    LT_UNROLL(2)
    for (int i = lane; i < TOKENS; i += 32) {
        float e = 0.0f;
        if (rows[i] >= 0) e = lt_exp(z[i] * unit - largest);
        sum += e;
        const f16 hi = lt_f32_f16(e);
        const int at = (i / TILE * GROUP + head) * TILE + i % 4 * 4 + i % TILE / 4;
        p[0][at] = hi;
        p[1][at] = lt_f32_f16(e - lt_f16_f32(hi));
    }
    sum = lt_warp_sum(sum);
    if (lane == 0) {
        sums[0] = largest;
        sums[1] = sum;
    }
}

// y[i][c]: heads 2 t and 2 t + 1, columns 4 g + c of the 32 from `column`.
LT_DEV void weigh(float (*y)[4], u8 *latents, f16 (*p)[TOKENS * GROUP], const int *lives, int column, int g, int t)
{
    float sum[2][2][4] = {0};
    LT_UNROLL(1)
    for (int tile = 0; tile < MOST; tile++) {
        u32 word[4], pair[4];
        if (!lives[tile]) continue;
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            word[i] = *(const u32 *)(place(latents, tile * TILE + t + 4 * i, (column + 4 * g) / 16) + g % 4 * 4);
        pair[0] = lt_byte_perm(word[0], word[1], 0x5140);
        pair[1] = lt_byte_perm(word[2], word[3], 0x5140);
        pair[2] = lt_byte_perm(word[0], word[1], 0x7362);
        pair[3] = lt_byte_perm(word[2], word[3], 0x7362);
        LT_UNROLL(2)
        for (int half = 0; half < 2; half++) {
            const uint2 weight = *(const uint2 *)(p[half] + (tile * GROUP + g) * TILE + t * 4);
            const u32 b[2] = {weight.x, weight.y};
            LT_UNROLL(2)
            for (int i = 0; i < 2; i++) {
                u32 a[4];
                a[0] = lt_e4m3x2_f16x2(pair[2 * i]);
                a[1] = lt_e4m3x2_f16x2(pair[2 * i] >> 16);
                a[2] = lt_e4m3x2_f16x2(pair[2 * i + 1]);
                a[3] = lt_e4m3x2_f16x2(pair[2 * i + 1] >> 16);
                lt_mma_m16n8k16_f16(sum[half][i], a, b, sum[half][i]);
            }
        }
    }
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        const int pair = i % 4 / 2, j = i % 2 * 2 + i / 4;
        y[i / 4][i % 4] = sum[0][pair][j] + sum[1][pair][j];
    }
}

// The parts of 8 heads and a slice of the columns, in their order; one without a token has -FLT_MAX, 0 and zeros.
LT_DEV void parts_meet(bf16 *y, const float *partial, const float *sums, int group, int slice)
{
    LT_SHARED2(float, own, PARTS * GROUP, 2);
    LT_SHARED1(float, scale, PARTS * GROUP);
    LT_SHARED1(float, whole, GROUP);
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < PARTS * GROUP * 2; i += 32 * WARPS)
        own[i / 2][i % 2] = lt_bits_f32(lt_ld32_fresh(sums + i));
    __syncthreads();
    if (threadIdx.x < GROUP) {
        float largest = -0x1.fffffep127f, sum = 0.0f;
        LT_UNROLL(1)
        for (int j = threadIdx.x; j < PARTS * GROUP; j += GROUP) largest = own[j][0] > largest ? own[j][0] : largest;
        LT_UNROLL(1)
        for (int j = threadIdx.x; j < PARTS * GROUP; j += GROUP) {
            scale[j] = lt_exp(own[j][0] - largest);
            sum = fmaf(scale[j], own[j][1], sum);
        }
        whole[threadIdx.x] = sum == 0.0f ? 0.0f : 1.0f / sum;
    }
    __syncthreads();
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < GROUP * COLUMNS; i += 32 * WARPS * AT_ONCE) {
        float part[AT_ONCE][PARTS];
        LT_UNROLL(AT_ONCE)
        for (int k = 0; k < AT_ONCE; k++) {
            const int at = i + k * 32 * WARPS;
            LT_UNROLL(PARTS)
            for (int j = 0; j < PARTS; j++)
                part[k][j] = at < GROUP * COLUMNS
                                 ? lt_bits_f32(lt_ld32_fresh(partial + (size_t)j * GROUP * COLUMNS + at)) : 0.0f;
        }
        LT_UNROLL(AT_ONCE)
        for (int k = 0; k < AT_ONCE; k++) {
            const int at = i + k * 32 * WARPS, h = at / COLUMNS, head = group * GROUP + h;
            if (at < GROUP * COLUMNS && head < HEADS) {
                float value = 0.0f;
                LT_UNROLL(PARTS)
                for (int j = 0; j < PARTS; j++) value = fmaf(scale[j * GROUP + h], part[k][j], value);
                y[(size_t)head * D + slice * COLUMNS + at % COLUMNS] = lt_f32_bf16(value * whole[h]);
            }
        }
    }
}

LT_KERNEL(32 * WARPS, 1)
mla_decode__m1_heads4_d128_qk64_width67_slots1_pages8_blocks8__s2p4w4(bf16 *y, const bf16 *q, const e4m3 *cache, const i32 *ids, const i32 *positions, const i32 *slots, const i32 *block_table, float *partial, float *sums, u32 *arrived)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int group = blockIdx.y / SLICES, slice = blockIdx.y % SLICES, m = blockIdx.z;
    bf16 *const to = y + (size_t)m * HEADS * D;
    LT_DYN_SHARED(u8, latents);
    LT_SHARED1(int, rows, TOKENS);
    LT_SHARED1(int, lives, MOST);
    LT_SHARED2(float, z, GROUP, LINE);
    LT_SHARED2(f16, p, 2, TOKENS * GROUP);
    LT_SHARED1(float, unit, GROUP);
    LT_SHARED2(uint4, query, CHUNKS, 2 * 32);
    LT_SHARED2(float, own, GROUP, 2);
    int id[PASSES];

    lt_pdl_wait();
    lt_pdl_launch();
    const int slot = slots[m], position = positions[m];
    load_ids(id, ids + (size_t)m * WIDTH);
    if (slot < 0) return;
    find_rows(rows, lives, id, block_table, slot, position);
    __syncthreads();
    load_latents(latents, rows, lives, cache);
    LT_UNROLL(1)
    for (int i = warp; i < GROUP; i += WARPS) {
        const float undo = load_query((uint4 (*)[2][32])query, q + (size_t)m * HEADS * D, group * GROUP + i);
        if (lane == 0) unit[i] = undo * 0x1.000000p-3f;
    }
    lt_cp_wait(0);
    __syncthreads();
    LT_UNROLL(1)
    for (int tile = warp; tile < MOST; tile += WARPS)
        if (lives[tile]) dot_tile(z, latents, (uint4 (*)[2][32])query, tile, g, t);
    __syncthreads();
    LT_UNROLL(1)
    for (int head = warp; head < GROUP; head += WARPS) softmax(p, own[head], z[head], rows, head, unit[head]);
    __syncthreads();
    const size_t part = ((size_t)m * gridDim.y + blockIdx.y) * PARTS + blockIdx.x;
    if (threadIdx.x < 2 * GROUP) sums[part * 2 * GROUP + threadIdx.x] = own[threadIdx.x / 2][threadIdx.x % 2];
    LT_UNROLL(1)
    for (int column = warp * 32; column < COLUMNS; column += WARPS * 32) {
        float sum[2][4];
        weigh(sum, latents, p, lives, slice * COLUMNS + column, g, t);
        LT_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            const int head = 2 * t + i;
            uint4 bits;
            bits.x = lt_f32_bits(sum[i][0]);
            bits.y = lt_f32_bits(sum[i][1]);
            bits.z = lt_f32_bits(sum[i][2]);
            bits.w = lt_f32_bits(sum[i][3]);
            lt_st128(partial + (part * GROUP + head) * COLUMNS + column + 4 * g, bits);
        }
    }
    if (!lt_last_block(arrived + (size_t)m * gridDim.y + blockIdx.y, PARTS)) return;
    const size_t first = part - blockIdx.x;
    parts_meet(to, partial + first * GROUP * COLUMNS, sums + first * GROUP * 2, group, slice);
}
#ifndef __CUDACC__
void lt_entry(void **a) { mla_decode__m1_heads4_d128_qk64_width67_slots1_pages8_blocks8__s2p4w4(*(bf16 **)a[0], *(const bf16 **)a[1], *(const e4m3 **)a[2], *(const i32 **)a[3], *(const i32 **)a[4], *(const i32 **)a[5], *(const i32 **)a[6], *(float **)a[7], *(float **)a[8], *(u32 **)a[9]); }
#endif
