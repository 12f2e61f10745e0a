/* Block-sparse products of 16-bit types with whole rows of X in shared memory. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/bsr_slab.cuh"

template <bool BF16, int LINES> static const void *kernel_of(int turned) {
  return turned ? (const void *)bsr_slab_kernel<lo_bsr_slab<BF16, true, LINES>>
                : (const void *)bsr_slab_kernel<lo_bsr_slab<BF16, false, LINES>>;
}
template <bool BF16> static const void *kernel_of(int turned, bool narrow) {
  return narrow ? kernel_of<BF16, 2>(turned) : kernel_of<BF16, 1>(turned);
}

int lo_cu_run_bsr_slab(int bf16, int turned, const lo_cu_bsr16 *p, lo_cu_grid grid, void *stream) {
  typedef lo_bsr_slab<false, false, 1> any;
  const bool narrow = p->n_log2 == 3;
  const void *kernel = bf16 ? kernel_of<true>(turned, narrow) : kernel_of<false>(turned, narrow);
  grid.threads = any::THREADS;
  grid.shared = LO_CU_BSR_SLAB_BYTES + any::WARPS * any::VALUES;
  return lo_cu_launch(kernel, grid, p, stream);
}
