/* The gradients of block-sparse weights and of their gates, through a ring of stages. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_features_wgrad.cuh"

typedef struct kernel {
  const void *kernel;
  unsigned threads, shared;
} kernel;

template <class T> static constexpr kernel of() {
  return {(const void *)bsr_features_wgrad_kernel<T>, T::THREADS, T::BYTES};
}

#define X(SIDE, SPAN, WARPS) of<lo_bsr_features_wgrad<BF16, FEATURES, SIDE, SPAN, WARPS>>(),
template <bool BF16, bool FEATURES> static kernel kernel_of(int side) {
  static const kernel kernels[] = {LO_CU_BSR_FEATURES_SIDES(X)};
  return kernels[side];
}
#undef X

int lo_cu_run_bsr_features_wgrad(int side, int bf16, int features,
                                 const lo_cu_bsr_features_wgrad *p, lo_cu_grid grid, void *stream) {
  kernel k = bf16       ? features ? kernel_of<true, true>(side) : kernel_of<true, false>(side)
                   : features ? kernel_of<false, true>(side)
                        : kernel_of<false, false>(side);
  grid.threads = k.threads;
  grid.shared = k.shared;
  return lo_cu_launch(k.kernel, grid, p, stream);
}
