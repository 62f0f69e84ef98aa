/* family mla_decode rev 2, shape m1_heads17_d256_qk128_width530_slots1_pages40_blocks44, variant o3p16c8s1, class mma.f16_16_8 */
// A block has GROUP heads, a part of the ids in tiles of 16 and a slice of y's columns; the blocks of a cluster have
// parts of the same heads and columns. Latents are in shared memory as they are; E4M3 is exact in f16, to which queries
// are brought by a power of two.
// z: a warp has a piece of the columns in some of the tiles: tokens are the 16-row operand, lane (g, t) taking bytes
// 16 t .. of each 64. Softmax: a warp has a head; p is the sum of two f16. y: a warp has some columns of all tiles,
// which are the 16-row operand, lane (g, t) taking four of them in the tokens t, t + 4, t + 8 and t + 12.
// Then each block of a cluster gets its share of the outputs from all of them, and what they are parts of: nobody waits
// for the others in front of that. Shares of several clusters meet in memory.
enum { M = 1, HEADS = 17, D = 256, QK = 128, WIDTH = 530, SLOTS = 1, PAGES = 40, BLOCKS = 44, OCTETS = 3, PARTS = 16, CLUSTER = 8, SLICES = 1 };
enum {
    WARPS = 16,
    TILE = 16,                            // tokens
    GROUP = 8 * OCTETS,                   // heads
    TILES = (WIDTH + TILE - 1) / TILE,
    MOST = (TILES + PARTS - 1) / PARTS,   // tiles of a block: blockIdx.x, + PARTS, ..
    LEAST = TILES / PARTS,
    TOKENS = MOST * TILE,
    ROW = (D + 127) / 128 * 128,          // bytes between latents
    CHUNKS = D / 64,
    PIECES = CHUNKS % 4 == 0 ? 4 : CHUNKS % 2 == 0 ? 2 : 1,
    TEAMS = WARPS / PIECES,               // of warps: each has every TEAMS-th tile
    TURNS = (MOST + TEAMS - 1) / TEAMS,
    PIECE = CHUNKS / PIECES,              // chunks
    HALVES = CHUNKS % 4 == 0 ? 2 : 1,     // of a tile, that different warps load
    PANEL = CHUNKS % 2 == 0 ? 128 : 64,   // bytes of a token that neighbours load
    PANELS = D / PANEL / HALVES,
    COLUMNS = D / SLICES,
    SPANS = COLUMNS / 32,                 // of a warp's columns
    EACH = (TOKENS + 31) / 32,            // tokens of a lane
    LOADS = (MOST * HALVES + WARPS - 1) / WARPS,
    LINE = 32 * EACH,                     // floats between the pieces' z of a head
    HEAD = PIECES * LINE + 16,            // words between heads: z, and then p in its place
    HEADS_EACH = (GROUP + WARPS - 1) / WARPS,
    OUTPUTS = GROUP * COLUMNS,
    SHARE = OUTPUTS / CLUSTER,
    MEETINGS = PARTS / CLUSTER,
    THREADS = 32 * WARPS,
    OWN = (SHARE + THREADS - 1) / THREADS // outputs of a thread
};
#define ALL 0xffffffffu
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

// The cache's row of a lane's token, of another one of its tile where that is skipped; live: which of the two tiles'
// tokens are not.
LT_DEV int find_row(u32 *live, int id, const i32 *block_table, int slot, int position)
{
    const int lane = threadIdx.x % 32, block = page_block(block_table, slot, id < 0 || id > position ? -1 : id / PAGE);
    const int row = block < 0 ? 0 : block * PAGE + id % PAGE;
    *live = lt_ballot(ALL, block >= 0);
    const u32 some = *live >> lane / TILE * TILE & 0xffff;
    int first = 0;
    LT_UNROLL(4)
    for (int o = 8; o > 0; o >>= 1) first += (some >> first & ((1u << o) - 1)) == 0 ? o : 0;
    const int other = (int)lt_shfl_u32(ALL, (u32)row, lane / TILE * TILE + (first & 15));
    return block < 0 ? other : row;
}

// Pieces of 16 bytes change places, so that eight lanes that read two of each of four tokens, or four of each of two,
// meet every bank once.
LT_DEV int swizzle(int token) { return (token & 1) << 2 | (token & 2); }

