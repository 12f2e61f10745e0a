/* Block-sparse products through a ring of stages: bf16. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/bsr_ring_launch.cuh"

int lo_cu_run_bsr_ring_bf16(int tile, lo_cu_bsr_ring_kind kind, const lo_cu_bsr_ring *p,
                           lo_cu_grid grid, void *stream) {
  return lo_bsr_ring_run<true>(tile, kind, p, grid, stream);
}
