/* family dsa_pool_keys rev 1, shape m5_d22_ring5_slots1_pages2_blocks3, variant one, class fma4 */
// One block a row, two channels a thread.
enum { M = 5, D = 22, RING = 5, SLOTS = 1, PAGES = 2, BLOCKS = 3 };
enum { POOL = 4 };
// Paged caches: a page is 64 tokens of one sequence; block_table[slot][page] is the block of the cache that holds it.
enum { PAGE = 64 };

// Below 0: no such sequence, page or block. Without a branch around the load, so that several can be on their way.
LT_DEV int page_block(const i32 *block_table, int slot, int page)
{
    const int is_there = slot >= 0 && slot < SLOTS && page >= 0 && page < PAGES;
    const int block = block_table[is_there ? (size_t)slot * PAGES + page : 0];
    return is_there && block < BLOCKS ? block : -1;
}

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

LT_KERNEL((D + 63) / 64 * 32)
dsa_pool_keys__m5_d22_ring5_slots1_pages2_blocks3__one(float *pooled, const bf16 *raw, const float *ape, const i32 *positions, const i32 *slots, const i32 *block_table)
{
    const int d = 2 * threadIdx.x, m = blockIdx.x;
    float gate[2][POOL], key[2][POOL];

    LT_UNROLL(POOL)
    for (int i = 0; i < POOL; i++) {
        gate[0][i] = d < D ? ape[i * D + d] : 0.0f;
        gate[1][i] = d < D ? ape[i * D + d + 1] : 0.0f;
    }
    lt_pdl_wait();
    lt_pdl_launch();
    const int slot = slots[m], position = positions[m];
    if (position < 0 || position % POOL != POOL - 1 || d >= D) return;
    const int block = page_block(block_table, slot, position / PAGE);
    if (block < 0) return;
    LT_UNROLL(POOL)
    for (int i = 0; i < POOL; i++) {
        const bf16 *row = raw + ((size_t)slot * RING + (position - (POOL - 1) + i) % RING) * 2 * D;
        const u32 keys = *(const u32 *)(row + d), gates = *(const u32 *)(row + D + d);
        key[0][i] = lt_bf16lo_f32(keys);
        key[1][i] = lt_bf16hi_f32(keys);
        gate[0][i] += lt_bf16lo_f32(gates);
        gate[1][i] += lt_bf16hi_f32(gates);
    }
    float *to = pooled + ((size_t)block * PAGE + position % PAGE) / POOL * D + d;
    to[0] = pool(gate[0], key[0]);
    to[1] = pool(gate[1], key[1]);
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_pool_keys__m5_d22_ring5_slots1_pages2_blocks3__one(*(float **)a[0], *(const bf16 **)a[1], *(const float **)a[2], *(const i32 **)a[3], *(const i32 **)a[4], *(const i32 **)a[5]); }
#endif
