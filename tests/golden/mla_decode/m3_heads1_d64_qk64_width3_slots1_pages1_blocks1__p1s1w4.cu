/* family mla_decode rev 1, shape m3_heads1_d64_qk64_width3_slots1_pages1_blocks1, variant p1s1w4, class mma.f16_1 */
// A block has 8 heads, a part of the ids in tiles of 16 and a slice of y's columns. Its latents lie in shared memory
// as they are; E4M3 is exact in f16. For z they are the 16-row operand with a token a row, lane (g, t) taking bytes
// 16 t .. of each 64; for y with a column a row, lane (g, t) taking bytes 4 g .. of tokens t, t + 4, t + 8, t + 12,
// which a byte shuffle pairs. Queries are brought to f16 by a power of two a head; a p is the sum of two f16.
enum { M = 3, HEADS = 1, D = 64, QK = 64, WIDTH = 3, SLOTS = 1, PAGES = 1, BLOCKS = 1, PARTS = 1, SLICES = 1, WARPS = 4 };
enum {
    TILE = 16,                                // tokens
    GROUP = 8,                                // heads
    TILES = (WIDTH + TILE - 1) / TILE,
    MOST = (TILES + PARTS - 1) / PARTS,       // tiles of a block: blockIdx.x, + PARTS, ..
    TOKENS = MOST * TILE,
    ROW = (D + 127) / 128 * 128,              // bytes of a latent in shared memory
    CHUNKS = D / 64,
    COLUMNS = D / SLICES,
    AT_ONCE = PARTS <= 8 ? 4 : 2              // outputs of a thread whose parts meet together
};
#define ALL 0xffffffffu
// Paged caches: a page is 64 tokens of one sequence; block_table[slot][page] is the block of the cache that holds it.
enum { PAGE = 64 };

LT_DEV int page_block(const i32 *block_table, int slot, int page)  // below 0: no such sequence, page or block
{
    if (slot < 0 || slot >= SLOTS || page < 0 || page >= PAGES) return -1;
    const int block = block_table[(size_t)slot * PAGES + page];
    return block < BLOCKS ? block : -1;
}

// Where 16 bytes of a token lie: eight lanes of z's loads and 32 of y's each meet every bank once.
LT_DEV u8 *place(u8 *latents, int token, int sixteenth)
{
    return latents + token * ROW + (sixteenth ^ (token << 2 & 4) ^ (token & 2)) * 16;
}

// Rows of the cache that the block's ids name, -1 for what is skipped, and which tiles have any.
LT_DEV void find_rows(int *rows, int *lives, const i32 *ids, const i32 *block_table, int slot, int seen)
{
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < (TOKENS + 31) / 32 * 32; i += 32 * WARPS) {
        const int at = (i / TILE * PARTS + blockIdx.x) * TILE + i % TILE;
        const int id = i < TOKENS && at < WIDTH ? ids[at] : -1;
        int row = -1;
        if (id >= 0 && id < seen) {
            const int block = page_block(block_table, slot, id / PAGE);
            if (block >= 0) row = block * PAGE + id % PAGE;
        }
        const u32 some = lt_ballot(ALL, row >= 0);
        if (i < TOKENS) rows[i] = row;
        if (i < TOKENS && i % TILE == 0) lives[i / TILE] = (some >> i % 32 & 0xffff) != 0;
    }
}

LT_DEV void load_latents(u8 *latents, const int *rows, const int *lives, const e4m3 *cache)
{
    uint4 zero;
    zero.x = zero.y = zero.z = zero.w = 0;
    LT_UNROLL(4)
    for (int i = threadIdx.x; i < TOKENS * (D / 16); i += 32 * WARPS) {
        const int token = i / (D / 16), sixteenth = i % (D / 16);
        u8 *to = place(latents, token, sixteenth);
        if (rows[token] >= 0)
            lt_cp_async16(to, cache + (size_t)rows[token] * D + sixteenth * 16);
        else if (lives[token / TILE])
            lt_st128(to, zero);
    }
    lt_cp_commit();
}

// The fragments of a head's query as f16 times a power of two, and what undoes that.
LT_DEV float load_query(u32 (*query)[8], const bf16 *q, int head, int t)
{
    float largest = 0.0f;
    LT_UNROLL(CHUNKS)
    for (int j = 0; j < CHUNKS; j++) {
        LT_UNROLL(2)
        for (int half = 0; half < 2; half++) {
            uint4 v;
            v.x = v.y = v.z = v.w = 0;
            if (head < HEADS) v = lt_ld128(q + (size_t)head * D + j * 64 + t * 16 + half * 8);
            query[j][half * 4] = v.x;
            query[j][half * 4 + 1] = v.y;
            query[j][half * 4 + 2] = v.z;
            query[j][half * 4 + 3] = v.w;
        }
        LT_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            const float lo = fabsf(lt_bf16lo_f32(query[j][i])), hi = fabsf(lt_bf16hi_f32(query[j][i]));
            largest = lo > largest ? lo : largest;
            largest = hi > largest ? hi : largest;
        }
    }
    LT_UNROLL(2)
    for (int o = 1; o < 4; o *= 2) {
        const float other = lt_shfl_xor_f32(ALL, largest, o);
        largest = other > largest ? other : largest;
    }
    int exponent = lt_f32_bits(largest) >> 23;  // the largest becomes 2^14 to 2^15
    exponent = exponent < 15 ? 15 : exponent > 254 ? 254 : exponent;
    const float scale = lt_bits_f32((u32)(268 - exponent) << 23);
    LT_UNROLL(CHUNKS)
    for (int j = 0; j < CHUNKS; j++) {
        LT_UNROLL(8)
        for (int i = 0; i < 8; i++)
            query[j][i] = lt_pack_f16(lt_bf16lo_f32(query[j][i]) * scale, lt_bf16hi_f32(query[j][i]) * scale);
    }
    return lt_bits_f32((u32)(exponent - 14) << 23);
}

