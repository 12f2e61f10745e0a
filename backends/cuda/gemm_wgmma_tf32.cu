#include "backends/cuda/gemm_wgmma_launch.cuh"

/* Both operands run along k. */
int lo_cu_run_wgmma_tf32(int number, const lo_cu_boxed_gemm *p, lo_cu_grid grid, void *stream) {
#define LO_WGMMA_VARIANTS(...) LO_WGMMA_KERNEL(LO_WGMMA_TF32, false, true, __VA_ARGS__)
  static const wgmma_row rows[] = {LO_CU_WGMMA_TILES(LO_WGMMA_ROW)};
#undef LO_WGMMA_VARIANTS
  return launch_wgmma(&rows[number], 0, p, grid, stream);
}
