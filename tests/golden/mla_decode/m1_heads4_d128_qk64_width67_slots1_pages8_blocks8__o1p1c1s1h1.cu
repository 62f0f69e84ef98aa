/* family mla_decode rev 4, shape m1_heads4_d128_qk64_width67_slots1_pages8_blocks8, variant o1p1c1s1h1, class mma.f16_1_1 */
// A block has GROUP heads, a part of the ids in tiles of 16 and a slice of y's columns; the blocks of a cluster have
// parts of the same heads and columns. Latents are in shared memory as they are; E4M3 is exact in f16, to which queries
// are brought by a power of two.
// z: a warp finds and loads a tile, and multiplies one half of the columns while the other one lands: tokens are the
// 16-row operand. p, the sum of two f16, takes the place of z with the block's largest z of a head, by all warps. y: a
// warp has some columns of all tiles, which are the 16-row operand, lane (g, t) taking four of them in the tokens 2 t,
// 2 t + 1, 2 t + 8 and 2 t + 9; the last warp has none and finds what the parts are weighted by.
// Then each block of a cluster gets its share of the outputs from all of them: nobody waits for the others in front of
// that. Shares of several clusters meet in memory.
enum { M = 1, HEADS = 4, D = 128, QK = 64, WIDTH = 67, SLOTS = 1, PAGES = 8, BLOCKS = 8, OCTETS = 1, PARTS = 1, CLUSTER = 1, SLICES = 1, HELD = 1 };
enum {
    TILE = 16,                             // tokens
    GROUP = 8 * OCTETS,                    // heads
    MET = CLUSTER,                         // parts that meet
    TILES = (WIDTH + TILE - 1) / TILE,
    MOST = (TILES + PARTS - 1) / PARTS,    // tiles of a block: blockIdx.x, + PARTS, ..
    LEAST = TILES / PARTS,
    STEP = 1,                              // from one to the next
    AT_ONCE = MOST,                        // in line in y
    HEAD = (MOST | 1) * TILE,              // words between heads' p
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
// Latents, queries, z, p and y of the kernels of mla_decode. Their text has the sizes: TILE tokens, GROUP heads, LEAST
// to MOST tiles of a part, STEP places from one to the next, AT_ONCE of them in line in y, HEAD words between heads' p,
// MET parts that meet in a cluster, THREADS of a block.
enum {
    ROW = D + 16,                          // bytes between latents: eight lanes meet every bank once
    QUERY = 2 * D + 32,                    // bytes between queries
    PANEL = D % 128 == 0 ? 128 : 64,       // bytes of a token that neighbours load
    LINES = 512 / PANEL,                   // tokens that a warp loads at once
    UNITS = PANEL / 64,                    // of 16 bytes: what a lane multiplies of a panel
    STAGES = D % 256 == 0 ? 2 : 1,         // of the columns: loaded and multiplied together  ORDER STAGES
    STAGE = D / PANEL / STAGES,            // panels
    ASKED = (D / 8 + 31) / 32,             // units of a query, of a lane
    RANKS = (MET + 3) / 4,                 // parts that a lane looks at
    IN_SHARED = PAGES % 4 == 0 && PAGES <= 2048  // the block table of the row's sequence  ORDER TABLE
};
#define ALL 0xffffffffu
#define LEAST_F32 -0x1.fffffep127f
// Paged caches: a page is 64 tokens of one sequence; block_table[slot][page] is the block of the cache that holds it.
enum { PAGE = 64 };

// Below 0: no such sequence, page or block. Without a branch around the load, so that several can be on their way.
LT_DEV int page_block(const i32 *block_table, int slot, int page)
{
    const int is_there = slot >= 0 && slot < SLOTS && page >= 0 && page < PAGES;
    const int block = block_table[is_there ? (size_t)slot * PAGES + page : 0];
    return is_there && block < BLOCKS ? block : -1;
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

LT_DEV float larger(float a, float b) { return a > b ? a : b; }

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

// The cache's row of token lane % 16 of a tile, of another one where that is skipped; live: which are not.
LT_DEV int find_row(u32 *live, int id, const i32 *table, int slot, int position)
{
    const int block = find_block(table, slot, id < 0 || id > position ? -1 : id / PAGE);
    const int row = block < 0 ? 0 : block * PAGE + id % PAGE;
    *live = lt_ballot(ALL, block >= 0) & 0xffff;
    const int other = (int)lt_shfl_u32(ALL, (u32)row, (lt_ffs(*live) - 1) & 15);
    return block < 0 ? other : row;
}

// A panel of a tile; from: the lane's rows.
LT_DEV void load_panel(u8 *latents, const e4m3 *const *from, int panel)
{
    const int lane = threadIdx.x % 32, token = lane / (PANEL / 16), at = panel * PANEL + lane % (PANEL / 16) * 16;
    LT_UNROLL(TILE / LINES)
    for (int k = 0; k < TILE / LINES; k++) lt_cp_async16(latents + (k * LINES + token) * ROW + at, from[k] + at);
}

// Zeros for a tile, all of whose tokens are skipped.
LT_DEV void clear_tile(u8 *latents)
{
    uint4 zero;
    zero.x = zero.y = zero.z = zero.w = 0;
    LT_UNROLL(1)
    for (int i = threadIdx.x % 32; i < D; i += 32) lt_st128(latents + i / (D / 16) * ROW + i % (D / 16) * 16, zero);
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

// p of a lane's two heads and one token becomes p of two tokens and one head: 2 t where g is even, else 2 t + 1. to:
// that head's p in the tile; of its tokens 2 i, 2 i + 1, 2 i + 8 and 2 i + 9 four words have the upper parts of the
// first two and of the others, and the lower parts.
LT_DEV void keep_weights(u32 *to, const float *e, int odd)
{
    u32 both[2];
    LT_UNROLL(2)
    for (int i = 0; i < 2; i++) both[i] = lt_pack_f16(e[i], e[i] - lt_f16_f32(lt_f32_f16(e[i])));
    const u32 other = lt_shfl_xor_u32(ALL, odd ? both[0] : both[1], 4), own = odd ? both[1] : both[0];
    const u32 first = odd ? other : own, second = odd ? own : other;
    to[0] = lt_byte_perm(first, second, 0x5410);
    to[2] = lt_byte_perm(first, second, 0x7632);
}

// Where a lane has its four z of an octet and a tile, heads 2 t and 2 t + 1 of tokens g and g + 8, until there is p.
LT_DEV u32 *place_of_z(u32 *p, int octet, int tile)
{
    const int lane = threadIdx.x % 32;
    return p + (octet * 8 + lane / 4) * HEAD + tile * TILE + lane % 4 * 4;
}

// z of a tile, of tokens that are skipped the least; most: of its tokens the largest; alive: the live ones.
LT_DEV void keep_z(u32 *p, float *most, u32 *alive, float (*dot)[2][4], const float *unit, u32 live, int tile)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    if (lane == 0) *alive = live;
    LT_UNROLL(OCTETS)
    for (int n = 0; n < OCTETS; n++) {
        float two[2] = {LEAST_F32, LEAST_F32}, z[4];
        uint4 four;
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            const float all = (dot[n][0][j] + dot[n][1][j]) * unit[n * 8 + 2 * t + j % 2];
            z[j] = live >> (g + j / 2 * 8) & 1 ? all : LEAST_F32;
            two[j % 2] = larger(z[j], two[j % 2]);
        }
        four.x = lt_f32_bits(z[0]), four.y = lt_f32_bits(z[1]), four.z = lt_f32_bits(z[2]), four.w = lt_f32_bits(z[3]);
        lt_st128(place_of_z(p, n, tile), four);
        LT_UNROLL(6)
        for (int i = 0; i < 6; i++) two[i % 2] = larger(lt_shfl_xor_f32(ALL, two[i % 2], 4 << i / 2), two[i % 2]);
        if (g == 0) most[n * 8 + 2 * t] = two[0], most[n * 8 + 2 * t + 1] = two[1];
    }
}

// The largest z of head h of a part, whose tiles are from place first to count.
LT_DEV float part_largest(float (*most)[GROUP], int first, int count, int h)
{
    float largest = LEAST_F32;
    LT_UNROLL((MOST + 3) / 4)
    for (int i = 0; i < (MOST + 3) / 4; i++) {
        const int place = first + (i * 4 + (int)threadIdx.x % 4) * STEP;
        if (place < count) largest = larger(most[place][h], largest);
    }
    largest = larger(lt_shfl_xor_f32(ALL, largest, 1), largest);
    return larger(lt_shfl_xor_f32(ALL, largest, 2), largest);
}

// And the sum of its p.
LT_DEV uint4 part_stats(float (*most)[GROUP], float (*total)[GROUP], int first, int count, int h)
{
    uint4 both;
    float sum = 0.0f;
    LT_UNROLL((MOST + 3) / 4)
    for (int i = 0; i < (MOST + 3) / 4; i++) {
        const int place = first + (i * 4 + (int)threadIdx.x % 4) * STEP;
        if (place < count) sum += total[place][h];
    }
    sum += lt_shfl_xor_f32(ALL, sum, 1);
    sum += lt_shfl_xor_f32(ALL, sum, 2);
    both.x = lt_f32_bits(part_largest(most, first, count, h)), both.y = lt_f32_bits(sum), both.z = both.w = 0;
    return both;
}

// p of an octet and a tile, with its part's largest z; total: of its tokens the sum.
LT_DEV void keep_p(u32 *p, float *total, float (*most)[GROUP], u32 live, int octet, int tile, int first, int count)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint4 four = lt_ld128(place_of_z(p, octet, tile));
    const float z[4] = {lt_bits_f32(four.x), lt_bits_f32(four.y), lt_bits_f32(four.z), lt_bits_f32(four.w)};
    __syncwarp();  // p takes the place of z
    const float largest = part_largest(most, first, count, octet * 8 + g);
    const float two[2] = {lt_shfl_f32(ALL, largest, 8 * t), lt_shfl_f32(ALL, largest, 8 * t + 4)};
    float sum[2] = {0};
    LT_UNROLL(2)
    for (int i = 0; i < 2; i++) {
        const int is_live = live >> (g + i * 8) & 1;
        float e[2];
        LT_UNROLL(2)
        for (int j = 0; j < 2; j++) {
            const float all = lt_exp(z[i * 2 + j] - two[j]);
            e[j] = is_live ? all : 0.0f;
            sum[j] += e[j];
        }
        keep_weights(p + (octet * 8 + 2 * t + g % 2) * HEAD + tile * TILE + g / 2 * 4 + i, e, g % 2);
    }
    LT_UNROLL(6)
    for (int i = 0; i < 6; i++) sum[i % 2] += lt_shfl_xor_f32(ALL, sum[i % 2], 4 << i / 2);
    if (g == 0) total[octet * 8 + 2 * t] = sum[0], total[octet * 8 + 2 * t + 1] = sum[1];
}

