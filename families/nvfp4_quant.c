/* Truth of nvfp4_quant (model.md 2.1). Which byte wins is a comparison of two rounded sums, so that
 * the definition is in float. */
#include <math.h>
#include "reference.h"
#include "runtime/lathe.h"

static uint8_t code_of(float x, float s)
{
    return s == 0 ? 0 : lt_number_to_e2m1(x / s);
}

static float error_of(const uint16_t *x, float s)
{
    float error = 0;
    for (int i = 0; i < 16; i++) {
        const float value = lt_number_bf16(x[i]);
        const float off = fmaf(-lt_number_e2m1(code_of(value, s)), s, value);
        error = fmaf(off, off, error);
    }
    return error;
}

static uint8_t best_byte(const uint16_t *x, float scale2)
{
    static const int step[5] = {0, -3, -2, -1, 1};
    float amax = 0, least = 0;
    for (int i = 0; i < 16; i++) amax = fmaxf(amax, fabsf(lt_number_bf16(x[i])));
    const int first = lt_number_to_e4m3(amax / (6.0f * scale2));
    int best = first;
    for (int j = 0; j < 5; j++) {
        const int byte = first + step[j];
        if (j > 0 && (byte < 0 || byte > 126)) continue;
        const float error = error_of(x, lt_number_e4m3((uint8_t)byte) * scale2);
        if (j > 0 && !(error < least)) continue;
        least = error;
        best = byte;
    }
    return (uint8_t)best;
}

void lt_reference_nvfp4_quant(const lt_shape_nvfp4_quant *s, uint8_t *codes, uint8_t *scales,
                              float *sw, const uint16_t *w, const float *scale)
{
    for (int64_t n = 0; n < s->N; n++) sw[n] = scale[0];
    for (int64_t group = 0; group < s->N * s->K / 16; group++) {
        const uint16_t *x = w + group * 16;
        const uint8_t byte = best_byte(x, scale[0]);
        const float unit = lt_number_e4m3(byte) * scale[0];
        scales[group] = byte;
        for (int i = 0; i < 8; i++) {
            const uint8_t low = code_of(lt_number_bf16(x[2 * i]), unit);
            const uint8_t high = code_of(lt_number_bf16(x[2 * i + 1]), unit);
            codes[group * 8 + i] = (uint8_t)(low | high << 4);
        }
    }
}
