/* family mla_decode rev 5, shape m2_heads9_d192_qk96_width300_slots1_pages1024_blocks44, variant o2p16c8s1h1, class mma.f16_16_8 */
// A block has GROUP heads, a part of the ids in tiles of 16 and a slice of y's columns; the blocks of a cluster have
// parts of the same heads and columns. Latents are in shared memory as they are; E4M3 is exact in f16, to which queries
// are brought by a power of two.
// z: a warp finds and loads a tile, and multiplies a quarter of the columns while the next ones land: tokens are the
// 16-row operand. p, the sum of two f16, is exp(z) over the part's largest power of two of a head, which all warps
// find: exps stay in registers, and parts are weighted by powers of two. y: a warp has some columns of all tiles, which
// are the 16-row operand, lane (g, t) taking four of them in the tokens 2 t, 2 t + 1, 2 t + 8 and 2 t + 9; the last
// warp has none and sums p.
// Then each block of a cluster gets its share of the outputs from all of them: nobody waits for the others in front of
// that. Shares of several clusters meet in memory.
enum { M = 2, HEADS = 9, D = 192, QK = 96, WIDTH = 300, SLOTS = 1, PAGES = 1024, BLOCKS = 44, OCTETS = 2, PARTS = 16, CLUSTER = 8, SLICES = 1, HELD = 1 };
enum {
    TILE = 16,                             // tokens
    GROUP = 8 * OCTETS,                    // heads
    MET = CLUSTER,                         // parts that meet
    TILES = (WIDTH + TILE - 1) / TILE,
    MOST = (TILES + PARTS - 1) / PARTS,    // tiles of a block: blockIdx.x, + PARTS, ..
    LEAST = TILES / PARTS,
    STEP = 1,                              // from one to the next
    AT_ONCE = MOST,                        // in line in y
    COLUMNS = D / SLICES,
    SPANS = COLUMNS / 32,                  // of a warp's columns
    WANTED = MOST > SPANS ? MOST : SPANS + 1,
    WARPS = WANTED < 20 ? WANTED : 20,
    TURNS = (MOST + WARPS - 1) / WARPS,    // tiles of a warp
    TAKERS = (GROUP + WARPS - 1) / WARPS,  // queries that a warp brings
    OUTPUTS = GROUP * COLUMNS,
    SHARE = OUTPUTS / CLUSTER,
    MEETINGS = PARTS / CLUSTER,
    THREADS = 32 * WARPS
};
// Latents, queries, p and y of the kernels of mla_decode. Their text has the sizes: TILE tokens, GROUP heads, LEAST to
// MOST tiles of a part, STEP places from one to the next, AT_ONCE of them in line in y, SPANS of 32 columns, MET parts
// that meet in a cluster, THREADS of a block.
enum {
    ROW = D + 16,                          // bytes between latents: eight lanes meet every bank once
    QUERY = 2 * D + 32,                    // bytes between queries
    PANEL = D % 128 == 0 ? 128 : 64,       // bytes of a token that neighbours load
    LINES = 512 / PANEL,                   // tokens that a warp loads at once
    UNITS = PANEL / 64,                    // of 16 bytes: what a lane multiplies of a panel
    STAGES = D % 512 == 0 ? 4 : D % 256 == 0 ? 2 : 1,  // of the columns: loaded and multiplied together  ORDER STAGES
    STAGE = D / PANEL / STAGES,            // panels
    ASKED = (D / 8 + 31) / 32,             // units of a query, of a lane
    OWN_P = OCTETS * 128,                  // words of p, of a tile
    IS_TOGETHER = OCTETS == 2 && SPANS % 4 == 0,  // y by four warps
    SPACE = ((MOST + 3) / 4 | 1) * 4,      // words between heads' powers: eight lanes meet every bank once
    TOGETHER = 3,                          // tiles of y that four warps multiply at once: more have no registers
    LEAST_POWER = -0x40000000,             // of zero
    IN_SHARED = PAGES % 4 == 0 && PAGES <= 2048  // the block table of the row's sequence  ORDER TABLE
};
#define ALL 0xffffffffu
// Paged caches: a page is 64 tokens of one sequence; block_table[slot][page] is the block of the cache that holds it.
enum { PAGE = 64 };

LT_DEV int page_is_there(int slot, int page) { return slot >= 0 && slot < SLOTS && page >= 0 && page < PAGES; }

