/* family dsa_index_store rev 1, shape m2_d264_stride536_offset8_gate272_slots3_ring4, variant one, class sum1 */
// One warp a row, which stays in registers through the mean, the variance and the product.
enum { M = 2, D = 264, STRIDE = 536, OFFSET = 8, GATE = 272, SLOTS = 3, RING = 4 };
enum { LOAD = 8, STEPS = (D + 32 * LOAD - 1) / (32 * LOAD) };

LT_DEV void unpack(float *to, uint4 v)
{
    const u32 word[4] = {v.x, v.y, v.z, v.w};
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        to[2 * i] = lt_bf16lo_f32(word[i]);
        to[2 * i + 1] = lt_bf16hi_f32(word[i]);
    }
}

LT_DEV uint4 load(const bf16 *row, int d)  // zero past the end
{
    uint4 v;
    v.x = v.y = v.z = v.w = 0;
    if (d < D) v = lt_ld128(row + d);
    return v;
}

LT_KERNEL(32)
dsa_index_store__m2_d264_stride536_offset8_gate272_slots3_ring4__one(bf16 *raw, const bf16 *x, const bf16 *w, const bf16 *b, const i32 *positions, const i32 *slots)
{
    const int lane = threadIdx.x, m = blockIdx.x;
    const bf16 *key = x + (size_t)m * STRIDE + OFFSET, *gate = x + (size_t)m * STRIDE + GATE;
    uint4 weight[STEPS], bias[STEPS], score[STEPS];
    float v[STEPS][LOAD], sum = 0.0f, squares = 0.0f;

    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        weight[i] = load(w, (i * 32 + lane) * LOAD);
        bias[i] = load(b, (i * 32 + lane) * LOAD);
    }
    lt_pdl_wait();
    lt_pdl_launch();
    const int slot = slots[m], position = positions[m];
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        score[i] = load(gate, (i * 32 + lane) * LOAD);
        unpack(v[i], load(key, (i * 32 + lane) * LOAD));
        LT_UNROLL(LOAD)
        for (int j = 0; j < LOAD; j++) sum += v[i][j];
    }
    const float mean = lt_warp_sum(sum) / (float)D;
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        LT_UNROLL(LOAD)
        for (int j = 0; j < LOAD; j++) {
            v[i][j] = (i * 32 + lane) * LOAD < D ? v[i][j] - mean : 0.0f;
            squares = fmaf(v[i][j], v[i][j], squares);
        }
    }
    const float scale = 1.0f / sqrtf(lt_warp_sum(squares) / (float)D + 0x1.0c6f7ap-20f);
    if (slot < 0 || slot >= SLOTS || position < 0) return;
    bf16 *to = raw + ((size_t)slot * RING + position % RING) * 2 * D;
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        const int d = (i * 32 + lane) * LOAD;
        float by[LOAD], plus[LOAD];
        uint4 out;
        unpack(by, weight[i]);
        unpack(plus, bias[i]);
        LT_UNROLL(LOAD)
        for (int j = 0; j < LOAD; j++) v[i][j] = fmaf(v[i][j] * scale, by[j], plus[j]);
        out.x = lt_pack_bf16(v[i][0], v[i][1]);
        out.y = lt_pack_bf16(v[i][2], v[i][3]);
        out.z = lt_pack_bf16(v[i][4], v[i][5]);
        out.w = lt_pack_bf16(v[i][6], v[i][7]);
        if (d < D) {
            lt_st128(to + d, out);
            lt_st128(to + D + d, score[i]);
        }
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_index_store__m2_d264_stride536_offset8_gate272_slots3_ring4__one(*(bf16 **)a[0], *(const bf16 **)a[1], *(const bf16 **)a[2], *(const bf16 **)a[3], *(const i32 **)a[4], *(const i32 **)a[5]); }
#endif
