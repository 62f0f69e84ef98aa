/* family moe_router rev 1, shape m1_experts1_topk1, variant p2, class slots */
// A block for each row: PARTS threads count who beats an expert; its rank is its slot.
enum { M = 1, EXPERTS = 1, TOPK = 1, PARTS = 2 };
enum {
    THREADS = (EXPERTS * PARTS + 31) / 32 * 32,
    STRIDE = 4 * PARTS,  // experts that the threads of one look at together
    ROOM = (EXPERTS + STRIDE - 1) / STRIDE * STRIDE
};

LT_DEV u32 order_of(float choice)  // ascends with the choice; NaN is lowest, zeros are equal
{
    const u32 bits = lt_f32_bits(choice);
    if (choice != choice) return 0;
    if (bits == 0x80000000u) return bits;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

LT_KERNEL(THREADS)
moe_router__m1_experts1_topk1__p2(i32 *ids, float *weights, const float *logits, const float *bias, const float *factor)
{
    const int e = threadIdx.x / PARTS, part = threadIdx.x % PARTS;
    const size_t row = blockIdx.x;
    LT_SHARED1(u32, order, ROOM);
    LT_SHARED1(float, chosen, TOPK);
    const float own_bias = e < EXPERTS ? bias[e] : 0.0f, scale = *factor;
    lt_pdl_wait();
    lt_pdl_launch();

    const float score = e < EXPERTS ? lt_sigmoid(logits[row * EXPERTS + e]) : 0.0f;
    const u32 mine = e < EXPERTS ? order_of(score + own_bias) : 0;  // what lies behind the experts beats none
    if (part == 0 && e < ROOM) order[e] = mine;
    for (int i = THREADS / PARTS + threadIdx.x; i < ROOM; i += THREADS) order[i] = 0;
    __syncthreads();
    u32 rank = 0;
    for (int i = 4 * part; i < ROOM; i += STRIDE) {
        const uint4 four = lt_ld128(order + i);
        rank += four.x > mine || (four.x == mine && i < e);
        rank += four.y > mine || (four.y == mine && i + 1 < e);
        rank += four.z > mine || (four.z == mine && i + 2 < e);
        rank += four.w > mine || (four.w == mine && i + 3 < e);
    }
    for (int o = PARTS / 2; o > 0; o /= 2) rank += lt_shfl_xor_u32(0xffffffffu, rank, o);
    if (part == 0 && e < EXPERTS && rank < TOPK) {
        chosen[rank] = score;
        ids[row * TOPK + rank] = e;
    }
    __syncthreads();
    if (threadIdx.x >= TOPK) return;
    float sum = 0.0f;
    for (int k = 0; k < TOPK; k++) sum += chosen[k];
    weights[row * TOPK + threadIdx.x] = chosen[threadIdx.x] / (sum + 1e-20f) * scale;
}
#ifndef __CUDACC__
void lt_entry(void **a) { moe_router__m1_experts1_topk1__p2(*(i32 **)a[0], *(float **)a[1], *(const float **)a[2], *(const float **)a[3], *(const float **)a[4]); }
#endif
