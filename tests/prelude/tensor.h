/* tensor.h: the cases of the tensor cores. */
#ifndef LT_TESTS_TENSOR_H
#define LT_TESTS_TENSOR_H

#include "case.h"
#include "tiles.h"

/* ---- ldmatrix: lane l names row (5 l + 3) % 32 of 32 rows of eight 16-bit numbers ---- */

static const char ldmatrix_text[] =
    "LT_KERNEL(32) prelude_ldmatrix(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    LT_SHARED1(u32, tile, 128);\n"
    "    const u32 lane = threadIdx.x, i = 32 * blockIdx.x + lane;\n"
    "    u32 d[4], e[4];\n"
    "    for (int k = 0; k < 4; k++) tile[4 * lane + k] = in[4 * i + k];\n"
    "    __syncthreads();\n"
    "    lt_ldmatrix_x4(d, tile + 4 * ((5 * lane + 3) % 32));\n"
    "    lt_ldmatrix_x4_trans(e, tile + 4 * ((5 * lane + 3) % 32));\n"
    "    for (int k = 0; k < 4; k++) {\n"
    "        out[8 * i + k] = d[k];\n"
    "        out[8 * i + 4 + k] = e[k];\n"
    "    }\n"
    "}\n";

/* Number `column` of row `row` of matrix `matrix` of a block. */
static uint32_t matrix_element(const uint32_t *tile, uint32_t matrix, uint32_t row, uint32_t column)
{
    const uint32_t at = (5 * (8 * matrix + row) + 3) % 32;
    return tile[4 * at + column / 2] >> column % 2 * 16 & 0xffff;
}

static void expect_ldmatrix(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words / 8; i++) {
        const uint32_t *tile = in + i / 32 * 128;
        const uint32_t l = i % 32, r = l / 4, c = l % 4 * 2;
        for (uint32_t m = 0; m < 4; m++) {
            out[8 * i + m] = matrix_element(tile, m, r, c) | matrix_element(tile, m, r, c + 1)
                                                                 << 16;
            out[8 * i + 4 + m] = matrix_element(tile, m, c, r) | matrix_element(tile, m, c + 1, r)
                                                                     << 16;
        }
    }
}

/* ---- mma: a block is a warp and takes one model_tile; once apart, once in place of c ---- */

#define MMA_TEXT(name, type, from_bits, to_bits, call, tail)                                       \
    "LT_KERNEL(32) " name "(u32 *out, const u32 *in, u32 *work)\n"                                 \
    "{\n"                                                                                          \
    "    const u32 *tile = in + 384 * blockIdx.x;\n"                                               \
    "    const u32 lane = threadIdx.x;\n"                                                          \
    "    u32 *o = out + 8 * (32 * blockIdx.x + lane);\n"                                           \
    "    u32 a[4], b[2];\n"                                                                        \
    "    " type " c[4], d[4];\n"                                                                   \
    "    for (int r = 0; r < 4; r++) a[r] = tile[4 * lane + r];\n"                                 \
    "    for (int r = 0; r < 2; r++) b[r] = tile[128 + 2 * lane + r];\n"                           \
    "    for (int r = 0; r < 4; r++) c[r] = " from_bits "(tile[192 + 4 * lane + r]);\n"            \
    "    " call "(d, a, b, c" tail ");\n"                                                          \
    "    " call "(c, a, b, c" tail ");\n"                                                          \
    "    for (int r = 0; r < 4; r++) {\n"                                                          \
    "        o[r] = " to_bits "(d[r]);\n"                                                          \
    "        o[4 + r] = " to_bits "(c[r]);\n"                                                      \
    "    }\n"                                                                                      \
    "}\n"
#define FLOAT_MMA_TEXT(name, call) MMA_TEXT(name, "float", "lt_bits_f32", "lt_f32_bits", call, "")

static const char bf16_text[] = FLOAT_MMA_TEXT("prelude_mma_bf16", "lt_mma_m16n8k16_bf16");
static const char bf16_ends_text[] =
    FLOAT_MMA_TEXT("prelude_mma_bf16_ends", "lt_mma_m16n8k16_bf16");
