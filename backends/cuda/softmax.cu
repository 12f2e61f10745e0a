#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/rows.cuh"
#include "backends/cuda/launch.h"

/* The maximum, the sum, the quotients. NaN does not win the maximum but spoils the sum, and with it
 * the row. */
template <int THREADS, int QUADS>
__global__ void __launch_bounds__(256) softmax_kernel(const __grid_constant__ lo_cu_softmax p) {
  LO_TEAM_SHARED
  lo_team<THREADS> t(shared_floats, shared_peaks);
  lo_line<THREADS, QUADS> line;
  lo_each_row(t, p.x.rows, [&](lo_i64 row) {
    line.load(p.x, row, t.lane);
    float top = -LO_INFINITY, sum = 0;
    line.each([&](float4 &q, lo_i64, int count) {
      lo_elements(q, count, [&](float &x, int) { top = fmaxf(top, x); });
    });
    top = t.maximum(top);
    bool keep = line.HELD && !p.log; /* the exponentials, in place of x */
    line.each([&](float4 &q, lo_i64, int count) {
      lo_elements(q, count, [&](float &x, int) {
        float e = expf(x - top);
        sum += e;
        if (keep) x = e;
      });
    });
    sum = t.sum(sum);
    float shift = logf(sum), scale = 1.0f / sum;
    line.each([&](float4 &q, lo_i64 col, int count) {
      lo_elements(q, count, [&](float &x, int) {
        x = p.log ? x - top - shift : (keep ? x : expf(x - top)) * scale;
      });
      lo_store4(p.y, row * p.y.stride + col, count, q);
    });
  });
}

int lo_cu_run_softmax_rows(const lo_cu_softmax *p, int line, lo_cu_grid grid, void *stream) {
  static const void *const kernels[] = {
#define X(THREADS, QUADS) (const void *)softmax_kernel<THREADS, QUADS>,
      LO_CU_LINES(X)
#undef X
  };
  return lo_cu_launch(kernels[line], grid, p, stream);
}
