/* family mhc_post_pre rev 1, shape m1_h256, variant s2r1, class slice128 */
// Blocks of a row take SLICE columns of all streams each. Warps share their sums: the 24 dots with fn, 10 products of
// the streams with each other. All blocks wait for the sums of all, and each finishes its own columns, which are still
// in shared memory. The order of a sum depends on SLICE and H alone.
enum { M = 1, H = 256, STEPS = 2, ROWS = 1 };
enum {
    STREAMS = 4,
    WARPS = 16,                          // of a block
    THREADS = 32 * WARPS,
    LOADS = STEPS * ((H + 4095) / 4096), // of 64 columns
    SLICE = 64 * LOADS,                  // columns of a block
    SLICES = (H + SLICE - 1) / SLICE,
    MIX = 24,                            // dots: 4 pre, 4 post, 16 comb
    DOTS = 2,                            // of a warp, at most
    PRODUCTS = 10,                       // (a, b), a <= b
    FIRST_PRODUCT = WARPS - PRODUCTS,    // the warp with (0, 0)
    NEEDED = STREAMS + PRODUCTS,         // sums that every block needs, one a warp: pre, then products
    VALUES = MIX + PRODUCTS,             // then post and comb, which the other warps finish
    AT_ONCE = (SLICES + 31) / 32,        // of a sum's parts, a lane
    PAIRS = SLICE / 2                    // of columns, that a thread finishes
};
#define RMS_EPS 0x1.4f8b58p-17f
// comb of a row by one warp: softmax over each row of the 4 x 4 logits, then Sinkhorn's balancing. Every lane goes
// through all of it: in registers a pass is 60 cycles, and no lane waits for another.
enum { PASSES = 20 };
#define HC_EPS 0x1.0c6f7ap-20f

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
    return e / sum + HC_EPS;
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
        const float total = fmaf(by[i], sum, HC_EPS), off = fabsf(total - 1.0f);
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

// The dots of one row's slice x: lane (stream, c) holds 8 columns of its stream.
LT_DEV float dot(uint4 *w, const float *x, int lane)
{
    float sum = 0.0f;
    LT_UNROLL(LOADS)
    for (int i = 0; i < LOADS; i++) {
        const float *from = x + lane / 8 * SLICE + 64 * i + lane % 8 * 8;
        sum = stream_dot(w[i], lt_ld128f(from), lt_ld128f(from + 4), sum);
    }
    return sum;
}

LT_DEV float product(const float *x, int q, int lane)
{
    float sum = 0.0f;
    LT_UNROLL(LOADS)
    for (int i = 0; i < LOADS; i++) {
        const int d = 64 * i + lane * 2;
        const float2 u = *(const float2 *)(x + first_of(q) * SLICE + d);
        const float2 v = *(const float2 *)(x + second_of(q) * SLICE + d);
        sum = fmaf(u.y, v.y, fmaf(u.x, v.x, sum));
    }
    return sum;
}

// The sums of this slice are put where all blocks look for them. to: of the row and slice.
LT_DEV void put_sums(u64 *to, uint4 (*w)[LOADS], const float *x, u32 turn, int warp, int lane)
{
    float sum[DOTS + 1] = {0};
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) sum[j] = dot(w[j], x, lane);
    if (warp >= FIRST_PRODUCT) sum[DOTS] = product(x, warp - FIRST_PRODUCT, lane);
    LT_UNROLL(DOTS + 1)
    for (int j = 0; j < DOTS + 1; j++) sum[j] = lt_warp_sum(sum[j]);
    if (lane != 0) return;
    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) {
        const int k = warp + j * WARPS, value = k < STREAMS ? k : k + PRODUCTS;
        if (k < MIX) lt_put(to + value * SLICES, lt_f32_bits(sum[j]), turn);
    }
    if (warp >= FIRST_PRODUCT)
        lt_put(to + (STREAMS + warp - FIRST_PRODUCT) * SLICES, lt_f32_bits(sum[DOTS]), turn);
}

