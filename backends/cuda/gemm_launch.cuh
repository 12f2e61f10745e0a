/* The kernels of one element type, four for each tile, and their launch. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/gemm_simt.cuh"
#include "backends/cuda/launch.h"

template <class E, class T, int BLOCKS, bool TRANS_A, bool TRANS_B>
__global__ void __launch_bounds__(T::THREADS, BLOCKS)
    lo_gemm_kernel(const __grid_constant__ lo_cu_gemm p) {
  lo_follow();
  lo_gemm<lo_simt_core<E, T>, TRANS_A, TRANS_B>(p);
}

template <class E> static int launch(int tile, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  static const struct {
    const void *kernel[2][2]; /* A transposed, B transposed */
    unsigned threads;
  } tiles[] = {
#define KERNEL(TRANS_A, TRANS_B, BLOCKS, ...)                                                      \
  (const void *)lo_gemm_kernel<E, lo_tile<__VA_ARGS__>, BLOCKS, TRANS_A, TRANS_B>
#define X(BM, BN, BK, TM, TN, LX, BLOCKS, ...)                                                     \
  {{{KERNEL(false, false, BLOCKS, BM, BN, BK, TM, TN, LX),                                         \
     KERNEL(false, true, BLOCKS, BM, BN, BK, TM, TN, LX)},                                         \
    {KERNEL(true, false, BLOCKS, BM, BN, BK, TM, TN, LX),                                          \
     KERNEL(true, true, BLOCKS, BM, BN, BK, TM, TN, LX)}},                                         \
   lo_tile<BM, BN, BK, TM, TN, LX>::THREADS},
      LO_CU_TILES(X)
#undef X
#undef KERNEL
  };
  grid.threads = tiles[tile].threads;
  return lo_cu_launch(tiles[tile].kernel[!p->a.k_inner][p->b.k_inner != 0], grid, p, stream);
}
