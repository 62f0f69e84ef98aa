/* numbers.h: the cases of what one thread computes alone. */
#ifndef LT_TESTS_NUMBERS_H
#define LT_TESTS_NUMBERS_H

#include "case.h"
#include "half.h"

/* ---- codes to floats ---- */

static const char bits_text[] = "LT_KERNEL(256) prelude_bits(u32 *out, const u32 *in, u32 *work)\n"
                                "{\n"
                                "    const u32 i = blockIdx.x * 256 + threadIdx.x, two = in[i];\n"
                                "    bf16 h;\n"
                                "    h.x = (u16)two;\n"
                                "    out[4 * i] = lt_f32_bits(lt_bf16_f32(h));\n"
                                "    out[4 * i + 1] = lt_f32_bits(lt_bf16lo_f32(two));\n"
                                "    out[4 * i + 2] = lt_f32_bits(lt_bf16hi_f32(two));\n"
                                "    out[4 * i + 3] = lt_f32_bits(lt_bits_f32(two * 65537u));\n"
                                "}\n";

static void expect_bits(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words / 4; i++) {
        out[4 * i] = in[i] << 16;
        out[4 * i + 1] = in[i] << 16;
        out[4 * i + 2] = in[i] & 0xffff0000;
        out[4 * i + 3] = in[i] * 65537u;
    }
}

static const char f16_text[] = "LT_KERNEL(256) prelude_f16(u32 *out, const u32 *in, u32 *work)\n"
                               "{\n"
                               "    const u32 i = blockIdx.x * 256 + threadIdx.x, two = in[i];\n"
                               "    f16 h;\n"
                               "    h.x = (u16)two;\n"
                               "    out[3 * i] = lt_f32_bits(lt_f16_f32(h));\n"
                               "    out[3 * i + 1] = lt_f32_bits(lt_f16lo_f32(two));\n"
                               "    out[3 * i + 2] = lt_f32_bits(lt_f16hi_f32(two));\n"
                               "}\n";

static void expect_f16(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words / 3; i++) {
        out[3 * i] = out[3 * i + 1] = case_bits(lt_number_f16((uint16_t)in[i]));
        out[3 * i + 2] = case_bits(lt_number_f16((uint16_t)(in[i] >> 16)));
    }
}

static const char e4m3_pairs_text[] =
    "LT_KERNEL(256) prelude_e4m3_pairs(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    const u32 i = blockIdx.x * 256 + threadIdx.x;\n"
    "    out[2 * i] = lt_e4m3x2_f16x2(in[i]);\n"
    "    out[2 * i + 1] = lt_e4m3x2hi_f16x2(in[i] << 16 | ~in[i] >> 16);\n"
    "}\n";

static void expect_e4m3_pairs(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words / 2; i++)
        out[2 * i] = out[2 * i + 1] =
            lt_number_to_f16(lt_number_e4m3((uint8_t)in[i])) |
            (uint32_t)lt_number_to_f16(lt_number_e4m3((uint8_t)(in[i] >> 8))) << 16;
}

static const char codes_text[] =
    "LT_KERNEL(256) prelude_codes(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    const u32 i = blockIdx.x * 256 + threadIdx.x, code = in[i];\n"
    "    e4m3 v;\n"
    "    v.x = (u8)code;\n"
    "    out[3 * i] = lt_f32_bits(lt_e4m3_f32(v));\n"
    "    out[3 * i + 1] = lt_f32_bits(lt_ue4m3_f32(code));\n"
    "    out[3 * i + 2] = lt_f32_bits(lt_e2m1_f32(code));\n"
    "}\n";

static void expect_codes(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words / 3; i++) {
        out[3 * i] = case_bits(lt_number_e4m3((uint8_t)in[i]));
        out[3 * i + 1] = case_bits(lt_number_e4m3(in[i] & 0x7f));
        out[3 * i + 2] = case_bits(lt_number_e2m1(in[i] & 15));
    }
}

