/* cluster.h: of the prelude for NVRTC what families with clusters have besides cuda.h, inline PTX too. cpu.h has the
 * same names. A cluster of n is n blocks beside each other in x; block r of it has blockIdx.x % n == r. */
#define LT_CLUSTER(n) __cluster_dims__(n, 1, 1) /* behind LT_KERNEL(..) */

/* A barrier of all threads of the cluster in two steps: who is past the wait sees what was written in front of the
 * arrivals. Every thread calls both, and ends behind the wait that follows the last store into its block's arrays. */
LT_DEV void lt_cluster_begin(void) /* an arrival that shows nothing but fenced mbarriers, and waits for nothing */
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
LT_DEV void lt_cluster_arrive(void) { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
LT_DEV void lt_cluster_wait(void) { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/* Where p, in a shared array of this block, is in that of block `rank`. */
LT_DEV u32 lt_cluster_address(const void *p, u32 rank)
{
    u32 to;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(lt_shared_address(p)), "r"(rank));
    return to;
}
/* To that place, in a block that has begun; 16 bytes need 16-byte alignment. */
LT_DEV void lt_cluster_st32(u32 *p, u32 rank, u32 v)
{
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(lt_cluster_address(p, rank)), "r"(v) : "memory");
}
LT_DEV void lt_cluster_st128(void *p, u32 rank, uint4 v)
{
    asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};"
                 ::"r"(lt_cluster_address(p, rank)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

/* 16 bytes to that place, and for the mbarrier that stands there where bar does here: who waits for it sees them, and
 * may write what this block has read before its last barrier. That block does not end before. v is a variable. */
LT_DEV void lt_cluster_give128(void *p, u32 rank, uint4 v, u64 *bar)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                 ::"r"(lt_cluster_address(p, rank)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w),
                 "r"(lt_cluster_address(bar, rank)) : "memory");
}
