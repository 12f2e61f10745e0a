#include "backends/cuda/gemm_launch.cuh"

int lo_cu_run_gemm_f32(int tile, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  return launch<float>(tile, p, grid, stream);
}