/* ---- floats to codes ---- */

static const char to_codes_text[] =
    "LT_KERNEL(256) prelude_to_codes(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    const u32 i = blockIdx.x * 256 + threadIdx.x;\n"
    "    const float x = lt_bits_f32(in[i]), y = lt_bits_f32(in[i ^ 1021u]);\n"
    "    const bf16 b = lt_f32_bf16(x);\n"
    "    const f16 h = lt_f32_f16(x);\n"
    "    const e4m3 e = lt_f32_e4m3(x);\n"
    "    out[5 * i] = b.x | (u32)h.x << 16;\n"
    "    out[5 * i + 1] = lt_pack_bf16(x, y);\n"
    "    out[5 * i + 2] = lt_pack_f16(x, y);\n"
    "    out[5 * i + 3] = lt_pack_e4m3(x, y) | (u32)e.x << 16;\n"
    "    out[5 * i + 4] = lt_f32_ue4m3(x) | lt_f32_e2m1(x) << 8;\n"
    "}\n";

static void expect_to_codes(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words / 5; i++) {
        const float x = case_float(in[i]), y = case_float(in[i ^ 1021u]);
        const uint32_t e = lt_number_to_e4m3(x);
        out[5 * i] = lt_number_to_bf16(x) | (uint32_t)lt_number_to_f16(x) << 16;
        out[5 * i + 1] = lt_number_to_bf16(x) | (uint32_t)lt_number_to_bf16(y) << 16;
        out[5 * i + 2] = lt_number_to_f16(x) | (uint32_t)lt_number_to_f16(y) << 16;
        out[5 * i + 3] = e | (uint32_t)lt_number_to_e4m3(y) << 8 | e << 16;
        out[5 * i + 4] = (x <= 0 ? 0 : e & 0x7f) | (uint32_t)lt_number_to_e2m1(x) << 8;
    }
}

/* ---- packed arithmetic, integers ---- */

static const char packed_text[] =
    "LT_KERNEL(256) prelude_packed(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    const u32 i = blockIdx.x * 256 + threadIdx.x;\n"
    "    const u32 a = in[4 * i], b = in[4 * i + 1];\n"
    "    out[4 * i] = lt_fma_bf16x2(a, b, in[4 * i + 2]);\n"
    "    out[4 * i + 1] = lt_fma_f16x2(a, b, in[4 * i + 3]);\n"
    "    out[4 * i + 2] = lt_mul_bf16x2(a, b);\n"
    "    out[4 * i + 3] = lt_mul_f16x2(a, b);\n"
    "}\n";

static const half_format half_bf16 = {7, -126}, half_f16 = {10, -14};

static void fill_packed(uint32_t *in, size_t words)
{
    draw_from(words);
    for (size_t i = 0; i < words; i += 4) {
        const uint32_t a = draw(), b = draw();
        in[i] = a;
        in[i + 1] = b;
        in[i + 2] = draw_addend(&half_bf16, a & 0xffff, b & 0xffff) |
                    draw_addend(&half_bf16, a >> 16, b >> 16) << 16;
        in[i + 3] = draw_addend(&half_f16, a & 0xffff, b & 0xffff) |
                    draw_addend(&half_f16, a >> 16, b >> 16) << 16;
    }
}

static uint32_t exact_fma2(const half_format *f, uint32_t a, uint32_t b, uint32_t c)
{
    return exact_fma(f, a & 0xffff, b & 0xffff, c & 0xffff) |
           exact_fma(f, a >> 16, b >> 16, c >> 16) << 16;
}

static void expect_packed(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (size_t i = 0; i < words; i += 4) {
        out[i] = exact_fma2(&half_bf16, in[i], in[i + 1], in[i + 2]);
        out[i + 1] = exact_fma2(&half_f16, in[i], in[i + 1], in[i + 3]);
        out[i + 2] = exact_fma2(&half_bf16, in[i], in[i + 1], 0x80008000); /* + -0 */
        out[i + 3] = exact_fma2(&half_f16, in[i], in[i + 1], 0x80008000);
    }
}

