/* family rms_norm.part_e4m3 rev 1, shape m1_k64_stride64, variant w1, class sum1 */
// One block a row, which stays in registers between the sum of its squares and the product.
enum { M = 1, K = 64, STRIDE = 64, WARPS = 1 };
enum {
    REACH = 32 * WARPS * 8, STEPS = (K + REACH - 1) / REACH,
    QUANTISES = 1  // are codes of y wanted, too?
};
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
// E4M3 codes of bf16, and the scale of a row whose values a block of WARPS warps has: with the bits of true divisions.
// x / y of a normal positive y, whose inverse is normal too, as a division rounds it but where y has a mantissa of ones
// alone; without the branch that a division has. -0 stays -0.
// 1 / x of a normal positive x to the last place or so: a guess within 5.1 %, whose error is taken to the 4th power and
// then squared. No branch, unlike the division, so that four of them overlap.
LT_DEV float reciprocal(float x)
{
    float y = lt_bits_f32(0x7ef311c3u - lt_f32_bits(x));
    const float e = fmaf(-x, y, 1.0f);
    y = fmaf(fmaf(y, e, y), e * e, fmaf(y, e, y));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}
LT_DEV float divided(float x, float y)
{
    const float by = reciprocal(y), quotient = x * by;
    return fmaf(fmaf(y, quotient, -x), -by, quotient);
}

LT_DEV float larger(float a, float b) { return a > b ? a : b; }  // a NaN in a is dropped

LT_DEV float clamped(float v)  // NaN stays NaN
{
    v = v > 448.0f ? 448.0f : v;
    return v < -448.0f ? -448.0f : v;
}

LT_DEV float scaled(float v, float scale)  // v / scale; scale: of_magnitude's
{
    return clamped(scale > 3.4e38f ? v * 0.0f : divided(v, scale));
}

LT_DEV float of_magnitude(float amax)  // the scale of a row
{
    return larger(amax > 0x1.fffffep127f ? amax : divided(amax, 448.0f), 1e-12f);
}

LT_DEV float magnitude_of_8(uint4 v)
{
    const u32 word[4] = {v.x, v.y, v.z, v.w};
    float amax = 0.0f;
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++)
        amax = larger(fabsf(lt_bf16hi_f32(word[i])), larger(fabsf(lt_bf16lo_f32(word[i])), amax));
    return amax;
}

LT_DEV uint2 codes_of_8(uint4 v, float scale)
{
    const u32 word[4] = {v.x, v.y, v.z, v.w};
    u32 two[4];
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++)
        two[i] = lt_pack_e4m3(scaled(lt_bf16lo_f32(word[i]), scale), scaled(lt_bf16hi_f32(word[i]), scale));
    uint2 out;
    out.x = two[0] | two[1] << 16;
    out.y = two[2] | two[3] << 16;
    return out;
}

// room: WARPS floats that the block shares; amax: of this thread's values.
LT_DEV float row_scale(float *room, float amax)
{
    amax = lt_warp_max(amax);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = amax;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) amax = larger(room[i], amax);
    return of_magnitude(amax);
}

LT_KERNEL(32 * WARPS)
rms_norm_part_e4m3__m1_k64_stride64__w1(bf16 *y, e4m3 *q, float *sx, const bf16 *x, const bf16 *w)
{
    const bf16 *row = x + (size_t)blockIdx.x * K;
    LT_SHARED1(float, room, WARPS);
    uint4 weight[STEPS], value[STEPS];
    float squares = 0.0f, amax = 0.0f;

    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) weight[i] = row_load(w, i * REACH + threadIdx.x * 8);
    lt_pdl_wait();
    lt_pdl_launch();
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) value[i] = row_load(row, i * REACH + threadIdx.x * 8);
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        float v[8];
        row_unpack(v, value[i]);
        LT_UNROLL(8)
        for (int j = 0; j < 8; j++) squares = fmaf(v[j], v[j], squares);
    }
    const float scale = 1.0f / sqrtf(row_sum(room, squares) / (float)K + 0x1.4f8b58p-17f);
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        float v[8], by[8];
        row_unpack(v, value[i]);
        row_unpack(by, weight[i]);
        LT_UNROLL(8)
        for (int j = 0; j < 8; j++) v[j] = v[j] * scale * by[j];
        row_store(y + (size_t)blockIdx.x * K, i * REACH + threadIdx.x * 8, v);
        if (!QUANTISES) continue;
        value[i] = row_pack(v);
        amax = larger(magnitude_of_8(value[i]), amax);
    }
    LT_SHARED1(float, most, WARPS);
    const float by = row_scale(most, amax);
    if (threadIdx.x == 0) sx[blockIdx.x] = by;
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        const int k = i * REACH + threadIdx.x * 8;
        if (k < K) *(uint2 *)(q + (size_t)blockIdx.x * K + k) = codes_of_8(value[i], by);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { rms_norm_part_e4m3__m1_k64_stride64__w1(*(bf16 **)a[0], *(e4m3 **)a[1], *(float **)a[2], *(const bf16 **)a[3], *(const bf16 **)a[4]); }
#endif
