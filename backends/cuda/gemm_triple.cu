/* The kernels of f32 products on tensor cores. Those of instructions that an architecture lacks are
 * empty there, and are never chosen. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/gemm_triple_mma.cuh"
#include "backends/cuda/gemm_triple_wgmma.cuh"
#include "backends/cuda/launch.h"

template <int BM, int BN, int WM, int WN, int BLOCKS, bool TRANS_A, bool TRANS_B>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, BLOCKS)
    triple_mma_kernel(const __grid_constant__ lo_cu_gemm p) {
  lo_follow();
#if __CUDA_ARCH__ >= 800
  lo_gemm_triple<lo_triple_mma_core<BM, BN, WM, WN, TRANS_A, TRANS_B>, TRANS_A>(p);
#endif
}

template <int BM, int BN, int STAGES, int BLOCKS, bool TRANS_A, bool TRANS_B>
__global__ void __launch_bounds__(128 + 2 * BM, BLOCKS)
    triple_wgmma_kernel(const __grid_constant__ lo_cu_gemm p) {
  lo_follow();
#if __CUDA_ARCH_FEAT_SM90_ALL
  lo_gemm_triple<lo_triple_wgmma_core<BM, BN, STAGES, TRANS_A, TRANS_B>, TRANS_A>(p);
#endif
}

typedef struct triple {
  const void *kernel[2][2]; /* A transposed, B transposed */
  unsigned threads;
  int bytes;  /* of shared memory */
  bool meets; /* parts of k in a cluster */
} triple;

/* LO_CU_TRIPLE_TILES, then LO_CU_TRIPLE_WGMMA_TILES. */
static const triple triples[] = {
#define KERNELS(KERNEL, ...)                                                                       \
  {                                                                                                \
    {(const void *)KERNEL<__VA_ARGS__, false, false>,                                              \
     (const void *)KERNEL<__VA_ARGS__, false, true>},                                              \
    {                                                                                              \
      (const void *)KERNEL<__VA_ARGS__, true, false>,                                              \
          (const void *)KERNEL<__VA_ARGS__, true, true>                                            \
    }                                                                                              \
  }
#define X(BM, BN, WM, WN, BLOCKS, ...)                                                             \
  {KERNELS(triple_mma_kernel, BM, BN, WM, WN, BLOCKS),                                             \
   lo_triple_mma_core<BM, BN, WM, WN, false, false>::THREADS,                                      \
   lo_triple_mma_core<BM, BN, WM, WN, false, false>::BYTES, false},
    LO_CU_TRIPLE_TILES(X)
#undef X
#define X(BM, BN, STAGES, BLOCKS, ...)                                                             \
  {KERNELS(triple_wgmma_kernel, BM, BN, STAGES, BLOCKS),                                           \
   lo_triple_wgmma_core<BM, BN, STAGES, false, false>::THREADS,                                    \
   lo_triple_wgmma_core<BM, BN, STAGES, false, false>::BYTES, true},
        LO_CU_TRIPLE_WGMMA_TILES(X)
#undef X
#undef KERNELS
};

int lo_cu_run_gemm_triple(int number, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  const triple *t = &triples[number];
  if (t->meets) {
    grid.cluster_x = 1;
    grid.cluster_y = (unsigned)p->split;
  }
  grid.threads = t->threads;
  grid.shared = (unsigned)t->bytes;
  return lo_cu_launch(t->kernel[!p->a.k_inner][p->b.k_inner != 0], grid, p, stream);
}