/* ---- NVFP4 ---- */

static const char nvfp4_text[] =
    "LT_KERNEL(256) prelude_nvfp4(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    const u32 i = blockIdx.x * 256 + threadIdx.x;\n"
    "    u32 codes[4], rows[4];\n"
    "    lt_nvfp4_codes(codes, in[2 * i]);\n"
    "    lt_nvfp4_rows(rows, in[2 * i], in[2 * i + 1]);\n"
    "    for (int r = 0; r < 4; r++) {\n"
    "        out[8 * i + r] = codes[r];\n"
    "        out[8 * i + 4 + r] = rows[r];\n"
    "    }\n"
    "}\n";

/* Where a half of a word keeps the sign and the magnitude of register r's code, highest bit first;
 * from 16 on in the other half. */
static const uint8_t nvfp4_places[4][4] = {
    {15, 8, 7, 6}, {11, 4, 3, 2}, {5, 30, 29, 28}, {9, 10, 1, 0}};

static void expect_nvfp4(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (uint32_t *o = out; o < out + words; o += 8, in += 2)
        for (int r = 0; r < 4; r++) {
            const uint32_t scale = 0x7000 + (in[1] >> r % 2 * 8 & 255) * 16; /* times 2^106 */
            o[r] = 0;
            for (int half = 0; half < 32; half += 16) {
                uint32_t code = 0;
                for (int bit = 0; bit < 4; bit++)
                    code = code << 1 | (in[0] >> (nvfp4_places[r][bit] + half) % 32 & 1);
                o[r] |= ((code & 8) << 12 | (code & 7) << 6) << half; /* a half is 2^-127 */
            }
            o[4 + r] = exact_fma2(&half_bf16, o[r], scale << 16 | scale, 0x80008000);
        }
}

static const char integers_text[] =
    "LT_KERNEL(256) prelude_integers(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    const u32 i = blockIdx.x * 256 + threadIdx.x;\n"
    "    const u32 a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];\n"
    "    u32 *o = out + 4 * i;\n"
    "    o[0] = (u32)lt_dp4a(a, b, (i32)c);\n"
    "    o[1] = lt_byte_perm(a, b, c);\n"
    "    o[2] = lt_byte_perm(a, b, 0x8c3du);\n"
    "    o[3] = (u32)(lt_popc(a) | lt_clz(b & c) << 8 | lt_ffs(b & c) << 16);\n"
    "}\n";

static uint32_t picked_byte(uint32_t a, uint32_t b, uint32_t nibble)
{
    const uint32_t byte = (nibble & 4 ? b : a) >> 8 * (nibble & 3) & 255;
    return nibble & 8 ? (byte >> 7) * 255 : byte;
}

/* Every fourth pair of b and c has few ones in common, or none. */
static void fill_integers(uint32_t *in, size_t words)
{
    fill_random(in, words);
    for (size_t i = 0; i + 2 < words; i += 12)
        in[i + 2] = ~in[i + 1] | (uint32_t)(i / 12 & 1) << draw() % 32;
}

static void expect_integers(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (uint32_t *o = out; o < out + words; o += 4, in += 3) {
        int64_t dot = (int32_t)in[2];
        const uint32_t both = in[1] & in[2];
        uint32_t ones = 0, front = 32, lowest = 0;
        o[1] = o[2] = 0;
        for (int k = 0; k < 4; k++) {
            dot += (int8_t)(in[0] >> 8 * k) * (int8_t)(in[1] >> 8 * k);
            o[1] |= picked_byte(in[0], in[1], in[2] >> 4 * k & 15) << 8 * k;
            o[2] |= picked_byte(in[0], in[1], 0x8c3du >> 4 * k & 15) << 8 * k;
        }
        for (uint32_t k = 0; k < 32; k++) {
            ones += in[0] >> k & 1;
            if (both >> k & 1) front = 31 - k;
            if (both >> k & 1 && !lowest) lowest = k + 1;
        }
        o[0] = (uint32_t)dot;
        o[3] = ones | front << 8 | lowest << 16;
    }
}

