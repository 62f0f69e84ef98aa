/* family mla_latent_write rev 1, shape m2_d24_stride40_offset8_slots3_pages1_blocks3, variant one, class exact */
// One warp a row. Squares of bf16 are exact in double and their sum nearly so: no code depends on its order.
enum { M = 2, D = 24, STRIDE = 40, OFFSET = 8, SLOTS = 3, PAGES = 1, BLOCKS = 3 };
enum { LOAD = 8, STEPS = (D + 32 * LOAD - 1) / (32 * LOAD) };
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

LT_KERNEL(32)
mla_latent_write__m2_d24_stride40_offset8_slots3_pages1_blocks3__one(e4m3 *cache, const bf16 *x, const bf16 *w, const i32 *positions, const i32 *slots, const i32 *block_table)
{
    const int lane = threadIdx.x, m = blockIdx.x;
    const bf16 *row = x + (size_t)m * STRIDE + OFFSET;
    LT_SHARED1(double, share, 32);
    uint4 weight[STEPS], value[STEPS];
    double sum = 0;

    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++)
        if ((i * 32 + lane) * LOAD < D) weight[i] = lt_ld128(w + (i * 32 + lane) * LOAD);
    lt_pdl_wait();
    lt_pdl_launch();
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++)
        if ((i * 32 + lane) * LOAD < D) value[i] = lt_ld128(row + (i * 32 + lane) * LOAD);
    const int position = positions[m];
    const int block = page_block(block_table, slots[m], position < 0 ? -1 : position / PAGE);
    if (block < 0) return;
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        const u32 word[4] = {value[i].x, value[i].y, value[i].z, value[i].w};
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            const double lo = lt_bf16lo_f32(word[j]), hi = lt_bf16hi_f32(word[j]);
            if ((i * 32 + lane) * LOAD < D) sum += lo * lo + hi * hi;
        }
    }
    share[lane] = sum;
    __syncwarp();
    sum = 0;
    LT_UNROLL(32)
    for (int i = 0; i < 32; i++) sum += share[i];
    const float scale = 1.0f / sqrtf((float)(sum / D) + 0x1.4f8b58p-17f);
    e4m3 *to = cache + ((size_t)block * PAGE + position % PAGE) * D;
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        const u32 word[4] = {value[i].x, value[i].y, value[i].z, value[i].w};
        const u32 by[4] = {weight[i].x, weight[i].y, weight[i].z, weight[i].w};
        u32 two[4];
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++)
            two[j] = lt_pack_e4m3(lt_bf16lo_f32(word[j]) * scale * lt_bf16lo_f32(by[j]),
                                  lt_bf16hi_f32(word[j]) * scale * lt_bf16hi_f32(by[j]));
        uint2 codes;
        codes.x = two[0] | two[1] << 16;
        codes.y = two[2] | two[3] << 16;
        if ((i * 32 + lane) * LOAD < D) *(uint2 *)(to + (i * 32 + lane) * LOAD) = codes;
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { mla_latent_write__m2_d24_stride40_offset8_slots3_pages1_blocks3__one(*(e4m3 **)a[0], *(const bf16 **)a[1], *(const bf16 **)a[2], *(const i32 **)a[3], *(const i32 **)a[4], *(const i32 **)a[5]); }
#endif
