/* logits.c: sums over rows of logits, and a search for what is no number. */
#include "logits.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool is_finite_bits(uint32_t bits)
{
    return (bits & 0x7f800000) != 0x7f800000;
}

double lt_logits_nll(const float *row, size_t count, size_t target)
{
    if (target >= count || lt_logits_nonfinite(LT_F32, row, NULL, count)) return (double)NAN;
    double top = (double)row[0], sum = 0;
    for (size_t i = 1; i < count; i++)
        if ((double)row[i] > top) top = (double)row[i];
    for (size_t i = 0; i < count; i++) sum += exp((double)row[i] - top);
    return log(sum) + (top - (double)row[target]);
}

/* The usual case in a loop that the compiler makes wide: a token of the full model has 154880. */
static size_t count_f32(const uint32_t *bits, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) found += !is_finite_bits(bits[i]);
    return found;
}

size_t lt_logits_nonfinite(lt_ctype type, const void *data, const void *before, size_t count)
{
    const size_t bytes = lt_ctype_bytes(type);
    const char *now = data, *then = before;
    size_t found = 0;
    if (type == LT_F32 && !before) return count_f32(data, count);
    for (size_t i = 0; i < count; i++) {
        if (then && !memcmp(now + i * bytes, then + i * bytes, bytes)) continue;
        if (!isfinite(lt_ctype_number(type, data, i))) found++;
    }
    return found;
}
