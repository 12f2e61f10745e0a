/* The gradient of block-sparse weights of 16-bit types from memory straight into fragments. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/bsr_wgrad_direct.cuh"

typedef struct kernel {
  const void *kernel;
  unsigned threads;
} kernel;

template <class T> static constexpr kernel of() {
  return {(const void *)bsr_wgrad_direct_kernel<T>, T::THREADS};
}

#define X(NAME, STRIPS, WARPS, DEPTH) of<lo_bsr_wgrad_direct<BF16, LOOSE, STRIPS, WARPS, DEPTH>>(),
template <bool BF16, bool LOOSE> static kernel kernel_of(int tile) {
  static const kernel kernels[] = {LO_CU_BSR_WGRAD_DIRECT(X)};
  return kernels[tile];
}
#undef X

int lo_cu_run_bsr_wgrad_direct(int tile, int bf16, int loose, const lo_cu_bsr_wgrad *p,
                               lo_cu_grid grid, void *stream) {
  kernel k = bf16    ? loose ? kernel_of<true, true>(tile) : kernel_of<true, false>(tile)
                : loose ? kernel_of<false, true>(tile)
                     : kernel_of<false, false>(tile);
  grid.threads = k.threads;
  return lo_cu_launch(k.kernel, grid, p, stream);
}
