/* The kernels of small grids. Those of an instruction that an architecture lacks are empty there,
 * and are never chosen. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/gemm_sliced.cuh"
#include "backends/cuda/launch.h"

template <class Core>
__global__ void __launch_bounds__(Core::THREADS)
    sliced_kernel(const __grid_constant__ lo_cu_gemm p) {
  lo_follow();
#if __CUDA_ARCH__ >= 800
  lo_gemm_sliced<Core>(p);
#else
  if (!Core::LOOSE && (Core::TYPE == LO_SLICED_F16 || Core::INTEGER)) lo_gemm_sliced<Core>(p);
#endif
}

typedef struct tile {
  const void *kernel;
  unsigned threads, shared;
} tile;

template <int TYPE, bool LOOSE> static const tile *tiles_of() {
  static const tile tiles[] = {
#define CORE(BM, BN, WM, WN, SLICES, STAGES)                                                       \
  lo_sliced_core<TYPE, LOOSE, BM, BN, WM, WN, SLICES, STAGES>
#define X(NAME, BM, BN, WM, WN, SLICES, STAGES, BLOCKS)                                            \
  {(const void *)sliced_kernel<CORE(BM, BN, WM, WN, SLICES, STAGES)>,                              \
   CORE(BM, BN, WM, WN, SLICES, STAGES)::THREADS, CORE(BM, BN, WM, WN, SLICES, STAGES)::BYTES},
      LO_CU_SLICED_TILES(X)
#undef X
#undef CORE
  };
  return tiles;
}

int lo_cu_run_gemm_sliced(int number, int type, int loose, const lo_cu_gemm *p, lo_cu_grid grid,
                          void *stream) {
#define LISTS(TYPE)                                                                                \
  { tiles_of<TYPE, false>, tiles_of<TYPE, true> }
  static const tile *(*const lists[LO_SLICED_TYPES][2])() = {
      LISTS(LO_SLICED_F16), LISTS(LO_SLICED_BF16), LISTS(LO_SLICED_TF32),
      LISTS(LO_SLICED_S8),  LISTS(LO_SLICED_U8),   LISTS(LO_SLICED_F32)};
#undef LISTS
  const tile *t = lists[type][loose]() + number;
  grid.threads = t->threads;
  grid.shared = t->shared;
  return lo_cu_launch(t->kernel, grid, p, stream);
}