// One value of rows m0 .. m0 + ROWS - 1, summed over all slices.
LT_DEV void take_sums(float *sum, const u64 *from, int m0, int value, u32 turn, int lane)
{
    u64 got[ROWS][AT_ONCE];
    int missing;
    do {
        missing = 0;
        LT_UNROLL(ROWS)
        for (int r = 0; r < ROWS; r++) {
            LT_UNROLL(AT_ONCE)
            for (int i = 0; i < AT_ONCE; i++) {
                const int s = lane + 32 * i;
                got[r][i] = 0;
                if (m0 + r >= M || s >= SLICES) continue;
                got[r][i] = lt_peek(from + ((size_t)(m0 + r) * VALUES + value) * SLICES + s);
                missing |= (u32)(got[r][i] >> 32) != turn;
            }
        }
    } while (lt_look_again(missing));
    LT_UNROLL(ROWS)
    for (int r = 0; r < ROWS; r++) {
        sum[r] = 0.0f;
        LT_UNROLL(AT_ONCE)
        for (int i = 0; i < AT_ONCE; i++) sum[r] += lt_bits_f32((u32)got[r][i]);
        sum[r] = lt_warp_sum(sum[r]);
    }
}

LT_DEV float row_scale(const float *total)  // 1 / rms of a row's streams
{
    const float *gram = total + STREAMS;
    return 1.0f / sqrtf((gram[0] + gram[4] + gram[7] + gram[9]) / (float)(STREAMS * H) + RMS_EPS);
}

// 1 / rms of the collapsed row, from the products of its streams.
LT_DEV float collapsed_scale(const float *gram, const float *pre)
{
    float squares = 0.0f, twice = 0.0f;
    LT_UNROLL(PRODUCTS)
    for (int q = 0; q < PRODUCTS; q++) {
        const float both = pre[first_of(q)] * pre[second_of(q)];
        if (first_of(q) == second_of(q)) squares = fmaf(both, gram[q], squares);
        if (first_of(q) != second_of(q)) twice = fmaf(both, gram[q], twice);
    }
    squares = fmaf(2.0f, twice, squares);
    squares = squares < 0.0f ? 0.0f : squares;  // streams that cancel
    return 1.0f / sqrtf(squares / (float)H + RMS_EPS);
}

// k: 4 .. 7 is post, from 8 on a logit of comb. The scales lie behind base.
LT_DEV void finish_mix(float *post, float *mix, float sum, const float *total, const float *base, int k)
{
    const float logit = fmaf(sum * row_scale(total), base[MIX + (k < 2 * STREAMS ? 1 : 2)], base[k]);
    if (k < 2 * STREAMS) post[k - STREAMS] = 2.0f * lt_sigmoid(logit);
    if (k >= 2 * STREAMS) mix[k - 2 * STREAMS] = logit;
}

// Two columns of a row: x in shared memory, two of norm, and where they go.
LT_DEV void finish_pair(bf16 *to, const float *x, u32 norm, const float *total, const float *base)
{
    const float by = row_scale(total);
    float pre[STREAMS], low = 0.0f, high = 0.0f;
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) pre[i] = lt_sigmoid(fmaf(total[i] * by, base[MIX], base[i])) + HC_EPS;
    LT_UNROLL(STREAMS)
    for (int i = 0; i < STREAMS; i++) {
        const float2 two = *(const float2 *)(x + i * SLICE);
        low = fmaf(pre[i], two.x, low), high = fmaf(pre[i], two.y, high);
    }
    const float over = collapsed_scale(total + STREAMS, pre);
    *(u32 *)to = lt_pack_bf16(low * over * lt_bf16lo_f32(norm), high * over * lt_bf16hi_f32(norm));
}

