/* Block-sparse products of 16-bit types from memory straight into fragments. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_direct.cuh"
#include "backends/cuda/bsr_launch.h"

typedef struct kernel {
  const void *kernel;
  unsigned threads, shared;
} kernel;

template <class T> static constexpr kernel of() {
  return {(const void *)bsr_direct_kernel<T>, T::THREADS, T::BYTES};
}

/* [turned][loose][tile] */
#define X(NAME, MT, NT, WARPS_M, WARPS_K, DEPTH, RESIDENT)                                         \
  of<lo_bsr_direct<BF16, TURN, LOOSE, MT, NT, WARPS_M, WARPS_K, DEPTH, RESIDENT>>(),
template <bool BF16, bool TURN, bool LOOSE> static kernel kernel_of(int tile) {
  static const kernel kernels[] = {LO_CU_BSR_DIRECT(X)};
  return kernels[tile];
}
#undef X
template <bool BF16> static kernel kernel_of(int tile, int turned, int loose) {
  if (turned) return loose ? kernel_of<BF16, true, true>(tile) : kernel_of<BF16, true, false>(tile);
  return loose ? kernel_of<BF16, false, true>(tile) : kernel_of<BF16, false, false>(tile);
}

int lo_cu_run_bsr_direct(int tile, int bf16, int turned, int loose, const lo_cu_bsr16 *p,
                         lo_cu_grid grid, void *stream) {
  kernel k = bf16 ? kernel_of<true>(tile, turned, loose) : kernel_of<false>(tile, turned, loose);
  grid.threads = k.threads;
  grid.shared = k.shared;
  return lo_cu_launch(k.kernel, grid, p, stream);
}
