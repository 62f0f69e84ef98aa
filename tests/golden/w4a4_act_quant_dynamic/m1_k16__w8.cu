/* family w4a4_act_quant.dynamic rev 1, shape m1_k16, variant w8, class exact */
// One block a row: the largest magnitude, then the groups. The row is read twice, the second time from L1.
enum { M = 1, K = 16, WARPS = 8 };
// Sixteen bf16 values to E2M1 codes and an E4M3 scale. A NaN counts towards no maximum.
LT_DEV float fp4_larger(float a, float b) { return a > b ? a : b; }  // a NaN in a is dropped

LT_DEV void fp4_load16(u32 *word, const bf16 *x)
{
    const uint4 lo = lt_ld128(x), hi = lt_ld128(x + 8);
    word[0] = lo.x, word[1] = lo.y, word[2] = lo.z, word[3] = lo.w;
    word[4] = hi.x, word[5] = hi.y, word[6] = hi.z, word[7] = hi.w;
}

LT_DEV float fp4_amax16(const u32 *word)
{
    float amax = 0.0f;
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++)
        amax = fp4_larger(fabsf(lt_bf16hi_f32(word[i])), fp4_larger(fabsf(lt_bf16lo_f32(word[i])), amax));
    return amax;
}

// The group's scale, relative to gs; its codes go to q, 8-byte aligned.
LT_DEV e4m3 fp4_quantize16(u8 *q, const u32 *word, float gs)
{
    const e4m3 scale = lt_f32_e4m3(fp4_amax16(word) * (1.0f / 6.0f) * (1.0f / gs));
    const float s = lt_e4m3_f32(scale), inverse = s > 0.0f ? 1.0f / (s * gs) : 0.0f;
    u32 code[2] = {0, 0};
    LT_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        const u32 lo = lt_f32_e2m1(lt_bf16lo_f32(word[i]) * inverse);
        const u32 hi = lt_f32_e2m1(lt_bf16hi_f32(word[i]) * inverse);
        code[i / 4] |= (lo | hi << 4) << i % 4 * 8;
    }
    uint2 out;
    out.x = code[0], out.y = code[1];
    *(uint2 *)q = out;
    return scale;
}

LT_KERNEL(32 * WARPS)
w4a4_act_quant_dynamic__m1_k16__w8(u8 *q, e4m3 *qs, float *gs, const bf16 *x)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t group0 = (size_t)blockIdx.x * (K / 16);
    LT_SHARED1(float, room, WARPS);
    u32 word[8];
    float amax = 0.0f;

    lt_pdl_wait();
    lt_pdl_launch();
    for (int group = threadIdx.x; group < K / 16; group += 32 * WARPS) {
        fp4_load16(word, x + (group0 + group) * 16);
        amax = fp4_larger(fp4_amax16(word), amax);
    }
    amax = lt_warp_max(amax);
    if (lane == 0) room[warp] = amax;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) amax = fp4_larger(room[i], amax);
    float scale = amax / 2688.0f;  // 6 * 448
    scale = scale >= 0x1p-126f ? scale : 1.0f;
    if (threadIdx.x == 0) gs[blockIdx.x] = scale;
    for (int group = threadIdx.x; group < K / 16; group += 32 * WARPS) {
        fp4_load16(word, x + (group0 + group) * 16);
        qs[group0 + group] = fp4_quantize16(q + (group0 + group) * 8, word, scale);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { w4a4_act_quant_dynamic__m1_k16__w8(*(u8 **)a[0], *(e4m3 **)a[1], *(float **)a[2], *(const bf16 **)a[3]); }
#endif
