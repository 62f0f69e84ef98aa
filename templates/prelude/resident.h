/* resident.h: of the prelude what bounds the blocks that a multiprocessor has at a time, for the GPU and for the CPU
 * device, where it does nothing; inline PTX too.
 *
 * lt_resident_at_most(threads, blocks), the first statement of a kernel of LT_KERNEL(threads, blocks): its blocks get
 * all registers that so many leave, so that no more of them are there. Behind a kernel whose blocks end one by one, the
 * multiprocessors that are free first would otherwise take more than their share, and end last. */
#if defined __CUDA_ARCH_FEAT_SM90_ALL || defined __CUDA_ARCH_SPECIFIC__ || defined __CUDA_ARCH_FAMILY_SPECIFIC__
/* What the assembler gives a thread of a kernel with setmaxnreg: four parts of a multiprocessor have 512 registers a
 * lane each, for their share of the warps, in eights. A thread has 255 at most: two warps a part bound nothing. */
#define LT_RESIDENT_WARPS(threads, blocks) ((((threads) + 31) / 32 * (blocks) + 3) / 4)
#define LT_RESIDENT_REGISTERS(threads, blocks)                                                                         \
    (LT_RESIDENT_WARPS(threads, blocks) < 3 ? 240 : 512 / LT_RESIDENT_WARPS(threads, blocks) & ~7)
#define lt_resident_at_most(threads, blocks)                                                                           \
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LT_RESIDENT_REGISTERS(threads, blocks)))
#else
#define lt_resident_at_most(threads, blocks) ((void)0)
#endif
