/* family dsa_scores rev 2, shape m1_tokens1_heads4_d64_pools16_slots1_pages1_blocks1, variant s1w8r1, class mma.f16x2 */
// Keys are the 16-row operand of m16n8k16, one page a warp; eight heads are its columns. A pool's key and a head's
// query are brought to f16 by a power of two, so that the sum of their magnitudes is below 2^15, and are the sum of two
// of them: three of the four products count, the fourth is below 2^-24. Lane (g, t) holds pools g and g + 8, channels
// 4 t .. of every 16; queries lie the same way in shared memory. Keys come straight to registers: once those of 16
// channels are f16, their registers take the ones of the warp's next page, which so comes while this one is used.
enum { M = 1, TOKENS = 1, HEADS = 4, D = 64, POOLS = 16, SLOTS = 1, PAGES = 1, BLOCKS = 1, SHARE = 1, WARPS = 8, RESIDENT = 1 };
enum {
    KEYS = 16,                         // pools of a page
    STEPS = D / 16,
    STAGE = KEYS * D,
    TILES = (HEADS + 7) / 8,           // of heads
    SHARES = (TOKENS + SHARE - 1) / SHARE,
    FRAGMENTS = STEPS * 32,            // of eight heads
    UNITS = SHARE * TILES * 8,         // heads of a block, with those that fill up eight
    TURNS = (UNITS + WARPS - 1) / WARPS,
    TOO_FAR = PAGES * KEYS < POOLS ? PAGES * KEYS : POOLS
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

LT_DEV float magnitude(float4 v) { return (fabsf(v.x) + fabsf(v.y)) + (fabsf(v.z) + fabsf(v.w)); }

LT_DEV u32 rest(float a, float b, u32 two)  // what is left of a and b behind their f16
{
    return lt_pack_f16(a - lt_f16lo_f32(two), b - lt_f16hi_f32(two));
}

// Asks for a head's query, zeros to fill up, and returns what its products weigh. A warp calls.
LT_DEV float ask_query(float4 *v, const float *iq, const float *iw, int unit, int rows)
{
    const int lane = threadIdx.x % 32, r = unit / (TILES * 8), h = unit % (TILES * 8), head = r * HEADS + h;
    const int is_there = r < rows && h < HEADS;
    v->x = v->y = v->z = v->w = 0.0f;
    if (is_there && lane < D / 4) *v = lt_ld128f(iq + (size_t)head * D + lane * 4);
    return is_there ? iw[head] : 0.0f;
}

// High parts and low parts of four channels a lane, in the order of the fragments, and the weight with what undoes the
// power of two. A warp calls.
LT_DEV void keep_query(uint4 *queries, float *weight, float4 v, float own, int unit)
{
    const int at = threadIdx.x % 32, e = f16_exponent(lt_warp_sum(magnitude(v)));
    const float scale = f16_scale(e), x = v.x * scale, y = v.y * scale, z = v.z * scale, w = v.w * scale;
    uint4 parts;
    parts.x = lt_pack_f16(x, y);
    parts.y = lt_pack_f16(z, w);
    parts.z = rest(x, y, parts.x);
    parts.w = rest(z, w, parts.y);
    if (at < D / 4) lt_st128(queries + unit / 8 * FRAGMENTS + at / 4 * 32 + unit % 8 * 4 + at % 4, parts);
    if (at == 0) weight[unit] = f16_undo(e) * (own * 0x1.000000p-4f);
}

// Asks for 16 channels of a page's keys, those of pools g and g + 8 that lane (g, t) holds.
LT_DEV void ask_step(float4 *key, const float *keys, int j)
{
    LT_UNROLL(2)
    for (int i = 0; i < 2; i++) {
        const uint4 v = lt_ld128_once_ahead(keys + i * 8 * D + j * 16);
        key[i].x = lt_bits_f32(v.x);
        key[i].y = lt_bits_f32(v.y);
        key[i].z = lt_bits_f32(v.z);
        key[i].w = lt_bits_f32(v.w);
    }
}

// 16 channels of a page's keys as f16, the high parts and the low parts.
LT_DEV void split_step(u32 *hi, u32 *lo, const float4 *key, const float *scale)
{
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const float4 k = key[i % 2];
        const float a = (i < 2 ? k.x : k.z) * scale[i % 2], b = (i < 2 ? k.y : k.w) * scale[i % 2];
        hi[i] = lt_pack_f16(a, b);
        lo[i] = rest(a, b, hi[i]);
    }
}