// The entry of a page, of any where there is none, without a branch around the load: several can be on their way.
LT_DEV int page_ask(const i32 *block_table, int slot, int page)
{
    return block_table[page_is_there(slot, page) ? (size_t)slot * PAGES + page : 0];
}

// The block that page_ask's answer names. Below 0: no such sequence, page or block.
LT_DEV int page_given(int entry, int slot, int page)
{
    return page_is_there(slot, page) && entry < BLOCKS ? entry : -1;
}

LT_DEV int page_block(const i32 *block_table, int slot, int page)
{
    return page_given(page_ask(block_table, slot, page), slot, page);
}
// Numbers up to `largest` as f16: f16_scale(e) is the power of two that brings them to 2^14 .. 2^15, where f16 keeps 11
// bits of all that matter, and f16_undo(e) takes them back. Infinity and NaN stay what they are.
LT_DEV int f16_exponent(float largest)
{
    const int e = lt_f32_bits(largest) >> 23;
    return e < 15 ? 15 : e > 254 ? 254 : e;
}

LT_DEV float f16_scale(int e) { return lt_bits_f32((u32)(268 - e) << 23); }
LT_DEV float f16_undo(int e) { return lt_bits_f32((u32)(e - 14) << 23); }

// exp(z) of a lane's tokens g and g + 8 and heads 2 t and 2 t + 1 of an octet: value, 0.7 .. 1.42, times 2^power.
typedef struct {
    float value[4];
    i32 power[4];
} exps;

// What a lane loads of a token: 16 bytes of each panel.
typedef struct {
    const e4m3 *from;
    int is_there;
} line;

LT_DEV i32 larger(i32 a, i32 b) { return a > b ? a : b; }

// 0 where that is no normal number.
LT_DEV float power_of_2(i32 n) { return lt_bits_f32((u32)(larger(n, -127) + 127) << 23); }

// Asks for the block table where it is IN_SHARED, into `to`. Returns where it is.
LT_DEV const i32 *ask_table(i32 *to, const i32 *block_table, int slot)
{
    if (!IN_SHARED) return block_table;
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < PAGES / 4; i += THREADS)
        if (SLOTS == 1 || (u32)slot < SLOTS)
            lt_cp_async16(to + i * 4, block_table + (SLOTS == 1 ? 0 : (size_t)slot * PAGES) + i * 4);
    lt_cp_commit();
    return to;
}

// Until all threads see it. Behind the loads that need not wait for it.
LT_DEV void wait_table(void)
{
    if (!IN_SHARED) return;
    __syncwarp();  // or the assembler asks for ids behind the wait
    lt_cp_wait(0);
    __syncthreads();
}

// table: what ask_table returned.
LT_DEV int find_block(const i32 *table, int slot, int page)
{
    if (!IN_SHARED) return page_block(table, slot, page);
    return slot >= 0 && slot < SLOTS && page >= 0 && page < PAGES && table[page] < BLOCKS ? table[page] : -1;
}

// The cache's row of token lane % 16 of a tile, -1 where that is skipped; live: which are not.
LT_DEV int find_row(u32 *live, int id, const i32 *table, int slot, int position)
{
    const int block = find_block(table, slot, id < 0 || id > position ? -1 : id / PAGE);
    *live = lt_ballot(ALL, block >= 0) & 0xffff;
    return block < 0 ? -1 : block * PAGE + id % PAGE;
}

// What the lane loads of a tile; row: of token lane % 16.
LT_DEV void find_lines(line *to, const e4m3 *cache, int row)
{
    const int lane = threadIdx.x % 32;
    LT_UNROLL(TILE / LINES)
    for (int k = 0; k < TILE / LINES; k++) {
        const int own = (int)lt_shfl_u32(ALL, (u32)row, k * LINES + lane / (PANEL / 16));
        to[k].from = cache + (size_t)larger(own, 0) * D + lane % (PANEL / 16) * 16;
        to[k].is_there = own >= 0;
    }
}

// A panel of a tile; zeros of tokens that are skipped.
LT_DEV void load_panel(u8 *latents, const line *lines, int panel)
{
    const int lane = threadIdx.x % 32;
    u8 *const to = latents + lane / (PANEL / 16) * ROW + lane % (PANEL / 16) * 16 + panel * PANEL;
    LT_UNROLL(TILE / LINES)
    for (int k = 0; k < TILE / LINES; k++)
        lt_cp_async16_or_0(to + k * LINES * ROW, lines[k].from + panel * PANEL, lines[k].is_there);
}

