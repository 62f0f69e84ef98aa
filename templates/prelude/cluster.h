/* cluster.h: of the prelude for NVRTC what families with clusters have besides cuda.h, inline PTX too. cpu.h has the
 * same names. A cluster of n is n blocks beside each other in x; block r of it has blockIdx.x % n == r. */
#define LT_CLUSTER(n) __cluster_dims__(n, 1, 1) /* behind LT_KERNEL(..) */

/* A barrier of all threads of the cluster in two steps: who is past the wait sees what was written in front of the
 * arrivals. Every thread calls both, and ends behind the wait that follows the last store into its block's arrays. */
LT_DEV void lt_cluster_arrive(void) { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
LT_DEV void lt_cluster_wait(void) { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/* To where p, in a shared array of this block, is in that of block `rank`, which has begun. */
LT_DEV void lt_cluster_st32(u32 *p, u32 rank, u32 v)
{
    u32 to;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(lt_shared_address(p)), "r"(rank));
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
}
