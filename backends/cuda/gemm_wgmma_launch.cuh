/* Hopper's kernels of one type of operands, and their launch. They are empty elsewhere, and never
 * chosen there. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/gemm_wgmma.cuh"
#include "backends/cuda/launch.h"

template <int TYPE, class T, bool TRANS_A, bool TRANS_B, bool PROMOTES>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT)
    wgmma_kernel(const __grid_constant__ lo_cu_boxed_gemm p) {
#if __CUDA_ARCH_FEAT_SM90_ALL
  lo_gemm_wgmma<lo_wgmma_core<TYPE, T, TRANS_A, TRANS_B, PROMOTES>, T, TRANS_A>(p);
#endif
}

typedef struct wgmma_row {
  unsigned threads, shared, cluster;
  const void *kernels[4]; /* by order or types */
} wgmma_row;

static int launch_wgmma(const wgmma_row *row, int variant, const lo_cu_boxed_gemm *p,
                        lo_cu_grid grid, void *stream) {
  grid.threads = row->threads;
  grid.shared = row->shared;
  grid.cluster_x = row->cluster;
  grid.cluster_y = (unsigned)p->g.split;
  return lo_cu_launch(row->kernels[variant], grid, p, stream);
}

#define LO_WGMMA_KERNEL(TYPE, TRANS_A, TRANS_B, ...)                                               \
  (const void *)wgmma_kernel<TYPE, lo_wgmma_tile<__VA_ARGS__>, TRANS_A, TRANS_B, false>
#define LO_WGMMA_ROW(NAME, GROUPS, TALL, BN, STAGES, CLUSTER, ...)                                 \
  {lo_wgmma_tile<GROUPS, TALL, BN, STAGES, CLUSTER>::THREADS,                                      \
   lo_wgmma_tile<GROUPS, TALL, BN, STAGES, CLUSTER>::BYTES,                                        \
   CLUSTER,                                                                                        \
   {LO_WGMMA_VARIANTS(GROUPS, TALL, BN, STAGES, CLUSTER)}},
