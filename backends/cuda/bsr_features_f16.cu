/* Block-sparse products through a ring of stages: f16. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_features_launch.cuh"

int lo_cu_run_bsr_features_f16(int tile, lo_cu_bsr_features_kind kind, const lo_cu_bsr_features *p,
                               lo_cu_grid grid, void *stream) {
  return lo_bsr_features_run<false>(tile, kind, p, grid, stream);
}
