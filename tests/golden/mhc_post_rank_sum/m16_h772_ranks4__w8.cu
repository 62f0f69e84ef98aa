/* family mhc_post_rank_sum rev 1, shape m16_h772_ranks4, variant w8, class ascending */
// A thread owns four columns of a row: it reads their four streams, then writes them. Sources in ascending order. It
// reads, and one more warp balances comb, in front of the wait: what the site in front wrote was there before the
// kernel that wrote y began.
enum { M = 16, H = 772, RANKS = 4, WARPS = 8 };
enum { STREAMS = 4, THREADS = 32 * (WARPS + 1), BALANCED = 1 };
// comb of a row by one warp: softmax over each row of the 4 x 4 logits, then Sinkhorn's balancing. A lane goes through
// all of it: a pass over rows and columns is 60 instructions, and no lane waits for another.
// 1 / x of a normal positive x to the last place or so: a guess within 5.1 %, whose error is taken to the 4th power and
// then squared. No branch, unlike the division, so that four of them overlap.
LT_DEV float reciprocal(float x)
{
    float y = lt_bits_f32(0x7ef311c3u - lt_f32_bits(x));
    const float e = fmaf(-x, y, 1.0f);
    y = fmaf(fmaf(y, e, y), e * e, fmaf(y, e, y));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}
enum { PASSES = 20, ROUND = 3 };  // whole rounds of passes behind the first two: a loop costs 20 cycles
#define COMB_EPS 0x1.0c6f7ap-20f

// Sums over j of other[j] * a[i,j], strides of i and j in a.
LT_DEV void weigh(float *sum, const float *other, const float *a, int i_step, int j_step)
{
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        sum[i] = a[i * i_step] * other[0];
        LT_UNROLL(3)
        for (int j = 1; j < 4; j++) sum[i] = fmaf(a[i * i_step + j * j_step], other[j], sum[i]);
    }
}

// 1 / x of four, times the product of all, which it gives: of each the other three.
LT_DEV float others(float *of, const float *x)
{
    const float p = x[0] * x[1], q = x[2] * x[3];
    of[0] = x[1] * q, of[1] = x[0] * q, of[2] = x[3] * p, of[3] = x[2] * p;
    return p * q;
}

// by / x of four, but for a factor near 1 that they share: each is its partner over their product p, which a guess
// within 5.1 % stands for; what the guess leaves of p, near 1, goes to the other two.
LT_DEV void divide(float *of, float by, const float *x)
{
    const float p = x[0] * x[1], q = x[2] * x[3];
    const float over_p = lt_bits_f32(0x7ef311c3u - lt_f32_bits(p)), over_q = lt_bits_f32(0x7ef311c3u - lt_f32_bits(q));
    const float left_p = p * over_p, left_q = q * over_q;
    of[0] = by * x[1] * over_p * left_q, of[1] = by * x[0] * over_p * left_q;
    of[2] = by * x[3] * over_q * left_p, of[3] = by * x[2] * over_q * left_p;
}

// Rows by their sums of columns, times the product of these, which it gives; then the columns' sums.
LT_DEV float divide_rows(float *row, float *sum, const float *column, const float *a)
{
    weigh(sum, column, a, 4, 1);
    const float product = others(row, sum);
    weigh(sum, row, a, 1, 4);
    return product;
}

// comb[i,j] = row[i] * a[i,j] * column[j]. A pass divides by sums, and what all its quotients share falls out of the
// next one: rows are products instead, columns take what those are too large by back, but for a factor near 1, and only
// the first and the last columns are divided. Eps counts in the first pass, whose sums can be as small; from then on it
// is 1e-6 of each.
LT_DEV void balance_all(float *comb, const float *a)
{
    float row[4], column[4], sum[4], product;
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) column[j] = reciprocal(a[j] + a[4 + j] + (a[8 + j] + a[12 + j]) + COMB_EPS);
    product = divide_rows(row, sum, column, a);
    LT_UNROLL(1)
    for (int pass = 2; pass < PASSES; pass += ROUND) {
        LT_UNROLL(ROUND)
        for (int i = 0; i < ROUND; i++) {
            divide(column, product, sum);
            product = divide_rows(row, sum, column, a);
        }
    }
    LT_UNROLL(4)
    for (int j = 0; j < 4; j++) column[j] = reciprocal(sum[j]) * (1.0f - COMB_EPS);
    LT_UNROLL(16)
    for (int i = 0; i < 16; i++) comb[i] = row[i / 4] * a[i] * column[i % 4];
}

