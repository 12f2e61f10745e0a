/* Losses and their gradients, one launch each: the block that ends last adds up what all have left,
 * in the order of the blocks. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/rows.cuh"
#include "backends/cuda/launch.h"

/* ---- How blocks of one launch meet */

/* Whether this is the last block to come here. It then sees what thread 0 of each had written. */
LO_FN bool last_block(lo_cu_meeting *m) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(&m->arrived, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

template <class T> LO_FN double sum_parts(const T *parts, double *shared) {
  double sum = 0;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x) sum += (double)__ldcg(parts + b);
  return lo_block_sum(sum, shared);
}

/* ---- Cross entropy. The gradient of a mean is divided by the number of rows that count, so that
 * must be known first. Blocks take slices of the labels until none is left, and go on with their
 * rows; who needs the number waits until all slices are counted. Only blocks that run have taken
 * one, and they count before they wait: so none waits for a block that has not begun. */
LO_FN bool counts(const lo_cu_cross_entropy &p, int label) {
  return label != p.ignore && label >= 0 && label < p.n;
}

LO_FN int count_slice(const lo_cu_cross_entropy &p, lo_i64 slice, int *shared) {
  int count = 0;
  lo_i64 first = slice * LO_CU_LABELS;
#pragma unroll
  for (int i = 0; i < LO_CU_LABELS; i += 256) {
    lo_i64 row = first + i + threadIdx.x;
    if (row < p.m) count += counts(p, p.labels[row]);
  }
  return lo_block_sum(count, shared);
}

LO_FN void count_slices(const lo_cu_cross_entropy &p, int *shared) {
  __shared__ unsigned slice;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) slice = atomicAdd(&p.meeting->taken, 1u);
    __syncthreads();
    if (slice >= p.slices) return;
    int count = count_slice(p, slice, shared);
    if (threadIdx.x != 0) continue;
    atomicAdd(&p.meeting->rows, (lo_u64)count);
    __threadfence();
    atomicAdd(&p.meeting->counted, 1u);
  }
}

LO_FN lo_i64 wait_for_count(const lo_cu_cross_entropy &p) {
  while (*(volatile unsigned *)&p.meeting->counted < p.slices) {
  }
  __threadfence();
  return (lo_i64) * (volatile lo_u64 *)&p.meeting->rows;
}

/* The number of rows that a mean is over. A single slice each block counts itself. */
struct row_count {
  bool known;
  lo_i64 count;
  __device__ __forceinline__ row_count(const lo_cu_cross_entropy &p, int *shared)
      : known(!p.mean || !p.labels || p.slices < 2), count(p.mean ? p.m : 1) {
    if (!p.mean || !p.labels) return;
    if (known)
      count = count_slice(p, 0, shared);
    else
      count_slices(p, shared);
  }
  __device__ __forceinline__ lo_i64 get(const lo_cu_cross_entropy &p) {
    if (!known) count = wait_for_count(p);
    known = true;
    return count;
  }
};

/* What is known of a row before its gradient is: log softmax(x) = x - top - shift. */
struct row_facts {
  float top, shift;
  float mass; /* the sum of the probabilities, or 1 */
  bool hit;
};