// Where unit i of a query is: eight lanes that read one of each quarter of a panel of two heads meet every bank once.
LT_DEV int query_at(int i) { return (i ^ i / (4 * UNITS) % 2) * 16; }

// Head h of the group; zeros where there is none. A warp calls.
LT_DEV void ask_query(uint4 *to, const bf16 *q, int group, int h)
{
    LT_UNROLL(ASKED)
    for (int k = 0; k < ASKED; k++) {
        const int i = k * 32 + threadIdx.x % 32;
        to[k].x = to[k].y = to[k].z = to[k].w = 0;
        if (i < D / 8 && h < GROUP && group * GROUP + h < HEADS)
            to[k] = lt_ld128(q + (size_t)(group * GROUP + h) * D + i * 8);
    }
}

LT_DEV u32 scaled(u32 two, float scale) { return lt_pack_f16(lt_bf16lo_f32(two) * scale, lt_bf16hi_f32(two) * scale); }

// It as f16 times a power of two. Returns what undoes the power.
LT_DEV float keep_query(u8 *to, const uint4 *asked)
{
    u32 largest = 0, four[ASKED][4];
    LT_UNROLL(ASKED)
    for (int k = 0; k < ASKED; k++) {
        four[k][0] = asked[k].x, four[k][1] = asked[k].y, four[k][2] = asked[k].z, four[k][3] = asked[k].w;
        LT_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            const u32 v = (i % 2 ? four[k][i / 2] : four[k][i / 2] << 16) & 0x7fff0000;
            largest = v > largest ? v : largest;
        }
    }
    const int e = f16_exponent(lt_bits_f32(lt_redux_max(largest)));
    LT_UNROLL(ASKED)
    for (int k = 0; k < ASKED; k++) {
        const int i = k * 32 + threadIdx.x % 32;
        uint4 v;
        v.x = scaled(four[k][0], f16_scale(e)), v.y = scaled(four[k][1], f16_scale(e));
        v.z = scaled(four[k][2], f16_scale(e)), v.w = scaled(four[k][3], f16_scale(e));
        if (i < D / 8) lt_st128(to + query_at(i), v);
    }
    return f16_undo(e);
}

// A panel of head g of each octet: columns PANEL / 4 t .. of it.
LT_DEV void take_queries(u32 (*to)[8 * UNITS], const u8 *queries, int panel)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    LT_UNROLL(OCTETS * 2 * UNITS)
    for (int i = 0; i < OCTETS * 2 * UNITS; i++) {
        const int n = i / (2 * UNITS), unit = i % (2 * UNITS);
        const uint4 v = lt_ld128(queries + (n * 8 + g) * QUERY + query_at((panel * 4 + t) * 2 * UNITS + unit));
        u32 *const four = to[n] + unit * 4;
        four[0] = v.x, four[1] = v.y, four[2] = v.z, four[3] = v.w;
    }
}

// Adds a panel's products with the queries: tokens g and g + 8, heads 2 t and 2 t + 1 of each octet.
LT_DEV void dot_panel(float (*dot)[2][4], const u8 *latents, const u32 (*query)[8 * UNITS], int panel)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u8 *const at = latents + g * ROW + panel * PANEL + t * (16 * UNITS);
    LT_UNROLL(UNITS)
    for (int j = 0; j < UNITS; j++) {
        const uint4 first = lt_ld128(at + j * 16), second = lt_ld128(at + 8 * ROW + j * 16);
        const u32 upper[4] = {first.x, first.y, first.z, first.w};
        const u32 lower[4] = {second.x, second.y, second.z, second.w};
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const u32 a[4] = {lt_e4m3x2_f16x2(upper[i]), lt_e4m3x2_f16x2(lower[i]), lt_e4m3x2hi_f16x2(upper[i]),
                              lt_e4m3x2hi_f16x2(lower[i])};
            LT_UNROLL(OCTETS)
            for (int n = 0; n < OCTETS; n++)
                lt_mma_m16n8k16_f16(dot[n][i % 2], a, query[n] + (j * 4 + i) * 2, dot[n][i % 2]);
        }
    }
}

// lt_exp without its last step: exp(x) is what is returned times 2^power. Beyond a million x counts as that.
LT_DEV float exp_and_power(i32 *power, float x)
{
    x = x < -1e6f ? -1e6f : x;
    x = x > 1e6f ? 1e6f : x;
    const float shifted = x * 0x1.715476p0f + 12582912.0f;
    const float n = shifted - 12582912.0f;
    float r = fmaf(n, -0x1.62e400p-1f, x), v = 0x1.6d10fcp-10f;
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    v = fmaf(v, r, 0x1.120b62p-7f);
    v = fmaf(v, r, 0x1.55551ap-5f);
    v = fmaf(v, r, 0x1.5554dep-3f);
    v = fmaf(v, r, 0.5f);
    v = fmaf(v, r * r, r);
    *power = (i32)(lt_f32_bits(shifted) - 0x4b400000u);
    return v + 1.0f;
}

