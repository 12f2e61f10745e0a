#include "backends/cuda/gemm_launch.cuh"

int lo_cu_run_gemm_16(int tile, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  return launch<unsigned short>(tile, p, grid, stream);
}
