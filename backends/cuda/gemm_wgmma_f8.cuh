/* Products of 8-bit floats, both along k. LO_PROMOTES: whether sums are taken over into f32. */
#include "backends/cuda/gemm_wgmma_launch.cuh"

#define LO_WGMMA_F8_KERNEL(TYPE, ...)                                                              \
  (const void *)wgmma_kernel<TYPE, lo_wgmma_tile<__VA_ARGS__>, false, true, LO_PROMOTES>
#define LO_WGMMA_VARIANTS(...)                                                                     \
  LO_WGMMA_F8_KERNEL(LO_WGMMA_E4M3_E4M3, __VA_ARGS__),                                             \
      LO_WGMMA_F8_KERNEL(LO_WGMMA_E4M3_E5M2, __VA_ARGS__),                                         \
      LO_WGMMA_F8_KERNEL(LO_WGMMA_E5M2_E4M3, __VA_ARGS__),                                         \
      LO_WGMMA_F8_KERNEL(LO_WGMMA_E5M2_E5M2, __VA_ARGS__)

static int launch_f8(int number, const lo_cu_boxed_gemm *p, lo_cu_grid grid, void *stream) {
  static const wgmma_row rows[] = {LO_CU_WGMMA_F8_TILES(LO_WGMMA_ROW)};
  int a = p->g.a.type == LO_TYPE_F8E5M2, b = p->g.b.type == LO_TYPE_F8E5M2;
  return launch_wgmma(&rows[number], 2 * a + b, p, grid, stream);
}