// exp(z) of a tile, the part's number `tile`, 0 of tokens that are skipped; most: the largest power of each head.
LT_DEV void find_exps(exps *to, i32 (*most)[SPACE], float (*dot)[2][4], const float *unit, u32 live, int tile)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    LT_UNROLL(OCTETS)
    for (int n = 0; n < OCTETS; n++) {
        i32 two[2] = {LEAST_POWER, LEAST_POWER};
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            i32 power;
            const float all = exp_and_power(&power, (dot[n][0][j] + dot[n][1][j]) * unit[n * 8 + 2 * t + j % 2]);
            const int is_live = live >> (g + j / 2 * 8) & 1;
            to[n].value[j] = is_live ? all : 0.0f;
            to[n].power[j] = is_live ? power : LEAST_POWER;
            two[j % 2] = larger(to[n].power[j], two[j % 2]);
        }
        LT_UNROLL(6)
        for (int i = 0; i < 6; i++)
            two[i % 2] = larger((i32)lt_shfl_xor_u32(ALL, (u32)two[i % 2], 4 << i / 2), two[i % 2]);
        if (g == 0) most[n * 8 + 2 * t][tile] = two[0], most[n * 8 + 2 * t + 1][tile] = two[1];
    }
}

// Of tiles that are not there, behind a barrier. rows: of the parts and heads of a block.
LT_DEV void clear_most(i32 (*most)[SPACE], int rows)
{
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < rows * SPACE; i += THREADS) most[i / SPACE][i % SPACE] = LEAST_POWER;
}

// The largest power of a head in a part.
LT_DEV i32 part_largest(const i32 *most)
{
    i32 largest = LEAST_POWER;
    LT_UNROLL((MOST + 3) / 4)
    for (int i = 0; i < (MOST + 3) / 4; i++) {
        const uint4 four = lt_ld128(most + 4 * i);
        const i32 v[4] = {(i32)four.x, (i32)four.y, (i32)four.z, (i32)four.w};
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++)
            if (i * 4 + j < MOST) largest = larger(v[j], largest);
    }
    return largest;
}

// p of a tile relative to its part's largest power, the sum of two f16, as products take it: of eight heads 32 words of
// the upper parts, word 4 h + t those of head h and the tokens 2 t and 2 t + 1; 32 of the tokens + 8; then the lower
// parts. A lane has two heads of the tokens g and g + 8: with its neighbour's they become two tokens of one head, 2 t
// where g is even, else 2 t + 1.
LT_DEV void keep_p(u32 *p, const exps *from, i32 (*most)[SPACE], int tile)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    LT_UNROLL(OCTETS)
    for (int n = 0; n < OCTETS; n++) {
        i32 (*const heads)[SPACE] = most + n * 8 + 2 * t;
        const i32 largest[2] = {part_largest(heads[0]), part_largest(heads[1])};
        u32 *const to = p + tile * OWN_P + n * 128 + (2 * t + g % 2) * 4 + g / 2, both[4];
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            const float v = from[n].value[j] * power_of_2(from[n].power[j] - largest[j % 2]);
            both[j] = lt_pack_f16(v, v - lt_f16_f32(lt_f32_f16(v)));
        }
        LT_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            const u32 own = g % 2 ? both[i * 2 + 1] : both[i * 2];
            const u32 other = lt_shfl_xor_u32(ALL, g % 2 ? both[i * 2] : both[i * 2 + 1], 4);
            const u32 first = g % 2 ? other : own, second = g % 2 ? own : other;
            to[i * 32] = lt_byte_perm(first, second, 0x5410);
            to[64 + i * 32] = lt_byte_perm(first, second, 0x7632);
        }
    }
}

