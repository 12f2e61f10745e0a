#define LO_PROMOTES false
#include "backends/cuda/gemm_wgmma_f8.cuh"

int lo_cu_run_wgmma_f8_fast(int number, const lo_cu_boxed_gemm *p, lo_cu_grid grid, void *stream) {
  return launch_f8(number, p, grid, stream);
}
