/* family dsa_scores rev 3, shape m2_tokens2_heads2_d32_pools30_slots1_pages3_blocks3, variant s2w16, class mma.f16x2 */
// Keys are the rows of a product that four warps make together, one page a warp, and a row's queries its columns, 32 or
// eight heads at a time. A pool's key and a head's query are a power of two, so that the sum of their magnitudes is
// below 2^15, and two f16, high + 2^-11 low: three of four products count, the fourth is below 2^-24. A lane's 16 bytes
// of a page are channels of 16 of pools g and g + 8, as the product wants them (dsa_pool_keys), and so lie queries in
// shared memory. Keys come straight to registers and stay there while row after row passes by.
enum { M = 2, TOKENS = 2, HEADS = 2, D = 32, POOLS = 30, SLOTS = 1, PAGES = 3, BLOCKS = 3, SHARE = 2, WARPS = 16 };
enum {
    KEYS = 16,                             // pools of a page
    STEPS = D / 16,
    STAGE = KEYS * D,
    COLUMNS = 8,                  // heads of a product
    OCTETS = COLUMNS / 8,
    ALL_HEADS = (HEADS + 7) / 8 * 8,       // of a row, with those that fill up eight
    SHARES = (TOKENS + SHARE - 1) / SHARE,
    UNITS = SHARE * ALL_HEADS,             // heads of a block
    PART = COLUMNS * 2,                    // 16 bytes each: the high or the low parts of 16 channels
    STEP = 2 * PART + 1,                   // one more, so that what a warp stores lies in different banks
    PRODUCT = STEPS * STEP,
    BRING = WARPS - 4,                     // warps that bring the queries
    TURNS = 4,
    DEALT = 3,                             // pages that a warp owns; four warps take of the rest as they get there
    TOO_FAR = PAGES * KEYS < POOLS ? PAGES * KEYS : POOLS
};
#define ALL 0xffffffffu
// Paged caches: a page is 64 tokens of one sequence; block_table[slot][page] is the block of the cache that holds it.
enum { PAGE = 64 };

LT_DEV int page_is_there(int slot, int page) { return slot >= 0 && slot < SLOTS && page >= 0 && page < PAGES; }

// The entry of a page, of any where there is none, without a branch around the load: several can be on their way.
LT_DEV int page_ask(const i32 *block_table, int slot, int page)
{
    return block_table[page_is_there(slot, page) ? (size_t)slot * PAGES + page : 0];
}

// The block that page_ask's answer names. Below 0: no such sequence, page or block.
LT_DEV int page_given(int entry, int slot, int page)
{
    return page_is_there(slot, page) && entry < BLOCKS ? entry : -1;
}

