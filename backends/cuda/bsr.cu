/* Block-sparse forward product: the dense main loop over the kept blocks of one block row, and the
 * dense epilogue. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/gemm_simt.cuh"
#include "backends/cuda/bsr_launch.h"

/* Steps through kept blocks, BK of k at a time; a block's column is read one block ahead. */
template <class T, int BLOCK> struct bsr_steps {
  typedef lo_loader<float, true, T::BM, T::BK, T::PA, T::THREADS> X;
  typedef lo_loader<float, true, T::BN, T::BK, T::PB, T::THREADS> W;
  const lo_cu_bsr &p;
  X x;
  W w;
  const float *x0; /* column 0 of x */
  const int *column, *end;
  int next_column;
  int steps, whole, sub;

  __device__ __forceinline__ bsr_steps(const lo_cu_bsr &params, lo_i64 row0, lo_i64 block_row)
      : p(params), x(params.x, 0, row0, 0, 1 << 30), w(params.w, 0, 0, 0, 1 << 30), x0(x.p),
        sub(0) {
    int begin = p.row_start[block_row], stop = p.row_start[block_row + 1];
    column = p.column + begin;
    end = p.column + stop;
    steps = (stop - begin) * (BLOCK / T::BK);
    whole = x.whole(p.x, row0) ? steps : 0;
    w.p += (lo_i64)begin * BLOCK * BLOCK;
    if (steps) x.p = x0 + (lo_i64)*column * BLOCK;
    next_column = steps && column + 1 < end ? column[1] : 0;
  }
  template <bool WHOLE> __device__ __forceinline__ void fetch() {
    x.template fetch<WHOLE>(p.x);
    w.template fetch<WHOLE>(p.w);
  }
  __device__ __forceinline__ void next() {
    sub += T::BK;
    x.p += T::BK;
    w.p += T::BK;
    if (sub < BLOCK) return;
    sub = 0;
    w.p += BLOCK * BLOCK - BLOCK;
    x.p = x0 + (lo_i64)next_column * BLOCK;
    column++;
    if (column + 1 < end) next_column = column[1];
  }
  __device__ __forceinline__ void store(float *stage) {
    x.store(stage, 0);
    w.store(stage + T::BK * T::PA, 0);
  }
};

template <class T, int BLOCKS>
__global__ void __launch_bounds__(T::THREADS, BLOCKS)
    bsr_kernel(const __grid_constant__ lo_cu_bsr p) {
  lo_follow();
  __shared__ __align__(128) float shared[T::WORDS];
  __shared__ __align__(16) lo_tile_columns<T::BN, false> columns;
  lo_i64 tm, block_row;
  lo_tile_at(p.tile0 + blockIdx.x, p.tiles_m, p.block_rows, tm, block_row);
  lo_i64 row0 = tm * T::BM, col0 = block_row * T::BN;
  columns.stage(p.e, col0, T::BN);
  bsr_steps<T, T::BN> it(p, row0, block_row);
  if (lo_scalar_float(p.e.alpha) == 0.0f) it.steps = 0;
  lo_simt_core<float, T> core;
  lo_main_loop(core, shared, it);
  lo_lead();
  lo_ending end = lo_ending_of(p.e, 0, false);
  core.drain(shared, [&](int r, int c, float4 quad) {
    if (row0 + r < p.m) lo_finish_quad(end, columns.template at<4>(c), quad, row0 + r, col0 + c, 4);
  });
}

int lo_cu_run_bsr_f32(int tile, const lo_cu_bsr *p, lo_cu_grid grid, void *stream) {
  static const struct {
    const void *kernel;
    unsigned threads;
  } kernels[] = {
#define X(BM, BN, BK, TM, TN, LX, BLOCKS)                                                          \
  {(const void *)bsr_kernel<lo_tile<BM, BN, BK, TM, TN, LX>, BLOCKS>,                              \
   lo_tile<BM, BN, BK, TM, TN, LX>::THREADS},
      LO_CU_BSR_TILES(X)
#undef X
  };
  grid.threads = kernels[tile].threads;
  return lo_cu_launch(kernels[tile].kernel, grid, p, stream);
}