LT_KERNEL(THREADS, 2)
mhc_post_pre__m1_h256__s2r1(bf16 *xn, float *streams, float *next_post, float *next_mix, const float *post, const float *mix, const bf16 *y, const bf16 *fn, const float *scale, const float *base, const bf16 *norm, u32 *sums, u32 *turns)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int column = blockIdx.x * SLICE, m0 = blockIdx.y * ROWS, block = blockIdx.y * SLICES + blockIdx.x;
    float *to_post = next_post, *to_mix = next_mix;
    u64 *slots = (u64 *)sums;
    LT_SHARED2(float, x, ROWS, STREAMS * SLICE);
    LT_SHARED2(float, total, ROWS, NEEDED);
    LT_SHARED1(float, own_base, MIX + 3);
    uint4 weights[DOTS][LOADS];

    LT_UNROLL(DOTS)
    for (int j = 0; j < DOTS; j++) {
        LT_UNROLL(LOADS)
        for (int i = 0; i < LOADS; i++) {
            const int k = warp + j * WARPS, d = column + 64 * i + lane % 8 * 8;
            weights[j][i].x = weights[j][i].y = weights[j][i].z = weights[j][i].w = 0;
            if (d < H && k < MIX) weights[j][i] = lt_ld128_once(fn + ((size_t)k * STREAMS + lane / 8) * H + d);
        }
    }
    if (threadIdx.x < MIX + 3) own_base[threadIdx.x] = threadIdx.x < MIX ? base[threadIdx.x] : scale[threadIdx.x - MIX];
    const int mine = column + threadIdx.x % PAIRS * 2;
    const u32 norm_pair = mine < H ? *(const u32 *)(norm + mine) : 0;
    LT_SHARED2(float, comb, ROWS, 16);
    LT_SHARED2(float, of_y, ROWS, STREAMS);
    for (int r = warp; r < ROWS && m0 + r < M; r += WARPS) {
        float all[16];
        comb_of(all, mix + (m0 + r) * 16, comb[r], lane);
        __syncwarp();
        LT_UNROLL(16)
        for (int i = 0; i < 16; i++)
            if (lane == i) comb[r][i] = all[i];
        if (lane < STREAMS) of_y[r][lane] = lt_bits_f32(lt_ld32_fresh(post + (m0 + r) * STREAMS + lane));
    }
    __syncthreads();
    lt_pdl_wait();
    lt_pdl_launch();
    const u32 turn = lt_ld32_fresh(turns + block) + 1;  // of this launch: what others put carries it
    for (int i = threadIdx.x; i < ROWS * SLICE; i += THREADS) {
        const int r = i / SLICE, d = i % SLICE, m = m0 + r;
        float old[STREAMS], value = 0.0f;
        const int is_inside = column + d < H && m < M;
        LT_UNROLL(STREAMS)
        for (int j = 0; j < STREAMS; j++)
            old[j] = is_inside ? streams[((size_t)m * STREAMS + j) * H + column + d] : 0.0f;
        if (is_inside) value = lt_bf16_f32(y[(size_t)m * H + column + d]);
        LT_UNROLL(STREAMS)
        for (int j = 0; j < STREAMS; j++) {
            float sum = of_y[r][j] * value;
            LT_UNROLL(STREAMS)
            for (int k = 0; k < STREAMS; k++) sum = fmaf(comb[r][k * STREAMS + j], old[k], sum);
            x[r][j * SLICE + d] = is_inside ? sum : 0.0f;
        }
    }
    __syncthreads();
    LT_UNROLL(1)
    for (int r = 0; r < ROWS && m0 + r < M; r++)
        put_sums(slots + (size_t)(m0 + r) * VALUES * SLICES + blockIdx.x, weights, x[r], turn, warp, lane);

    float sum[ROWS];
    const int spare = warp - NEEDED + blockIdx.x * (WARPS - NEEDED);  // which of the other values is mine
    const int value = warp < NEEDED ? warp : NEEDED + spare;
    if (value < VALUES) take_sums(sum, slots, m0, value, turn, lane);
    if (warp < NEEDED && lane == 0) {
        LT_UNROLL(ROWS)
        for (int r = 0; r < ROWS; r++) total[r][warp] = sum[r];
    }
    __syncthreads();
    for (int v = value; warp >= NEEDED && v < VALUES; v += SLICES * (WARPS - NEEDED)) {
        if (v != value) take_sums(sum, slots, m0, v, turn, lane);
        LT_UNROLL(ROWS)
        for (int r = 0; r < ROWS; r++)
            if (lane == r && m0 + r < M)
                finish_mix(to_post + (m0 + r) * STREAMS, to_mix + (m0 + r) * 16, sum[r], total[r], own_base,
                           v - PRODUCTS);
    }
    for (int i = threadIdx.x; i < ROWS * PAIRS; i += THREADS) {
        const int r = i / PAIRS, d = i % PAIRS * 2;
        if (m0 + r < M && column + d < H)
            finish_pair(xn + (size_t)(m0 + r) * H + column + d, x[r] + d, norm_pair, total[r], own_base);
    }
    for (int i = threadIdx.x; i < ROWS * STREAMS * SLICE; i += THREADS) {
        const int d = column + i % SLICE, at = m0 * STREAMS + i / SLICE;
        if (d < H && at < M * STREAMS) streams[(size_t)at * H + d] = x[0][i];
    }
    if (threadIdx.x == 0) turns[block] = turn;
}
#ifndef __CUDACC__
void lt_entry(void **a) { mhc_post_pre__m1_h256__s2r1(*(bf16 **)a[0], *(float **)a[1], *(float **)a[2], *(float **)a[3], *(const float **)a[4], *(const float **)a[5], *(const bf16 **)a[6], *(const bf16 **)a[7], *(const float **)a[8], *(const float **)a[9], *(const bf16 **)a[10], *(u32 **)a[11], *(u32 **)a[12]); }
#endif
