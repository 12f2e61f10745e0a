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
#if __CUDA_ARCH__ >= 800
  lo_gemm_triple<lo_triple_mma_core<BM, BN, WM, WN, TRANS_A, TRANS_B>, TRANS_A>(p);
#endif
}

template <bool TRANS_A, bool TRANS_B>
__global__ void __launch_bounds__(384, 1)
    triple_wgmma_kernel(const __grid_constant__ lo_cu_gemm p) {
#if __CUDA_ARCH_FEAT_SM90_ALL
  lo_gemm_triple<lo_triple_wgmma_core<TRANS_A, TRANS_B>, TRANS_A>(p);
#endif
}

typedef struct triple {
  const void *kernel[2][2]; /* A transposed, B transposed */
  unsigned threads;
  int bytes; /* of shared memory */
} triple;

/* In the order of LO_CU_TRIPLE_TILES; wgmma's is the last. */
static const triple triples[] = {
#define KERNEL(TRANS_A, TRANS_B, ...) (const void *)triple_mma_kernel<__VA_ARGS__, TRANS_A, TRANS_B>
#define X(BM, BN, WM, WN, BLOCKS, ...)                                                             \
  {{{KERNEL(false, false, BM, BN, WM, WN, BLOCKS), KERNEL(false, true, BM, BN, WM, WN, BLOCKS)},   \
    {KERNEL(true, false, BM, BN, WM, WN, BLOCKS), KERNEL(true, true, BM, BN, WM, WN, BLOCKS)}},    \
   lo_triple_mma_core<BM, BN, WM, WN, false, false>::THREADS,                                      \
   lo_triple_mma_core<BM, BN, WM, WN, false, false>::BYTES},
    LO_CU_TRIPLE_TILES(X)
#undef X
#undef KERNEL
        {{{(const void *)triple_wgmma_kernel<false, false>,
           (const void *)triple_wgmma_kernel<false, true>},
          {(const void *)triple_wgmma_kernel<true, false>,
           (const void *)triple_wgmma_kernel<true, true>}},
         lo_triple_wgmma_core<false, false>::THREADS,
         lo_triple_wgmma_core<false, false>::BYTES},
};
enum { TRIPLES = sizeof triples / sizeof *triples };

int lo_cu_run_gemm_triple(int number, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  const triple *t = &triples[number < 0 ? TRIPLES - 1 : number];
  grid.threads = t->threads;
  grid.shared = (unsigned)t->bytes;
  return lo_cu_launch(t->kernel[!p->a.k_inner][p->b.k_inner != 0], grid, p, stream);
}