// The sums of a lane's four columns over a part: sum[i] has columns i and i + 2 of heads 2 t and 2 t + 1 of each octet.
LT_DEV void weigh(float (*sum)[OCTETS][4], const u8 *latents, const u32 *p, int first, int count)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float low[2][OCTETS][4] = {0};
    latents += (first * TILE + 2 * t) * ROW, p += g * HEAD + first * TILE + t * 4;
    LT_UNROLL(AT_ONCE)
    for (int i = 0; i < MOST; i++) {
        const int token = i * STEP * TILE;
        u32 code[4], a[4][2];
        if (i >= LEAST && first + i * STEP >= count) break;
        LT_UNROLL(4)
        for (int n = 0; n < 4; n++) code[n] = *(const u32 *)(latents + (token + n / 2 * 8 + n % 2) * ROW);
        LT_UNROLL(2)
        for (int k = 0; k < 2; k++) {
            const u32 front = lt_byte_perm(code[k * 2], code[k * 2 + 1], 0x5140);
            const u32 back = lt_byte_perm(code[k * 2], code[k * 2 + 1], 0x7362);
            a[0][k] = lt_e4m3x2_f16x2(front);
            a[1][k] = lt_e4m3x2hi_f16x2(front);
            a[2][k] = lt_e4m3x2_f16x2(back);
            a[3][k] = lt_e4m3x2hi_f16x2(back);
        }
        LT_UNROLL(OCTETS)
        for (int n = 0; n < OCTETS; n++) {
            const uint4 weight = lt_ld128(p + n * 8 * HEAD + token);
            const u32 high_p[2] = {weight.x, weight.y}, low_p[2] = {weight.z, weight.w};
            LT_UNROLL(2)
            for (int k = 0; k < 2; k++) {
                const u32 rows[4] = {a[k][0], a[k + 2][0], a[k][1], a[k + 2][1]};
                lt_mma_m16n8k16_f16(sum[k][n], rows, high_p, sum[k][n]);
                lt_mma_m16n8k16_f16(low[k][n], rows, low_p, low[k][n]);
            }
        }
    }
    LT_UNROLL(OCTETS * 8)
    for (int i = 0; i < OCTETS * 8; i++) sum[i / 4 % 2][i / 8][i % 4] += low[i / 4 % 2][i / 8][i % 4];
}

