/* family moe_row_union rev 1, shape m3_topk5_experts2, variant one, class exact */
// A thread a slot: how many slots come before it by expert and number, and how many experts.
enum { M = 3, TOPK = 5, EXPERTS = 2 };
enum { SLOTS = M * TOPK, THREADS = (SLOTS + 31) / 32 * 32 };

LT_KERNEL(THREADS)
moe_row_union__m3_topk5_experts2__one(i32 *count, i32 *experts, i32 *starts, i32 *slots, const i32 *ids)
{
    const int i = threadIdx.x;
    LT_SHARED1(i32, id, THREADS);
    LT_SHARED1(i32, first, THREADS);  // the id where a slot is the first of its expert, else -1
    lt_pdl_wait();
    lt_pdl_launch();

    int own = i < SLOTS ? ids[i] : -1;
    if (own < 0 || own >= EXPERTS) own = -1;
    id[i] = own;
    __syncthreads();
    int place = 0, same = 0, valid = 0, expert = 0, listed = 0;
    for (int j = 0; j < SLOTS; j++) {
        valid += id[j] >= 0;
        same += id[j] == own && j < i;
        place += id[j] >= 0 && (id[j] < own || (id[j] == own && j < i));
    }
    first[i] = same == 0 ? own : -1;
    __syncthreads();
    for (int j = 0; j < SLOTS; j++) {
        listed += first[j] >= 0;
        expert += first[j] >= 0 && first[j] < own;
    }
    if (i >= SLOTS) return;
    if (own >= 0) slots[place] = i;
    if (first[i] >= 0) {
        experts[expert] = own;
        starts[expert] = place;
    }
    if (i >= valid) slots[i] = -1;
    if (i >= listed) {
        experts[i] = -1;
        starts[i] = valid;
    }
    if (i > 0) return;
    starts[SLOTS] = valid;
    *count = listed;
}
#ifndef __CUDACC__
void lt_entry(void **a) { moe_row_union__m3_topk5_experts2__one(*(i32 **)a[0], *(i32 **)a[1], *(i32 **)a[2], *(i32 **)a[3], *(const i32 **)a[4]); }
#endif