// A half of a tile.
LT_DEV void load_tile(u8 *latents, const e4m3 *cache, const int *row, int half)
{
    const int lane = threadIdx.x % 32, token = lane / (PANEL / 16), at = lane % (PANEL / 16);
    const e4m3 *const from = cache + half * PANELS * PANEL + at * 16;
    LT_UNROLL(PANEL / 32)
    for (int k = 0; k < PANEL / 32; k++) {
        const e4m3 *const latent = from + (size_t)row[k * (512 / PANEL) + token] * D;
        LT_UNROLL(PANELS)
        for (int i = 0; i < PANELS; i++) {
            const int piece = ((half * PANELS + i) * (PANEL / 16) + at) ^ swizzle(token);
            lt_cp_async16(latents + (k * (512 / PANEL) + token) * ROW + piece * 16, latent + i * PANEL);
        }
    }
}

// Zeros for it, all of whose tokens are skipped.
LT_DEV void clear_tile(u8 *latents, int half)
{
    const int lane = threadIdx.x % 32;
    uint4 zero;
    zero.x = zero.y = zero.z = zero.w = 0;
    LT_UNROLL(1)
    for (int i = lane; i < TILE * ROW / HALVES / 16; i += 32) {
        const int token = i / (ROW / HALVES / 16), piece = i % (ROW / HALVES / 16);
        lt_st128(latents + token * ROW + half * (ROW / HALVES) + piece * 16, zero);
    }
}

// The piece's columns of head g of each octet: 16 t .. of each 64.
LT_DEV void load_query(uint4 (*two)[PIECE][2], const bf16 *q, int group, int piece)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    LT_UNROLL(OCTETS)
    for (int n = 0; n < OCTETS; n++) {
        const int head = group * GROUP + n * 8 + g;
        LT_UNROLL(PIECE * 2)
        for (int i = 0; i < PIECE * 2; i++) {
            uint4 *const to = two[n][i / 2] + i % 2;
            to->x = to->y = to->z = to->w = 0;
            if (head < HEADS) *to = lt_ld128(q + (size_t)head * D + (piece * PIECE + i / 2) * 64 + t * 16 + i % 2 * 8);
        }
    }
}

LT_DEV u32 scaled(u32 two, float scale) { return lt_pack_f16(lt_bf16lo_f32(two) * scale, lt_bf16hi_f32(two) * scale); }

LT_DEV float largest_of_two(u32 two) { return larger(fabsf(lt_bf16lo_f32(two)), fabsf(lt_bf16hi_f32(two))); }

// What it loaded as f16 times a power of two. Returns what undoes the power.
LT_DEV float keep_query(u32 (*to)[8], const uint4 (*two)[2])
{
    float largest = 0.0f;
    LT_UNROLL(PIECE * 2)
    for (int i = 0; i < PIECE * 2; i++) {
        const uint4 v = two[i / 2][i % 2];
        u32 *const four = to[i / 2] + i % 2 * 4;
        four[0] = v.x, four[1] = v.y, four[2] = v.z, four[3] = v.w;
        LT_UNROLL(4)
        for (int j = 0; j < 4; j++) largest = larger(largest_of_two(four[j]), largest);
    }
    largest = larger(lt_shfl_xor_f32(ALL, largest, 1), largest);
    largest = larger(lt_shfl_xor_f32(ALL, largest, 2), largest);
    const int e = f16_exponent(largest);
    LT_UNROLL(PIECE * 8)
    for (int i = 0; i < PIECE * 8; i++) to[i / 8][i % 8] = scaled(to[i / 8][i % 8], f16_scale(e));
    return f16_undo(e);
}

// A tile's products with a piece of the queries, tokens g and g + 8, heads 2 t and 2 t + 1 of each octet.
LT_DEV void dot_tile(float (*z)[4], const u8 *latents, const u32 (*query)[PIECE][8], int piece)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float dot[OCTETS][2][4] = {0};
    LT_UNROLL(PIECE)
    for (int j = 0; j < PIECE; j++) {
        const u8 *const at = latents + g * ROW + (((piece * PIECE + j) * 4 + t) ^ swizzle(g)) * 16;
        const uint4 first = lt_ld128(at), second = lt_ld128(at + 8 * ROW);
        const u32 upper[4] = {first.x, first.y, first.z, first.w};
        const u32 lower[4] = {second.x, second.y, second.z, second.w};
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            u32 a[4];
            a[0] = lt_e4m3x2_f16x2(upper[i]);
            a[1] = lt_e4m3x2_f16x2(lower[i]);
            a[2] = lt_e4m3x2_f16x2(upper[i] >> 16);
            a[3] = lt_e4m3x2_f16x2(lower[i] >> 16);
            LT_UNROLL(OCTETS)
            for (int n = 0; n < OCTETS; n++) lt_mma_m16n8k16_f16(dot[n][i % 2], a, query[n][j] + 2 * i, dot[n][i % 2]);
        }
    }
    LT_UNROLL(OCTETS * 4)
    for (int i = 0; i < OCTETS * 4; i++) z[i / 4][i % 4] = dot[i / 4][0][i % 4] + dot[i / 4][1][i % 4];
}