// What the parts' p of head h are multiplied by, so that they have one largest z. Returns the sum of all p.
LT_DEV float find_scales(float *scale, float *largest, float4 (*stats)[GROUP], int h)
{
    const int t = threadIdx.x % 4;
    float theirs[RANKS], all = LEAST_F32, sum = 0.0f;
    LT_UNROLL(RANKS)
    for (int k = 0; k < RANKS; k++) {
        const int r = k * 4 + t, there = r < MET;
        scale[k] = there ? stats[r][h].x : LEAST_F32;
        theirs[k] = there ? stats[r][h].y : 0.0f;
        all = larger(scale[k], all);
    }
    all = larger(lt_shfl_xor_f32(ALL, all, 1), all);
    all = larger(lt_shfl_xor_f32(ALL, all, 2), all);
    LT_UNROLL(RANKS)
    for (int k = 0; k < RANKS; k++) {
        scale[k] = lt_exp(scale[k] - all);
        sum = fmaf(scale[k], theirs[k], sum);
    }
    sum += lt_shfl_xor_f32(ALL, sum, 1);
    *largest = all;
    return sum + lt_shfl_xor_f32(ALL, sum, 2);
}

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

// The part's largest z and sum of p of head g of each octet, to all of the cluster. A warp calls.
LT_DEV void give_stats(float4 (*stats)[GROUP], float (*most)[GROUP], float (*total)[GROUP], int count, u64 *given)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    LT_UNROLL(OCTETS)
    for (int n = 0; n < OCTETS; n++) {
        const uint4 both = part_stats(most, total, 0, count, n * 8 + g);
        LT_UNROLL(RANKS)
        for (int k = 0; k < RANKS; k++)
            if (k * 4 + t < CLUSTER) give(stats[part_of()] + n * 8 + g, k * 4 + t, both, given);
    }
}

