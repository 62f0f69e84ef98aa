/* family mhc_pre rev 1, shape m1_h2304, variant s1w16r1, class slice64 */
// Blocks of a row take SLICE columns of all streams each. Warps share their sums: the 24 dots with fn, 10 products of
// the streams with each other. The block that comes last adds them up over the slices and finishes the row: its last
// warp balances comb, the others collapse the streams. A sum's order depends on SLICE and H alone.
enum { M = 1, H = 2304, STEPS = 1, WARPS = 16, ROWS = 1 };
enum {
    STREAMS = 4,
    MIX = 24,                    // dots: 4 pre, 4 post, 16 comb
    VALUES = MIX + 10,           // and the products (a, b), a <= b
    SLICE = 64 * STEPS,          // columns of a block
    SLICES = (H + SLICE - 1) / SLICE,
    DOTS = (MIX + WARPS - 1) / WARPS,              // of a warp
    PRODUCTS = (VALUES - MIX + WARPS - 1) / WARPS,
    SHARE = (ROWS * VALUES + WARPS - 1) / WARPS,   // sums that a warp adds up
    AT_ONCE = (WARPS - 1) * 32 * 8,                // columns that the warps but the last finish together
    PASSES = 20                  // of balancing comb
};
#define HC_EPS 0x1.0c6f7ap-20f
#define RMS_EPS 0x1.4f8b58p-17f

// 1 / x of a normal positive x to the last place or so: a guess within 5.1 %, whose error is taken to the 4th power and
// then squared. No branch, unlike the division, so that four of them overlap.
LT_DEV float reciprocal(float x)
{
    float y = lt_bits_f32(0x7ef311c3u - lt_f32_bits(x));
    const float e = fmaf(-x, y, 1.0f);
    y = fmaf(fmaf(y, e, y), e * e, fmaf(y, e, y));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}

LT_DEV float stream_dot(uint4 w, float4 low, float4 high, float sum)
{
    sum = fmaf(lt_bf16hi_f32(w.x), low.y, fmaf(lt_bf16lo_f32(w.x), low.x, sum));
    sum = fmaf(lt_bf16hi_f32(w.y), low.w, fmaf(lt_bf16lo_f32(w.y), low.z, sum));
    sum = fmaf(lt_bf16hi_f32(w.z), high.y, fmaf(lt_bf16lo_f32(w.z), high.x, sum));
    return fmaf(lt_bf16hi_f32(w.w), high.w, fmaf(lt_bf16lo_f32(w.w), high.z, sum));
}

// Products of streams: (0,0) (0,1) (0,2) (0,3) (1,1) (1,2) (1,3) (2,2) (2,3) (3,3).
LT_DEV int first_of(int q) { return q < 4 ? 0 : q < 7 ? 1 : q < 9 ? 2 : 3; }
LT_DEV int second_of(int q) { return q < 4 ? q : q < 7 ? q - 3 : q < 9 ? q - 5 : q - 6; }

// This slice's part of the dots of one row: lane (stream, c) holds 8 columns of its stream.
LT_DEV void add_dots(float *sum, uint4 (*w)[STEPS], const float *x, int column, int lane)
{
    const float *from = x + (size_t)(lane / 8) * H;
    LT_UNROLL(STEPS)
    for (int i = 0; i < STEPS; i++) {
        const int d = column + 64 * i + lane % 8 * 8;
        if (d >= H) continue;
        const float4 low = lt_ld128f(from + d), high = lt_ld128f(from + d + 4);
        LT_UNROLL(DOTS)
        for (int j = 0; j < DOTS; j++) sum[j] = stream_dot(w[j][i], low, high, sum[j]);
    }
}

// The same for the products of streams: a lane holds two columns of both.
LT_DEV void add_products(float *sum, const float *x, int column, int warp, int lane)
{
    LT_UNROLL(PRODUCTS)
    for (int j = 0; j < PRODUCTS; j++) {
        const int q = warp + j * WARPS;
        LT_UNROLL(STEPS)
        for (int i = 0; i < STEPS; i++) {
            const int d = column + 64 * i + lane * 2;
            if (d >= H || q >= VALUES - MIX) continue;
            const float2 u = *(const float2 *)(x + (size_t)first_of(q) * H + d);
            const float2 v = *(const float2 *)(x + (size_t)second_of(q) * H + d);
            sum[j] = fmaf(u.y, v.y, fmaf(u.x, v.x, sum[j]));
        }
    }
}

LT_DEV void add_row(float *to, uint4 (*w)[STEPS], const float *x, int column, int warp, int lane)
{
    float sum[DOTS + PRODUCTS] = {0};
    add_dots(sum, w, x, column, lane);
    add_products(sum + DOTS, x, column, warp, lane);
    LT_UNROLL(DOTS + PRODUCTS)
    for (int j = 0; j < DOTS + PRODUCTS; j++) sum[j] = lt_warp_sum(sum[j]);
    if (lane != 0) return;
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++)
        if (warp + j * WARPS < MIX) to[(warp + j * WARPS) * SLICES] = sum[j];
    LT_UNROLL(PRODUCTS)
    for (int j = 0; j < PRODUCTS; j++)
        if (warp + j * WARPS < VALUES - MIX) to[(MIX + warp + j * WARPS) * SLICES] = sum[DOTS + j];
}

