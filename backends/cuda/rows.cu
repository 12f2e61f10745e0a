/* Softmax and the losses. A row is a warp's, or a block's where it is long; sums have a fixed
 * order: within a thread, across lanes, across warps, across blocks. */
#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/prelude.cuh"
#include "backends/cuda/launch.h"

/* A maximum and the first place where it stands; NaN counts as largest. */
struct peak {
  float value;
  lo_i64 place;
};

LO_FN bool above(float a, float b) {
  return a > b || (a != a && b == b);
}
LO_FN bool level(float a, float b) {
  return a == b || (a != a && b != b);
}
LO_FN peak higher(peak a, peak b) {
  return above(b.value, a.value) || (level(a.value, b.value) && b.place < a.place) ? b : a;
}

/* The threads that share a row: one warp, or a block of 256. */
template <int THREADS> struct team {
  static constexpr int ROWS = 256 / THREADS; /* a block's */
  float *floats;
  peak *peaks;
  int lane;

  __device__ __forceinline__ team(float *f, peak *k)
      : floats(f), peaks(k), lane(threadIdx.x % THREADS) {}
  __device__ __forceinline__ float sum(float v) {
    return THREADS == 32 ? lo_warp_sum(v) : lo_block_sum(v, floats);
  }
  __device__ __forceinline__ float maximum(float v) {
    v = lo_warp_max(v);
    if (THREADS == 32) return v;
    __syncthreads();
    if (threadIdx.x % 32 == 0) floats[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < THREADS / 32; w++) v = fmaxf(v, floats[w]);
    return v;
  }
  __device__ __forceinline__ peak highest(peak k) {
#pragma unroll
    for (int d = 16; d; d /= 2) {
      peak other = {__shfl_xor_sync(0xffffffffu, k.value, d),
                    __shfl_xor_sync(0xffffffffu, k.place, d)};
      k = higher(k, other);
    }
    if (THREADS == 32) return k;
    __syncthreads();
    if (threadIdx.x % 32 == 0) peaks[threadIdx.x / 32] = k;
    __syncthreads();
    for (int w = 0; w < THREADS / 32; w++) k = higher(k, peaks[w]);
    return k;
  }
  /* What the team has read may now be overwritten. */
  __device__ __forceinline__ void meet() {
    if (THREADS == 32)
      __syncwarp();
    else
      __syncthreads();
  }
};

#define TEAM_SHARED                                                                                \
  __shared__ float shared_floats[8];                                                               \
  __shared__ peak shared_peaks[8];

/* ---- Softmax: the maximum, the sum, the quotients. NaN does not win the maximum but spoils the
 * sum, and with it the row. */
template <int THREADS>
__global__ void __launch_bounds__(256) softmax_kernel(const __grid_constant__ lo_cu_softmax p) {
  TEAM_SHARED
  team<THREADS> t(shared_floats, shared_peaks);
  lo_i64 step = (lo_i64)gridDim.x * t.ROWS, n = p.x.cols;
  for (lo_i64 row = (lo_i64)blockIdx.x * t.ROWS + threadIdx.x / THREADS; row < p.x.rows;
       row += step) {
    lo_i64 x = row * p.x.stride, y = row * p.y.stride;
    float top = -LO_INFINITY, sum = 0;
    for (lo_i64 j = t.lane; j < n; j += THREADS) top = fmaxf(top, lo_load(p.x, x + j));
    top = t.maximum(top);
    for (lo_i64 j = t.lane; j < n; j += THREADS) sum += expf(lo_load(p.x, x + j) - top);
    sum = t.sum(sum);
    if (p.log) {
      float shift = logf(sum);
      for (lo_i64 j = t.lane; j < n; j += THREADS)
        lo_store(p.y, y + j, lo_load(p.x, x + j) - top - shift);
    } else {
      float scale = 1.0f / sum;
      for (lo_i64 j = t.lane; j < n; j += THREADS)
        lo_store(p.y, y + j, expf(lo_load(p.x, x + j) - top) * scale);
    }
  }
}

