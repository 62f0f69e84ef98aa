/* family moe_router rev 1, shape m16_experts288_topk8, variant one, class slots */
// A block for each row. A thread's expert is ranked within its warp; the best TOPK of each warp, sorted, are ranked
// among each other. A rank is a slot.
enum { M = 16, EXPERTS = 288, TOPK = 8 };
enum {
    WARPS = (EXPERTS + 31) / 32,
    THREADS = 32 * WARPS,
    KEPT = TOPK < 32 ? TOPK : 32,                // of a warp
    FINALISTS = (WARPS * KEPT + 3) / 4 * 4
};

LT_DEV u32 order_of(float choice)  // ascends with the choice; NaN is lowest, zeros are equal
{
    const u32 bits = lt_f32_bits(choice);
    if (choice != choice) return 0;
    if (bits == 0x80000000u) return bits;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// How many of `count` experts, a multiple of 4, beat expert e: a larger choice, or the same and a lower id.
LT_DEV u32 count_better(const u32 *order, const u32 *ids, int count, u32 mine, u32 e)
{
    u32 rank = 0;
    for (int i = 0; i < count; i += 4) {
        const uint4 four = lt_ld128(order + i), id = lt_ld128(ids + i);
        rank += four.x > mine || (four.x == mine && id.x < e);
        rank += four.y > mine || (four.y == mine && id.y < e);
        rank += four.z > mine || (four.z == mine && id.z < e);
        rank += four.w > mine || (four.w == mine && id.w < e);
    }
    return rank;
}

LT_KERNEL(THREADS)
moe_router__m16_experts288_topk8__one(i32 *ids, float *weights, const float *logits, const float *bias, const float *factor)
{
    const int warp = threadIdx.x / 32;
    const u32 e = threadIdx.x;
    const size_t row = blockIdx.x;
    LT_SHARED1(u32, order, THREADS);
    LT_SHARED1(u32, experts, THREADS);
    LT_SHARED1(u32, best, FINALISTS);
    LT_SHARED1(u32, best_ids, FINALISTS);
    LT_SHARED1(float, chosen, TOPK);
    const float own_bias = e < EXPERTS ? bias[e] : 0.0f, scale = *factor;
    lt_pdl_wait();
    lt_pdl_launch();

    const float score = e < EXPERTS ? lt_sigmoid(logits[row * EXPERTS + e]) : 0.0f;
    const u32 mine = e < EXPERTS ? order_of(score + own_bias) : 0;  // what lies behind the experts beats none
    order[e] = mine;
    experts[e] = e;
    if (e < FINALISTS - WARPS * KEPT) best[WARPS * KEPT + e] = 0, best_ids[WARPS * KEPT + e] = 0xffffffffu;
    __syncwarp();
    const u32 rank = count_better(order + 32 * warp, experts + 32 * warp, 32, mine, e);
    if (rank < KEPT) best[warp * KEPT + rank] = mine, best_ids[warp * KEPT + rank] = e;
    __syncthreads();
    if (rank < KEPT) {
        const u32 slot = count_better(best, best_ids, FINALISTS, mine, e);
        if (slot < TOPK) {
            chosen[slot] = score;
            ids[row * TOPK + slot] = e;
        }
    }
    __syncthreads();
    if (threadIdx.x >= TOPK) return;
    float sum = 0.0f;
    for (int k = 0; k < TOPK; k++) sum += chosen[k];
    weights[row * TOPK + threadIdx.x] = chosen[threadIdx.x] / (sum + 1e-20f) * scale;
}
#ifndef __CUDACC__
void lt_entry(void **a) { moe_router__m16_experts288_topk8__one(*(i32 **)a[0], *(float **)a[1], *(const float **)a[2], *(const float **)a[3], *(const float **)a[4]); }
#endif