// exp of each logit of the rows at mix, over that of the largest of its source. to: shared memory, this warp's.
LT_DEV void exps_of(float *to, const float *mix, int rows, int lane)
{
    LT_UNROLL(1)
    for (int i = lane; i < 16 * rows; i += 32) {
        float four[4];
        const float mine = lt_bits_f32(lt_ld32_fresh(mix + i));
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) four[j] = lt_bits_f32(lt_ld32_fresh(mix + i / 4 * 4 + j));
        const float low = four[1] > four[0] ? four[1] : four[0], high = four[3] > four[2] ? four[3] : four[2];
        to[i] = lt_exp(mine - (high > low ? high : low));
    }
    __syncwarp();
}

// comb of the 16 exps of a row.
LT_DEV void comb_of(float *comb, const float *exps)
{
    float a[16];
    LT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const float4 four = lt_ld128f(exps + 4 * i);
        const float by = reciprocal(four.x + four.y + (four.z + four.w));
        a[4 * i] = fmaf(four.x, by, COMB_EPS), a[4 * i + 1] = fmaf(four.y, by, COMB_EPS);
        a[4 * i + 2] = fmaf(four.z, by, COMB_EPS), a[4 * i + 3] = fmaf(four.w, by, COMB_EPS);
    }
    balance_all(comb, a);
}

// comb of all rows' exps, in their place, one a lane.
LT_DEV void balance_rows(float (*comb)[16], int rows, int lane)
{
    float all[16];
    if (lane < rows) comb_of(all, comb[lane]);
    __syncwarp();
    LT_UNROLL(16)
    for (int i = 0; i < 16; i++)
        if (lane < rows) comb[lane][i] = all[i];
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

LT_DEV void load_fresh(float4 *to, const float *from)
{
    const uint4 v = lt_ld128_fresh(from);
    to->x = lt_bits_f32(v.x), to->y = lt_bits_f32(v.y), to->z = lt_bits_f32(v.z), to->w = lt_bits_f32(v.w);
}

// The ranks' partials, in their order; their sum is y.
LT_DEV float4 load_y(bf16 *y, const bf16 *parts, size_t at)
{
    float4 part[RANKS];
    LT_UNROLL(RANKS)
    for (int r = 0; r < RANKS; r++) part[r] = load_bf16(parts + (size_t)r * M * H + at);
    float4 value = part[0];
    LT_UNROLL(RANKS)
    for (int r = 1; r < RANKS; r++) value = plus_times(value, 1.0f, part[r]);
    uint2 rounded;
    rounded.x = lt_pack_bf16(value.x, value.y), rounded.y = lt_pack_bf16(value.z, value.w);
    *(uint2 *)(y + at) = rounded;
    return value;
}

LT_KERNEL(THREADS)
mhc_post_rank_sum__m16_h772_ranks4__w8(float *streams, bf16 *y, const float *post, const float *mix, const bf16 *parts)
{
    const int m = blockIdx.y, d = (blockIdx.x * 32 * WARPS + threadIdx.x) * 4, lane = threadIdx.x % 32;
    LT_SHARED2(float, comb, 1, STREAMS * STREAMS);
    if (threadIdx.x >= 32 * WARPS) {
        exps_of(comb[0], mix + m * 16, 1, lane);
        balance_rows(comb, 1, lane);
        lt_bar_arrive(BALANCED, THREADS);
        return;
    }
    const size_t at = (size_t)m * H + d;
    float *mine = streams + (size_t)m * STREAMS * H + d;
    float4 old[STREAMS], value;
    float of_y[STREAMS];
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) {
        if (d < H) load_fresh(old + i, mine + (size_t)i * H);
        of_y[i] = lt_bits_f32(lt_ld32_fresh(post + m * STREAMS + i));
    }
    lt_pdl_wait();
    lt_pdl_launch();
    if (d < H) value = load_y(y, parts, at);
    lt_bar_sync(BALANCED, THREADS);
    if (d >= H) return;
    LT_UNROLL(STREAMS)
    for (int j = 0; j < STREAMS; j++) {
        float4 sum = times(of_y[j], value);
        LT_UNROLL(STREAMS)
        for (int i = 0; i < STREAMS; i++) sum = plus_times(sum, comb[0][i * STREAMS + j], old[i]);
        *(float4 *)(mine + (size_t)j * H) = sum;
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { mhc_post_rank_sum__m16_h772_ranks4__w8(*(float **)a[0], *(bf16 **)a[1], *(const float **)a[2], *(const float **)a[3], *(const bf16 **)a[4]); }
#endif
