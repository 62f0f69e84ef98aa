/* ctype.h: the number formats of arrays, as families name them. f64 exists on the host only: a
 * reference computes in it. */
#ifndef LT_CTYPE_H
#define LT_CTYPE_H

#include "lathe.h"

typedef enum {
    LT_U8,
    LT_I8,
    LT_E4M3,
    LT_E2M1X2, /* two codes a byte, the even element in the low half */
    LT_BF16,
    LT_F16,
    LT_U16,
    LT_I32,
    LT_U32,
    LT_F32,
    LT_F64,
    LT_CTYPES
} lt_ctype;

/* -1 and a sentence for a name that is none. */
int lt_ctype_parse(const char *name, lt_ctype *out, lt_err *err);
const char *lt_ctype_name(lt_ctype type);
size_t lt_ctype_bytes(lt_ctype type);
bool lt_ctype_is_float(lt_ctype type);
/* Element i as a number; of e2m1x2 the low half of byte i. */
double lt_ctype_number(lt_ctype type, const void *array, size_t i);
/* Stores the number, rounded to the format; of e2m1x2 it is byte i, two codes. */
void lt_ctype_set(lt_ctype type, void *to, size_t i, double x);
/* The distance to the next larger magnitude of a bf16, f16, e4m3 or f32 near x; 0 for the others.
 */
double lt_ctype_ulp(lt_ctype type, double x);
/* The byte that an output begins as where it is to be seen what is written: of floats it makes NaN,
 * of 32-bit integers a number far from -1, which kernels write on purpose. */
uint8_t lt_ctype_poison(lt_ctype type);
/* The largest finite magnitude of a format that has infinities, else infinity. */
double lt_ctype_largest(lt_ctype type);

#endif