static const char f16_mma_text[] = FLOAT_MMA_TEXT("prelude_mma_f16", "lt_mma_m16n8k16_f16");
static const char f16_ends_text[] = FLOAT_MMA_TEXT("prelude_mma_f16_ends", "lt_mma_m16n8k16_f16");
static const char e4m3_text[] = FLOAT_MMA_TEXT("prelude_mma_e4m3", "lt_mma_m16n8k32_e4m3");
static const char e4m3_ends_text[] =
    FLOAT_MMA_TEXT("prelude_mma_e4m3_ends", "lt_mma_m16n8k32_e4m3");
static const char s8_text[] =
    MMA_TEXT("prelude_mma_s8", "i32", "(i32)", "(u32)", "lt_mma_m16n8k32_s8", "");
static const char nvf4_text[] =
    MMA_TEXT("prelude_mma_nvf4", "float", "lt_bits_f32", "lt_f32_bits", "lt_mma_m16n8k64_nvf4",
             ", tile[320 + lane], tile[352 + lane]");

/* Two steps along K, the second with the registers of the first in another order; and a run of one.
 */
#define MMA_RUN_TEXT(name, call)                                                                   \
    "LT_KERNEL(32) " name "(u32 *out, const u32 *in, u32 *work)\n"                                 \
    "{\n"                                                                                          \
    "    const u32 *tile = in + 384 * blockIdx.x;\n"                                               \
    "    const u32 lane = threadIdx.x;\n"                                                          \
    "    u32 *o = out + 8 * (32 * blockIdx.x + lane);\n"                                           \
    "    u32 a[8], b[4];\n"                                                                        \
    "    float c[4], d[4];\n"                                                                      \
    "    for (int r = 0; r < 8; r++) a[r] = tile[4 * lane + (r < 4 ? r : r ^ 7)];\n"               \
    "    for (int r = 0; r < 4; r++) b[r] = tile[128 + 2 * lane + (r < 2 ? r : r ^ 3)];\n"         \
    "    for (int r = 0; r < 4; r++) c[r] = d[r] = lt_bits_f32(tile[192 + 4 * lane + r]);\n"       \
    "    " call "(d, a, b, 2);\n"                                                                  \
    "    " call "(c, a, b, 1);\n"                                                                  \
    "    for (int r = 0; r < 4; r++) {\n"                                                          \
    "        o[r] = lt_f32_bits(d[r]);\n"                                                          \
    "        o[4 + r] = lt_f32_bits(c[r]);\n"                                                      \
    "    }\n"                                                                                      \
    "}\n"

static const char bf16_run_text[] =
    MMA_RUN_TEXT("prelude_mma_bf16_run", "lt_mma_m16n8k16_bf16_run");
static const char f16_run_text[] = MMA_RUN_TEXT("prelude_mma_f16_run", "lt_mma_m16n8k16_f16_run");

enum { TILE_WORDS = 384, CASE_TILES = 128 };
_Static_assert(sizeof(model_tile) == 4 * TILE_WORDS, "the kernels' offsets");

/* Finite numbers in windows of exponents; c is random, or zero in every fourth tile. */
static void fill_tiles(uint32_t *in, size_t words, int kind)
{
    static const int spans[] = {8, 16, 32, 64};
    draw_from(words + (size_t)kind);
    for (size_t i = 0; i < words / TILE_WORDS; i++) {
        const drawing d = {.kind = kind, .span = spans[i % 4], .c = i / 4 % 4 != 0};
        model_tile t;
        draw_tile(&d, &t);
        memcpy(in + i * TILE_WORDS, &t, sizeof t);
    }
}

/* Columns of zeros, zeros beside large numbers and a small c, subnormals, sums past the largest
 * float, infinities and NaN. */
