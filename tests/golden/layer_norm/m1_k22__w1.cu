/* family layer_norm rev 1, shape m1_k22, variant w1, class sum1 */
// One block a row, which stays in registers through the mean, the variance and the product.
enum { M = 1, K = 22, WARPS = 1 };
enum { REACH = 32 * WARPS * 8, STEPS = (K + REACH - 1) / REACH };
// Eight bf16 of a row at once, and sums over a block of WARPS warps. A row is K elements.
LT_DEV uint4 row_load(const bf16 *row, int k)  // zero from K on
{
    uint4 v;
    v.x = v.y = v.z = v.w = 0;
    if (K % 8 == 0 && k < K) v = lt_ld128(row + k);
    if (K % 8 != 0) {
        u32 word[4] = {0, 0, 0, 0};
        for (int i = 0; i < 8; i++)
            if (k + i < K) word[i / 2] |= (u32)row[k + i].x << i % 2 * 16;
        v.x = word[0], v.y = word[1], v.z = word[2], v.w = word[3];
    }
    return v;
}

LT_DEV void row_unpack(float *to, uint4 v)
{
    const u32 word[4] = {v.x, v.y, v.z, v.w};
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        to[2 * i] = lt_bf16lo_f32(word[i]);
        to[2 * i + 1] = lt_bf16hi_f32(word[i]);
    }
}

LT_DEV uint4 row_pack(const float *v)
{
    uint4 out;
    out.x = lt_pack_bf16(v[0], v[1]), out.y = lt_pack_bf16(v[2], v[3]);
    out.z = lt_pack_bf16(v[4], v[5]), out.w = lt_pack_bf16(v[6], v[7]);
    return out;
}

LT_DEV void row_store(bf16 *row, int k, const float *v)
{
    if (K % 8 == 0 && k < K) lt_st128(row + k, row_pack(v));
    if (K % 8 != 0)
        for (int i = 0; i < 8; i++)
            if (k + i < K) row[k + i] = lt_f32_bf16(v[i]);
}

LT_DEV float row_sum(float *room, float v)  // room: WARPS floats of shared memory, used once
{
    v = lt_warp_sum(v);
    if (WARPS == 1) return v;
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
    __syncthreads();
    float sum = room[0];
    for (int i = 1; i < WARPS; i++) sum += room[i];
    return sum;
}

LT_KERNEL(32 * WARPS)
layer_norm__m1_k22__w1(bf16 *y, const bf16 *x, const bf16 *w, const bf16 *b)
{
    const bf16 *row = x + (size_t)blockIdx.x * K;
    LT_SHARED2(float, room, 2, WARPS);
    uint4 weight[STEPS], bias[STEPS];
    float v[STEPS][8], sum = 0.0f, squares = 0.0f;

    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        weight[i] = row_load(w, i * REACH + threadIdx.x * 8);
        bias[i] = row_load(b, i * REACH + threadIdx.x * 8);
    }
    lt_pdl_wait();
    lt_pdl_launch();
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        row_unpack(v[i], row_load(row, i * REACH + threadIdx.x * 8));
        LT_UNROLL(8)
        for (int j = 0; j < 8; j++) sum += v[i][j];
    }
    const float mean = row_sum(room[0], sum) / (float)K;
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        LT_UNROLL(8)
        for (int j = 0; j < 8; j++) {
            v[i][j] = i * REACH + threadIdx.x * 8 + j < K ? v[i][j] - mean : 0.0f;
            squares = fmaf(v[i][j], v[i][j], squares);
        }
    }
    const float scale = 1.0f / sqrtf(row_sum(room[1], squares) / (float)K + 0x1.0c6f7ap-20f);
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        float by[8], to[8];
        row_unpack(by, weight[i]);
        row_unpack(to, bias[i]);
        LT_UNROLL(8)
        for (int j = 0; j < 8; j++) v[i][j] = fmaf(v[i][j] * scale, by[j], to[j]);
        row_store(y + (size_t)blockIdx.x * K, i * REACH + threadIdx.x * 8, v[i]);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { layer_norm__m1_k22__w1(*(bf16 **)a[0], *(const bf16 **)a[1], *(const bf16 **)a[2], *(const bf16 **)a[3]); }
#endif
