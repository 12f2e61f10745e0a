/* The tensor cores' kernels. Those of an instruction that an architecture lacks are empty there,
 * and are never chosen. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/gemm_mma.cuh"
#include "backends/cuda/launch.h"

template <int MMA, int BM, int BN, int WM, int WN, bool TRANS_A, bool TRANS_B>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, 2)
    mma_kernel(const __grid_constant__ lo_cu_gemm p) {
#if __CUDA_ARCH__ >= 800
  lo_gemm<lo_mma_core<MMA, BM, BN, WM, WN, TRANS_A, TRANS_B>, TRANS_A, TRANS_B>(p);
#else
  if (MMA == LO_MMA_K8_F16)
    lo_gemm<lo_mma_core<LO_MMA_K8_F16, BM, BN, WM, WN, TRANS_A, TRANS_B>, TRANS_A, TRANS_B>(p);
#endif
}

int lo_cu_run_gemm_mma(int tile, int mma, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  static const struct {
    const void *kernel[3][2][2]; /* instruction, A transposed, B transposed */
    unsigned threads;
  } tiles[] = {
#define KERNELS(MMA, ...)                                                                          \
  {                                                                                                \
    {(const void *)mma_kernel<MMA, __VA_ARGS__, false, false>,                                     \
     (const void *)mma_kernel<MMA, __VA_ARGS__, false, true>},                                     \
    {                                                                                              \
      (const void *)mma_kernel<MMA, __VA_ARGS__, true, false>,                                     \
          (const void *)mma_kernel<MMA, __VA_ARGS__, true, true>                                   \
    }                                                                                              \
  }
#define X(BM, BN, WM, WN, BLOCKS, ...)                                                             \
  {{KERNELS(LO_MMA_K8_F16, BM, BN, WM, WN), KERNELS(LO_MMA_K16_F16, BM, BN, WM, WN),               \
    KERNELS(LO_MMA_K16_BF16, BM, BN, WM, WN)},                                                     \
   BM / WM * (BN / WN) * 32},
      LO_CU_MMA_TILES(X)
#undef X
#undef KERNELS
  };
  grid.threads = tiles[tile].threads;
  return lo_cu_launch(tiles[tile].kernel[mma][!p->a.k_inner][p->b.k_inner != 0], grid, p, stream);
}