// A part's largest power and sum of p of the heads 2 t and 2 t + 1 of an octet. A warp calls.
LT_DEV void part_stats(uint4 *both, i32 (*most)[SPACE], const u32 *p, int octet, int count)
{
    const int lane = threadIdx.x % 32, t = lane % 4;
    const u32 ones[4] = {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00};
    float high[4] = {0}, low[4] = {0};
    LT_UNROLL(MOST)
    for (int i = 0; i < MOST; i++) {
        const u32 *const own = p + i * OWN_P + octet * 128 + lane;
        if (i >= LEAST && i >= count) break;
        const u32 high_p[2] = {own[0], own[32]}, low_p[2] = {own[64], own[96]};
        lt_mma_m16n8k16_f16(high, ones, high_p, high);
        lt_mma_m16n8k16_f16(low, ones, low_p, low);
    }
    LT_UNROLL(2)
    for (int j = 0; j < 2; j++) {
        both[j].x = (u32)part_largest(most[octet * 8 + 2 * t + j]), both[j].y = lt_f32_bits(high[j] + low[j]);
        both[j].z = both[j].w = 0;
    }
}

// A lane's four columns of a tile as two products' rows: the columns 0 and 2, and 1 and 3.
LT_DEV void take_columns(u32 (*to)[4], const u8 *latents, int is_there)
{
    u32 code[4];
    LT_UNROLL(4)
    for (int n = 0; n < 4; n++) code[n] = is_there ? *(const u32 *)(latents + (n / 2 * 8 + n % 2) * ROW) : 0;
    LT_UNROLL(2)
    for (int k = 0; k < 2; k++) {
        const u32 front = lt_byte_perm(code[k * 2], code[k * 2 + 1], 0x5140);
        const u32 back = lt_byte_perm(code[k * 2], code[k * 2 + 1], 0x7362);
        to[0][k * 2] = lt_e4m3x2_f16x2(front);
        to[1][k * 2] = lt_e4m3x2hi_f16x2(front);
        to[0][k * 2 + 1] = lt_e4m3x2_f16x2(back);
        to[1][k * 2 + 1] = lt_e4m3x2hi_f16x2(back);
    }
}

// The sums of two octets by four warps together: of a tile that is not there the latents are zeros.
LT_DEV void weigh_together(float (*sum)[OCTETS][4], const u8 *latents, const u32 *p, int count)
{
    float d[32];
    const u64 b = lt_wgmma_b(p);
    LT_UNROLL((MOST + TOGETHER - 1) / TOGETHER)
    for (int first = 0; first < MOST; first += TOGETHER) {
        u32 a[TOGETHER][2][4];
        LT_UNROLL(TOGETHER)
        for (int i = 0; i < TOGETHER; i++) {
            const int tile = first + i;
            if (tile < MOST) take_columns(a[i], latents + tile * STEP * TILE * ROW, tile < LEAST || tile < count);
        }
        lt_wgmma_begin();
        LT_UNROLL(TOGETHER)
        for (int i = 0; i < TOGETHER; i++) {
            const int tile = first + i, own = tile < LEAST || tile < count ? tile : 0;
            if (tile >= MOST) continue;
            lt_wgmma_f16_n32(d, a[i][0], b + own * (OWN_P / 4), tile > 0);
            lt_wgmma_f16_n32(d + 16, a[i][1], b + own * (OWN_P / 4), tile > 0);
        }
        lt_wgmma_end(d, 32);
    }
    LT_UNROLL(OCTETS * 8)
    for (int i = 0; i < OCTETS * 8; i++) {
        const float *const own = d + i / 4 % 2 * 16 + i / 8 * 8 + i % 4;
        sum[i / 4 % 2][i / 8][i % 4] = own[0] + own[4];
    }
}

// The sums of a lane's four columns over a part: sum[i] has columns i and i + 2 of heads 2 t and 2 t + 1 of each octet.
LT_DEV void weigh(float (*sum)[OCTETS][4], const u8 *latents, const u32 *p, int count)
{
    const int lane = threadIdx.x % 32, t = lane % 4;
    float low[2][OCTETS][4] = {0};
    latents += 2 * t * ROW;
    if (IS_TOGETHER) {
        weigh_together(sum, latents, p, count);
        return;
    }
    LT_UNROLL(AT_ONCE)
    for (int i = 0; i < MOST; i++) {
        u32 a[2][4];
        if (i >= LEAST && i >= count) break;
        take_columns(a, latents + i * STEP * TILE * ROW, 1);
        LT_UNROLL(OCTETS)
        for (int n = 0; n < OCTETS; n++) {
            const u32 *const own = p + i * OWN_P + n * 128 + lane;
            const u32 high_p[2] = {own[0], own[32]}, low_p[2] = {own[64], own[96]};
            LT_UNROLL(2)
            for (int k = 0; k < 2; k++) {
                lt_mma_m16n8k16_f16(sum[k][n], a[k], high_p, sum[k][n]);
                lt_mma_m16n8k16_f16(low[k][n], a[k], low_p, low[k][n]);
            }
        }
    }
    LT_UNROLL(OCTETS * 8)
    for (int i = 0; i < OCTETS * 8; i++) sum[i / 4 % 2][i / 8][i % 4] += low[i / 4 % 2][i / 8][i % 4];
}

