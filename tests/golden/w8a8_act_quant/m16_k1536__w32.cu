/* family w8a8_act_quant rev 1, shape m16_k1536, variant w32, class exact */
// One block a row: the largest magnitude, then the codes. The row is read twice, the second time from L1.
enum { M = 16, K = 1536, WARPS = 32 };

LT_DEV float larger(float a, float b) { return a > b ? a : b; }  // a NaN in a is dropped

LT_DEV float clamped(float v)  // NaN stays NaN
{
    v = v > 448.0f ? 448.0f : v;
    return v < -448.0f ? -448.0f : v;
}

LT_KERNEL(32 * WARPS)
w8a8_act_quant__m16_k1536__w32(e4m3 *q, float *sx, const bf16 *x)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bf16 *row = x + (size_t)blockIdx.x * K;
    e4m3 *codes = q + (size_t)blockIdx.x * K;
    LT_SHARED1(float, room, WARPS);
    float amax = 0.0f;

    lt_pdl_wait();
    lt_pdl_launch();
    for (int k = threadIdx.x * 8; k < K; k += 32 * WARPS * 8) {
        const uint4 v = lt_ld128(row + k);
        const u32 word[4] = {v.x, v.y, v.z, v.w};
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            amax = larger(fabsf(lt_bf16hi_f32(word[i])), larger(fabsf(lt_bf16lo_f32(word[i])), amax));
    }
    amax = lt_warp_max(amax);
    if (lane == 0) room[warp] = amax;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) amax = larger(room[i], amax);
    const float scale = larger(amax / 448.0f, 1e-12f);
    if (threadIdx.x == 0) sx[blockIdx.x] = scale;
    for (int k = threadIdx.x * 8; k < K; k += 32 * WARPS * 8) {
        const uint4 v = lt_ld128(row + k);
        const u32 word[4] = {v.x, v.y, v.z, v.w};
        u32 two[4];
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            two[i] = lt_pack_e4m3(clamped(lt_bf16lo_f32(word[i]) / scale), clamped(lt_bf16hi_f32(word[i]) / scale));
        uint2 out;
        out.x = two[0] | two[1] << 16;
        out.y = two[2] | two[3] << 16;
        *(uint2 *)(codes + k) = out;
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w8a8_act_quant__m16_k1536__w32(*(e4m3 **)a[0], *(float **)a[1], *(const bf16 **)a[2]); }
#endif
