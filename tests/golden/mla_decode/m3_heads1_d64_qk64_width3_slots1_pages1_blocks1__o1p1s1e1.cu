/* family mla_decode rev 1, shape m3_heads1_d64_qk64_width3_slots1_pages1_blocks1, variant o1p1s1e1, class mma.f16_1 */
// A block has GROUP heads, a part of the ids in tiles of 16 and a slice of y's columns. A warp finds the rows of its
// tiles, brings them into shared memory as they are and multiplies them with the queries: they are the 16-row operand
// with a token a row, lane (g, t) taking bytes 16 t .. of each 64; E4M3 is exact in f16. What is in the slice is kept
// as f16, and is the 16-row operand again for y, with a column a row. Queries are brought to f16 by a power of two a
// head; a p is the sum of two f16.
enum { M = 3, HEADS = 1, D = 64, QK = 64, WIDTH = 3, SLOTS = 1, PAGES = 1, BLOCKS = 1, OCTETS = 1, PARTS = 1, SLICES = 1, EACH = 1 };
enum {
    TILE = 16,                            // tokens
    GROUP = 8 * OCTETS,                   // heads
    TILES = (WIDTH + TILE - 1) / TILE,
    MOST = (TILES + PARTS - 1) / PARTS,   // tiles of a block: blockIdx.x, + PARTS, ..
    WARPS = (MOST + EACH - 1) / EACH,
    TOKENS = MOST * TILE,
    ROW = (D + 127) / 128 * 128 + 64,     // bytes between latents: eight lanes that read two meet every bank once
    CHUNKS = D / 64,
    COLUMNS = D / SLICES,
    WIDE = COLUMNS + 8,                   // f16 between the latents of the slice
    LINE = TOKENS + 8,                    // between the heads of p
    QUERIES = (GROUP + WARPS - 1) / WARPS,
    OUTPUTS = GROUP * COLUMNS,
    AT_ONCE = PARTS <= 16 ? 4 : 2,        // of a head, whose parts a thread brings together
    APART = COLUMNS / AT_ONCE             // columns between them
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

LT_DEV float larger(float a, float b) { return a > b ? a : b; }

LT_DEV float largest_lane(float v)  // over the lanes of the same t
{
    LT_UNROLL(3)
    for (int o = 16; o > 2; o /= 2) v = larger(lt_shfl_xor_f32(ALL, v, o), v);
    return v;
}

LT_DEV float sum_lanes(float v)  // over the lanes of the same t
{
    LT_UNROLL(3)
    for (int o = 16; o > 2; o /= 2) v += lt_shfl_xor_f32(ALL, v, o);
    return v;
}

// The cache's row of the tile's token `lane % 16`, of another one of the tile where that is skipped, and which are not.
LT_DEV int find_row(u32 *some, int id, const i32 *block_table, int slot, int position)
{
    const int lane = threadIdx.x % 32, block = page_block(block_table, slot, id < 0 || id > position ? -1 : id / PAGE);
    const int row = block < 0 ? 0 : block * PAGE + id % PAGE;
    *some = lt_ballot(ALL, block >= 0) & 0xffff;
    int first = 0;
    LT_UNROLL(4)
    for (int o = 8; o > 0; o >>= 1) first += (*some >> first & ((1u << o) - 1)) == 0 ? o : 0;
    const int other = (int)lt_shfl_u32(ALL, (u32)row, first & 15);
    return *some >> (lane & 15) & 1 ? row : other;
}

LT_DEV void load_tile(u8 *latents, const e4m3 *cache, int row)
{
    const int lane = threadIdx.x % 32;
    LT_UNROLL(D / 32)
    for (int k = 0; k < D / 32; k++) {
        const int i = k * 32 + lane, token = i / (D / 16), at = i % (D / 16) * 16;
        const int from = (int)lt_shfl_u32(ALL, (u32)row, token);
        lt_cp_async16(latents + token * ROW + at, cache + (size_t)from * D + at);
    }
}

// Lane's 16 columns of a head's query.
LT_DEV void load_query(uint4 *two, const bf16 *q, int head)
{
    const int lane = threadIdx.x % 32;
    LT_UNROLL(2)
    for (int half = 0; half < 2; half++) {
        two[half].x = two[half].y = two[half].z = two[half].w = 0;
        if (lane < D / 16 && head < HEADS) two[half] = lt_ld128(q + (size_t)head * D + lane * 16 + half * 8);
    }
}

LT_DEV u32 scaled(u32 two, float scale) { return lt_pack_f16(lt_bf16lo_f32(two) * scale, lt_bf16hi_f32(two) * scale); }

// The query as f16 times a power of two: lane (g, t) of z's products finds them in lane order. Returns what undoes the
// power. A warp calls.
LT_DEV float keep_query(uint4 (*to)[2][32], const uint4 *two, int head)
{
    const int lane = threadIdx.x % 32;
    const u32 all[8] = {two[0].x, two[0].y, two[0].z, two[0].w, two[1].x, two[1].y, two[1].z, two[1].w};
    float largest = 0.0f;
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++)
        largest = larger(larger(fabsf(lt_bf16lo_f32(all[i])), fabsf(lt_bf16hi_f32(all[i]))), largest);
    const int e = f16_exponent(lt_warp_max(largest));
    const float scale = f16_scale(e);
    LT_UNROLL(2)
    for (int half = 0; half < 2; half++) {
        uint4 v;
        v.x = scaled(two[half].x, scale);
        v.y = scaled(two[half].y, scale);
        v.z = scaled(two[half].z, scale);
        v.w = scaled(two[half].w, scale);
        if (lane < D / 16) to[lane / 4][half][head % 8 * 4 + lane % 4] = v;
    }
    return f16_undo(e);
}

