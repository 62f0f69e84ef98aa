/* family mhc_post rev 1, shape m16_h772, variant w8, class ascending */
// A thread owns four columns of a row: it reads their four streams, then writes them. Sources in ascending order. Each
// warp balances comb for itself, in front of the wait: its logits were written before the kernel that wrote y began.
enum { M = 16, H = 772, WARPS = 8 };
enum { STREAMS = 4 };
// comb of a row by one warp: softmax over each row of the 4 x 4 logits, then Sinkhorn's balancing. Every lane goes
// through all of it: in registers a pass is 100 cycles, and no lane waits for another.
enum { PASSES = 20 };
#define COMB_EPS 0x1.0c6f7ap-20f

// 1 / x of a normal positive x to the last place or so: a guess within 5.1 %, whose error is taken to the 4th power and
// then squared. No branch, unlike the division, so that four of them overlap.
LT_DEV float reciprocal(float x)
{
    float y = lt_bits_f32(0x7ef311c3u - lt_f32_bits(x));
    const float e = fmaf(-x, y, 1.0f);
    y = fmaf(fmaf(y, e, y), e * e, fmaf(y, e, y));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}

// Lane 4 i + j, and 16 lanes on once more: softmax over j.
LT_DEV float softmax_of_four(float v)
{
    float largest = v, other = lt_shfl_xor_f32(0xffffffffu, v, 1);
    largest = other > largest ? other : largest;
    other = lt_shfl_xor_f32(0xffffffffu, largest, 2);
    largest = other > largest ? other : largest;
    const float e = lt_exp(v - largest);
    float sum = e + lt_shfl_xor_f32(0xffffffffu, e, 1);
    sum += lt_shfl_xor_f32(0xffffffffu, sum, 2);
    return e / sum + COMB_EPS;
}

// One pass of balancing: by[i] / (sum over j of by[i] * a[i,j] * other[j] + eps), strides of i and j in a. How far the
// denominators are from 1.
LT_DEV float balance(float *by, const float *other, const float *a, int i_step, int j_step)
{
    float far = 0.0f;
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const float *mine = a + i * i_step;
        float sum = fmaf(mine[j_step], other[1], mine[0] * other[0]);
        sum += fmaf(mine[3 * j_step], other[3], mine[2 * j_step] * other[2]);
        const float total = fmaf(by[i], sum, COMB_EPS), off = fabsf(total - 1.0f);
        by[i] = by[i] * reciprocal(total);
        far = off > far ? off : far;
    }
    return far;
}

// comb[i,j] = row[i] * a[i,j] * column[j]. Eps counts as where rows and columns are divided in turn. Columns that a
// pass finds balanced to 2^-22 stay so: what is left of the passes would not move comb by 1e-5.
LT_DEV void balance_all(float *comb, const float *a)
{
    float row[4], column[4];
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) row[i] = column[i] = 1.0f;
    float far = balance(column, row, a, 1, 4);
    LT_UNROLL(1)
    for (int pass = 1; pass < PASSES && far > 0x1p-22f; pass++) {
        balance(row, column, a, 4, 1);
        far = balance(column, row, a, 1, 4);
    }
    LT_UNROLL(16)
    for (int i = 0; i < 16; i++) comb[i] = row[i / 4] * a[i] * column[i % 4];
}

// comb of the logits at mix: all 16 in every lane. room: 16 floats of shared memory, this warp's.
LT_DEV void comb_of(float *comb, const float *mix, float *room, int lane)
{
    float a[16];
    const float mine = softmax_of_four(lt_bits_f32(lt_ld32_fresh(mix + lane % 16)));
    if (lane < 16) room[lane] = mine;
    __syncwarp();
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const float4 four = lt_ld128f(room + 4 * i);
        a[4 * i] = four.x, a[4 * i + 1] = four.y, a[4 * i + 2] = four.z, a[4 * i + 3] = four.w;
    }
    balance_all(comb, a);
}

LT_DEV float4 times(float by, float4 v)
{
    v.x *= by, v.y *= by, v.z *= by, v.w *= by;
    return v;
}

LT_DEV float4 plus_times(float4 sum, float by, float4 v)
{
    sum.x = fmaf(by, v.x, sum.x), sum.y = fmaf(by, v.y, sum.y);
    sum.z = fmaf(by, v.z, sum.z), sum.w = fmaf(by, v.w, sum.w);
    return sum;
}

LT_DEV float4 load_bf16(const bf16 *from)
{
    const uint2 two = *(const uint2 *)from;
    float4 v;
    v.x = lt_bf16lo_f32(two.x), v.y = lt_bf16hi_f32(two.x), v.z = lt_bf16lo_f32(two.y), v.w = lt_bf16hi_f32(two.y);
    return v;
}

LT_KERNEL(32 * WARPS)
mhc_post__m16_h772__w8(float *streams, const float *post, const float *mix, const bf16 *y)
{
    const int m = blockIdx.y, d = (blockIdx.x * 32 * WARPS + threadIdx.x) * 4;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t at = (size_t)m * H + d;
    float *mine = streams + (size_t)m * STREAMS * H + d;
    LT_SHARED2(float, room, WARPS, 16);
    float4 old[STREAMS], value;
    float comb[STREAMS * STREAMS], of_y[STREAMS];
    comb_of(comb, mix + m * 16, room[warp], lane);
    LT_UNROLL(STREAMS)
    for (int j = 0; j < STREAMS; j++) of_y[j] = lt_bits_f32(lt_ld32_fresh(post + m * STREAMS + j));
    lt_pdl_wait();
    lt_pdl_launch();
    if (d >= H) return;
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) old[i] = lt_ld128f(mine + (size_t)i * H);
    value = load_bf16(y + at);
    LT_UNROLL(STREAMS)
    for (int j = 0; j < STREAMS; j++) {
        float4 sum = times(of_y[j], value);
        LT_UNROLL(STREAMS)
        for (int i = 0; i < STREAMS; i++) sum = plus_times(sum, comb[i * STREAMS + j], old[i]);
        *(float4 *)(mine + (size_t)j * H) = sum;
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { mhc_post__m16_h772__w8(*(float **)a[0], *(const float **)a[1], *(const float **)a[2], *(const bf16 **)a[3]); }
#endif
