/* family dsa_scores rev 1, shape m1_tokens1_heads4_d64_pools16_slots1_pages1_blocks1, variant w8s1r2, class mma.bf16x3 */
// Keys are the 16-row operand of m16n8k16, one page a warp; eight heads are its columns. An f32 is the sum of three
// bf16: six of the nine products count, the rest is below 2^-24. Lane (g, t) holds pools g and g + 8, channels 4t ..
// 4t + 3 of every 16; queries lie the same way in shared memory.
enum { M = 1, TOKENS = 1, HEADS = 4, D = 64, POOLS = 16, SLOTS = 1, PAGES = 1, BLOCKS = 1, WARPS = 8, SHARE = 1, RESIDENT = 2 };
enum {
    KEYS = 16,                        // pools of a page
    STEPS = D / 16,
    TILES = (HEADS + 7) / 8,          // of heads
    SHARES = (TOKENS + SHARE - 1) / SHARE,
    PART = TILES * STEPS * 32,        // fragments of one row's queries, of one of the three
    TOO_FAR = PAGES * KEYS < POOLS ? PAGES * KEYS : POOLS
};
// Paged caches: a page is 64 tokens of one sequence; block_table[slot][page] is the block of the cache that holds it.
enum { PAGE = 64 };

LT_DEV int page_block(const i32 *block_table, int slot, int page)  // below 0: no such sequence, page or block
{
    if (slot < 0 || slot >= SLOTS || page < 0 || page >= PAGES) return -1;
    const int block = block_table[(size_t)slot * PAGES + page];
    return block < BLOCKS ? block : -1;
}

LT_DEV void split(u32 *part, float a, float b)  // part[0] + part[1] + part[2] = (a, b), exactly
{
    LT_UNROLL(3)
    for (int i = 0; i < 3; i++) {
        part[i] = lt_pack_bf16(a, b);
        a -= lt_bf16lo_f32(part[i]);
        b -= lt_bf16hi_f32(part[i]);
    }
}

// The three parts of the queries of SHARE rows from m0, in the order of the fragments.
LT_DEV void load_queries(uint2 *queries, const float *iq, int m0, int rows)
{
    for (int i = threadIdx.x; i < SHARE * PART; i += 32 * WARPS) {
        const int r = i / PART, fragment = i % PART, lane = fragment % 32;
        const int h = fragment / (32 * STEPS) * 8 + lane / 4, d = fragment / 32 % STEPS * 16 + lane % 4 * 4;
        float4 q;
        u32 lo[3], hi[3];
        q.x = q.y = q.z = q.w = 0.0f;
        if (r < rows && h < HEADS) q = lt_ld128f(iq + ((size_t)(m0 + r) * HEADS + h) * D + d);
        split(lo, q.x, q.y);
        split(hi, q.z, q.w);
        LT_UNROLL(3)
        for (int part = 0; part < 3; part++) {
            uint2 both;
            both.x = lo[part];
            both.y = hi[part];
            queries[(r * 3 + part) * PART + fragment] = both;
        }
    }
}

// dot[r][tile] += 16 channels of a page's keys times the queries; small products first.
LT_DEV void add_step(float (*dot)[TILES][4], const float4 *key, const uint2 *queries, int step, int lane)
{
    u32 a[3][4], part[3];
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const float4 k = key[i % 2];
        split(part, i < 2 ? k.x : k.z, i < 2 ? k.y : k.w);
        LT_UNROLL(3)
        for (int p = 0; p < 3; p++) a[p][i] = part[p];
    }
    LT_UNROLL(SHARE)
    for (int r = 0; r < SHARE; r++) {
        LT_UNROLL(TILES)
        for (int tile = 0; tile < TILES; tile++) {
            u32 b[3][2];
            LT_UNROLL(3)
            for (int p = 0; p < 3; p++) {
                const uint2 q = queries[(r * 3 + p) * PART + (tile * STEPS + step) * 32 + lane];
                b[p][0] = q.x;
                b[p][1] = q.y;
            }
            LT_UNROLL(3)
            for (int sum = 2; sum >= 0; sum--) {
                LT_UNROLL(3)
                for (int p = 0; p <= sum; p++)
                    lt_mma_m16n8k16_bf16(dot[r][tile], a[p], b[sum - p], dot[r][tile]);
            }
        }
    }
}

