/* ctype.c: names, sizes and values of the number formats. */
#include "ctype.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct {
    const char *name;
    size_t bytes;
    int mantissa, least; /* of a float: stored bits, exponent of the smallest normal number */
} format;

static const format formats[LT_CTYPES] = {
    [LT_U8] = {"u8", 1, 0, 0},        [LT_I8] = {"i8", 1, 0, 0},
    [LT_E4M3] = {"e4m3", 1, 3, -6},   [LT_E2M1X2] = {"e2m1x2", 1, 0, 0},
    [LT_BF16] = {"bf16", 2, 7, -126}, [LT_F16] = {"f16", 2, 10, -14},
    [LT_U16] = {"u16", 2, 0, 0},      [LT_I32] = {"i32", 4, 0, 0},
    [LT_U32] = {"u32", 4, 0, 0},      [LT_F32] = {"f32", 4, 23, -126},
    [LT_F64] = {"f64", 8, 52, -1022},
};

int lt_ctype_parse(const char *name, lt_ctype *out, lt_err *err)
{
    for (lt_ctype t = 0; t < LT_CTYPES; t++)
        if (!strcmp(name, formats[t].name)) {
            *out = t;
            return 0;
        }
    return lt_fail(err,
                   "type '%s': no such number format (known: u8 i8 e4m3 e2m1x2 bf16 f16 u16 i32 "
                   "u32 f32)",
                   name);
}

const char *lt_ctype_name(lt_ctype type)
{
    return formats[type].name;
}

size_t lt_ctype_bytes(lt_ctype type)
{
    return formats[type].bytes;
}

bool lt_ctype_is_float(lt_ctype type)
{
    return formats[type].mantissa != 0;
}

/* Elements are copied out: an array may lie at any address. */
double lt_ctype_number(lt_ctype type, const void *array, size_t i)
{
    const size_t bytes = formats[type].bytes;
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        float f32;
        double f64;
    } x;
    memcpy(&x, (const char *)array + i * bytes, bytes);
    switch (type) {
    case LT_U8: return x.u8;
    case LT_I8: return x.i8;
    case LT_E4M3: return (double)lt_number_e4m3(x.u8);
    case LT_E2M1X2: return (double)lt_number_e2m1(x.u8 & 15);
    case LT_BF16: return (double)lt_number_bf16(x.u16);
    case LT_F16: return (double)lt_number_f16(x.u16);
    case LT_U16: return x.u16;
    case LT_I32: return x.i32;
    case LT_U32: return x.u32;
    case LT_F32: return (double)x.f32;
    default: return x.f64;
    }
}

void lt_ctype_set(lt_ctype type, void *to, size_t i, double x)
{
    switch (type) {
    case LT_U8:
    case LT_E2M1X2: ((uint8_t *)to)[i] = (uint8_t)x; break;
    case LT_I8: ((int8_t *)to)[i] = (int8_t)x; break;
    case LT_E4M3: ((uint8_t *)to)[i] = lt_number_to_e4m3((float)x); break;
    case LT_BF16: ((uint16_t *)to)[i] = lt_number_to_bf16((float)x); break;
    case LT_F16: ((uint16_t *)to)[i] = lt_number_to_f16((float)x); break;
    case LT_U16: ((uint16_t *)to)[i] = (uint16_t)x; break;
    case LT_I32: ((int32_t *)to)[i] = (int32_t)x; break;
    case LT_U32: ((uint32_t *)to)[i] = (uint32_t)x; break;
    case LT_F32: ((float *)to)[i] = (float)x; break;
    default: ((double *)to)[i] = x; break;
    }
}

double lt_ctype_ulp(lt_ctype type, double x)
{
    const format *f = &formats[type];
    if (!f->mantissa || !isfinite(x)) return 0;
    int exponent = f->least;
    if (fabs(x) >= DBL_MIN && ilogb(x) > exponent) exponent = ilogb(x);
    return ldexp(1, exponent - f->mantissa);
}

uint8_t lt_ctype_poison(lt_ctype type)
{
    return type == LT_I32 || type == LT_U32 ? 0x80 : 0xff;
}

double lt_ctype_largest(lt_ctype type)
{
    switch (type) {
    case LT_BF16: return (double)lt_number_bf16(0x7f7f);
    case LT_F16: return 65504;
    case LT_F32: return (double)FLT_MAX;
    default: return (double)INFINITY;
    }
}
