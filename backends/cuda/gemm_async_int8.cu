#include "backends/cuda/gemm_async_launch.cuh"

int lo_cu_run_async_int8(int number, int words, const lo_cu_gemm *p, lo_cu_grid grid,
                         void *stream) {
#define LO_ASYNC_VARIANTS(BLOCKS, UNIT, ...)                                                       \
  LO_ASYNC_KERNEL(LO_ASYNC_S8, BLOCKS, UNIT, false, true, __VA_ARGS__),                            \
      LO_ASYNC_KERNEL(LO_ASYNC_U8, BLOCKS, UNIT, false, true, __VA_ARGS__)
  static const async_row chunk_rows[] = {LO_CU_ASYNC_TILES(LO_ASYNC_CHUNKS)};
  static const async_row word_rows[] = {LO_CU_ASYNC_WORD_TILES(LO_ASYNC_WORDS)};
#undef LO_ASYNC_VARIANTS
  return launch_async(words ? &word_rows[number] : &chunk_rows[number], p->a_unsigned != 0, p, grid,
                      stream);
}