int lo_cu_run_softmax_rows(const lo_cu_softmax *p, int row_threads, lo_cu_grid grid, void *stream) {
  const void *kernel =
      row_threads == 32 ? (const void *)softmax_kernel<32> : (const void *)softmax_kernel<256>;
  return lo_cu_launch(kernel, grid, p, stream);
}

/* ---- Cross entropy: how many rows count, the rows, the sums of the blocks. */
LO_FN bool counts(const lo_cu_cross_entropy &p, lo_i64 row) {
  int label = p.labels[row];
  return label != p.ignore && label >= 0 && label < p.n;
}

__global__ void __launch_bounds__(256) count_kernel(const __grid_constant__ lo_cu_cross_entropy p) {
  __shared__ int shared[8];
  int count = 0;
  lo_i64 step = (lo_i64)gridDim.x * blockDim.x;
  for (lo_i64 row = (lo_i64)blockIdx.x * blockDim.x + threadIdx.x; row < p.m; row += step)
    count += counts(p, row);
  count = lo_block_sum(count, shared);
  if (threadIdx.x == 0) p.counts[blockIdx.x] = count;
}

/* Rows that count, by every thread of the block alike. */
LO_FN lo_i64 count_all(const lo_cu_cross_entropy &p) {
  if (!p.labels) return p.m;
  lo_i64 count = 0;
  for (int b = 0; b < p.count_blocks; b++) count += p.counts[b];
  return count;
}

/* What the first two passes over a row find. */
struct row_facts {
  float top, shift; /* log softmax(x) = x - top - shift */
  float mass;       /* the sum of the probabilities, or 1 */
  bool hit;
};

template <int THREADS>
LO_FN row_facts study_row(const lo_cu_cross_entropy &p, team<THREADS> &t, lo_i64 row, int label) {
  lo_i64 x = row * p.logits.stride, q = row * p.probabilities.stride, none = p.n;
  peak logit = {-LO_INFINITY, none}, truth = {-LO_INFINITY, none};
  float mass = 0, sum = 0;
  for (lo_i64 j = t.lane; j < p.n; j += THREADS) {
    logit = higher(logit, {lo_load(p.logits, x + j), j});
    if (p.labels) continue;
    float f = lo_load(p.probabilities, q + j);
    truth = higher(truth, {f, j});
    mass += f;
  }
  logit = t.highest(logit);
  float top = logit.value;
  if (!p.labels) {
    truth = t.highest(truth);
    mass = t.sum(mass);
  }
  for (lo_i64 j = t.lane; j < p.n; j += THREADS) sum += expf(lo_load(p.logits, x + j) - top);
  sum = t.sum(sum);
  row_facts f = {top, logf(sum), p.labels ? 1.0f : mass,
                 logit.place < none && logit.place == (p.labels ? (lo_i64)label : truth.place)};
  return f;
}

/* The third pass: the gradient, and the loss where it is a sum over the row. */
template <int THREADS>
LO_FN float finish_row(const lo_cu_cross_entropy &p, team<THREADS> &t, lo_i64 row, int label,
                       const row_facts &f, float scale) {
  lo_i64 x = row * p.logits.stride, q = row * p.probabilities.stride, d = row * p.dlogits.stride;
  float loss = 0;
  if (p.labels) loss = -(lo_load(p.logits, x + label) - f.top - f.shift);
  t.meet();
  if (p.labels && !p.dlogits.p) return loss;
  for (lo_i64 j = t.lane; j < p.n; j += THREADS) {
    float logp = lo_load(p.logits, x + j) - f.top - f.shift;
    float truth = p.labels ? (j == label ? 1.0f : 0.0f) : lo_load(p.probabilities, q + j);
    if (!p.labels && truth != 0.0f) loss -= truth * logp;
    if (p.dlogits.p) lo_store(p.dlogits, d + j, scale * (expf(logp) * f.mass - truth));
  }
  return p.labels ? loss : t.sum(loss);
}

template <int THREADS>
LO_FN void clear_row(const lo_cu_cross_entropy &p, team<THREADS> &t, lo_i64 row) {
  if (!p.dlogits.p) return;
  for (lo_i64 j = t.lane; j < p.n; j += THREADS)
    lo_store(p.dlogits, row * p.dlogits.stride + j, 0.0f);
}