// Where z of a token is: eight lanes that write four heads' meet every bank once.
LT_DEV int z_at(int head, int token) { return token ^ head % 8 / 2 * 8; }

// A head's p, as y's products take it, in the place of its z; returns its largest z. A warp calls. live: which tokens
// of each two tiles; total: a lane's sum of p.
LT_DEV float softmax(float *total, float *z, int head, const u32 *live, int count)
{
    const int lane = threadIdx.x % 32;
    float value[EACH], largest = -0x1.fffffep127f, sum = 0.0f;
    u32 is_live[EACH];
    int is_there[EACH];
    LT_UNROLL(EACH)
    for (int k = 0; k < EACH; k++) {
        const int token = k * 32 + lane;
        is_there[k] = k * 32 + 32 <= LEAST * TILE || token < count * TILE;
        value[k] = is_there[k] ? z[z_at(head, token)] : 0.0f;
        LT_UNROLL(PIECES)
        for (int i = 1; i < PIECES; i++) value[k] += is_there[k] ? z[i * LINE + z_at(head, token)] : 0.0f;
        is_live[k] = live[k] >> lane & 1;
        if (!is_live[k]) value[k] = -0x1.fffffep127f;
    }
    LT_UNROLL(EACH)
    for (int k = 0; k < EACH; k++) largest = larger(value[k], largest);
    largest = lt_warp_max(largest);
    __syncwarp();
    LT_UNROLL(EACH)
    for (int k = 0; k < EACH; k++) {
        const int token = k * 32 + lane;
        const float all = lt_exp(value[k] - largest), e = is_live[k] ? all : 0.0f;
        const f16 hi = lt_f32_f16(e);
        f16 *const at = (f16 *)((u32 *)z + token / TILE * TILE + token % 4 * 4) + token % TILE / 4;
        sum += e;
        if (is_there[k]) {
            at[0] = hi;
            at[4] = lt_f32_f16(e - lt_f16_f32(hi));
        }
    }
    *total = sum;
    return largest;
}

// The sums of a lane's four columns: sum[i] has columns i and i + 2, of heads 2 t and 2 t + 1 of each octet.
LT_DEV void weigh(float (*sum)[OCTETS][4], const u8 *latents, const u32 *p, int column, int count)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u8 *const from = latents + t * ROW + ((column / 16) ^ swizzle(t)) * 16 + column % 16;
    float low[2][OCTETS][4] = {0};
    LT_UNROLL(MOST)
    for (int tile = 0; tile < MOST; tile++) {
        u32 code[4], a[4][2];
        if (tile >= LEAST && tile >= count) break;
        LT_UNROLL(4)
        for (int n = 0; n < 4; n++) code[n] = *(const u32 *)(from + (tile * TILE + n * 4) * ROW);
        LT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            LT_UNROLL(2)
            for (int k = 0; k < 2; k++) {
                const u32 two = lt_byte_perm(code[k * 2], code[k * 2 + 1], i < 2 ? 0x5140 : 0x7362);
                a[i][k] = lt_e4m3x2_f16x2(i % 2 ? two >> 16 : two);
            }
        }
        LT_UNROLL(OCTETS)
        for (int n = 0; n < OCTETS; n++) {
            const uint4 weight = lt_ld128(p + (n * 8 + g) * HEAD + tile * TILE + t * 4);
            const u32 high_p[2] = {weight.x, weight.y}, low_p[2] = {weight.z, weight.w};
            LT_UNROLL(2)
            for (int i = 0; i < 2; i++) {
                const u32 rows[4] = {a[i][0], a[i + 2][0], a[i][1], a[i + 2][1]};
                lt_mma_m16n8k16_f16(sum[i][n], rows, high_p, sum[i][n]);
                lt_mma_m16n8k16_f16(low[i][n], rows, low_p, low[i][n]);
            }
        }
    }
    LT_UNROLL(OCTETS * 8)
    for (int i = 0; i < OCTETS * 8; i++) sum[i / 4 % 2][i / 8][i % 4] += low[i / 4 % 2][i / 8][i % 4];
}

