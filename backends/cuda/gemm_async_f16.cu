#include "backends/cuda/gemm_async_launch.cuh"

int lo_cu_run_async_f16(int number, int words, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  return launch_floats<LO_ASYNC_F16>(number, words, p, grid, stream);
}