// The parts' values of a head or an output: r and r + 8, these with r + 4 and r + 12, then all: so too where
// a block has some parts.
LT_DEV float meet(const float *scale, const float *values, int stride)
{
    float all = 0.0f;
    LT_UNROLL(4)
    for (int b = 0; b < 4; b++) {
        float four = 0.0f;
        LT_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            float two = 0.0f;
            LT_UNROLL(2)
            for (int r = b + 4 * i; r < MET; r += 8) two = fmaf(scale[r], values[r * stride], two);
            four += two;
        }
        all += four;
    }
    return all;
}

// What the parts' p of a head are multiplied by, so that they have one largest power. Returns the sum of all p.
LT_DEV float find_scales(float *scale, i32 *largest, const float4 *stats)
{
    i32 power[MET];
    *largest = LEAST_POWER;
    LT_UNROLL(MET)
    for (int r = 0; r < MET; r++) {
        power[r] = (i32)lt_f32_bits(stats[r].x);
        *largest = larger(power[r], *largest);
    }
    LT_UNROLL(MET)
    for (int r = 0; r < MET; r++) scale[r] = power_of_2(power[r] - *largest);
    return meet(scale, &stats->y, 4);
}

// So that all zeros give zeros.
LT_DEV float reciprocal(float sum) { return sum == 0.0f ? 0.0f : 1.0f / sum; }

LT_DEV int part_of(void) { return CLUSTER > 1 ? (int)(blockIdx.x % CLUSTER) : 0; }

// 16 bytes to block `rank` of the cluster, at the place that `to` is in this one; given counts them.
LT_DEV void give(void *to, int rank, uint4 v, u64 *given)
{
    if (CLUSTER > 1)
        lt_cluster_give128(to, rank, v, given);
    else
        lt_st128(to, v);
}

// A lane's columns of a head to the block whose share they are.
LT_DEV void give_sums(float *shares, float (*sum)[OCTETS][4], int head, int column, u64 *given)
{
    const int at = head * COLUMNS + column, i = head / 8, j = head % 2;
    uint4 four;
    four.x = lt_f32_bits(sum[0][i][j]);
    four.y = lt_f32_bits(sum[1][i][j]);
    four.z = lt_f32_bits(sum[0][i][j + 2]);
    four.w = lt_f32_bits(sum[1][i][j + 2]);
    give(shares + part_of() * SHARE + at % SHARE, at / SHARE, four, given);
}

// The part's stats of a head to the blocks whose shares have outputs of it. A warp calls.
LT_DEV void give_stats(float4 (*stats)[CLUSTER], i32 (*most)[SPACE], const u32 *p, int count, u64 *given)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    LT_UNROLL(OCTETS)
    for (int n = 0; n < OCTETS; n++) {
        uint4 both[2];
        part_stats(both, most, p, n, count);
        LT_UNROLL(2)
        for (int j = 0; j < 2; j++) {
            const int h = n * 8 + 2 * t + j, rank = h * COLUMNS / SHARE + g;
            if (rank * SHARE < (h + 1) * COLUMNS) give(stats[h] + part_of(), rank, both[j], given);
        }
    }
}

// The shares of several clusters, in their order. partial, sums: of the first of them.
LT_DEV void clusters_meet(bf16 *y, const float *partial, const float *sums, int group, int slice)
{
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < SHARE; i += THREADS) {
        const int h = (part_of() * SHARE + i) / COLUMNS, column = (part_of() * SHARE + i) % COLUMNS;
        float part[MEETINGS], theirs[MEETINGS], sum = 0.0f, value = 0.0f;
        i32 power[MEETINGS], largest = LEAST_POWER;
        if (group * GROUP + h >= HEADS) break;
        LT_UNROLL(MEETINGS)
        for (int j = 0; j < MEETINGS; j++) {
            power[j] = (i32)lt_ld32_fresh(sums + (j * CLUSTER * GROUP + h) * 2);
            theirs[j] = lt_bits_f32(lt_ld32_fresh(sums + (j * CLUSTER * GROUP + h) * 2 + 1));
            part[j] = lt_bits_f32(lt_ld32_fresh(partial + (size_t)j * OUTPUTS + i));
        }
        LT_UNROLL(MEETINGS)
        for (int j = 0; j < MEETINGS; j++) largest = larger(power[j], largest);
        LT_UNROLL(MEETINGS)
        for (int j = 0; j < MEETINGS; j++) {
            const float scale = power_of_2(power[j] - largest);
            sum = fmaf(scale, theirs[j], sum);
            value = fmaf(scale, part[j], value);
        }
        y[(size_t)(group * GROUP + h) * D + slice * COLUMNS + column] = lt_f32_bf16(value * reciprocal(sum));
    }
}