// z[token][head] of one tile, times the power of two.
LT_DEV void dot_tile(float (*z)[GROUP], u8 *latents, u32 (*query)[8], int tile, int g, int t)
{
    float dot[4][4] = {0};
    LT_UNROLL(CHUNKS)
    for (int j = 0; j < CHUNKS; j++) {
        const uint4 first = lt_ld128(place(latents, tile * TILE + g, j * 4 + t));
        const uint4 second = lt_ld128(place(latents, tile * TILE + g + 8, j * 4 + t));
        const u32 upper[4] = {first.x, first.y, first.z, first.w};
        const u32 lower[4] = {second.x, second.y, second.z, second.w};
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            u32 a[4];
            a[0] = lt_e4m3x2_f16x2(upper[i]);
            a[1] = lt_e4m3x2_f16x2(lower[i]);
            a[2] = lt_e4m3x2_f16x2(upper[i] >> 16);
            a[3] = lt_e4m3x2_f16x2(lower[i] >> 16);
            lt_mma_m16n8k16_f16(dot[i], a, &query[j][2 * i], dot[i]);
        }
    }
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        float *to = z[tile * TILE + g + i / 2 * 8];
        to[2 * t + i % 2] = (dot[0][i] + dot[1][i]) + (dot[2][i] + dot[3][i]);
    }
}

// exp(z - largest) of a head's tokens as two f16, in the order of y's fragments; a warp calls.
LT_DEV void softmax(f16 (*p)[TOKENS * GROUP], float *sums, float (*z)[GROUP], const int *rows, int head, float unit)
{
    const int lane = threadIdx.x % 32;
    float largest = -0x1.fffffep127f, sum = 0.0f;
    LT_UNROLL(4)
    for (int i = lane; i < TOKENS; i += 32) {
        const float v = rows[i] >= 0 ? z[i][head] * unit : largest;
        largest = v > largest ? v : largest;
    }
    largest = lt_warp_max(largest);
    LT_UNROLL(3)
    for (int i = lane; i < TOKENS; i += 32) {
        float e = 0.0f;
        if (rows[i] >= 0) e = lt_exp(z[i][head] * unit - largest);
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
    LT_UNROLL(2)
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

LT_KERNEL(32 * WARPS, 1)
mla_decode__m3_heads1_d64_qk64_width3_slots1_pages1_blocks1__p1s1w4(bf16 *y, const bf16 *q, const e4m3 *cache, const i32 *ids, const i32 *positions, const i32 *slots, const i32 *block_table)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int group = blockIdx.y / SLICES, slice = blockIdx.y % SLICES, m = blockIdx.z;
    bf16 *const to = y + (size_t)m * HEADS * D;
    LT_DYN_SHARED(u8, latents);
    LT_SHARED1(int, rows, TOKENS);
    LT_SHARED1(int, lives, MOST);
    LT_SHARED2(float, z, TOKENS, GROUP);
    LT_SHARED2(f16, p, 2, TOKENS * GROUP);
    LT_SHARED1(float, unit, GROUP);
    LT_SHARED2(float, own, GROUP, 2);
    u32 query[CHUNKS][8];

    lt_pdl_wait();
    lt_pdl_launch();
    const int slot = slots[m], position = positions[m];
    if (slot < 0) return;
    find_rows(rows, lives, ids + (size_t)m * WIDTH, block_table, slot, position < 0 ? 0 : position + 1);
    __syncthreads();
    load_latents(latents, rows, lives, cache);
    const float undo = load_query(query, q + (size_t)m * HEADS * D, group * GROUP + g, t);
    if (warp == 0 && t == 0) unit[g] = undo * 0x1.000000p-3f;
    lt_cp_wait(0);
    __syncthreads();
    LT_UNROLL(1)
    for (int tile = warp; tile < MOST; tile += WARPS)
        if (lives[tile]) dot_tile(z, latents, query, tile, g, t);
    __syncthreads();
    LT_UNROLL(1)
    for (int head = warp; head < GROUP; head += WARPS) softmax(p, own[head], z, rows, head, unit[head]);
    __syncthreads();
    LT_UNROLL(1)
    for (int column = warp * 32; column < COLUMNS; column += WARPS * 32) {
        float sum[2][4];
        weigh(sum, latents, p, lives, slice * COLUMNS + column, g, t);
        LT_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            const int head = 2 * t + i;
            LT_UNROLL(4)
            for (int c = 0; c < 4; c++)
                if (group * GROUP + head < HEADS)
                    to[(size_t)(group * GROUP + head) * D + slice * COLUMNS + column + 4 * g + c] =
                        lt_f32_bf16(own[head][1] == 0.0f ? 0.0f : sum[i][c] / own[head][1]);
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { mla_decode__m3_heads1_d64_qk64_width3_slots1_pages1_blocks1__p1s1w4(*(bf16 **)a[0], *(const bf16 **)a[1], *(const e4m3 **)a[2], *(const i32 **)a[3], *(const i32 **)a[4], *(const i32 **)a[5], *(const i32 **)a[6]); }
#endif
