/* A kernel of gemm_direct.cuh, and its launch. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/gemm_direct.cuh"
#include "backends/cuda/launch.h"

/* LATER: its instruction came with sm_80; before, the kernel is empty and never chosen. */
template <class D, int BLOCKS, bool LATER>
__global__ void __launch_bounds__(D::THREADS, BLOCKS)
    lo_direct_kernel(const __grid_constant__ lo_cu_gemm p) {
  extern __shared__ __align__(128) char shared[];
#if __CUDA_ARCH__ >= 800
  lo_gemm_direct<D>(p, shared);
#else
  if constexpr (!LATER) lo_gemm_direct<D>(p, shared);
#endif
}

struct lo_direct_entry {
  const void *kernel;
  int bm, bn, size_a, size_b; /* of an element */
  bool few;
  unsigned threads, shared;
};

template <class D, int BLOCKS, int FEW, bool LATER> static constexpr lo_direct_entry lo_entry() {
  return {(const void *)lo_direct_kernel<D, BLOCKS, LATER>,
          D::BM,
          D::BN,
          (int)sizeof(typename D::Core::E),
          (int)sizeof(typename D::Core::EB),
          FEW != 0,
          D::THREADS,
          D::SHARED};
}

static lo_i64 lo_tiles(lo_i64 extent, int tile) {
  return (extent + tile - 1) / tile;
}

/* The matrix `first` is the first of those that follow. */
static void lo_from_matrix(lo_cu_gemm *p, const lo_direct_entry *e, lo_i64 first, int c_size) {
  p->a.p = (const char *)p->a.p + first * p->a.batch_stride * e->size_a;
  p->b.p = (const char *)p->b.p + first * p->b.batch_stride * e->size_b;
  p->e.c.p = (char *)p->e.c.p + first * p->e.c.batch_stride * c_size;
}

/* As many launches as the limits of a grid want: nearly always one. */
static int lo_run_direct(const lo_direct_entry *e, const lo_cu_gemm *given, lo_cu_grid wanted,
                         void *stream) {
  const lo_i64 most = 65535;
  static const int sizes[] = {0, 4, 2, 2, 4, 1, 1, 1, 1}; /* by LO_TYPE_ */
  if (given->tile0) return 0;                             /* the first call took all tiles */
  lo_cu_gemm p = *given;
  if (!p.e.alpha.p && p.e.alpha.value == 0) p.k = 0; /* does not read the operands */
  p.swapped = e->few && !given->swapped;
  if (p.swapped) {
    p.a = given->b;
    p.b = given->a;
  }
  lo_i64 tiles = lo_tiles(p.b.extent, e->bn), at_once = most / p.split;
  for (lo_i64 first = 0; first < given->batch; first += at_once) {
    lo_cu_gemm q = p;
    lo_from_matrix(&q, e, first, sizes[p.e.c.type]);
    q.batch = given->batch - first < at_once ? given->batch - first : at_once;
    for (; q.tile0 < tiles; q.tile0 += most) {
      lo_i64 left = tiles - q.tile0;
      lo_cu_grid grid = {lo_tiles(q.a.extent, e->bm), left < most ? left : most, q.batch * q.split,
                         e->threads, e->shared};
      grid.alone = wanted.alone;
      int error = lo_cu_launch(e->kernel, grid, &q, stream);
      if (error) return error;
    }
  }
  return 0;
}