// Sums over the slices for rows m0 .. m0 + ROWS - 1.
LT_DEV void add_slices(float *total, const float *partial, int m0, int warp, int lane)
{
    float sum[SHARE];
    LT_UNROLL(SHARE)
    for (int i = 0; i < SHARE; i++) {
        const int at = warp + i * WARPS, m = m0 + at / VALUES;
        sum[i] = 0.0f;
        if (at >= ROWS * VALUES || m >= M) continue;
        for (int s = lane; s < SLICES; s += 32)
            sum[i] += lt_bits_f32(lt_ld32_fresh(partial + ((size_t)m * VALUES + at % VALUES) * SLICES + s));
    }
    LT_UNROLL(SHARE)
    for (int i = 0; i < SHARE; i++) {
        const float all = lt_warp_sum(sum[i]);
        if (lane == 0 && warp + i * WARPS < ROWS * VALUES) total[warp + i * WARPS] = all;
    }
}

LT_DEV float row_scale(const float *total)  // 1 / rms of a row's streams
{
    const float *gram = total + MIX;
    return 1.0f / sqrtf((gram[0] + gram[4] + gram[7] + gram[9]) / (float)(STREAMS * H) + RMS_EPS);
}

// Lane 4 i + j, and 16 on for a second row: softmax over j.
LT_DEV void softmax_rows(float *a, const float *total, const float *scale, const float *base, int lane)
{
    LT_UNROLL(1)
    for (int r = 0; r < ROWS; r += 2) {
        const float *mine = total + (r + lane / 16 < ROWS ? r + lane / 16 : r) * VALUES;
        const float v = fmaf(mine[8 + lane % 16] * row_scale(mine), scale[2], base[8 + lane % 16]);
        float largest = v, other = lt_shfl_xor_f32(0xffffffffu, v, 1);
        largest = other > largest ? other : largest;
        other = lt_shfl_xor_f32(0xffffffffu, largest, 2);
        largest = other > largest ? other : largest;
        const float e = lt_exp(v - largest);
        float sum = e + lt_shfl_xor_f32(0xffffffffu, e, 1);
        sum += lt_shfl_xor_f32(0xffffffffu, sum, 2);
        if (r + lane / 16 < ROWS) a[r * 16 + lane] = e / sum + HC_EPS;
    }
    __syncwarp();
}

// One pass of balancing: by[i] / (sum over j of by[i] * a[i,j] * other[j] + eps), strides of i and j in a.
LT_DEV void balance(float *by, const float *other, const float *a, int i_step, int j_step)
{
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) {
        const float *mine = a + i * i_step;
        float sum = fmaf(mine[j_step], other[1], mine[0] * other[0]);
        sum += fmaf(mine[3 * j_step], other[3], mine[2 * j_step] * other[2]);
        by[i] = by[i] * reciprocal(fmaf(by[i], sum, HC_EPS));
    }
}

// comb = row[i] * a[i,j] * column[j], a row a lane. Eps counts as where rows and columns are divided in turn.
LT_DEV void balance_all(float *comb, const float *shared_a)
{
    float a[16], row[STREAMS], column[STREAMS];
    LT_UNROLL(16)
    for (int i = 0; i < 16; i++) a[i] = shared_a[i];
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) row[i] = column[i] = 1.0f;
    balance(column, row, a, 1, STREAMS);
    LT_UNROLL(1)
    for (int pass = 1; pass < PASSES; pass++) {
        balance(row, column, a, STREAMS, 1);
        balance(column, row, a, 1, STREAMS);
    }
    LT_UNROLL(16)
    for (int i = 0; i < 16; i++) comb[i] = row[i / 4] * a[i] * column[i % 4];
}

// 1 / rms of the collapsed row, from the products of its streams.
LT_DEV float collapsed_scale(const float *gram, const float *pre)
{
    float squares = 0.0f, twice = 0.0f;
    LT_UNROLL(VALUES - MIX)
    for (int q = 0; q < VALUES - MIX; q++) {
        const float both = pre[first_of(q)] * pre[second_of(q)];
        if (first_of(q) == second_of(q)) squares = fmaf(both, gram[q], squares);
        if (first_of(q) != second_of(q)) twice = fmaf(both, gram[q], twice);
    }
    squares = fmaf(2.0f, twice, squares);
    squares = squares < 0.0f ? 0.0f : squares;  // streams that cancel
    return 1.0f / sqrtf(squares / (float)H + RMS_EPS);
}

// 8 columns of all streams and of norm: 36 registers.
typedef struct {
    float4 low[STREAMS], high[STREAMS];
    uint4 norm;
} columns;

LT_DEV void read_columns(columns *c, const float *x, const bf16 *norm, int d)
{
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) {
        c->low[i] = lt_ld128f(x + (size_t)i * H + d);
        c->high[i] = lt_ld128f(x + (size_t)i * H + d + 4);
    }
    c->norm = lt_ld128(norm + d);
}

