/* compare.c: bits against bits, and numbers against a double with a tolerance. */
#include "compare.h"

#include <math.h>
#include <string.h>

/* A sum of K terms that cancels is off by more than its own last place: the room for it, as a part
 * of the sum of magnitudes. 9 bits more than bf16 keeps are lost only in a wrong sum. */
#define CANCEL 0x1p-16

/* Is the element as every output starts? */
static bool is_poison(lt_ctype type, const void *array, size_t i)
{
    const size_t bytes = lt_ctype_bytes(type);
    const uint8_t *p = (const uint8_t *)array + i * bytes;
    for (size_t b = 0; b < bytes; b++)
        if (p[b] != lt_ctype_poison(type)) return false;
    return true;
}

static void fail_at(lt_difference *d, size_t i, double got, double want)
{
    if (d->failures++ == 0) {
        d->first = i;
        d->got = got;
        d->want = want;
    }
}

void lt_compare_bits(lt_ctype type, const void *got, const void *want, size_t count, bool sampled,
                     lt_difference *out)
{
    const size_t bytes = lt_ctype_bytes(type);
    *out = (lt_difference){0};
    for (size_t i = 0; i < count; i++) {
        if (sampled && is_poison(type, got, i)) continue;
        out->compared++;
        if (memcmp((const char *)got + i * bytes, (const char *)want + i * bytes, bytes))
            fail_at(out, i, lt_ctype_number(type, got, i), lt_ctype_number(type, want, i));
    }
}

static double row_rms(const double *row, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += row[i] * row[i];
    return n ? sqrt(sum / (double)n) : 0;
}

/* The error, with an infinity that stands for a number past the largest counted as the next step
 * after it. */
static double error_of(lt_ctype type, double got, double want)
{
    if (got == want) return 0;
    const double largest = lt_ctype_largest(type);
    if (isinf(got)) got = copysign(largest + lt_ctype_ulp(type, largest), got);
    if (isinf(want)) want = copysign(largest + lt_ctype_ulp(type, largest), want);
    /* a number past the rounding edge cannot be written nearer than infinity */
    const double edge = largest + lt_ctype_ulp(type, largest) / 2;
    if (fabs(want) >= edge && fabs(got) > largest && signbit(got) == signbit(want)) return 0;
    return fabs(got - want);
}

/* x to the nearest value of the format, ties to even. */
static double round_once(lt_ctype type, double x)
{
    const double ulp = lt_ctype_ulp(type, x);
    return ulp > 0 ? rint(x / ulp) * ulp : x;
}

/* How far got may be from want. */
static double allowance(const lt_limit *l, double ulp, double want, double rms, double magnitude)
{
    if (l->exact) return 0;
    if (l->relative > 0) return l->relative * fmax(fabs(want), rms);
    return l->ulp * ulp + CANCEL * magnitude;
}

void lt_compare_near(lt_ctype type, const void *got, const double *want, const double *magnitude,
                     size_t count, const lt_limit *limit, lt_difference *out)
{
    const size_t row = limit->row ? limit->row : count;
    double rms = 0;
    *out = (lt_difference){0};
    for (size_t i = 0; i < count; i++) {
        if (limit->relative > 0 && i % row == 0)
            rms = row_rms(want + i, row < count - i ? row : count - i);
        if (limit->sampled && is_poison(type, got, i)) continue;
        out->compared++;
        const double g = lt_ctype_number(type, got, i);
        const double w = limit->exact ? round_once(type, want[i]) : want[i];
        if (isnan(g) || isnan(w)) {
            if (!isnan(g) || !isnan(w)) fail_at(out, i, g, w);
            continue;
        }
        const double ulp = lt_ctype_ulp(type, isinf(w) ? lt_ctype_largest(type) : w);
        const double allowed = allowance(limit, ulp, w, rms, magnitude[i]);
        const double error = error_of(type, g, w);
        if (ulp > 0 && error / ulp > out->ulp) out->ulp = error / ulp;
        if (allowed > 0 && error / allowed > out->part) out->part = error / allowed;
        if (!(error <= allowed)) fail_at(out, i, g, w);
    }
}