// z of a tile times the power of two, tokens g and g + 8, heads 2 t and 2 t + 1 of each octet; keeps the slice.
LT_DEV void dot_tile(float (*z)[4], f16 *kept, const u8 *latents, const uint4 *query, int slice)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float dot[2][OCTETS][4] = {0};
    LT_UNROLL(CHUNKS)
    for (int j = 0; j < CHUNKS; j++) {
        const uint4 first = lt_ld128(latents + g * ROW + j * 64 + t * 16);
        const uint4 second = lt_ld128(latents + (g + 8) * ROW + j * 64 + t * 16);
        const u32 upper[4] = {first.x, first.y, first.z, first.w};
        const u32 lower[4] = {second.x, second.y, second.z, second.w};
        u32 a[4][4];
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            a[i][0] = lt_e4m3x2_f16x2(upper[i]);
            a[i][1] = lt_e4m3x2_f16x2(lower[i]);
            a[i][2] = lt_e4m3x2_f16x2(upper[i] >> 16);
            a[i][3] = lt_e4m3x2_f16x2(lower[i] >> 16);
        }
        LT_UNROLL(OCTETS)
        for (int n = 0; n < OCTETS; n++) {
            const uint4 head = query[(n * CHUNKS + j) * 64 + lane], tail = query[(n * CHUNKS + j) * 64 + 32 + lane];
            const u32 b[8] = {head.x, head.y, head.z, head.w, tail.x, tail.y, tail.z, tail.w};
            LT_UNROLL(4)
            for (int i = 0; i < 4; i++) lt_mma_m16n8k16_f16(dot[i % 2][n], a[i], b + 2 * i, dot[i % 2][n]);
        }
        const int column = j * 64 - slice * COLUMNS + t * 16;
        if (j * 64 / COLUMNS == slice) {
            LT_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                uint4 v;
                v.x = a[i / 2 * 2][i % 2];
                v.y = a[i / 2 * 2][i % 2 + 2];
                v.z = a[i / 2 * 2 + 1][i % 2];
                v.w = a[i / 2 * 2 + 1][i % 2 + 2];
                lt_st128(kept + (g + i % 2 * 8) * WIDE + column + i / 2 * 8, v);
            }
        }
    }
    LT_UNROLL(OCTETS * 4)
    for (int i = 0; i < OCTETS * 4; i++) z[i / 4][i % 4] = dot[0][i / 4][i % 4] + dot[1][i / 4][i % 4];
}

