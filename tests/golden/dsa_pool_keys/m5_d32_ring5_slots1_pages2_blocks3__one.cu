/* family dsa_pool_keys rev 2, shape m5_d32_ring5_slots1_pages2_blocks3, variant one, class fma4 */
// One block a row, two channels a thread. What it writes lies where a lane of dsa_scores has it as fragments.
enum { M = 5, D = 32, RING = 5, SLOTS = 1, PAGES = 2, BLOCKS = 3 };
enum { POOL = 4, KEYS = 16, WARPS = (D + 63) / 64 };
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

LT_DEV float pool(const float *gate, const float *key)
{
    float largest = gate[0], e[POOL], sum = 0.0f, weighted = 0.0f;
    LT_UNROLL(POOL)
    for (int i = 1; i < POOL; i++) largest = gate[i] > largest ? gate[i] : largest;
    LT_UNROLL(POOL)
    for (int i = 0; i < POOL; i++) {
        e[i] = lt_exp(gate[i] - largest);
        sum += e[i];
        weighted = fmaf(e[i], key[i], weighted);
    }
    return weighted / sum;
}

LT_KERNEL(32 * WARPS)
dsa_pool_keys__m5_d32_ring5_slots1_pages2_blocks3__one(f16 *pooled, float *scale, const bf16 *raw, const float *ape, const i32 *positions, const i32 *slots, const i32 *block_table)
{
    const int d = 2 * threadIdx.x, m = blockIdx.x;
    float gate[2][POOL], key[2][POOL], x = 0.0f, y = 0.0f, sum = 0.0f;
    LT_SHARED1(float, sums, WARPS);

    LT_UNROLL(POOL)
    for (int i = 0; i < POOL; i++) {
        gate[0][i] = d < D ? ape[i * D + d] : 0.0f;
        gate[1][i] = d < D ? ape[i * D + d + 1] : 0.0f;
    }
    lt_pdl_wait();
    lt_pdl_launch();
    const int slot = slots[m], position = positions[m];
    if (position < 0 || position % POOL != POOL - 1) return;
    const int block = page_block(block_table, slot, position / PAGE), p = position % PAGE / POOL;
    if (block < 0) return;
    if (d < D) {
        LT_UNROLL(POOL)
        for (int i = 0; i < POOL; i++) {
            const bf16 *row = raw + ((size_t)slot * RING + (position - (POOL - 1) + i) % RING) * 2 * D;
            const u32 keys = *(const u32 *)(row + d), gates = *(const u32 *)(row + D + d);
            key[0][i] = lt_bf16lo_f32(keys);
            key[1][i] = lt_bf16hi_f32(keys);
            gate[0][i] += lt_bf16lo_f32(gates);
            gate[1][i] += lt_bf16hi_f32(gates);
        }
        x = pool(gate[0], key[0]);
        y = pool(gate[1], key[1]);
    }
    sum = lt_warp_sum(fabsf(x) + fabsf(y));
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = sums[0];
    LT_UNROLL(WARPS)
    for (int i = 1; i < WARPS; i++) sum += sums[i];
    const int e = f16_exponent(sum);
    if (threadIdx.x == 0) scale[block * KEYS + p] = f16_undo(e);
    if (d >= D) return;
    x *= f16_scale(e);
    y *= f16_scale(e);
    const u32 high = lt_pack_f16(x, y);
    u32 *const page = (u32 *)pooled + (size_t)block * (KEYS * D);
    u32 *const to = page + d / 16 * 128 + (p % 8 * 4 + d % 16 / 4) * 4 + d % 4 + p / 8;
    to[0] = high;
    to[KEYS * D / 2] = f16_low(x, y, high);
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_pool_keys__m5_d32_ring5_slots1_pages2_blocks3__one(*(f16 **)a[0], *(float **)a[1], *(const bf16 **)a[2], *(const float **)a[3], *(const i32 **)a[4], *(const i32 **)a[5], *(const i32 **)a[6]); }
#endif
