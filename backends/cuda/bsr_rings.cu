/* Block-sparse products of 16-bit types by rings of single warps. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/bsr_rings.cuh"

typedef struct kernel {
  const void *kernel;
  unsigned threads, shared;
} kernel;

template <class T> static constexpr kernel of() {
  return {(const void *)bsr_rings_kernel<T>, T::THREADS, T::BYTES};
}

#define X(NAME, NT, WARPS_M, WARPS_K, STAGES, RESIDENT)                                            \
  of<lo_bsr_rings<BF16, TURN, NT, WARPS_M, WARPS_K, STAGES, RESIDENT>>(),
template <bool BF16, bool TURN> static kernel kernel_of(int tile) {
  static const kernel kernels[] = {LO_CU_BSR_RINGS(X)};
  return kernels[tile];
}
#undef X

int lo_cu_run_bsr_rings(int tile, int bf16, int turned, const lo_cu_bsr16 *p, lo_cu_grid grid,
                        void *stream) {
  kernel k = bf16     ? turned ? kernel_of<true, true>(tile) : kernel_of<true, false>(tile)
                 : turned ? kernel_of<false, true>(tile)
                      : kernel_of<false, false>(tile);
  grid.threads = k.threads;
  grid.shared = k.shared;
  return lo_cu_launch(k.kernel, grid, p, stream);
}