LT_DEV void clear_tile(f16 *kept)
{
    uint4 zero;
    zero.x = zero.y = zero.z = zero.w = 0;
    LT_UNROLL(1)
    for (int i = threadIdx.x % 32; i < TILE * COLUMNS / 8; i += 32)
        lt_st128(kept + i / (COLUMNS / 8) * WIDE + i % (COLUMNS / 8) * 8, zero);
}

// y[i]: columns g + i / 2 * 8 of the 16 from `column`, heads 2 t + i % 2 of the octet.
LT_DEV void weigh(float *y, const f16 *kept, const f16 (*p)[GROUP * LINE], int column, int octet)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const f16 *const latent = kept + (lane / 16 * 8 + lane % 8) * WIDE + column + lane / 8 % 2 * 8;
    float sum[4][4] = {0};
    LT_UNROLL(MOST)
    for (int tile = 0; tile < MOST; tile++) {
        u32 a[4];
        lt_ldmatrix_x4_trans(a, latent + tile * TILE * WIDE);
        LT_UNROLL(2)
        for (int half = 0; half < 2; half++) {
            const f16 *const weight = p[half] + (octet * 8 + g) * LINE + tile * TILE + t * 2;
            const u32 b[2] = {*(const u32 *)weight, *(const u32 *)(weight + 8)};
            float *const to = sum[tile % 2 * 2 + half];
            lt_mma_m16n8k16_f16(to, a, b, to);
        }
    }
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) y[i] = (sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i]);
}

LT_DEV float largest_of(const float (*best)[GROUP], int head)
{
    float largest = -0x1.fffffep127f;
    LT_UNROLL(MOST)
    for (int tile = 0; tile < MOST; tile++) largest = larger(best[tile][head], largest);
    return largest;
}

LT_DEV float total_of(const float (*sum)[GROUP], int head)
{
    float total = 0.0f;
    LT_UNROLL(MOST)
    for (int tile = 0; tile < MOST; tile++) total += sum[tile][head];
    return total;
}