/* ---- float arithmetic ---- */

static const char ieee_text[] =
    "LT_KERNEL(256) prelude_ieee(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    const u32 i = blockIdx.x * 256 + threadIdx.x;\n"
    "    const float a = lt_bits_f32(in[3 * i]), b = lt_bits_f32(in[3 * i + 1]);\n"
    "    const float c = lt_bits_f32(in[3 * i + 2]);\n"
    "    u32 *o = out + 10 * i;\n"
    "    o[0] = lt_f32_bits(fmaf(a, b, c));\n"
    "    o[1] = lt_f32_bits(a * b + c);\n"
    "    o[2] = lt_f32_bits(a / b);\n"
    "    o[3] = lt_f32_bits(1.0f / sqrtf(a));\n"
    "    o[4] = lt_f32_bits(rintf(a));\n"
    "    o[5] = lt_f32_bits(fabsf(c));\n"
    "    o[6] = lt_f32_bits(a > b ? a : b);\n"
    "    o[7] = lt_f32_bits((float)(i32)in[3 * i]);\n"
    "    o[8] = lt_f32_bits((float)((u64)in[3 * i] << 32 | in[3 * i + 1]));\n"
    "    const u32 magnitude = (127u + in[3 * i] % 64u) << 23 | (in[3 * i + 1] & 0x7fffffu);\n"
    "    o[9] = (u32)((u64)lt_bits_f32(magnitude) >> 24);\n"
    "}\n";

/* A third of the triples has exponents near each other, so that sums cancel and round. */
static void fill_triples(uint32_t *in, size_t words)
{
    draw_from(words);
    for (size_t i = 0; i < words; i++) {
        in[i] = draw();
        if (i / 3 % 3 == 0) in[i] = (in[i] & 0x807fffff) | (120 + in[i] % 16) << 23;
    }
}

static void expect_ieee(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    for (uint32_t *o = out; o < out + words; o += 10, in += 3) {
        const float a = case_float(in[0]), b = case_float(in[1]), c = case_float(in[2]);
        o[0] = case_bits(fmaf(a, b, c));
        o[1] = case_bits(a * b + c);
        o[2] = case_bits(a / b);
        o[3] = case_bits(1.0f / sqrtf(a));
        o[4] = case_bits(rintf(a));
        o[5] = case_bits(fabsf(c));
        o[6] = case_bits(a > b ? a : b);
        o[7] = case_bits((float)(int32_t)in[0]);
        o[8] = case_bits((float)((uint64_t)in[0] << 32 | in[1]));
        const float positive = case_float((127 + in[0] % 64) << 23 | (in[1] & 0x7fffff));
        o[9] = (uint32_t)((uint64_t)positive >> 24);
    }
}

static const char exact_text[] =
    "LT_KERNEL(256) prelude_exact(u32 *out, const u32 *in, u32 *work)\n"
    "{\n"
    "    const u32 i = blockIdx.x * 256 + threadIdx.x;\n"
    "    const float x = lt_bits_f32(in[i]);\n"
    "    out[3 * i] = lt_f32_bits(lt_exp(x));\n"
    "    out[3 * i + 1] = lt_f32_bits(lt_sigmoid(x));\n"
    "    out[3 * i + 2] = lt_f32_bits(lt_silu(x));\n"
    "}\n";

static void expect_exact(const uint32_t *in, uint32_t *out, size_t words, int model)
{
    (void)model;
    typedef float function(float);
    function *functions[3] = {(function *)case_host("lt_exp"), (function *)case_host("lt_sigmoid"),
                              (function *)case_host("lt_silu")};
    for (size_t i = 0; i < words; i++) out[i] = case_bits(functions[i % 3](case_float(in[i / 3])));
}

#endif
