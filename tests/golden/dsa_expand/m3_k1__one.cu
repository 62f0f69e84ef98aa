/* family dsa_expand rev 1, shape m3_k1, variant one, class exact */
// One thread an id.
enum { M = 3, K = 1 };
enum { THREADS = 256, POOL = 4, WIDTH = POOL * K + POOL - 1 };

LT_KERNEL(THREADS)
dsa_expand__m3_k1__one(i32 *ids, const i32 *pools, const i32 *positions, const i32 *slots)
{
    const int i = blockIdx.x * THREADS + threadIdx.x, m = blockIdx.y;

    lt_pdl_wait();
    lt_pdl_launch();
    const int context = positions[m] + 1, candidates = context > 0 ? context / POOL : 0;
    const int from_pools = POOL * (candidates < K ? candidates : K), in_tail = i - from_pools;
    if (slots[m] < 0 || i >= WIDTH) return;
    int id = -1;
    if (in_tail < 0) {
        const int pool = pools[(size_t)m * K + i / POOL];
        if (pool >= 0) id = POOL * pool + i % POOL;
    } else if (in_tail < context - POOL * candidates) {
        id = POOL * candidates + in_tail;
    }
    ids[(size_t)m * WIDTH + i] = id;
}
#ifndef __CUDACC__
void lt_entry(void **a) { dsa_expand__m3_k1__one(*(i32 **)a[0], *(const i32 **)a[1], *(const i32 **)a[2], *(const i32 **)a[3]); }
#endif
