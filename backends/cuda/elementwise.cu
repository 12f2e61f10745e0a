/* Activations alone, forward and backward. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/prelude.cuh"
#include "backends/cuda/launch.h"

/* Where a quad is, and how much of it; nothing (0) behind the last. A thread has the loads of EACH
 * of its quads on their way before it works on the first. */
enum { EACH = 2 };
struct spot {
  lo_i64 row, col;
  int count;
  __device__ __forceinline__ spot(lo_quads q, int ahead, lo_i64 cols) : row(0), col(0), count(0) {
    q.at += ahead * q.step;
    if (q.at >= q.total) return;
    row = lo_quad_row(q);
    col = (q.at - row * q.per_row) * 4;
    count = lo_quad_count(cols, col);
  }
};

__global__ void __launch_bounds__(256) forward_kernel(const __grid_constant__ lo_cu_unary p) {
  for (lo_quads q = lo_quads_of(p.y.rows, p.y.cols); q.at < q.total; q.at += EACH * q.step) {
    uint4 z[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      spot at(q, i, p.y.cols);
      z[i] = lo_fetch4(p.x, at.row * p.x.stride + at.col, at.count);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      spot at(q, i, p.y.cols);
      lo_store4(p.y, at.row * p.y.stride + at.col, at.count,
                lo_activation4(p.activation, lo_widen4(p.x, at.count, z[i]), p.slope));
    }
  }
}

__global__ void __launch_bounds__(256) backward_kernel(const __grid_constant__ lo_cu_binary p) {
  for (lo_quads q = lo_quads_of(p.dx.rows, p.dx.cols); q.at < q.total; q.at += EACH * q.step) {
    uint4 d[EACH], s[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      spot at(q, i, p.dx.cols);
      d[i] = lo_fetch4(p.dy, at.row * p.dy.stride + at.col, at.count);
      s[i] = lo_fetch4(p.saved, at.row * p.saved.stride + at.col, at.count);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      spot at(q, i, p.dx.cols);
      lo_store4(p.dx, at.row * p.dx.stride + at.col, at.count,
                lo_derivative4(p.activation, lo_widen4(p.dy, at.count, d[i]),
                               lo_widen4(p.saved, at.count, s[i]), p.slope));
    }
  }
}

int lo_cu_run_activation_forward(const lo_cu_unary *p, lo_cu_grid grid, void *stream) {
  return lo_cu_launch((const void *)forward_kernel, grid, p, stream);
}

int lo_cu_run_activation_backward(const lo_cu_binary *p, lo_cu_grid grid, void *stream) {
  return lo_cu_launch((const void *)backward_kernel, grid, p, stream);
}