LT_DEV int part_of(void) { return CLUSTER > 1 ? (int)(blockIdx.x % CLUSTER) : 0; }

LT_DEV void give(void *to, int rank, uint4 v, u64 *given)
{
    lt_cluster_give128(to, rank, v, given);
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

LT_KERNEL(THREADS, OCTETS == 1 ? 2 : 1)
LT_CLUSTER(CLUSTER)
mla_decode__m1_heads17_d256_qk128_width530_slots1_pages40_blocks44__o3p16c8s1(bf16 *y, const bf16 *q, const e4m3 *cache, const i32 *ids, const i32 *positions, const i32 *slots, const i32 *block_table, float *partial, float *sums, u32 *arrived)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int group = blockIdx.y / SLICES, slice = blockIdx.y % SLICES, m = blockIdx.z;
    const int count = (TILES - (int)blockIdx.x + PARTS - 1) / PARTS, piece = warp % PIECES, team = warp / PIECES;
    bf16 *const to = y + (size_t)m * HEADS * D;
    LT_DYN_SHARED(u8, latents);
    float *const shares = (float *)(latents + TOKENS * ROW);
    float *const z = shares + OUTPUTS;
    LT_SHARED1(int, row, 32 * EACH);
    LT_SHARED1(u32, live, EACH);
    LT_SHARED2(float4, stats, CLUSTER, GROUP);  // of the parts: largest z, sum of exp
    LT_SHARED1(u64, given, 2);                  // count what the cluster gives: stats, shares
    uint4 asked[OCTETS][PIECE][2];
    u32 query[OCTETS][PIECE][8];
    float unit[OCTETS][2];

    const int slot = slots[m], position = positions[m];
    for (int i = (blockIdx.x * THREADS + threadIdx.x) * 32; i < PAGES; i += PARTS * THREADS * 32)
        if (SLOTS == 1 || slot >= 0) lt_prefetch_l2(block_table + (SLOTS == 1 ? 0 : (size_t)slot * PAGES) + i);
    lt_pdl_wait();
    lt_pdl_launch();
    const int at = ((warp * 2 + lane / TILE) * PARTS + blockIdx.x) * TILE + lane % TILE;
    const int id = warp * 2 + lane / TILE < MOST && at < WIDTH ? ids[(size_t)m * WIDTH + at] : -1;
    load_query(asked, q + (size_t)m * HEADS * D, group, piece);
    if (warp < EACH) {
        u32 some;
        row[threadIdx.x] = find_row(&some, id, block_table, slot, position);
        if (lane == 0) live[warp] = some;
    }
    if (slot < 0) return;
    __syncthreads();
    if (threadIdx.x == 0) {
        lt_mbar_init(given, 1);
        lt_mbar_init(given + 1, 1);
        lt_mbar_expect(given, CLUSTER * GROUP * 16);
        lt_mbar_expect(given + 1, CLUSTER * SHARE * 4);
        lt_mbar_fence();
    }
    lt_cluster_begin();
    LT_UNROLL(LOADS)
    for (int k = 0; k < LOADS; k++) {
        const int tile = (k * WARPS + warp) / HALVES, half = (k * WARPS + warp) % HALVES;
        if (tile >= count) break;
        if (live[tile / 2] >> tile % 2 * TILE & 0xffff)
            load_tile(latents + tile * TILE * ROW, cache, row + tile * TILE, half);
        else
            clear_tile(latents + tile * TILE * ROW, half);
    }
    lt_cp_commit();
    LT_UNROLL(OCTETS)
    for (int n = 0; n < OCTETS; n++) {
        const float undo = keep_query(query[n], asked[n]) * 0x1.6a09e6p-4f;
        LT_UNROLL(2)
        for (int i = 0; i < 2; i++) unit[n][i] = lt_shfl_f32(ALL, undo, 8 * t + 4 * i);
    }
    lt_cp_wait(0);
    __syncthreads();
    LT_UNROLL(TURNS)
    for (int k = 0; k < TURNS; k++) {
        const int tile = k * TEAMS + team;
        float dot[OCTETS][4];
        if (k * TEAMS + TEAMS > LEAST && tile >= count) break;
        dot_tile(dot, latents + tile * TILE * ROW, query, piece);
        LT_UNROLL(OCTETS * 4)
        for (int i = 0; i < OCTETS * 4; i++)
            z[(i / 4 * 8 + 2 * t + i % 2) * HEAD + piece * LINE + z_at(2 * t, tile * TILE + g + i / 2 % 2 * 8)] =
                dot[i / 4][i % 4] * unit[i / 4][i % 2];
    }
    __syncthreads();
    float largest[HEADS_EACH], total[HEADS_EACH];
    LT_UNROLL(HEADS_EACH)
    for (int k = 0; k < HEADS_EACH; k++) {
        const int head = k * WARPS + warp;
        if (head < GROUP) largest[k] = softmax(total + k, z + head * HEAD, head, live, count);
    }
    __syncthreads();
    lt_cluster_wait();
    LT_UNROLL(HEADS_EACH)
    for (int k = 0; k < HEADS_EACH; k++) {
        const int head = k * WARPS + warp;
        if (head < GROUP) {
            const float sum = lt_warp_sum(total[k]);
            uint4 both;
            both.x = lt_f32_bits(largest[k]), both.y = lt_f32_bits(sum), both.z = both.w = 0;
            if (lane < CLUSTER) give(stats[part_of()] + head, lane, both, given);
        }
    }
    LT_UNROLL(1)
    for (int span = WARPS - 1 - warp; span < SPANS; span += WARPS) {
        const int column = span * 32 + g * 4;
        float sum[2][OCTETS][4] = {0};
        weigh(sum, latents, (const u32 *)z, slice * COLUMNS + column, count);
        LT_UNROLL(OCTETS * 2)
        for (int i = 0; i < OCTETS * 2; i++) {
            const int head = i / 2 * 8 + 2 * t + i % 2;
            give_sums(shares, sum, head, column, given + 1);
        }
    }
    lt_mbar_wait(given, 0);
    float most[OWN], scale[OWN], all[OWN];
    LT_UNROLL(OWN)
    for (int k = 0; k < OWN; k++) {
        const int i = k * THREADS + threadIdx.x, h = (part_of() * SHARE + i) / COLUMNS, j = lane < CLUSTER ? lane : 0;
        if (i >= SHARE) break;
        most[k] = lt_warp_max(stats[j][h].x);
        scale[k] = lt_exp(stats[j][h].x - most[k]);
        all[k] = lt_warp_sum(lane < CLUSTER ? scale[k] * stats[j][h].y : 0.0f);
    }
    lt_mbar_wait(given + 1, 0);
    const size_t meeting = ((size_t)m * gridDim.y + blockIdx.y) * MEETINGS + blockIdx.x / CLUSTER;
    LT_UNROLL(OWN)
    for (int k = 0; k < OWN; k++) {
        const int i = k * THREADS + threadIdx.x, at = part_of() * SHARE + i, h = at / COLUMNS;
        if (i >= SHARE || group * GROUP + h >= HEADS) break;
        float value = 0.0f;
        LT_UNROLL(CLUSTER)
        for (int r = 0; r < CLUSTER; r++) value = fmaf(lt_shfl_f32(ALL, scale[k], r), shares[r * SHARE + i], value);
        partial[meeting * OUTPUTS + at] = value;
        if (i % COLUMNS == 0 || i == 0) {
            sums[((meeting * CLUSTER + part_of()) * GROUP + h) * 2] = most[k];
            sums[((meeting * CLUSTER + part_of()) * GROUP + h) * 2 + 1] = all[k];
        }
    }
    const size_t first = ((size_t)m * gridDim.y + blockIdx.y) * MEETINGS;
    if (!lt_last_block(arrived + ((size_t)m * gridDim.y + blockIdx.y) * CLUSTER + part_of(), MEETINGS)) return;
    clusters_meet(to, partial + first * OUTPUTS + part_of() * SHARE, sums + (first * CLUSTER + part_of()) * GROUP * 2,
                  group, slice);
}
#ifndef __CUDACC__
void lt_entry(void **a) { mla_decode__m1_heads17_d256_qk128_width530_slots1_pages40_blocks44__o3p16c8s1(*(bf16 **)a[0], *(const bf16 **)a[1], *(const e4m3 **)a[2], *(const i32 **)a[3], *(const i32 **)a[4], *(const i32 **)a[5], *(const i32 **)a[6], *(float **)a[7], *(float **)a[8], *(u32 **)a[9]); }
#endif