LT_DEV float4 collapsed(const float4 *x, const float *pre)
{
    float4 sum;
    sum.x = sum.y = sum.z = sum.w = 0.0f;
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) {
        const float4 v = x[i];
        sum.x = fmaf(pre[i], v.x, sum.x), sum.y = fmaf(pre[i], v.y, sum.y);
        sum.z = fmaf(pre[i], v.z, sum.z), sum.w = fmaf(pre[i], v.w, sum.w);
    }
    return sum;
}

// pre and post of a row, one a lane; then its columns, by the warps but the last. first: the thread's first ones.
LT_DEV void finish_row(bf16 *xn, float *post, const float *x, const columns *first, const float *total,
                       const float *scale, const float *base, const bf16 *norm, int lane)
{
    const int j = lane % 8;
    const float gate = lt_sigmoid(fmaf(total[j] * row_scale(total), scale[j / 4], base[j]));
    float pre[STREAMS];
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) pre[i] = lt_shfl_f32(0xffffffffu, gate, i) + HC_EPS;
    if (threadIdx.x >= STREAMS && threadIdx.x < 2 * STREAMS) post[j - STREAMS] = 2.0f * gate;
    const float by = collapsed_scale(total + MIX, pre);
    columns now = *first;
    for (int d = threadIdx.x * 8; d < H; d += AT_ONCE) {
        if (d >= AT_ONCE) read_columns(&now, x, norm, d);
        const float4 low = collapsed(now.low, pre), high = collapsed(now.high, pre);
        const uint4 w = now.norm;
        uint4 out;
        out.x = lt_pack_bf16(low.x * by * lt_bf16lo_f32(w.x), low.y * by * lt_bf16hi_f32(w.x));
        out.y = lt_pack_bf16(low.z * by * lt_bf16lo_f32(w.y), low.w * by * lt_bf16hi_f32(w.y));
        out.z = lt_pack_bf16(high.x * by * lt_bf16lo_f32(w.z), high.y * by * lt_bf16hi_f32(w.z));
        out.w = lt_pack_bf16(high.z * by * lt_bf16lo_f32(w.w), high.w * by * lt_bf16hi_f32(w.w));
        lt_st128(xn + d, out);
    }
}

LT_KERNEL(32 * WARPS)
mhc_pre__m1_h2304__s1w16r1(bf16 *xn, float *post, float *comb, const float *streams, const bf16 *fn, const float *scale, const float *base, const bf16 *norm, float *partial, u32 *arrived)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int column = blockIdx.x * SLICE, m0 = blockIdx.y * ROWS;
    LT_SHARED1(float, total, ROWS * VALUES);
    LT_SHARED1(float, a, ROWS * 16);
    uint4 weights[DOTS][STEPS];

    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) {
        LT_UNROLL(STEPS)
        for (int i = 0; i < STEPS; i++) {
            const int d = column + 64 * i + lane % 8 * 8;
            weights[j][i].x = weights[j][i].y = weights[j][i].z = weights[j][i].w = 0;
            if (d < H && warp + j * WARPS < MIX)
                weights[j][i] = lt_ld128_once(fn + ((size_t)(warp + j * WARPS) * STREAMS + lane / 8) * H + d);
        }
    }
    if (threadIdx.x == 0) {  // what the last block needs: in L2 by then
        lt_prefetch_l2(norm + column);
        lt_prefetch_l2(base);
        lt_prefetch_l2(scale);
    }
    lt_pdl_wait();
    lt_pdl_launch();
    LT_UNROLL(1)
    for (int m = m0; m < m0 + ROWS && m < M; m++)
        add_row(partial + (size_t)m * VALUES * SLICES + blockIdx.x, weights, streams + (size_t)m * STREAMS * H, column,
                warp, lane);
    if (!lt_last_block(arrived + blockIdx.y, SLICES)) return;
    const float *x = streams + (size_t)m0 * STREAMS * H;
    columns first;
    if (warp < WARPS - 1 && threadIdx.x * 8 < H) read_columns(&first, x, norm, threadIdx.x * 8);
    add_slices(total, partial, m0, warp, lane);
    __syncthreads();
    if (warp == WARPS - 1) {
        softmax_rows(a, total, scale, base, lane);
        if (lane < ROWS && m0 + lane < M) balance_all(comb + (size_t)(m0 + lane) * 16, a + lane * 16);
        return;
    }
    LT_UNROLL(1)
    for (int r = 0; r < ROWS && m0 + r < M; r++) {
        const float *row = x + (size_t)r * STREAMS * H;
        if (r > 0 && threadIdx.x * 8 < H) read_columns(&first, row, norm, threadIdx.x * 8);
        finish_row(xn + (size_t)(m0 + r) * H, post + (m0 + r) * STREAMS, row, &first, total + r * VALUES, scale, base,
                   norm, lane);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { mhc_pre__m1_h2304__s1w16r1(*(bf16 **)a[0], *(float **)a[1], *(float **)a[2], *(const float **)a[3], *(const bf16 **)a[4], *(const float **)a[5], *(const float **)a[6], *(const bf16 **)a[7], *(float **)a[8], *(u32 **)a[9]); }
#endif