template <int THREADS, int QUADS>
LO_FN row_facts study_row(const lo_cu_cross_entropy &p, lo_team<THREADS> &t,
                          lo_line<THREADS, QUADS> &line, lo_i64 row, int label) {
  lo_i64 q = row * p.probabilities.stride, none = p.n;
  lo_peak logit = {-LO_INFINITY, none}, truth = {-LO_INFINITY, none};
  float mass = 0, sum = 0;
  line.each([&](float4 &quad, lo_i64 col, int count) {
    lo_elements(quad, count, [&](float &x, int i) { logit = lo_higher(logit, {x, col + i}); });
    if (p.labels) return;
    float4 f = lo_load4(p.probabilities, q + col, count);
    lo_elements(f, count, [&](float &x, int i) {
      truth = lo_higher(truth, {x, col + i});
      mass += x;
    });
  });
  if (p.correct) {
    logit = t.highest(logit);
    if (!p.labels) truth = t.highest(truth);
  } else { /* NaN, which does not win, spoils the sum below */
    logit.value = t.maximum(logit.value);
  }
  float top = logit.value;
  if (!p.labels) mass = t.sum(mass);
  line.each([&](float4 &quad, lo_i64, int count) {
    lo_elements(quad, count, [&](float &x, int) { sum += expf(x - top); });
  });
  return {top, logf(t.sum(sum)), p.labels ? 1.0f : mass,
          logit.place < none && logit.place == (p.labels ? (lo_i64)label : truth.place)};
}

/* The gradient, and the loss where it is a sum over the row. */
template <int THREADS, int QUADS>
LO_FN float finish_row(const lo_cu_cross_entropy &p, lo_team<THREADS> &t,
                       lo_line<THREADS, QUADS> &line, lo_i64 row, int label, const row_facts &f,
                       float scale) {
  lo_i64 q = row * p.probabilities.stride;
  float loss = 0;
  line.each([&](float4 &quad, lo_i64 col, int count) {
    float4 truth = make_float4(0, 0, 0, 0), logp = quad;
    if (!p.labels) truth = lo_load4(p.probabilities, q + col, count);
    lo_elements(logp, count, [&](float &x, int) { x = x - f.top - f.shift; });
    if (p.labels) {
      lo_elements(truth, count, [&](float &x, int i) { x = col + i == label ? 1.0f : 0.0f; });
    } else {
#define LOSS(e)                                                                                    \
  if (truth.e != 0.0f) loss -= truth.e * logp.e;
      LOSS(x) LOSS(y) LOSS(z) LOSS(w)
#undef LOSS
    }
    if (!p.dlogits.p) return;
#define GRADIENT(e) logp.e = scale * (expf(logp.e) * f.mass - truth.e);
    GRADIENT(x)
    GRADIENT(y) GRADIENT(z) GRADIENT(w)
#undef GRADIENT
        lo_store4(p.dlogits, row * p.dlogits.stride + col, count, logp);
  });
  return p.labels ? 0.0f : t.sum(loss);
}

template <int THREADS> LO_FN void clear_row(const lo_cu_view &v, lo_team<THREADS> &t, lo_i64 row) {
  if (!v.p) return;
  for (lo_i64 col = 4 * t.lane; col < v.cols; col += 4 * THREADS)
    lo_store4(v, row * v.stride + col, lo_quad_count(v.cols, col), make_float4(0, 0, 0, 0));
}

/* One row: its loss, and whether its largest logit is the right one. */
template <int THREADS, int QUADS>
LO_FN float take_row(const lo_cu_cross_entropy &p, lo_team<THREADS> &t, lo_i64 row, int label,
                     float grad_scale, row_count &rows, bool &hit) {
  lo_line<THREADS, QUADS> line;
  line.load(p.logits, row, t.lane);
  float wanted = p.labels ? lo_load(p.logits, row * p.logits.stride + label) : 0.0f;
  row_facts f = study_row(p, t, line, row, label);
  hit = f.hit;
  float loss = p.labels ? -(wanted - f.top - f.shift) : 0.0f;
  if (p.labels && !p.dlogits.p) return loss;
  lo_i64 count = p.dlogits.p ? rows.get(p) : 1;
  t.meet();
  float rest = finish_row(p, t, line, row, label, f, count ? grad_scale / (float)count : 0.0f);
  return p.labels ? loss : rest;
}

