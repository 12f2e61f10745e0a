/* Block-sparse products of 16-bit types by groups of lines, and the gradient of the weights: with
 * boxes, on Hopper. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_boxes.cuh"
#include "backends/cuda/bsr_launch.h"

typedef struct kernel {
  const void *kernel;
  unsigned threads, shared;
} kernel;

template <class T> static constexpr kernel boxes() {
  return {(const void *)bsr_boxes_kernel<T>, T::THREADS, T::BYTES};
}
template <class T> static constexpr kernel wgrad() {
  return {(const void *)bsr_wgrad_boxes_kernel<T>, T::WORKERS + 32, lo_bsr_wgrad_ring<T>::BYTES};
}

/* Groups of warps along m and n, stages: of the shape of units of 32, and of 16. */
#define X(UNIT, SLAB, ROWS, GROUP, SLABS, UNITS, CHUNK_SLAB, CHUNK_SLABS, CHUNK_UNITS, RESIDENT)   \
  boxes<lo_bsr_boxes<BF16, TURN, UNIT, SLAB, ROWS, GROUP, SLABS, UNITS, UNIT == 32 ? 2 : 1,        \
                     UNIT == 32 ? 1 : 2, 4>>(),
template <bool BF16, bool TURN> static kernel kernel_of(int shape) {
  static const kernel kernels[] = {LO_CU_BSR_SHAPES(X)};
  return kernels[shape];
}
#undef X
#define X(UNIT, SLAB, ROWS, GROUP, SLABS, UNITS, CHUNK_SLAB, CHUNK_SLABS, CHUNK_UNITS, RESIDENT)   \
  wgrad<lo_bsr_wgrad<BF16, UNIT, CHUNK_SLAB, CHUNK_UNITS / (8 / RESIDENT), 8 / RESIDENT,           \
                     CHUNK_SLABS, 32, UNIT == 32 ? 5 : 3, RESIDENT>>(),
template <bool BF16> static kernel wgrad_of(int shape) {
  static const kernel kernels[] = {LO_CU_BSR_SHAPES(X)};
  return kernels[shape];
}
#undef X

int lo_cu_run_bsr_boxes(int shape, int bf16, int turned, const lo_cu_boxed_bsr16 *p,
                        lo_cu_grid grid, void *stream) {
  kernel k = bf16     ? turned ? kernel_of<true, true>(shape) : kernel_of<true, false>(shape)
                 : turned ? kernel_of<false, true>(shape)
                      : kernel_of<false, false>(shape);
  grid.threads = k.threads;
  grid.shared = k.shared;
  return lo_cu_launch(k.kernel, grid, p, stream);
}

int lo_cu_run_bsr_wgrad_boxes(int shape, int bf16, const lo_cu_boxed_bsr_wgrad *p, lo_cu_grid grid,
                              void *stream) {
  kernel k = bf16 ? wgrad_of<true>(shape) : wgrad_of<false>(shape);
  grid.threads = k.threads;
  grid.shared = k.shared;
  return lo_cu_launch(k.kernel, grid, p, stream);
}