LT_DEV int page_block(const i32 *block_table, int slot, int page)
{
    return page_given(page_ask(block_table, slot, page), slot, page);
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
// Numbers as the sum of two f16, high + 2^-11 low: both have 11 bits of what f16.cut scales.
LT_DEV u32 f16_low(float a, float b, u32 high)  // of a and b, whose f16 are high
{
    return lt_pack_f16(2048.0f * (a - lt_f16lo_f32(high)), 2048.0f * (b - lt_f16hi_f32(high)));
}

LT_DEV float f16_magnitude(float4 v) { return (fabsf(v.x) + fabsf(v.y)) + (fabsf(v.z) + fabsf(v.w)); }

// Asks for a head's query, zeros to fill up, and returns what its products weigh. A warp calls.
LT_DEV float ask_query(float4 *v, const float *iq, const float *iw, int unit, int rows)
{
    const int lane = threadIdx.x % 32, r = unit / ALL_HEADS, h = unit % ALL_HEADS, head = r * HEADS + h;
    const int is_there = r < rows && h < HEADS;
    v->x = v->y = v->z = v->w = 0.0f;
    if (is_there && lane < D / 4) *v = lt_ld128f(iq + (size_t)head * D + lane * 4);
    return is_there ? iw[head] : 0.0f;
}

// High parts and low parts of four channels a lane, where the product looks for them, and the weight with what undoes
// the power of two. A warp calls.
LT_DEV void keep_query(uint4 *queries, float *weight, float4 v, float own, int unit)
{
    const int at = threadIdx.x % 32, e = f16_exponent(lt_warp_sum(f16_magnitude(v)));
    const float scale = f16_scale(e), x = v.x * scale, y = v.y * scale, z = v.z * scale, w = v.w * scale;
    const u32 high[2] = {lt_pack_f16(x, y), lt_pack_f16(z, w)};
    uint4 *const step = queries + unit / COLUMNS * PRODUCT + at / 4 * STEP + unit % COLUMNS / 8 * 16;
    u32 *const to = (u32 *)(step + unit % 8) + at % 4;
    if (at < D / 4) {
        to[0] = high[0];
        to[32] = high[1];
        to[4 * PART] = f16_low(x, y, high[0]);
        to[4 * PART + 32] = f16_low(z, w, high[1]);
    }
    if (at == 0) weight[unit] = f16_undo(e) * (own * 0x1.000000p-3f);
}

// Brings the queries of a block's rows. Warps 4 .. call.
LT_DEV void bring_queries(uint4 *queries, float *weight, const float *iq, const float *iw, int rows)
{
    LT_UNROLL(1)
    for (int first = threadIdx.x / 32 - 4; first < UNITS; first += TURNS * BRING) {
        float4 asked[TURNS];
        float own[TURNS];
        LT_UNROLL(TURNS)
        for (int i = 0; i < TURNS; i++) own[i] = ask_query(&asked[i], iq, iw, first + i * BRING, rows);
        LT_UNROLL(TURNS)
        for (int i = 0; i < TURNS; i++)
            if (first + i * BRING < UNITS) keep_query(queries, weight, asked[i], own[i], first + i * BRING);
    }
    lt_wgmma_show();
}

// Asks for a block's keys, zeros where there is no block, and what undoes the power of two of the pool whose scores
// the lane writes.
LT_DEV void ask_page(u32 (*hi)[4], u32 (*lo)[4], float *back, const f16 *pooled, const float *scale, int block)
{
    const int lane = threadIdx.x % 32;
    const f16 *const keys = pooled + (size_t)block * (2 * STAGE) + lane * 8;
    if (block < 0) {
        LT_UNROLL(STEPS * 4)
        for (int i = 0; i < STEPS * 4; i++) hi[i / 4][i % 4] = lo[i / 4][i % 4] = 0;
        return;
    }
    LT_UNROLL(STEPS * 2)
    for (int i = 0; i < STEPS * 2; i++) {
        const uint4 v = lt_ld128_once(keys + i * 256);
        u32 *const to = i < STEPS ? hi[i] : lo[i - STEPS];
        to[0] = v.x;
        to[1] = v.y;
        to[2] = v.z;
        to[3] = v.w;
    }
    *back = scale[block * KEYS + lane / 4 + (lane & 1) * 8];
}

// A page's keys times COLUMNS queries: the product of the high parts, and then the two others.
LT_DEV void multiply(float *dot, u32 (*hi)[4], u32 (*lo)[4], u64 queries)
{
    float sum[2][4 * OCTETS] = {0};
    lt_wgmma_begin();
    LT_UNROLL(STEPS)
    for (int j = 0; j < STEPS; j++) {
        lt_wgmma_f16_n8(sum[1], lo[j], queries + j * STEP, j > 0);
        lt_wgmma_f16_n8(sum[0], hi[j], queries + j * STEP, j > 0);
        lt_wgmma_f16_n8(sum[1], hi[j], queries + j * STEP + PART, 1);
    }
    lt_wgmma_end(sum[0], 8 * OCTETS);
    LT_UNROLL(4 * OCTETS)
    for (int i = 0; i < 4 * OCTETS; i++) dot[i] = fmaf(sum[1][i], 0x1p-11f, sum[0][i]);
}

LT_DEV float weighted(float sum, float weight, float dot) { return fmaf(weight, dot < 0.0f ? 0.0f : dot, sum); }

// The next four pages of those that no warp owns: the number of the first among them. Each four warps take until none
// are left; the last of the launch to do so gets `most`, and leaves zero. Four warps call.
LT_DEV int take_four(u32 *taken, u32 *here, u32 most)
{
    if (threadIdx.x % 128 == 0) {
        const u32 own = lt_atomic_add_u32(taken, 4);
        if (own == most) lt_atomic_add_u32(taken, 0 - (most + 4));
        *here = own;
    }
    lt_bar_sync(4 + threadIdx.x / 128, 128);
    return (int)*here;
}

// A row's scores of pools g (t = 0) and g + 8 (t = 1) of a page.
LT_DEV float score_of(u32 (*hi)[4], u32 (*lo)[4], float back, u64 queries, const float *weight)
{
    const int t = threadIdx.x % 4;
    float upper = 0.0f, lower = 0.0f;
    LT_UNROLL(ALL_HEADS / COLUMNS)
    for (int n = 0; n < ALL_HEADS / COLUMNS; n++) {
        float dot[4 * OCTETS];
        multiply(dot, hi, lo, queries + n * PRODUCT);
        LT_UNROLL(2 * OCTETS)
        for (int i = 0; i < 2 * OCTETS; i++) {
            const float by = weight[n * COLUMNS + i / 2 * 8 + 2 * t + i % 2];
            upper = weighted(upper, by, dot[i / 2 * 4 + i % 2]);
            lower = weighted(lower, by, dot[i / 2 * 4 + 2 + i % 2]);
        }
    }
    upper += lt_shfl_xor_f32(ALL, upper, 1);
    lower += lt_shfl_xor_f32(ALL, lower, 1);
    upper += lt_shfl_xor_f32(ALL, upper, 2);
    lower += lt_shfl_xor_f32(ALL, lower, 2);
    return (t & 1 ? lower : upper) * back;
}

LT_KERNEL(32 * WARPS, 1)
dsa_scores__m2_tokens2_heads2_d32_pools30_slots1_pages3_blocks3__s2w16(float *score, const float *iq, const float *iw, const f16 *pooled, const float *scale, const i32 *positions, const i32 *slots, const i32 *block_table)
{
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int in_run = blockIdx.y % SHARES * SHARE, m0 = blockIdx.y / SHARES * TOKENS + in_run;
    const int rows = TOKENS - in_run < SHARE ? TOKENS - in_run : SHARE;
    LT_DYN_SHARED(uint4, queries);
    LT_SHARED1(float, weight, UNITS);
    LT_SHARED1(int, seen, SHARE);
    int slot = SLOTS == 1 ? 0 : -1, last = 0;

    LT_UNROLL(SHARE)
    for (int r = 0; r < SHARE; r++) {
        const int m = m0 + (r < rows ? r : 0), mine = slots[m], position = positions[m];
        int end = r < rows && mine >= 0 && position >= 0 ? (position + 1) / 4 : 0;
        end = end < TOO_FAR ? end : TOO_FAR;
        if (SLOTS > 1) slot = mine >= 0 ? mine : slot;
        last = end > last ? end : last;
        if (threadIdx.x == 0) seen[r] = end;
    }
    const int stride = WARPS * gridDim.x, pages = (last + KEYS - 1) / KEYS;
    int page = warp * gridDim.x + blockIdx.x, block = page_block(block_table, slot, page);
    // A page of the block, while the kernel in front still runs.
    if (threadIdx.x == 0 && block >= 0) lt_bulk_prefetch_l2(pooled + (size_t)block * (2 * STAGE), STAGE * 4);
    lt_pdl_wait();
    lt_pdl_launch();
    if (blockIdx.x >= pages) return;
    // Four warps ask for keys while the others bring the queries. Then these ask, four after four, so that keys come
    // four warps' after four warps', and these multiply while those wait.
    if (warp >= 4) bring_queries(queries, weight, iq + (size_t)m0 * HEADS * D, iw + (size_t)m0 * HEADS, rows);
    if (warp >= 8) lt_bar_sync(warp / 4, 256);
    u32 hi[STEPS][4], lo[STEPS][4];
    float back = 0.0f;
    ask_page(hi, lo, &back, pooled, scale, page < pages ? block : -1);
    if (warp >= 4 && warp < WARPS - 4) lt_bar_arrive(warp / 4 + 1, 256);
    __syncthreads();
    int first = warp / 4 * 4 * gridDim.x + blockIdx.x;  // page of the first of four warps
    if (first >= pages) return;
    LT_UNROLL(1)
    for (int turn = 1;; turn++) {
        int next = page + stride;
        first += stride;
        const int following = page_ask(block_table, slot, next);
        const int pool = page * KEYS + g + (t & 1) * 8, is_here = block >= 0;
        LT_UNROLL(1)
        for (int r = 0; r < rows; r++) {
            const u64 own = lt_wgmma_b(queries) + r * (ALL_HEADS / COLUMNS) * PRODUCT;
            const float value = score_of(hi, lo, back, own, weight + r * ALL_HEADS);
            const int end = (seen[r] + KEYS - 1) / KEYS * KEYS;
            if (t < 2 && pool < end && pool < POOLS)
                score[(size_t)(m0 + r) * POOLS + pool] =
                    is_here && pool < seen[r] ? value : -0x1.fffffep127f;
        }
        if (first >= pages) return;
        page = next;
        block = page_given(following, slot, page);  // looked at only now: it was asked for behind the keys
        ask_page(hi, lo, &back, pooled, scale, page < pages ? block : -1);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_scores__m2_tokens2_heads2_d32_pools30_slots1_pages3_blocks3__s2w16(*(float **)a[0], *(const float **)a[1], *(const float **)a[2], *(const f16 **)a[3], *(const float **)a[4], *(const i32 **)a[5], *(const i32 **)a[6], *(const i32 **)a[7]); }
#endif
