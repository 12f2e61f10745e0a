/* SGD and Adam. The numbers of a step are made once a block, in double: 1 - beta^t loses its digits
 * in float, and any of them may lie in device memory. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/prelude.cuh"
#include "backends/cuda/launch.h"

struct sgd_numbers {
  float lr, momentum, decay;
};

LO_FN float sgd_element(const sgd_numbers &s, bool nesterov, bool velocity, float w, float g,
                        float &v) {
  g = fmaf(s.decay, w, g);
  if (!velocity) return fmaf(-s.lr, g, w);
  v = fmaf(s.momentum, v, g);
  return fmaf(-s.lr, nesterov ? fmaf(s.momentum, v, g) : v, w);
}

__global__ void __launch_bounds__(256) sgd_kernel(const __grid_constant__ lo_cu_sgd p) {
  lo_follow();
  sgd_numbers s = {lo_scalar_float(p.lr), lo_scalar_float(p.momentum),
                   lo_scalar_float(p.weight_decay)};
  bool has_v = p.velocity.p != 0;
  for (lo_quads q = lo_quads_of(p.w.rows, p.w.cols); q.at < q.total; q.at += q.step) {
    lo_i64 row = lo_quad_row(q), col = (q.at - row * q.per_row) * 4;
    int count = lo_quad_count(p.w.cols, col);
    lo_i64 at_w = row * p.w.stride + col, at_v = row * p.velocity.stride + col;
    float4 w = lo_load4(p.w, at_w, count), g = lo_load4(p.g, row * p.g.stride + col, count);
    float4 v = has_v ? lo_load4(p.velocity, at_v, count) : make_float4(0, 0, 0, 0);
    w.x = sgd_element(s, p.nesterov, has_v, w.x, g.x, v.x);
    w.y = sgd_element(s, p.nesterov, has_v, w.y, g.y, v.y);
    w.z = sgd_element(s, p.nesterov, has_v, w.z, g.z, v.z);
    w.w = sgd_element(s, p.nesterov, has_v, w.w, g.w, v.w);
    lo_store4(p.w, at_w, count, w);
    if (has_v) lo_store4(p.velocity, at_v, count, v);
  }
}

int lo_cu_run_sgd_step(const lo_cu_sgd *p, lo_cu_grid grid, void *stream) {
  return lo_cu_launch((const void *)sgd_kernel, grid, p, stream);
}

struct adam_numbers {
  float beta1, beta2, rest1, rest2; /* rest = 1 - beta */
  float rate, scale2, epsilon;      /* lr / (1 - beta1^t), 1 / (1 - beta2^t) */
  float couple, keep;               /* g' = g + couple w; w = keep w */
};

LO_FN adam_numbers adam_prepare(const lo_cu_adam &p) {
  double b1 = lo_scalar_double(p.beta1), b2 = lo_scalar_double(p.beta2);
  double lr = lo_scalar_double(p.lr), decay = lo_scalar_double(p.weight_decay);
  double t = lo_scalar_double(p.step);
  adam_numbers a;
  a.beta1 = (float)b1;
  a.beta2 = (float)b2;
  a.rest1 = (float)(1 - b1);
  a.rest2 = (float)(1 - b2);
  a.rate = (float)(lr / (1 - pow(b1, t)));
  a.scale2 = (float)(1 / (1 - pow(b2, t)));
  a.epsilon = lo_scalar_float(p.epsilon);
  a.couple = p.decoupled ? 0.0f : (float)decay;
  a.keep = p.decoupled ? (float)(1 - lr * decay) : 1.0f;
  return a;
}

LO_FN float adam_element(const adam_numbers &a, float w, float g, float &m, float &v) {
  if (a.couple != 0.0f) g = fmaf(a.couple, w, g);
  m = fmaf(a.rest1, g, a.beta1 * m);
  v = fmaf(a.rest2 * g, g, a.beta2 * v);
  return a.keep * w - a.rate * m / (sqrtf(v * a.scale2) + a.epsilon);
}

__global__ void __launch_bounds__(256) adam_kernel(const __grid_constant__ lo_cu_adam p) {
  lo_follow();
  __shared__ adam_numbers shared;
  if (threadIdx.x == 0) shared = adam_prepare(p);
  __syncthreads();
  adam_numbers a = shared;
  for (lo_quads q = lo_quads_of(p.w.rows, p.w.cols); q.at < q.total; q.at += q.step) {
    lo_i64 row = lo_quad_row(q), col = (q.at - row * q.per_row) * 4;
    int count = lo_quad_count(p.w.cols, col);
    lo_i64 at_w = row * p.w.stride + col, at_m = row * p.m.stride + col,
           at_v = row * p.v.stride + col;
    float4 w = lo_load4(p.w, at_w, count), g = lo_load4(p.g, row * p.g.stride + col, count);
    float4 m = lo_load4(p.m, at_m, count), v = lo_load4(p.v, at_v, count);
    w.x = adam_element(a, w.x, g.x, m.x, v.x);
    w.y = adam_element(a, w.y, g.y, m.y, v.y);
    w.z = adam_element(a, w.z, g.z, m.z, v.z);
    w.w = adam_element(a, w.w, g.w, m.w, v.w);
    lo_store4(p.w, at_w, count, w);
    lo_store4(p.m, at_m, count, m);
    lo_store4(p.v, at_v, count, v);
  }
}

int lo_cu_run_adam_step(const lo_cu_adam *p, lo_cu_grid grid, void *stream) {
  return lo_cu_launch((const void *)adam_kernel, grid, p, stream);
}