// The shares of several clusters, in their order. partial, sums: of the first of them.
LT_DEV void clusters_meet(bf16 *y, const float *partial, const float *sums, int group, int slice)
{
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < SHARE; i += THREADS) {
        const int h = (part_of() * SHARE + i) / COLUMNS, column = (part_of() * SHARE + i) % COLUMNS;
        float part[MEETINGS], scale[MEETINGS], theirs[MEETINGS], largest, sum = 0.0f, value = 0.0f;
        if (group * GROUP + h >= HEADS) break;
        LT_UNROLL(MEETINGS)
        for (int j = 0; j < MEETINGS; j++) {
            scale[j] = lt_bits_f32(lt_ld32_fresh(sums + (j * CLUSTER * GROUP + h) * 2));
            theirs[j] = lt_bits_f32(lt_ld32_fresh(sums + (j * CLUSTER * GROUP + h) * 2 + 1));
            part[j] = lt_bits_f32(lt_ld32_fresh(partial + (size_t)j * OUTPUTS + i));
        }
        largest = scale[0];
        LT_UNROLL(MEETINGS)
        for (int j = 1; j < MEETINGS; j++) largest = larger(scale[j], largest);
        LT_UNROLL(MEETINGS)
        for (int j = 0; j < MEETINGS; j++) {
            scale[j] = lt_exp(scale[j] - largest);
            sum = fmaf(scale[j], theirs[j], sum);
            value = fmaf(scale[j], part[j], value);
        }
        y[(size_t)(group * GROUP + h) * D + slice * COLUMNS + column] =
            lt_f32_bf16(value * (sum == 0.0f ? 0.0f : 1.0f / sum));
    }
}