template <int THREADS>
__global__ void __launch_bounds__(256)
    cross_entropy_kernel(const __grid_constant__ lo_cu_cross_entropy p) {
  TEAM_SHARED
  __shared__ int shared_ints[8];
  team<THREADS> t(shared_floats, shared_peaks);
  lo_i64 step = (lo_i64)gridDim.x * t.ROWS;
  lo_i64 count = p.mean ? count_all(p) : 1;
  float scale = count ? lo_scalar_float(p.grad_scale) / (float)count : 0.0f;
  float total = 0;
  int correct = 0;
  for (lo_i64 row = (lo_i64)blockIdx.x * t.ROWS + threadIdx.x / THREADS; row < p.m; row += step) {
    int label = p.labels ? p.labels[row] : 0;
    float loss = 0;
    if (p.labels && !counts(p, row)) {
      if (label != p.ignore && t.lane == 0) lo_report(p.fault, row, label);
      clear_row(p, t, row);
    } else {
      row_facts f = study_row(p, t, row, label);
      loss = finish_row(p, t, row, label, f, scale);
      correct += t.lane == 0 && f.hit;
    }
    if (t.lane != 0) continue;
    total += loss;
    if (p.losses) p.losses[row] = loss;
  }
  total = lo_block_sum(total, shared_floats);
  correct = lo_block_sum(correct, shared_ints);
  if (threadIdx.x != 0) return;
  p.loss_parts[blockIdx.x] = total;
  p.correct_parts[blockIdx.x] = correct;
}

__global__ void __launch_bounds__(32)
    cross_entropy_sums_kernel(const __grid_constant__ lo_cu_cross_entropy p) {
  double loss = 0;
  int correct = 0;
  for (int b = threadIdx.x; b < p.row_blocks; b += 32) {
    loss += p.loss_parts[b];
    correct += p.correct_parts[b];
  }
  loss = lo_warp_sum(loss);
  correct = lo_warp_sum(correct);
  if (threadIdx.x != 0) return;
  lo_i64 count = p.mean ? count_all(p) : 1;
  if (p.loss) *p.loss = count ? (float)(loss / (double)count) : 0.0f;
  if (p.correct) *p.correct = correct;
}

int lo_cu_run_cross_entropy_rows(const lo_cu_cross_entropy *p, int row_threads, void *stream) {
  lo_cu_grid count = {p->count_blocks, 1, 1, 256}, rows = {p->row_blocks, 1, 1, 256},
             one = {1, 1, 1, 32};
  const void *kernel = row_threads == 32 ? (const void *)cross_entropy_kernel<32>
                                         : (const void *)cross_entropy_kernel<256>;
  int error = 0;
  if (p->labels && p->mean) error = lo_cu_launch((const void *)count_kernel, count, p, stream);
  if (!error) error = lo_cu_launch(kernel, rows, p, stream);
  if (!error && (p->loss || p->correct))
    error = lo_cu_launch((const void *)cross_entropy_sums_kernel, one, p, stream);
  return error;
}

/* ---- Mean squared error. */
LO_FN float mse_element(float y, float t, float scale, float &sum) {
  float d = y - t;
  sum = fmaf(d, d, sum);
  return scale * d;
}

__global__ void __launch_bounds__(256) mse_kernel(const __grid_constant__ lo_cu_mse p) {
  __shared__ float shared[8];
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
}

__global__ void __launch_bounds__(32) mse_sum_kernel(const __grid_constant__ lo_cu_mse p) {
  double sum = 0;
  for (int b = threadIdx.x; b < p.blocks; b += 32) sum += p.parts[b];
  sum = lo_warp_sum(sum);
  if (threadIdx.x == 0) *p.loss = (float)(p.r * sum);
}

int lo_cu_run_mse_all(const lo_cu_mse *p, void *stream) {
  lo_cu_grid all = {p->blocks, 1, 1, 256}, one = {1, 1, 1, 32};
  int error = lo_cu_launch((const void *)mse_kernel, all, p, stream);
  return error || !p->loss ? error : lo_cu_launch((const void *)mse_sum_kernel, one, p, stream);
}