LT_DEV float weighted(float sum, float weight, float dot) { return fmaf(weight, dot < 0.0f ? 0.0f : dot, sum); }

LT_KERNEL(32 * WARPS, RESIDENT)
dsa_scores__m1_tokens1_heads4_d64_pools16_slots1_pages1_blocks1__w8s1r2(float *score, const float *iq, const float *iw, const float *pooled, const i32 *positions, const i32 *slots, const i32 *block_table)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int in_run = blockIdx.y % SHARES * SHARE, m0 = blockIdx.y / SHARES * TOKENS + in_run;
    const int rows = TOKENS - in_run < SHARE ? TOKENS - in_run : SHARE;
    LT_DYN_SHARED(uint2, queries);
    int seen[SHARE], slot = -1, last = 0;
    float weight[SHARE][TILES][2];

    lt_pdl_wait();
    lt_pdl_launch();
    LT_UNROLL(SHARE)
    for (int r = 0; r < SHARE; r++) {
        const int mine = r < rows ? slots[m0 + r] : -1, position = r < rows ? positions[m0 + r] : -1;
        seen[r] = mine >= 0 && position >= 0 ? (position + 1) / 4 : 0;
        seen[r] = seen[r] < TOO_FAR ? seen[r] : TOO_FAR;
        slot = mine >= 0 ? mine : slot;
        last = seen[r] > last ? seen[r] : last;
    }
    const int pages = (last + KEYS - 1) / KEYS;
    if (blockIdx.x >= pages) return;
    load_queries(queries, iq, m0, rows);
    LT_UNROLL(SHARE)
    for (int r = 0; r < SHARE; r++) {
        LT_UNROLL(TILES)
        for (int i = 0; i < 2 * TILES; i++) {
            const int h = i / 2 * 8 + 2 * t + i % 2;
            weight[r][i / 2][i % 2] =
                r < rows && h < HEADS ? iw[(size_t)(m0 + r) * HEADS + h] * 0x1.000000p-4f : 0.0f;
        }
    }
    __syncthreads();
    for (int page = warp * gridDim.x + blockIdx.x; page < pages; page += WARPS * gridDim.x) {
        const int block = page_block(block_table, slot, page);
        float dot[SHARE][TILES][4] = {0};
        float4 key[STEPS][2];
        if (block >= 0) {
            const float *keys = pooled + ((size_t)block * KEYS + g) * D + 4 * t;
            LT_UNROLL(STEPS)
            for (int step = 0; step < STEPS; step++) {
                key[step][0] = lt_ld128f(keys + step * 16);
                key[step][1] = lt_ld128f(keys + step * 16 + 8 * D);
            }
            LT_UNROLL(STEPS)
            for (int step = 0; step < STEPS; step++) add_step(dot, key[step], queries, step, lane);
        }
        LT_UNROLL(SHARE)
        for (int r = 0; r < SHARE; r++) {
            float sum[2] = {0.0f, 0.0f};
            LT_UNROLL(TILES)
            for (int i = 0; i < 2 * TILES; i++) {
                sum[0] = weighted(sum[0], weight[r][i / 2][i % 2], dot[r][i / 2][i % 2]);
                sum[1] = weighted(sum[1], weight[r][i / 2][i % 2], dot[r][i / 2][2 + i % 2]);
            }
            LT_UNROLL(2)
            for (int i = 0; i < 2; i++) {
                sum[i] += lt_shfl_xor_f32(0xffffffffu, sum[i], 1);
                sum[i] += lt_shfl_xor_f32(0xffffffffu, sum[i], 2);
            }
            const int pool = page * KEYS + g + (t & 1) * 8, end = (seen[r] + KEYS - 1) / KEYS * KEYS;
            if (t < 2 && pool < end && pool < POOLS)
                score[(size_t)(m0 + r) * POOLS + pool] =
                    block >= 0 && pool < seen[r] ? sum[t & 1] : -0x1.fffffep127f;
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_scores__m1_tokens1_heads4_d64_pools16_slots1_pages1_blocks1__w8s1r2(*(float **)a[0], *(const float **)a[1], *(const float **)a[2], *(const float **)a[3], *(const i32 **)a[4], *(const i32 **)a[5], *(const i32 **)a[6]); }
#endif