// What the parts' shares of head g are weighted by. A warp calls. Where clusters meet: their largest z and sum too.
LT_DEV void weigh_parts(float (*weight)[4 * RANKS], float2 *all, float4 (*stats)[GROUP], int octet)
{
    const int lane = threadIdx.x % 32, h = octet * 8 + lane / 4, t = lane % 4;
    float scale[RANKS], largest;
    const float sum = find_scales(scale, &largest, stats, h);
    const float share = MEETINGS > 1 ? 1.0f : sum == 0.0f ? 0.0f : 1.0f / sum;
    if (MEETINGS > 1 && t == 0) all[h].x = largest, all[h].y = sum;
    LT_UNROLL(RANKS)
    for (int k = 0; k < RANKS; k++) weight[h][k * 4 + t] = scale[k] * share;
}

// The parts' shares of an output: r and r + 8, these with r + 4 and r + 12, then all: as where a block has some parts.
LT_DEV float meet(const float *weight, const float *shares)
{
    float all = 0.0f;
    LT_UNROLL(4)
    for (int b = 0; b < 4; b++) {
        float four = 0.0f;
        LT_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            float two = 0.0f;
            LT_UNROLL(2)
            for (int r = b + 4 * i; r < CLUSTER; r += 8) two = fmaf(weight[r], shares[r * SHARE], two);
            four += two;
        }
        all += four;
    }
    return all;
}

