#include "backends/cuda/gemm_wgmma_launch.cuh"

int lo_cu_run_wgmma_f16(int number, const lo_cu_boxed_gemm *p, lo_cu_grid grid, void *stream) {
#define LO_WGMMA_VARIANTS(...)                                                                     \
  LO_WGMMA_KERNEL(LO_WGMMA_F16, false, false, __VA_ARGS__),                                        \
      LO_WGMMA_KERNEL(LO_WGMMA_F16, false, true, __VA_ARGS__),                                     \
      LO_WGMMA_KERNEL(LO_WGMMA_F16, true, false, __VA_ARGS__),                                     \
      LO_WGMMA_KERNEL(LO_WGMMA_F16, true, true, __VA_ARGS__)
  static const wgmma_row rows[] = {LO_CU_WGMMA_TILES(LO_WGMMA_ROW)};
#undef LO_WGMMA_VARIANTS
  return launch_wgmma(&rows[number], 2 * !p->g.a.k_inner + (p->g.b.k_inner != 0), p, grid, stream);
}