// Those times the queries: dot gets the product of the high parts, small the two others.
LT_DEV void add_step(float (*dot)[TILES][4], float (*small)[TILES][4], const u32 *hi, const u32 *lo,
                     const uint4 *queries)
{
    LT_UNROLL(SHARE)
    for (int r = 0; r < SHARE; r++) {
        LT_UNROLL(TILES)
        for (int tile = 0; tile < TILES; tile++) {
            const uint4 q = queries[(r * TILES + tile) * FRAGMENTS];
            const u32 high[2] = {q.x, q.y}, low[2] = {q.z, q.w};
            lt_mma_m16n8k16_f16(small[r][tile], lo, high, small[r][tile]);
            lt_mma_m16n8k16_f16(dot[r][tile], hi, high, dot[r][tile]);
            lt_mma_m16n8k16_f16(small[r][tile], hi, low, small[r][tile]);
        }
    }
}

// dot[r][tile] of a page, times what back[0] and back[1] undo for pools g and g + 8. Leaves in `key` those of the page
// that is next, where one is.
LT_DEV void add_page(float (*dot)[TILES][4], float *back, float4 (*key)[2], const float *next, const uint4 *queries)
{
    float small[SHARE][TILES][4] = {0};
    float scale[2];
    LT_UNROLL(2)
    for (int i = 0; i < 2; i++) {
        float sum = 0.0f;
        LT_UNROLL(STEPS)
        for (int j = 0; j < STEPS; j++) sum += magnitude(key[j][i]);
        sum += lt_shfl_xor_f32(ALL, sum, 1);
        sum += lt_shfl_xor_f32(ALL, sum, 2);
        const int e = f16_exponent(sum);
        scale[i] = f16_scale(e);
        back[i] = f16_undo(e);
    }
    LT_UNROLL(STEPS)
    for (int j = 0; j < STEPS; j++) {
        u32 hi[4], lo[4];
        split_step(hi, lo, key[j], scale);
        if (next) ask_step(key[j], next, j);
        add_step(dot, small, hi, lo, queries + j * 32);
    }
    LT_UNROLL(SHARE * TILES * 4)
    for (int i = 0; i < SHARE * TILES * 4; i++)
        dot[i / 4 / TILES][i / 4 % TILES][i % 4] += small[i / 4 / TILES][i / 4 % TILES][i % 4];
}

LT_DEV float weighted(float sum, float weight, float dot) { return fmaf(weight, dot < 0.0f ? 0.0f : dot, sum); }

