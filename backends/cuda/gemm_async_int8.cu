#include "backends/cuda/gemm_async_launch.cuh"

int lo_cu_run_async_int8(int number, int words, const lo_cu_gemm *p, lo_cu_grid grid,
                         void *stream) {
#define SIGNS(BLOCKS, UNIT, ...)                                                                   \
  {                                                                                                \
    LO_ASYNC_KERNEL(LO_ASYNC_S8, BLOCKS, UNIT, false, true, __VA_ARGS__),                          \
        LO_ASYNC_KERNEL(LO_ASYNC_U8, BLOCKS, UNIT, false, true, __VA_ARGS__)                       \
  }
#define X(BM, BN, WM, WN, STAGES, RING, BLOCKS, ...)                                               \
  LO_ASYNC_ROW(SIGNS, BLOCKS, BM, BN, WM, WN, STAGES, RING)
  static async_row rows[] = {LO_CU_ASYNC_TILES(X)};
#undef X
#undef SIGNS
  return launch_async(&rows[number], words, p->a_unsigned != 0, p, grid, stream);
}
