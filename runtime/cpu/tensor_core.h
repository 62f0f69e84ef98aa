/* tensor_core.h: what one warp-wide tensor-core instruction computes, bit for bit.
 *
 * Everything is borrowed for the call; nothing is kept. The caller owns the registers of the 32
 * lanes and passes a pointer to each. */
#ifndef LT_CPU_TENSOR_CORE_H
#define LT_CPU_TENSOR_CORE_H

#include <stdint.h>

enum {              /* ORDER MMA: the kind argument of lt_cpu_mma in templates/prelude/cpu.h */
       LT_MMA_BF16, /* m16n8k16 */
       LT_MMA_F16,  /* m16n8k16 */
       LT_MMA_E4M3, /* m16n8k32 */
       LT_MMA_S8,   /* m16n8k32 */
       LT_MMA_NVF4  /* m16n8k64 */
};

typedef struct {
    const uint32_t *a[32];   /* four registers a lane */
    const uint32_t *b[32];   /* two */
    const void *c[32];       /* four float, or int32_t for LT_MMA_S8 */
    void *d[32];             /* as c, and may be c */
    uint32_t sa[32], sb[32]; /* LT_MMA_NVF4: four ue4m3 scales of row m in lane 4 (m % 8) + m / 8,
                                of column n in lane 4 n; the other lanes' are ignored */
} lt_fragments;

/* model: 90 or 120; only LT_MMA_E4M3 differs: 90 converts to f16 and works in two steps. */
void lt_tensor_core(int kind, int model, const lt_fragments *f);

#endif
