#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/rows.cuh"
#include "backends/cuda/launch.h"

/* A row that registers hold is read once, a longer one twice. */
template <int THREADS, int QUADS, bool HELD, int BLOCKS>
__global__ void __launch_bounds__(256, BLOCKS)
    softmax_kernel(const __grid_constant__ lo_cu_softmax p) {
  lo_follow();
  LO_TEAM_SHARED
  lo_team<THREADS> t(shared_floats, shared_peaks);
  typedef lo_line<THREADS, QUADS> line;
  lo_i64 n = p.x.cols;
  lo_each_row(t, p.x.rows, [&](lo_i64 row) {
    lo_lane_sum lane;
    line l(n, 0, t.lane, p.whole);
    for (lo_i64 begin = 0; begin < (HELD ? 1 : n); begin += line::SPAN) {
      if (!HELD) l = line(n, begin, t.lane, p.whole);
      l.load(p.x, row, -LO_INFINITY);
      lane.add(l.x, HELD && !p.log);
    }
    lo_row_sum r(t, lane);
    for (lo_i64 begin = 0; begin < (HELD ? 1 : n); begin += line::SPAN) {
      if (!HELD) {
        l = line(n, begin, t.lane, p.whole);
        l.load(p.x, row, -LO_INFINITY);
      }
#pragma unroll
      for (int j = 0; j < line::COUNT; j++)
        if (p.log)
          l.x[j] = l.x[j] - r.top - r.shift;
        else
          l.x[j] = (HELD ? l.x[j] : lo_exp_of(l.x[j] - lane.base())) * r.scale;
      l.store(p.y, row);
    }
  });
}

int lo_cu_run_softmax_rows(const lo_cu_softmax *p, int line, lo_cu_grid grid, void *stream) {
  static const void *const kernels[] = {
#define X(THREADS, QUADS, HELD, BLOCKS) (const void *)softmax_kernel<THREADS, QUADS, HELD, BLOCKS>,
      LO_CU_LINES(X)
#undef X
  };
  return lo_cu_launch(kernels[line], grid, p, stream);
}
