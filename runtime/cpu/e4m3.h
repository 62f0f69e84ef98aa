/* e4m3.h: E4M3 as f16, which holds all of its numbers; its subnormals are normal there. */
#ifndef LT_CPU_E4M3_H
#define LT_CPU_E4M3_H

#include <stdint.h>

/* code: eight bits. NaN is 0x7fff. */
static inline uint32_t lt_e4m3_f16(uint32_t code)
{
    static const uint16_t subnormal[8] = {0,      0x1800, 0x1c00, 0x1e00,
                                          0x2000, 0x2100, 0x2200, 0x2300};
    const uint32_t sign = (code & 0x80) << 8, magnitude = code & 0x7f;
    const uint32_t normal = (magnitude << 7) + 0x2000; /* the biases are 7 and 15 */
    if (magnitude == 0x7f) return 0x7fff;
    return sign | (magnitude < 8 ? subnormal[magnitude & 7] : normal);
}

#endif
