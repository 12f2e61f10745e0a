/* The kernels of bsr_wgmma.cuh, and their launch. They are empty before Hopper, and never chosen
 * there. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/bsr_wgmma.cuh"

#if __CUDA_ARCH_FEAT_SM90_ALL
#define LO_RUNS(...) lo_bsr_wgmma<__VA_ARGS__, T>(p)
#else
#define LO_RUNS(...) (void)p
#endif
template <int TYPE, class T, bool TURNED>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT)
    bsr_line_kernel(const __grid_constant__ lo_cu_bsr_wgmma p) {
  LO_RUNS(lo_bsr_line_worker<lo_bsr_line_core<TYPE, T, TURNED>, T, TURNED>);
}
template <int TYPE, class T>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT)
    bsr_run_kernel(const __grid_constant__ lo_cu_bsr_wgmma p) {
  LO_RUNS(lo_bsr_run_worker<lo_bsr_run_core<TYPE, T>, T>);
}

typedef struct bsr_wgmma_row {
  unsigned threads, shared;
  int resident;
  const void *kernels[2][2]; /* bf16; lines: dgrad */
} bsr_wgmma_row;

int lo_cu_run_bsr_wgmma(int product, int tile, const lo_cu_bsr_wgmma *p, lo_cu_grid grid,
                        void *stream) {
  static const bsr_wgmma_row lines[] = {
#define KERNEL(TYPE, TURNED, ...)                                                                  \
  (const void *)bsr_line_kernel<LO_WGMMA_##TYPE, lo_bsr_line_tile<__VA_ARGS__>, TURNED>
#define X(NAME, ...)                                                                               \
  {lo_bsr_line_tile<__VA_ARGS__>::THREADS,                                                         \
   lo_bsr_line_tile<__VA_ARGS__>::BYTES,                                                           \
   lo_bsr_line_tile<__VA_ARGS__>::RESIDENT,                                                        \
   {{KERNEL(F16, false, __VA_ARGS__), KERNEL(F16, true, __VA_ARGS__)},                             \
    {KERNEL(BF16, false, __VA_ARGS__), KERNEL(BF16, true, __VA_ARGS__)}}},
      LO_CU_BSR_LINE_TILES(X)
#undef X
#undef KERNEL
  };
  static const bsr_wgmma_row runs[] = {
#define KERNEL(TYPE, ...)                                                                          \
  (const void *)bsr_run_kernel<LO_WGMMA_##TYPE, lo_bsr_run_tile<__VA_ARGS__>>
#define X(NAME, ...)                                                                               \
  {lo_bsr_run_tile<__VA_ARGS__>::THREADS,                                                          \
   lo_bsr_run_tile<__VA_ARGS__>::BYTES,                                                            \
   lo_bsr_run_tile<__VA_ARGS__>::RESIDENT,                                                         \
   {{KERNEL(F16, __VA_ARGS__)}, {KERNEL(BF16, __VA_ARGS__)}}},
      LO_CU_BSR_RUN_TILES(X)
#undef X
#undef KERNEL
  };
  const bsr_wgmma_row *row = product == LO_CU_BSR_WGRAD ? &runs[tile] : &lines[tile];
  lo_i64 most = (lo_i64)p->boxed.g.sms * row->resident;
  grid.x = p->tiles < most ? p->tiles : most;
  grid.threads = row->threads;
  grid.shared = row->shared;
  return lo_cu_launch(row->kernels[p->boxed.g.bf16][product == LO_CU_BSR_DGRAD], grid, p, stream);
}
