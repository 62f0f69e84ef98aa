/* family w8a8_act_quant rev 1, shape m1_k22, variant w8, class exact */
// One block a row.
enum { M = 1, K = 22, WARPS = 8 };
enum { WIDE = K % 8 == 0 };
// A block quantises a row of K values: its largest magnitude, then the codes. The row is read twice, the second time
// from L1. The template's enum has K, WARPS, and WIDE: do rows begin at 16 bytes and hold whole loads?
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

LT_DEV float row_magnitude(const bf16 *row)  // of this thread's share
{
    float amax = 0.0f;
    if (!WIDE) {
        for (int k = threadIdx.x; k < K; k += 32 * WARPS) amax = larger(fabsf(lt_bf16_f32(row[k])), amax);
        return amax;
    }
    for (int k = threadIdx.x * 8; k < K; k += 32 * WARPS * 8) amax = larger(magnitude_of_8(lt_ld128(row + k)), amax);
    return amax;
}

LT_DEV void write_codes(e4m3 *codes, const bf16 *row, float scale)
{
    if (!WIDE) {
        for (int k = threadIdx.x; k < K; k += 32 * WARPS) codes[k] = lt_f32_e4m3(scaled(lt_bf16_f32(row[k]), scale));
        return;
    }
    for (int k = threadIdx.x * 8; k < K; k += 32 * WARPS * 8)
        *(uint2 *)(codes + k) = codes_of_8(lt_ld128(row + k), scale);
}

// room: WARPS floats that the block shares.
LT_DEV void quantise_row(e4m3 *codes, float *sx, const bf16 *row, float *room)
{
    const float scale = row_scale(room, row_magnitude(row));
    if (threadIdx.x == 0) *sx = scale;
    write_codes(codes, row, scale);
}

LT_KERNEL(32 * WARPS)
w8a8_act_quant__m1_k22__w8(e4m3 *q, float *sx, const bf16 *x)
{
    LT_SHARED1(float, room, WARPS);
    lt_pdl_wait();
    lt_pdl_launch();
    quantise_row(q + (size_t)blockIdx.x * K, sx + blockIdx.x, x + (size_t)blockIdx.x * K, room);
}
#ifndef __CUDACC__
void lt_entry(void **a) { w8a8_act_quant__m1_k22__w8(*(e4m3 **)a[0], *(float **)a[1], *(const bf16 **)a[2]); }
#endif
