/* Activations alone, forward and backward. */
#include <config.h>

#include <cuda_runtime_api.h>
#include <layerops/base.h>

#include "backends/cuda/prelude.cuh"
#include "backends/cuda/launch.h"

/* A kernel for each kind: in 16 bits, the branches of a kind that is not known before would take
 * longer than memory does. */
template <int KIND> LO_FN float4 forward4(float4 z, float slope) {
  return make_float4(lo_activation(KIND, z.x, slope), lo_activation(KIND, z.y, slope),
                     lo_activation(KIND, z.z, slope), lo_activation(KIND, z.w, slope));
}
template <int KIND> LO_FN float4 backward4(float4 d, float4 s, float slope) {
  return make_float4(d.x * lo_activation_derivative(KIND, s.x, slope),
                     d.y * lo_activation_derivative(KIND, s.y, slope),
                     d.z * lo_activation_derivative(KIND, s.z, slope),
                     d.w * lo_activation_derivative(KIND, s.w, slope));
}

template <int KIND>
__global__ void __launch_bounds__(256) forward_kernel(const __grid_constant__ lo_cu_unary p) {
  lo_follow();
  for (lo_quads q = lo_quads_of(p.y.rows, p.y.cols); q.at < q.total; q.at += q.step) {
    lo_i64 row = lo_quad_row(q), col = (q.at - row * q.per_row) * 4;
    int count = lo_quad_count(p.y.cols, col);
    float4 z = lo_load4(p.x, row * p.x.stride + col, count);
    lo_store4(p.y, row * p.y.stride + col, count, forward4<KIND>(z, p.slope));
  }
}

template <int KIND>
__global__ void __launch_bounds__(256) backward_kernel(const __grid_constant__ lo_cu_binary p) {
  lo_follow();
  for (lo_quads q = lo_quads_of(p.dx.rows, p.dx.cols); q.at < q.total; q.at += q.step) {
    lo_i64 row = lo_quad_row(q), col = (q.at - row * q.per_row) * 4;
    int count = lo_quad_count(p.dx.cols, col);
    float4 d = lo_load4(p.dy, row * p.dy.stride + col, count);
    float4 s = lo_load4(p.saved, row * p.saved.stride + col, count);
    lo_store4(p.dx, row * p.dx.stride + col, count, backward4<KIND>(d, s, p.slope));
  }
}

/* By kind: as many as there are. */
#define KINDS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

int lo_cu_run_activation_forward(const lo_cu_unary *p, lo_cu_grid grid, void *stream) {
  static const void *const kernels[] = {
#define X(KIND) (const void *)forward_kernel<KIND>,
      KINDS(X)
#undef X
  };
  static_assert(sizeof kernels / sizeof *kernels == LAYEROPS_ACTIVATION_COUNT,
                "a kernel for each kind");
  return lo_cu_launch(kernels[p->activation], grid, p, stream);
}

int lo_cu_run_activation_backward(const lo_cu_binary *p, lo_cu_grid grid, void *stream) {
  static const void *const kernels[] = {
#define X(KIND) (const void *)backward_kernel<KIND>,
      KINDS(X)
#undef X
  };
  static_assert(sizeof kernels / sizeof *kernels == LAYEROPS_ACTIVATION_COUNT,
                "a kernel for each kind");
  return lo_cu_launch(kernels[p->activation], grid, p, stream);
}