template <int THREADS, int QUADS>
__global__ void __launch_bounds__(256)
    cross_entropy_kernel(const __grid_constant__ lo_cu_cross_entropy p) {
  LO_TEAM_SHARED
  __shared__ int shared_ints[8];
  __shared__ double shared_doubles[8];
  lo_team<THREADS> t(shared_floats, shared_peaks);
  float grad_scale = lo_scalar_float(p.grad_scale), total = 0;
  int correct = 0;
  row_count rows(p, shared_ints);
  lo_each_row(t, p.m, [&](lo_i64 row) {
    int label = p.labels ? p.labels[row] : 0;
    float loss = 0;
    bool hit = false;
    if (!p.labels || counts(p, label)) {
      loss = take_row<THREADS, QUADS>(p, t, row, label, grad_scale, rows, hit);
    } else {
      if (label != p.ignore && t.lane == 0) lo_report(p.fault, row, label);
      clear_row(p.dlogits, t, row);
    }
    if (t.lane != 0) return;
    total += loss;
    correct += hit;
    if (p.losses) p.losses[row] = loss;
  });
  if (!p.loss && !p.correct && p.slices < 2) return;
  total = lo_block_sum(total, shared_floats);
  correct = lo_block_sum(correct, shared_ints);
  if (threadIdx.x == 0) {
    p.loss_parts[blockIdx.x] = total;
    p.correct_parts[blockIdx.x] = correct;
  }
  if (!last_block(p.meeting)) return;
  double loss = sum_parts(p.loss_parts, shared_doubles);
  double right = sum_parts(p.correct_parts, shared_doubles);
  if (threadIdx.x != 0) return;
  lo_i64 count = rows.get(p);
  if (p.loss) *p.loss = count ? (float)(loss / (double)count) : 0.0f;
  if (p.correct) *p.correct = (int)right;
  *p.meeting = lo_cu_meeting();
}

int lo_cu_run_cross_entropy_rows(const lo_cu_cross_entropy *p, int line, lo_cu_grid grid,
                                 void *stream) {
  static const void *const kernels[] = {
#define X(THREADS, QUADS) (const void *)cross_entropy_kernel<THREADS, QUADS>,
      LO_CU_LINES(X)
#undef X
  };
  return lo_cu_launch(kernels[line], grid, p, stream);
}

/* ---- Mean squared error. */
LO_FN float mse_element(float y, float t, float scale, float &sum) {
  float d = y - t;
  sum = fmaf(d, d, sum);
  return scale * d;
}

__global__ void __launch_bounds__(256) mse_kernel(const __grid_constant__ lo_cu_mse p) {
  __shared__ float shared[8];
  __shared__ double shared_doubles[8];
  float scale = (float)(2 * p.r * lo_scalar_double(p.grad_scale)), sum = 0;
  for (lo_quads q = lo_quads_of(p.y.rows, p.y.cols); q.at < q.total; q.at += q.step) {
    lo_i64 row = lo_quad_row(q), col = (q.at - row * q.per_row) * 4;
    int count = lo_quad_count(p.y.cols, col);
    float4 y = lo_load4(p.y, row * p.y.stride + col, count);
    float4 t = lo_load4(p.target, row * p.target.stride + col, count), d;
    d.x = mse_element(y.x, t.x, scale, sum);
    d.y = mse_element(y.y, t.y, scale, sum);
    d.z = mse_element(y.z, t.z, scale, sum);
    d.w = mse_element(y.w, t.w, scale, sum);
    if (p.dy.p) lo_store4(p.dy, row * p.dy.stride + col, count, d);
  }
  if (!p.loss) return;
  sum = lo_block_sum(sum, shared);
  if (threadIdx.x == 0) p.parts[blockIdx.x] = sum;
  if (!last_block(p.meeting)) return;
  double all = sum_parts(p.parts, shared_doubles);
  if (threadIdx.x != 0) return;
  *p.loss = (float)(p.r * all);
  *p.meeting = lo_cu_meeting();
}

int lo_cu_run_mse_all(const lo_cu_mse *p, lo_cu_grid grid, void *stream) {
  return lo_cu_launch((const void *)mse_kernel, grid, p, stream);
}
