/* family pack_nvfp4_tile16_experts_halves rev 1, shape experts3_n48_k16, variant w8, class copy */
// A warp writes one unit: lane (g, t) its two chunks' codes of rows g and g + 8, and their four scales. Where rows are
// two halves, row g + 8 is of the second one.
enum { EXPERTS = 3, N = 48, K = 16, WARPS = 8 };
enum {
    ROWS = 144,  // of all tensors
    UNITS = (K + 127) / 128,
    ALL_UNITS = 9 * UNITS,
    TILES = (N + 15) / 16,                // of a tensor
    STEP = 8,      // rows from a tile to the next
    BELOW = 24  // from row g to row g + 8
};

LT_DEV u32 place(u32 code, int r)  // where lt_nvfp4_codes looks for register r's code of the low half  ORDER FP4
{
    const u32 sign = code >> 3, magnitude = code & 7;
    if (r == 0) return sign << 15 | magnitude << 6;
    if (r == 1) return sign << 11 | magnitude << 2;
    if (r == 2) return sign << 5 | magnitude << 28;
    return sign << 9 | magnitude >> 2 << 10 | (magnitude & 3);
}

LT_DEV u32 scale_byte(u32 e4m3_bits)  // exponent + 9 and mantissa of |scale|; NaN has the exponent of a NaN's last bits
{
    const u32 e = e4m3_bits >> 3 & 15, m = e4m3_bits & 7;
    if (e == 15 && m == 7) return 31 << 3 | 1;
    if (e > 0) return (e + 2) << 3 | m;
    return m >= 4 ? 2 << 3 | (m - 4) << 1 : m >= 2 ? 1 << 3 | (m - 2) << 2 : 0;  // m * 2^-9
}

LT_KERNEL(32 * WARPS)
pack_nvfp4_tile16_experts_halves__experts3_n48_k16__w8(u8 *w, u8 *ws, const u8 *w_rows, const e4m3 *ws_rows)
{
    const int lane = threadIdx.x % 32, unit = blockIdx.x * WARPS + threadIdx.x / 32;
    lt_pdl_wait();
    lt_pdl_launch();
    if (unit >= ALL_UNITS) return;
    const int tile = unit / UNITS;
    u32 scales = 0;
    for (int c = 0; c < 2; c++) {
        const int k = unit % UNITS * 128 + c * 64 + lane % 4 * 16;
        u32 word[4] = {0, 0, 0, 0};
        for (int r = 0; r < 2; r++) {  // rows g and g + 8
            const int n = tile / TILES * N + tile % TILES * STEP + lane / 4 + r * BELOW;
            if (n >= ROWS || k >= K) continue;
            const u32 scale = ws_rows[(size_t)n * (K / 16) + k / 16].x;
            const uint2 codes = lt_ld64_once(w_rows + ((size_t)n * K + k) / 2);
            scales |= scale_byte(scale) << (16 * c + 8 * r);
            for (int i = 0; i < 16; i++) {  // code i: step i / 4, register r or r + 2, half i % 2
                const u32 code = (i < 8 ? codes.x : codes.y) >> i % 8 * 4 & 15;
                if ((scale & 127) == 0) continue;  // a zero scale has no exponent: its codes become zero
                const u32 bits = place(code ^ (scale >> 7 << 3), i / 2 % 2 * 2 + r);
                word[i / 4] |= i % 2 ? bits << 16 | bits >> 16 : bits;
            }
        }
        uint4 v;
        v.x = word[0], v.y = word[1], v.z = word[2], v.w = word[3];
        lt_st128(w + (size_t)unit * 1024 + c * 512 + lane * 16, v);
    }
    *(u32 *)(ws + (size_t)unit * 128 + lane * 4) = scales;
}
#ifndef __CUDACC__
void lt_entry(void **a) { pack_nvfp4_tile16_experts_halves__experts3_n48_k16__w8(*(u8 **)a[0], *(u8 **)a[1], *(const u8 **)a[2], *(const e4m3 **)a[3]); }
#endif
