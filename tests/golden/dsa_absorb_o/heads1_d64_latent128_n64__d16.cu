/* family dsa_absorb.o rev 1, shape heads1_d64_latent128_n64, variant d16, class fma */
// One head's product of two matrices: out[i,j] = sum over r of left(r,i) * right(r,j), a block for 64 x 64 of it, a
// thread for 4 x 4. DEPTH values of r at a time go through shared memory as floats.
enum { HEADS = 1, D = 64, LATENT = 128, N = 64, DEPTH = 16 };
enum { TILE = 64, THREADS = 256, PITCH = TILE + 4 };
enum { ROWS = N, COLUMNS = LATENT, LEFT_ALONG_R = 1 };  // o_proj's rows run along r
LT_DEV size_t left(int head, int r, int i) { return ((size_t)i * HEADS + head) * D + r; }
LT_DEV size_t right(int head, int r, int j) { return ((size_t)head * 2 * D + D + r) * LATENT + j; }  // a value row
LT_DEV size_t out(int head, int i, int j) { return ((size_t)i * HEADS + head) * LATENT + j; }
#define LEFT o_proj
#define RIGHT kv_b
enum { ROW_TILES = (ROWS + TILE - 1) / TILE, COLUMN_TILES = (COLUMNS + TILE - 1) / TILE };
LT_DEV float number(float x) { return x; }

LT_KERNEL(THREADS)
dsa_absorb_o__heads1_d64_latent128_n64__d16(float *w, const bf16 *kv_b, const bf16 *o_proj)
{
    const int tile = blockIdx.x % (ROW_TILES * COLUMN_TILES), head = blockIdx.x / (ROW_TILES * COLUMN_TILES);
    const int i0 = tile / COLUMN_TILES * TILE, j0 = tile % COLUMN_TILES * TILE;
    const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
    LT_SHARED2(float, a, DEPTH, PITCH);
    LT_SHARED2(float, b, DEPTH, PITCH);
    float sum[4][4] = {0};

    lt_pdl_wait();
    lt_pdl_launch();
    for (int r0 = 0; r0 < D; r0 += DEPTH) {
        __syncthreads();  // the tiles before these are used up
        LT_UNROLL(4)
        for (int e = threadIdx.x; e < DEPTH * TILE; e += THREADS) {
            const int r = e / TILE, j = e % TILE;
            const int ar = LEFT_ALONG_R ? e % DEPTH : r, i = LEFT_ALONG_R ? e / DEPTH : j;
            const int has_a = r0 + ar < D && i0 + i < ROWS, has_b = r0 + r < D && j0 + j < COLUMNS;
            a[ar][i] = has_a ? lt_bf16_f32(LEFT[left(head, r0 + ar, i0 + i)]) : 0.0f;
            b[r][j] = has_b ? lt_bf16_f32(RIGHT[right(head, r0 + r, j0 + j)]) : 0.0f;
        }
        __syncthreads();
        LT_UNROLL(DEPTH)
        for (int r = 0; r < DEPTH; r++) {
            const float4 x = lt_ld128f(&a[r][row]), y = lt_ld128f(&b[r][column]);
            const float mine_a[4] = {x.x, x.y, x.z, x.w}, mine_b[4] = {y.x, y.y, y.z, y.w};
            LT_UNROLL(16)
            for (int e = 0; e < 16; e++) sum[e / 4][e % 4] = fmaf(mine_a[e / 4], mine_b[e % 4], sum[e / 4][e % 4]);
        }
    }
    LT_UNROLL(16)
    for (int e = 0; e < 16; e++) {
        const int i = i0 + row + e / 4, j = j0 + column + e % 4;
        if (i < ROWS && j < COLUMNS) w[out(head, i, j)] = number(sum[e / 4][e % 4]);
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_absorb_o__heads1_d64_latent128_n64__d16(*(float **)a[0], *(const bf16 **)a[1], *(const bf16 **)a[2]); }
#endif