static void draw_corner(int kind, size_t i, model_tile *t)
{
    const int span = kind == LT_MMA_BF16 && i / 4 % 2 ? 250 : 60;
    const drawing d = {.kind = kind, .span = span, .c = true, .specials = i % 4 == 3 ? 100 : 0};
    draw_tile(&d, t);
    if (i % 4 == 1 && kind == LT_MMA_BF16) draw_end(t, i % 8 == 1 ? 184 : 45 + (uint32_t)i / 8);
    if (i % 4 == 0)
        for (int l = 0; l < 32; l++) {
            for (int r = 0; r < 2; r++)
                if (l / 4 != (int)(i / 4 % 9)) t->b[l][r] &= 0x80008000;
            for (int r = 0; r < 4; r++) /* below 2^-62; a zero of either sign; as it is */
                t->c[l][r] &= i % 8 ? 0x9fffffff : r % 2 ? 0x80000000 : 0xffffffff;
        }
    if (i % 4 == 2) /* half of A's and of B's numbers: products with one zero, with two, none */
        for (int l = 0; l < 32; l++) {
            for (int r = 0; r < 4; r++) t->a[l][r] &= l % 2 ? 0x8000ffff : 0xffff8000;
            for (int r = 0; r < 2; r++) t->b[l][r] &= draw() % 2 ? 0x8000ffff : 0xffff8000;
            for (int r = 0; r < 4; r++) t->c[l][r] &= 0x9fffffff;
        }
}

static void fill_corners(uint32_t *in, size_t words, int kind)
{
    draw_from(words + 99 + (size_t)kind);
    for (size_t i = 0; i < words / TILE_WORDS; i++) {
        model_tile t;
        draw_corner(kind, i, &t);
        memcpy(in + i * TILE_WORDS, &t, sizeof t);
    }
}

static void expect_tiles(const uint32_t *in, uint32_t *out, size_t words, int kind, int model)
{
    for (size_t i = 0; i < words / 256; i++) {
        model_tile t;
        uint32_t d[32][4];
        memcpy(&t, in + i * TILE_WORDS, sizeof t);
        model_mma(kind, model, &t, d);
        for (int l = 0; l < 32; l++)
            for (int half = 0; half < 8; half += 4)
                memcpy(out + 256 * i + 8 * l + half, d[l], sizeof d[l]);
    }
}

static void expect_runs(const uint32_t *in, uint32_t *out, size_t words, int kind, int model)
{
    for (size_t i = 0; i < words / 256; i++) {
        model_tile t, next;
        uint32_t one[32][4], two[32][4];
        memcpy(&t, in + i * TILE_WORDS, sizeof t);
        model_mma(kind, model, &t, one);
        next = t;
        memcpy(next.c, one, sizeof one);
        for (int l = 0; l < 32; l++) {
            for (int r = 0; r < 4; r++) next.a[l][r] = t.a[l][3 - r];
            for (int r = 0; r < 2; r++) next.b[l][r] = t.b[l][1 - r];
        }
        model_mma(kind, model, &next, two);
        for (int l = 0; l < 32; l++) {
            memcpy(out + 256 * i + 8 * l, two[l], sizeof two[l]);
            memcpy(out + 256 * i + 8 * l + 4, one[l], sizeof one[l]);
        }
    }
}

static void expect_bf16_run(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    expect_runs(in, out, words, LT_MMA_BF16, model);
}

static void expect_f16_run(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    expect_runs(in, out, words, LT_MMA_F16, model);
}

#define TILES_OF(name, kind)                                                                       \
    static void fill_##name(uint32_t *in, size_t words)                                            \
    {                                                                                              \
        fill_tiles(in, words, kind);                                                               \
    }                                                                                              \
    static void expect_##name(const uint32_t *in, uint32_t *out, size_t words, int model)          \
    {                                                                                              \
        expect_tiles(in, out, words, kind, model);                                                 \
    }
TILES_OF(mma_bf16, LT_MMA_BF16)
TILES_OF(mma_f16, LT_MMA_F16)
TILES_OF(mma_e4m3, LT_MMA_E4M3)
TILES_OF(mma_s8, LT_MMA_S8)
TILES_OF(mma_nvf4, LT_MMA_NVF4)

