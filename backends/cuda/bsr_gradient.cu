/* The block-sparse layer backwards, plainly: a thread sums one output after the other. A row of a
 * view is a sample, or a feature where p.transposed. */
#include <config.h>

#include <cuda_runtime_api.h>
#include <layerops/base.h>

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/prelude.cuh"

#define LO_EACH_ITEM(count)                                                                        \
  lo_follow();                                                                                     \
  for (lo_i64 item = blockIdx.x * (lo_i64)blockDim.x + threadIdx.x; item < (count);                \
       item += (lo_i64)gridDim.x * blockDim.x)

LO_FN float lo_at(const lo_cu_bsr_gradient &p, const lo_cu_view &v, lo_i64 sample, lo_i64 feature) {
  return lo_load(v, p.transposed ? feature * v.stride + sample : sample * v.stride + feature);
}
LO_FN float lo_gate_of(const lo_cu_bsr_gradient &p, lo_i64 block) {
  return p.gate ? p.gate[block] : 1.0f;
}
LO_FN float lo_value_of(const lo_cu_bsr_gradient &p, lo_i64 block, lo_i64 i, lo_i64 j) {
  return lo_load(p.values, (block * p.height + i) * p.width + j);
}
/* sum + beta * what is there, which is not read where beta is 0. */
LO_FN void lo_accumulate(const lo_cu_bsr_gradient &p, lo_i64 at, float sum) {
  float beta = lo_scalar_float(p.beta);
  lo_store(p.to, at, beta == 0.0f ? sum : fmaf(beta, lo_load(p.to, at), sum));
}

/* dX: element (sample, feature) of dZ W. */
LO_FN float lo_column_sum(const lo_cu_bsr_gradient &p, lo_i64 sample, lo_i64 feature) {
  lo_i64 c = feature / p.width, j = feature - c * p.width;
  float sum = 0;
  for (int e = p.col_start[c]; e < p.col_start[c + 1]; e++) {
    lo_i64 block = p.place[e], from = p.row[e] * (lo_i64)p.height;
    float gate = lo_gate_of(p, block);
    if (gate == 0.0f) continue;
    for (lo_i64 i = 0; i < p.height && from + i < p.n; i++)
      sum = fmaf(lo_at(p, p.dz, sample, from + i), gate * lo_value_of(p, block, i, j), sum);
  }
  return sum;
}
__global__ void __launch_bounds__(256) dgrad_kernel(const __grid_constant__ lo_cu_bsr_gradient p) {
  LO_EACH_ITEM(p.to.rows * p.to.cols) {
    lo_i64 i = item / p.to.cols, j = item - i * p.to.cols;
    float sum = lo_column_sum(p, p.transposed ? j : i, p.transposed ? i : j);
    if (p.saved.p)
      sum *=
          lo_activation_derivative(p.activation, lo_load(p.saved, i * p.saved.stride + j), p.slope);
    lo_store(p.to, i * p.to.stride + j, sum);
  }
  lo_lead();
}

/* dZ^T X at one place, and on the pattern. */
LO_FN float lo_sample_sum(const lo_cu_bsr_gradient &p, lo_i64 out, lo_i64 in) {
  float sum = 0;
  for (lo_i64 i = 0; i < p.m; i++) sum = fmaf(lo_at(p, p.dz, i, out), lo_at(p, p.x, i, in), sum);
  return sum;
}
LO_FN lo_i64 lo_row_of(const lo_cu_bsr_gradient &p, lo_i64 block) {
  lo_i64 low = 0, high = p.block_rows; /* the last row that begins at the block or before */
  while (high - low > 1) {
    lo_i64 middle = (low + high) / 2;
    if (p.row_start[middle] <= block)
      low = middle;
    else
      high = middle;
  }
  return low;
}
__global__ void __launch_bounds__(256) wgrad_kernel(const __grid_constant__ lo_cu_bsr_gradient p) {
  lo_i64 area = (lo_i64)p.height * p.width;
  LO_EACH_ITEM(p.count * area) {
    lo_i64 block = item / area, i = (item - block * area) / p.width, j = item % p.width;
    lo_i64 out = lo_row_of(p, block) * p.height + i, in = p.column[block] * (lo_i64)p.width + j;
    lo_i64 at = (block * p.height + i) * p.to.stride + j;
    float gate = lo_gate_of(p, block);
    if (out < p.n && in < p.k)
      lo_accumulate(p, at, gate == 0.0f ? 0.0f : gate * lo_sample_sum(p, out, in));
    else
      lo_store(p.to, at, 0.0f);
  }
  lo_lead();
}
__global__ void __launch_bounds__(256) gates_kernel(const __grid_constant__ lo_cu_bsr_gradient p) {
  LO_EACH_ITEM(p.count) {
    lo_i64 out = lo_row_of(p, item) * p.height, in = p.column[item] * (lo_i64)p.width;
    float sum = 0;
    for (lo_i64 i = 0; i < p.height && out + i < p.n; i++)
      for (lo_i64 j = 0; j < p.width && in + j < p.k; j++)
        sum = fmaf(lo_sample_sum(p, out + i, in + j), lo_value_of(p, item, i, j), sum);
    lo_accumulate(p, item, sum);
  }
  lo_lead();
}
__global__ void __launch_bounds__(256) bias_kernel(const __grid_constant__ lo_cu_bsr_gradient p) {
  LO_EACH_ITEM(p.n) {
    float sum = 0;
    for (lo_i64 i = 0; i < p.m; i++) sum += lo_at(p, p.dz, i, item);
    lo_accumulate(p, item, sum);
  }
  lo_lead();
}

int lo_cu_run_bsr_gradient(int which, const lo_cu_bsr_gradient *p, lo_cu_grid grid, void *stream) {
  static const void *const kernels[] = {
      [LO_CU_BSR_DX] = (const void *)dgrad_kernel,
      [LO_CU_BSR_DW] = (const void *)wgrad_kernel,
      [LO_CU_BSR_DGATE] = (const void *)gates_kernel,
      [LO_CU_BSR_DBIAS] = (const void *)bias_kernel,
  };
  return lo_cu_launch(kernels[which], grid, p, stream);
}
