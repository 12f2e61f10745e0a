/* Activations alone, forward and backward. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/prelude.cuh"
#include "backends/cuda/launch.h"

__global__ void __launch_bounds__(256) forward_kernel(const __grid_constant__ lo_cu_unary p) {
  for (lo_quads q = lo_quads_of(p.y.rows, p.y.cols); q.at < q.total; q.at += q.step) {
    lo_i64 row = lo_quad_row(q), col = (q.at - row * q.per_row) * 4;
    int count = lo_quad_count(p.y.cols, col);
    float4 z = lo_load4(p.x, row * p.x.stride + col, count);
    lo_store4(p.y, row * p.y.stride + col, count, lo_activation4(p.activation, z, p.slope));
  }
}

__global__ void __launch_bounds__(256) backward_kernel(const __grid_constant__ lo_cu_binary p) {
  for (lo_quads q = lo_quads_of(p.dx.rows, p.dx.cols); q.at < q.total; q.at += q.step) {
    lo_i64 row = lo_quad_row(q), col = (q.at - row * q.per_row) * 4;
    int count = lo_quad_count(p.dx.cols, col);
    float4 d = lo_load4(p.dy, row * p.dy.stride + col, count);
    float4 s = lo_load4(p.saved, row * p.saved.stride + col, count);
    lo_store4(p.dx, row * p.dx.stride + col, count, lo_derivative4(p.activation, d, s, p.slope));
  }
}

int lo_cu_run_activation_forward(const lo_cu_unary *p, lo_cu_grid grid, void *stream) {
  return lo_cu_launch((const void *)forward_kernel, grid, p, stream);
}

int lo_cu_run_activation_backward(const lo_cu_binary *p, lo_cu_grid grid, void *stream) {
  return lo_cu_launch((const void *)backward_kernel, grid, p, stream);
}
