/* sweep.h: one function over very many inputs, as one number: the sum over i of mixed(i, word), in
 * any order. A kernel gives a partial sum a thread, the host adds them up. */
#ifndef LT_TESTS_SWEEP_H
#define LT_TESTS_SWEEP_H

#include "case.h"

#include <stdio.h>

typedef struct {
    const char *name, *expression; /* of `float x`, whose bits are `bits`, and of `u32 i` */
    uint32_t (*host)(uint32_t i, float x);
} prelude_sweep;

enum { SWEEP_THREADS = 256 };

/* in: how many inputs, and the distance of their bit patterns; out: two words a thread. */
static const char sweep_format[] = "LT_DEV u64 mixed(u32 i, u32 word)\n"
                                   "{\n"
                                   "    u64 z = ((u64)i << 32 | word) * 0x9e3779b97f4a7c15ull;\n"
                                   "    z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9ull;\n"
                                   "    return z ^ z >> 32;\n"
                                   "}\n"
                                   "\n"
                                   "LT_KERNEL(256) %s(u32 *out, const u32 *in, u32 *work)\n"
                                   "{\n"
                                   "    const u32 first = blockIdx.x * 256 + threadIdx.x;\n"
                                   "    u64 sum = 0;\n"
                                   "    for (u32 i = first; i < in[0]; i += 256 * gridDim.x) {\n"
                                   "        const u32 bits = i * in[1];\n"
                                   "        const float x = lt_bits_f32(bits);\n"
                                   "        if (x == x) sum += mixed(i, %s);\n"
                                   "    }\n"
                                   "    out[2 * first] = (u32)sum;\n"
                                   "    out[2 * first + 1] = (u32)(sum >> 32);\n"
                                   "}\n";

static inline uint64_t sweep_mixed(uint32_t i, uint32_t word)
{
    uint64_t z = ((uint64_t)i << 32 | word) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ z >> 32;
}

static inline uint64_t sweep_on_host(const prelude_sweep *s, uint32_t count, uint32_t stride)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const float x = case_float(i * stride);
        if (x == x) sum += sweep_mixed(i, s->host(i, x));
    }
    return sum;
}

static inline void sweep_text(const prelude_sweep *s, char *text, size_t size)
{
    snprintf(text, size, sweep_format, s->name, s->expression);
}

typedef float sweep_real(float);
typedef uint32_t sweep_packed(uint32_t, uint32_t, uint32_t);

#define SWEEP_REAL(name)                                                                           \
    static uint32_t host_##name(uint32_t i, float x)                                               \
    {                                                                                              \
        static sweep_real *f;                                                                      \
        if (!f) f = (sweep_real *)case_host("lt_" #name);                                          \
        (void)i;                                                                                   \
        return case_bits(f(x));                                                                    \
    }
SWEEP_REAL(exp)
SWEEP_REAL(sigmoid)
SWEEP_REAL(silu)

#define SWEEP_NUMBER(name, value)                                                                  \
    static uint32_t host_##name(uint32_t i, float x)                                               \
    {                                                                                              \
        (void)i;                                                                                   \
        return value;                                                                              \
    }
SWEEP_NUMBER(bf16, lt_number_to_bf16(x))
SWEEP_NUMBER(f16, lt_number_to_f16(x))
SWEEP_NUMBER(e4m3, lt_number_to_e4m3(x))
SWEEP_NUMBER(ue4m3, x <= 0 ? 0 : lt_number_to_e4m3(x))
SWEEP_NUMBER(e2m1, lt_number_to_e2m1(x))
SWEEP_NUMBER(root, x < 0 ? 0 : case_bits(1.0f / sqrtf(x)))
SWEEP_NUMBER(quotient, case_bits(x / 3.3f))

#define SWEEP_PACKED(name)                                                                         \
    static uint32_t host_##name(uint32_t i, float x)                                               \
    {                                                                                              \
        static sweep_packed *f;                                                                    \
        if (!f) f = (sweep_packed *)case_host("lt_" #name);                                        \
        return f(case_bits(x), (uint32_t)sweep_mixed(i, 1), (uint32_t)sweep_mixed(i, 2));          \
    }
SWEEP_PACKED(fma_bf16x2)
SWEEP_PACKED(fma_f16x2)

static const prelude_sweep prelude_sweeps[] = {
    {"sweep_exp", "lt_f32_bits(lt_exp(x))", host_exp},
    {"sweep_sigmoid", "lt_f32_bits(lt_sigmoid(x))", host_sigmoid},
    {"sweep_silu", "lt_f32_bits(lt_silu(x))", host_silu},
    {"sweep_bf16", "lt_f32_bf16(x).x", host_bf16},
    {"sweep_f16", "lt_f32_f16(x).x", host_f16},
    {"sweep_e4m3", "lt_f32_e4m3(x).x", host_e4m3},
    {"sweep_ue4m3", "lt_f32_ue4m3(x)", host_ue4m3},
    {"sweep_e2m1", "lt_f32_e2m1(x)", host_e2m1},
    {"sweep_root", "x < 0.0f ? 0u : lt_f32_bits(1.0f / sqrtf(x))", host_root},
    {"sweep_quotient", "lt_f32_bits(x / 3.3f)", host_quotient},
    {"sweep_fma_bf16x2", "lt_fma_bf16x2(bits, (u32)mixed(i, 1u), (u32)mixed(i, 2u))",
     host_fma_bf16x2},
    {"sweep_fma_f16x2", "lt_fma_f16x2(bits, (u32)mixed(i, 1u), (u32)mixed(i, 2u))", host_fma_f16x2},
};

#endif