LT_KERNEL(32 * WARPS, RESIDENT)
dsa_scores__m1_tokens1_heads4_d64_pools16_slots1_pages1_blocks1__s1w8r1(float *score, const float *iq, const float *iw, const float *pooled, const i32 *positions, const i32 *slots, const i32 *block_table)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int in_run = blockIdx.y % SHARES * SHARE, m0 = blockIdx.y / SHARES * TOKENS + in_run;
    const int rows = TOKENS - in_run < SHARE ? TOKENS - in_run : SHARE;
    LT_DYN_SHARED(uint4, queries);
    LT_SHARED1(float, weight, UNITS);
    int seen[SHARE], slot = SLOTS == 1 ? 0 : -1, last = 0;

    LT_UNROLL(SHARE)
    for (int r = 0; r < SHARE; r++) {
        const int m = m0 + (r < rows ? r : 0), mine = slots[m], position = positions[m];
        seen[r] = r < rows && mine >= 0 && position >= 0 ? (position + 1) / 4 : 0;
        seen[r] = seen[r] < TOO_FAR ? seen[r] : TOO_FAR;
        if (SLOTS > 1) slot = mine >= 0 ? mine : slot;
        last = seen[r] > last ? seen[r] : last;
    }
    const int stride = WARPS * gridDim.x;
    int page = warp * gridDim.x + blockIdx.x, block = page_block(block_table, slot, page);
    int following = page_block(block_table, slot, page + stride);
    // A page of the block, while the kernel in front still runs.
    if (threadIdx.x == 0 && block >= 0) lt_bulk_prefetch_l2(pooled + (size_t)block * STAGE, STAGE * 4);
    lt_pdl_wait();
    lt_pdl_launch();
    float4 asked[TURNS], key[STEPS][2];
    float own[TURNS];
    LT_UNROLL(TURNS)
    for (int i = 0; i < TURNS; i++)
        own[i] = ask_query(&asked[i], iq + (size_t)m0 * HEADS * D, iw + (size_t)m0 * HEADS, warp + i * WARPS, rows);
    const int pages = (last + KEYS - 1) / KEYS;
    if (blockIdx.x >= pages) return;
    const float *const mine = pooled + g * D + t * 4;
    LT_UNROLL(STEPS)
    for (int j = 0; j < STEPS; j++)
        if (page < pages && block >= 0) ask_step(key[j], mine + (size_t)block * STAGE, j);
    LT_UNROLL(TURNS)
    for (int i = 0; i < TURNS; i++) {
        const int unit = warp + i * WARPS;
        if ((i + 1) * WARPS <= UNITS || unit < UNITS) keep_query(queries, weight, asked[i], own[i], unit);
    }
    __syncthreads();
    LT_UNROLL(1)
    for (; page < pages; page += stride) {
        const int is_here = block >= 0, is_next = page + stride < pages && following >= 0;
        const float *const next = is_next ? mine + (size_t)following * STAGE : 0;
        float dot[SHARE][TILES][4] = {0};
        float back[2] = {0.0f, 0.0f};
        if (is_here) {
            add_page(dot, back, key, next, queries + lane);
        } else if (next) {
            LT_UNROLL(STEPS)
            for (int j = 0; j < STEPS; j++) ask_step(key[j], next, j);
        }
        block = following;
        following = page_block(block_table, slot, page + 2 * stride);
        LT_UNROLL(SHARE)
        for (int r = 0; r < SHARE; r++) {
            float upper = 0.0f, lower = 0.0f;
            LT_UNROLL(2 * TILES)
            for (int i = 0; i < 2 * TILES; i++) {
                const float by = weight[(r * TILES + i / 2) * 8 + 2 * t + i % 2];
                upper = weighted(upper, by, dot[r][i / 2][i % 2]);
                lower = weighted(lower, by, dot[r][i / 2][2 + i % 2]);
            }
            upper += lt_shfl_xor_f32(ALL, upper, 1);
            lower += lt_shfl_xor_f32(ALL, lower, 1);
            upper += lt_shfl_xor_f32(ALL, upper, 2);
            lower += lt_shfl_xor_f32(ALL, lower, 2);
            const float value = t & 1 ? lower * back[1] : upper * back[0];
            const int pool = page * KEYS + g + (t & 1) * 8, end = (seen[r] + KEYS - 1) / KEYS * KEYS;
            if (t < 2 && pool < end && pool < POOLS)
                score[(size_t)(m0 + r) * POOLS + pool] =
                    is_here && pool < seen[r] ? value : -0x1.fffffep127f;
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_scores__m1_tokens1_heads4_d64_pools16_slots1_pages1_blocks1__s1w8r1(*(float **)a[0], *(const float **)a[1], *(const float **)a[2], *(const float **)a[3], *(const i32 **)a[4], *(const i32 **)a[5], *(const i32 **)a[6]); }
#endif