/* Four warps: a and c of a warp's own tile, b of all four, eight columns each. 8 columns are added
 * to c; 32 are not, but then added to themselves. */
enum { WGMMA_WORDS = 4 + 16 }; /* of a thread's d */

#define WGMMA_TEXT(name)                                                                           \
    "LT_KERNEL(128) " name "(u32 *out, const u32 *in, u32 *work)\n"                                \
    "{\n"                                                                                          \
    "    LT_SHARED1(u32, b, 256);\n"                                                               \
    "    const u32 lane = threadIdx.x % 32, *tiles = in + 4 * 384 * blockIdx.x;\n"                 \
    "    const u32 *tile = tiles + threadIdx.x / 32 * 384;\n"                                      \
    "    u32 *o = out + 20 * (128 * blockIdx.x + threadIdx.x), a[4];\n"                            \
    "    float d[20];\n"                                                                           \
    "    for (int i = threadIdx.x; i < 256; i += 128)\n"                                           \
    "        b[i] = tiles[i / 64 * 384 + 128 + 2 * (i % 32) + i / 32 % 2];\n"                      \
    "    lt_wgmma_show();\n"                                                                       \
    "    __syncthreads();\n"                                                                       \
    "    for (int r = 0; r < 4; r++) a[r] = tile[4 * lane + r];\n"                                 \
    "    LT_UNROLL(20)\n"                                                                          \
    "    for (int r = 0; r < 20; r++) d[r] = lt_bits_f32(tile[192 + 4 * lane + r % 4]);\n"         \
    "    lt_wgmma_begin();\n"                                                                      \
    "    lt_wgmma_f16_n8(d, a, lt_wgmma_b(b), 1);\n"                                               \
    "    lt_wgmma_f16_n32(d + 4, a, lt_wgmma_b(b), 0);\n"                                          \
    "    lt_wgmma_f16_n32(d + 4, a, lt_wgmma_b(b), 1);\n"                                          \
    "    lt_wgmma_end(d, 20);\n"                                                                   \
    "    LT_UNROLL(20)\n"                                                                          \
    "    for (int r = 0; r < 20; r++) o[r] = lt_f32_bits(d[r]);\n"                                 \
    "}\n"

static const char wgmma_text[] = WGMMA_TEXT("prelude_wgmma_mma");
static const char wgmma_ends_text[] = WGMMA_TEXT("prelude_wgmma_mma_ends");

/* d of a warp with eight columns: `added` times onto c, or onto zero. */
static void model_columns(int model, const model_tile *rows, const model_tile *columns,
                          bool from_zero, int added, uint32_t d[32][4])
{
    model_tile t = *rows;
    memcpy(t.b, columns->b, sizeof t.b);
    if (from_zero) memset(t.c, 0, sizeof t.c);
    for (int i = 0; i < added; i++) {
        model_mma(LT_MMA_F16, model, &t, d);
        memcpy(t.c, d, sizeof t.c);
    }
}

static void expect_wgmma(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    for (size_t warp = 0; warp < words / (32 * WGMMA_WORDS); warp++) {
        model_tile four[4];
        memcpy(four, in + warp / 4 * 4 * TILE_WORDS, sizeof four);
        for (size_t i = 0; i < WGMMA_WORDS / 4; i++) {
            const size_t column = i > 0 ? i - 1 : 0;
            uint32_t d[32][4];
            model_columns(model, four + warp % 4, four + column, i > 0, i > 0 ? 2 : 1, d);
            for (size_t l = 0; l < 32; l++)
                memcpy(out + (32 * warp + l) * WGMMA_WORDS + 4 * i, d[l], sizeof d[l]);
        }
    }
}

#define CORNERS_OF(name, kind)                                                                     \
    static void fill_##name(uint32_t *in, size_t words)                                            \
    {                                                                                              \
        fill_corners(in, words, kind);                                                             \
    }
CORNERS_OF(bf16_ends, LT_MMA_BF16)
CORNERS_OF(f16_ends, LT_MMA_F16)
CORNERS_OF(e4m3_ends, LT_MMA_E4M3)

#endif