LT_KERNEL(THREADS, 1)
LT_CLUSTER(CLUSTER)
mla_decode__m2_heads9_d192_qk96_width300_slots1_pages1024_blocks44__o2p16c8s1h1(bf16 *y, const bf16 *q, const e4m3 *cache, const i32 *ids, const i32 *positions, const i32 *slots, const i32 *block_table, float *partial, float *sums, u32 *arrived)
{
    const int lane = threadIdx.x % 32, warp = (int)lt_shfl_u32(ALL, threadIdx.x / 32, 0), g = lane / 4, t = lane % 4;
    const int group = blockIdx.y / SLICES, slice = blockIdx.y % SLICES, m = M > 1 ? blockIdx.z : 0;
    const int count = (TILES - (int)blockIdx.x + PARTS - 1) / PARTS;
    bf16 *const to = y + (size_t)m * HEADS * D;
    LT_DYN_SHARED(u8, latents);
    float *const shares = (float *)(latents + MOST * TILE * ROW);
    u8 *const queries = (u8 *)(shares + CLUSTER * SHARE);
    u32 *const p = (u32 *)(queries + GROUP * QUERY);
    LT_SHARED2(i32, most, GROUP, SPACE);        // of the tiles: the largest power
    LT_SHARED2(float4, stats, GROUP, CLUSTER);  // of the parts: the largest power, sum of p; of heads of the own share
    LT_SHARED1(float, unit, GROUP);             // of z
    LT_SHARED1(u64, given, 2);                  // count what the cluster gives: stats, shares
    LT_SHARED1(i32, pages, IN_SHARED ? PAGES : 1);  // the block table
    float dot[TURNS][OCTETS][2][4] = {0};
    u32 query[OCTETS][8 * UNITS], live[TURNS];
    uint4 asked[TAKERS][ASKED];

    const int slot = slots[m], position = positions[m];
    const i32 *const table = ask_table(pages, block_table, slot);
    LT_UNROLL(1)
    for (int i = (blockIdx.x * THREADS + threadIdx.x) * 32; i < PAGES && !IN_SHARED; i += PARTS * THREADS * 32)
        if (SLOTS == 1 || slot >= 0) lt_prefetch_l2(table + (SLOTS == 1 ? 0 : (size_t)slot * PAGES) + i);
    lt_pdl_wait();
    lt_pdl_launch();
    int row[TURNS];
    LT_UNROLL(TURNS)
    for (int k = 0; k < TURNS; k++) {
        const int tile = k * WARPS + warp, at = (tile * PARTS + (int)blockIdx.x) * TILE + lane % TILE;
        row[k] = tile < MOST && at < WIDTH ? ids[(size_t)m * WIDTH + at] : -1;
    }
    LT_UNROLL(TAKERS)
    for (int k = 0; k < TAKERS; k++) ask_query(asked[k], q + (size_t)m * HEADS * D, group, k * WARPS + warp);
    wait_table();
    LT_UNROLL(TURNS)
    for (int k = 0; k < TURNS; k++) row[k] = find_row(live + k, row[k], table, slot, position);
    line lines[TURNS][TILE / LINES];
    LT_UNROLL(TURNS)
    for (int k = 0; k < TURNS; k++) find_lines(lines[k], cache, row[k]);
    LT_UNROLL(TURNS)
    for (int k = 0; k < TURNS; k++) {
        const int tile = k * WARPS + warp;
        if (tile >= count) break;
        LT_UNROLL(STAGES * STAGE)
        for (int i = 0; i < STAGES * STAGE; i++) {
            load_panel(latents + tile * TILE * ROW, lines[k], i);
            if (i % STAGE == STAGE - 1) lt_cp_commit();
        }
    }
    clear_most(most, GROUP);
    LT_UNROLL(TAKERS)
    for (int k = 0; k < TAKERS; k++) {
        const int h = k * WARPS + warp;
        if (h >= GROUP) break;
        const float undo = keep_query(queries + h * QUERY, asked[k]);
        if (lane == 0) unit[h] = undo * 0x1.a20bd8p-4f;
    }
    if (CLUSTER > 1 && threadIdx.x == 0) {
        lt_mbar_init(given, 1);
        lt_mbar_init(given + 1, 1);
        const int first = part_of() * SHARE / COLUMNS, last = (part_of() * SHARE + SHARE - 1) / COLUMNS;
        lt_mbar_expect(given, (last - first + 1) * CLUSTER * 16);
        lt_mbar_expect(given + 1, CLUSTER * SHARE * 4);
        lt_mbar_fence();
    }
    __syncthreads();
    if (slot < 0) {
        lt_cp_wait(0);  // zeros
        return;
    }
    if (CLUSTER > 1) lt_cluster_begin();
    lt_cp_wait(0);
    __syncwarp();
    LT_UNROLL(1)
    for (int i = 0 * STAGE; i < 1 * STAGE; i++) {
        if (warp < count) take_queries(query, queries, i);
        LT_UNROLL(TURNS)
        for (int k = 0; k < TURNS; k++) {
            const int tile = k * WARPS + warp;
            if (tile < count) dot_panel(dot[k], latents + tile * TILE * ROW, query, i);
        }
    }
    exps own[TURNS][OCTETS];
    LT_UNROLL(TURNS)
    for (int k = 0; k < TURNS; k++) {
        const int tile = k * WARPS + warp;
        if (tile < count) find_exps(own[k], most, dot[k], unit, live[k], tile);
    }
    __syncthreads();
    LT_UNROLL(TURNS)
    for (int k = 0; k < TURNS; k++) {
        const int tile = k * WARPS + warp;
        if (tile < count) keep_p(p, own[k], most, tile);
    }
    if (IS_TOGETHER) lt_wgmma_show();
    __syncthreads();
    if (CLUSTER > 1) lt_cluster_wait();
    if (warp == WARPS - 1) give_stats(stats, most, p, count, given);
    LT_UNROLL(1)
    for (int span = warp; span < SPANS; span += WARPS) {
        const int column = span * 32 + g * 4;
        float sum[2][OCTETS][4] = {0};
        weigh(sum, latents + slice * COLUMNS + column, p, count);
        LT_UNROLL(OCTETS * 2)
        for (int i = 0; i < OCTETS * 2; i++) {
            const int head = i / 2 * 8 + 2 * t + i % 2;
            give_sums(shares, sum, head, column, given + 1);
        }
    }
    if (CLUSTER == 1) __syncthreads();
    const size_t outputs = (size_t)m * gridDim.y + blockIdx.y, first = outputs * MEETINGS;
    const size_t meeting = first + blockIdx.x / CLUSTER;
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < SHARE; i += THREADS) {
        const int at = part_of() * SHARE + i, h = at / COLUMNS;
        float scale[CLUSTER];
        i32 largest;
        if (CLUSTER > 1) lt_mbar_wait(given, 0);
        const float sum = find_scales(scale, &largest, stats[h]);
        if (CLUSTER > 1) lt_mbar_wait(given + 1, 0);
        if (group * GROUP + h >= HEADS) break;
        partial[meeting * OUTPUTS + at] = meet(scale, shares + i, SHARE);
        if (at % COLUMNS == 0 || i == 0) {
            sums[((meeting * CLUSTER + part_of()) * GROUP + h) * 2] = lt_bits_f32((u32)largest);
            sums[((meeting * CLUSTER + part_of()) * GROUP + h) * 2 + 1] = sum;
        }
    }
    if (!lt_last_block(arrived + outputs * CLUSTER + part_of(), MEETINGS)) return;
    clusters_meet(to, partial + first * OUTPUTS + part_of() * SHARE, sums + (first * CLUSTER + part_of()) * GROUP * 2,
                  group, slice);
}
#ifndef __CUDACC__
void lt_entry(void **a) { mla_decode__m2_heads9_d192_qk96_width300_slots1_pages1024_blocks44__o2p16c8s1h1(*(bf16 **)a[0], *(const bf16 **)a[1], *(const e4m3 **)a[2], *(const i32 **)a[3], *(const i32 **)a[4], *(const i32 **)a[5], *(const i32 **)a[6], *(float **)a[7], *(float **)a[8], *(u32 **)a[9]); }
#endif
