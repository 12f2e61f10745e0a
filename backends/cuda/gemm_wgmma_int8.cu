#include "backends/cuda/gemm_wgmma_launch.cuh"

/* Both operands run along k. */
int lo_cu_run_wgmma_int8(int number, const lo_cu_boxed_gemm *p, lo_cu_grid grid, void *stream) {
#define LO_WGMMA_VARIANTS(...)                                                                     \
  LO_WGMMA_KERNEL(LO_WGMMA_S8, false, true, __VA_ARGS__),                                          \
      LO_WGMMA_KERNEL(LO_WGMMA_U8, false, true, __VA_ARGS__)
  static const wgmma_row rows[] = {LO_CU_WGMMA_TILES(LO_WGMMA_ROW)};
#undef LO_WGMMA_VARIANTS
  return launch_wgmma(&rows[number], p->g.a_unsigned != 0, p, grid, stream);
}