LT_KERNEL(THREADS, 1)
mla_decode__m1_heads4_d128_qk64_width67_slots1_pages8_blocks8__o1p1c1s1h1(bf16 *y, const bf16 *q, const e4m3 *cache, const i32 *ids, const i32 *positions, const i32 *slots, const i32 *block_table)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int group = blockIdx.y / SLICES, slice = blockIdx.y % SLICES, m = blockIdx.z;
    const int count = (TILES - (int)blockIdx.x + PARTS - 1) / PARTS;
    bf16 *const to = y + (size_t)m * HEADS * D;
    LT_DYN_SHARED(u8, latents);
    float *const shares = (float *)(latents + MOST * TILE * ROW);
    u8 *const queries = (u8 *)(shares + CLUSTER * SHARE);
    u32 *const p = (u32 *)(queries + GROUP * QUERY);
    LT_SHARED2(float, most, MOST, GROUP);       // of the tiles: largest z
    LT_SHARED2(float, total, MOST, GROUP);      // sum of exp
    LT_SHARED1(u32, alive, MOST);               // tokens that are not skipped
    LT_SHARED2(float4, stats, CLUSTER, GROUP);  // of the parts: largest z, sum of exp
    LT_SHARED2(float, weight, GROUP, 4 * RANKS);
    LT_SHARED1(float2, all, GROUP);             // of the cluster
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
    const e4m3 *from[TURNS][TILE / LINES];
    LT_UNROLL(TURNS * (TILE / LINES))
    for (int i = 0; i < TURNS * (TILE / LINES); i++) {
        const int k = i / (TILE / LINES), j = i % (TILE / LINES), token = j * LINES + lane / (PANEL / 16);
        from[k][j] = cache + (size_t)lt_shfl_u32(ALL, (u32)row[k], token) * D;
    }
    LT_UNROLL(STAGES)
    for (int j = 0; j < STAGES; j++) {
        LT_UNROLL(TURNS)
        for (int k = 0; k < TURNS; k++) {
            const int tile = k * WARPS + warp;
            if (tile >= count || live[k] == 0) continue;
            LT_UNROLL(STAGE)
            for (int i = 0; i < STAGE; i++) load_panel(latents + tile * TILE * ROW, from[k], j * STAGE + i);
        }
        lt_cp_commit();
    }
    LT_UNROLL(TURNS)
    for (int k = 0; k < TURNS; k++) {
        const int tile = k * WARPS + warp;
        if (tile < count && live[k] == 0) clear_tile(latents + tile * TILE * ROW);
    }
    LT_UNROLL(TAKERS)
    for (int k = 0; k < TAKERS; k++) {
        const int h = k * WARPS + warp;
        if (h >= GROUP) break;
        const float undo = keep_query(queries + h * QUERY, asked[k]);
        if (lane == 0) unit[h] = undo * 0x1.000000p-3f;
    }
    if (CLUSTER > 1 && threadIdx.x == 0) {
        lt_mbar_init(given, 1);
        lt_mbar_init(given + 1, 1);
        lt_mbar_expect(given, CLUSTER * GROUP * 16);
        lt_mbar_expect(given + 1, CLUSTER * SHARE * 4);
        lt_mbar_fence();
    }
    __syncthreads();
    if (slot < 0) return;
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
    LT_UNROLL(TURNS)
    for (int k = 0; k < TURNS; k++) {
        const int tile = k * WARPS + warp;
        if (tile >= count) break;
        keep_z(p, most[tile], alive + tile, dot[k], unit, live[k], tile);
    }
    __syncthreads();
    LT_UNROLL(1)
    for (int i = warp; i < OCTETS * count; i += WARPS)
        keep_p(p, total[i / OCTETS], most, alive[i / OCTETS], i % OCTETS, i / OCTETS, 0, count);
    __syncthreads();
    if (CLUSTER > 1) lt_cluster_wait();
    if (warp == WARPS - 1) give_stats(stats, most, total, count, given);
    LT_UNROLL(1)
    for (int span = warp; span < SPANS; span += WARPS) {
        const int column = span * 32 + g * 4;
        float sum[2][OCTETS][4] = {0};
        weigh(sum, latents + slice * COLUMNS + column, p, 0, count);
        LT_UNROLL(OCTETS * 2)
        for (int i = 0; i < OCTETS * 2; i++) {
            const int head = i / 2 * 8 + 2 * t + i % 2;
            give_sums(shares, sum, head, column, given + 1);
        }
    }
    if (warp == WARPS - 1) {
        if (CLUSTER > 1)
            lt_mbar_wait(given, 0);
        else
            __syncwarp();
        LT_UNROLL(OCTETS)
        for (int n = 0; n < OCTETS; n++) weigh_parts(weight, all, stats, n);
    }
    __syncthreads();
    if (CLUSTER > 1) lt_mbar_wait(given + 1, 0);
    LT_UNROLL(1)
    for (int i = threadIdx.x; i < SHARE; i += THREADS) {
        const int at = part_of() * SHARE + i, h = at / COLUMNS;
        if (group * GROUP + h >= HEADS) break;
        to[(size_t)(group * GROUP + h) * D + slice * COLUMNS + at % COLUMNS] =
            lt_f32_bf16(meet(weight[h], shares + i));
    }
}
#ifndef __CUDACC__
void lt_entry(void **a) { mla_decode__m1_heads4_d128_qk64_width67_slots1_pages8_blocks8__o1p1c1s1h1(*(bf16 **)a[0], *(const bf16 **)a[1], *(const e4m3 **)a[2], *(const i32 **)a[3], *(const i32 **)a[4], *(const i32 **)a[5], *(const i32 **)a[6]); }
#endif
