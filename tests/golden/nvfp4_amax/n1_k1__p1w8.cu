/* family nvfp4_amax rev 1, shape n1_k1, variant p1w8, class exact */
// The largest magnitude of a tensor: each block a share, the one that comes last the largest of those.
enum { N = 1, K = 1, PARTS = 1, WARPS = 8 };
enum { THREADS = 32 * WARPS };

LT_DEV float larger(float a, float b) { return a > b ? a : b; }  // a NaN in a is dropped

LT_DEV float larger_of_two(u32 two, float amax)
{
    return larger(fabsf(lt_bf16lo_f32(two)), larger(fabsf(lt_bf16hi_f32(two)), amax));
}

LT_DEV float largest_of_block(float v, float *room)
{
    v = lt_warp_max(v);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) v = larger(room[i], v);
    return v;
}

LT_KERNEL(THREADS)
nvfp4_amax__n1_k1__p1w8(float *scale, const bf16 *w, float *partial, u32 *arrived)
{
    const size_t all = (size_t)N * K, eights = all / 8;
    LT_SHARED1(float, room, WARPS);
    LT_SHARED1(float, last_room, WARPS);
    float amax = 0.0f;

    lt_pdl_wait();
    lt_pdl_launch();
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < eights; i += (size_t)PARTS * THREADS) {
        const uint4 v = lt_ld128_once(w + i * 8);
        amax = larger_of_two(v.x, larger_of_two(v.y, larger_of_two(v.z, larger_of_two(v.w, amax))));
    }
    if (blockIdx.x == 0 && threadIdx.x < all % 8) amax = larger(fabsf(lt_bf16_f32(w[eights * 8 + threadIdx.x])), amax);
    amax = largest_of_block(amax, room);
    if (threadIdx.x == 0) partial[blockIdx.x] = amax;
    if (!lt_last_block(arrived, PARTS)) return;
    amax = 0.0f;
    for (int i = threadIdx.x; i < PARTS; i += THREADS) amax = larger(lt_bits_f32(lt_ld32_fresh(partial + i)), amax);
    amax = largest_of_block(amax, last_room);
    if (threadIdx.x == 0) scale[0] = amax > 0.0f ? amax / 2688.0f : 1.0f;
}
#ifndef __CUDACC__
void lt_entry(void **a) { nvfp4_amax__n1_k1__p1w8(*(float **)a[0], *(const bf16 **)a[1], *(float **)a[2], *(u32 **)a[3]); }
#endif
