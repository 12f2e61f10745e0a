/* The kernels of small grids. Those of an instruction that an architecture lacks are empty there,
 * and are never chosen. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/gemm_sliced.cuh"
#include "backends/cuda/launch.h"

template <class Core>
__global__ void __launch_bounds__(Core::THREADS)
    sliced_kernel(const __grid_constant__ lo_cu_gemm p) {
#if __CUDA_ARCH__ >= 800
  lo_gemm_sliced<Core>(p);
#else
  if (Core::TYPE == LO_SLICED_F16 || Core::INTEGER) lo_gemm_sliced<Core>(p);
#endif
}

typedef struct tile {
  const void *kernel;
  unsigned threads, shared;
} tile;

template <int TYPE> static const tile *tiles_of() {
  static const tile tiles[] = {
#define CORE(...) lo_sliced_core<TYPE, __VA_ARGS__>
#define X(...)                                                                                     \
  {(const void *)sliced_kernel<CORE(__VA_ARGS__)>, CORE(__VA_ARGS__)::THREADS,                     \
   CORE(__VA_ARGS__)::BYTES},
      LO_CU_SLICED_TILES(X)
#undef X
#undef CORE
  };
  return tiles;
}

int lo_cu_run_gemm_sliced(int number, int type, const lo_cu_gemm *p, lo_cu_grid grid,
                          void *stream) {
  static const tile *(*const lists[LO_SLICED_TYPES])() = {
      tiles_of<LO_SLICED_F16>, tiles_of<LO_SLICED_BF16>, tiles_of<LO_SLICED_TF32>,
      tiles_of<LO_SLICED_S8>,  tiles_of<LO_SLICED_U8>,   tiles_of<LO_SLICED_F32>};
  const tile *t = lists[type]() + number;
  grid.threads = t->threads;
  grid.shared = t->shared;
  return lo_cu_launch(t->kernel, grid, p, stream);
}