LT_KERNEL(32 * WARPS, 1)
mla_decode__m3_heads1_d64_qk64_width3_slots1_pages1_blocks1__o1p1s1e1(bf16 *y, const bf16 *q, const e4m3 *cache, const i32 *ids, const i32 *positions, const i32 *slots, const i32 *block_table)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int group = blockIdx.y / SLICES, slice = blockIdx.y % SLICES, m = blockIdx.z;
    bf16 *const to = y + (size_t)m * HEADS * D;
    LT_DYN_SHARED(u8, latents);
    f16 *const kept = (f16 *)(latents + TOKENS * ROW);
    uint4 *const query = (uint4 *)(kept + TOKENS * WIDE);
    LT_SHARED2(f16, p, 2, GROUP * LINE);
    LT_SHARED1(float, unit, GROUP);
    LT_SHARED2(float, best, MOST, GROUP);
    LT_SHARED2(float, sum, MOST, GROUP);
    float z[EACH][OCTETS][4];
    u32 some[EACH];
    int id[EACH];
    uint4 asked[QUERIES][2];

    const int slot = slots[m], position = positions[m];
    for (int i = (blockIdx.x * 32 * WARPS + threadIdx.x) * 32; slot >= 0 && i < PAGES; i += PARTS * 32 * WARPS * 32)
        lt_prefetch_l2(block_table + (size_t)slot * PAGES + i);
    lt_pdl_wait();
    lt_pdl_launch();
    if (slot < 0) return;
    LT_UNROLL(EACH)
    for (int k = 0; k < EACH; k++) {
        const int tile = k * WARPS + warp, at = (tile * PARTS + blockIdx.x) * TILE + lane % TILE;
        id[k] = tile < MOST && at < WIDTH ? ids[(size_t)m * WIDTH + at] : -1;
    }
    LT_UNROLL(QUERIES)
    for (int k = 0; k < QUERIES; k++) {
        const int i = k * WARPS + warp;
        load_query(asked[k], q + (size_t)m * HEADS * D, i < GROUP ? group * GROUP + i : HEADS);
    }
    LT_UNROLL(EACH)
    for (int k = 0; k < EACH; k++) {
        const int tile = k * WARPS + warp, row = find_row(some + k, id[k], block_table, slot, position);
        if (some[k]) load_tile(latents + tile * TILE * ROW, cache, row);
    }
    lt_cp_commit();
    LT_UNROLL(QUERIES)
    for (int k = 0; k < QUERIES; k++) {
        const int i = k * WARPS + warp;
        if (i < GROUP) {
            const float undo = keep_query((uint4 (*)[2][32])query + i / 8 * CHUNKS, asked[k], i);
            if (lane == 0) unit[i] = undo * 0x1.000000p-3f;
        }
    }
    __syncthreads();
    lt_cp_wait(0);
    __syncwarp();
    LT_UNROLL(EACH)
    for (int k = 0; k < EACH; k++) {
        const int tile = k * WARPS + warp;
        if (some[k])
            dot_tile(z[k], kept + tile * TILE * WIDE, latents + tile * TILE * ROW, query, slice);
        else if (tile < MOST)
            clear_tile(kept + tile * TILE * WIDE);
        LT_UNROLL(OCTETS * 2)
        for (int i = 0; i < OCTETS * 2; i++) {
            const int head = i / 2 * 8 + 2 * t + i % 2;
            float largest = -0x1.fffffep127f;
            LT_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                float *const one = z[k][i / 2] + j * 2 + i % 2;
                *one *= unit[head];
                if (some[k] >> (g + j * 8) & 1) largest = larger(*one, largest);
            }
            largest = largest_lane(largest);
            if (g == 0 && tile < MOST) best[tile][head] = largest;
        }
    }
    __syncthreads();
    LT_UNROLL(OCTETS * 2)
    for (int i = 0; i < OCTETS * 2; i++) {
        const int head = i / 2 * 8 + 2 * t + i % 2;
        const float largest = largest_of(best, head);
        LT_UNROLL(EACH)
        for (int k = 0; k < EACH; k++) {
            const int tile = k * WARPS + warp;
            float total = 0.0f;
            LT_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                const float e = some[k] >> (g + j * 8) & 1 ? lt_exp(z[k][i / 2][j * 2 + i % 2] - largest) : 0.0f;
                const f16 hi = lt_f32_f16(e);
                total += e;
                if (tile < MOST) {
                    p[0][head * LINE + tile * TILE + g + j * 8] = hi;
                    p[1][head * LINE + tile * TILE + g + j * 8] = lt_f32_f16(e - lt_f16_f32(hi));
                }
            }
            total = sum_lanes(total);
            if (g == 0 && tile < MOST) sum[tile][head] = total;
        }
    }
    __syncthreads();
    LT_UNROLL(1)
    for (int i = WARPS - 1 - warp; i < COLUMNS / 16 * OCTETS; i += WARPS) {
        const int column = i / OCTETS * 16, head = i % OCTETS * 8 + 2 * t;
        float value[4];
        weigh(value, kept, p, column, i % OCTETS);
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            const int h = head + j % 2, c = column + g + j / 2 * 8;
            const float total = total_of(sum, h), whole = total == 0.0f ? 0.0f : 1.0f / total;
            if (group * GROUP + h < HEADS)
                to[(size_t)(group * GROUP + h) * D + slice * COLUMNS + c] = lt_f32_bf16(value[j] * whole);
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { mla_decode__m3_heads1_d64_qk64_width3_slots1_pages1_blocks1__o1p1s1e1(*(bf16 **)a[0], *(const bf16 **)a[1], *(const e4m3 **)a[2], *(const i32 **)a[3], *(const i32 **)a[4], *(const i32 **)a[5], *(const i32 **)a[6]); }
#endif
